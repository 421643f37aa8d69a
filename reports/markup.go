package reports

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"
)

// The style and the sorting of tables that all pages share.
var (
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string
)

// markup is text that is written into a page as it stands. All other text is escaped.
type markup string

// page is one that is being written: a file that needs nothing else.
type page struct{ b strings.Builder }

// newPage begins a page.
func newPage(title, heading string) *page {
	p := &page{}
	p.put(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
%s
</style>
</head>
<body>
<h1>%s</h1>
`, title, markup(pageStyle), heading)
	return p
}

// put writes format with its operands as fmt does; all but markup and numbers are escaped.
func (p *page) put(format string, operands ...any) {
	fmt.Fprintf(&p.b, format, escaped(operands)...)
}

func escaped(operands []any) []any {
	for i, o := range operands {
		switch o.(type) {
		case markup, int, int32, int64, uint64, float32, float64, bool:
		default:
			operands[i] = html.EscapeString(fmt.Sprint(o))
		}
	}
	return operands
}

// section writes a heading and what introduces it.
func (p *page) section(heading string, introduction markup) {
	p.put("<h2>%s</h2>\n<p class=\"soft\">%s</p>\n", heading, introduction)
}

// tile is one figure at the head of a page.
func (p *page) tile(what, figure, note string) {
	p.put(`<div class="tile"><span class="soft">%s</span><b>%s</b><span class="soft">%s</span></div>`+"\n", what, figure, note)
}

// table begins a table. A column whose heading begins with < has names in it, left-aligned; the rest are figures.
func (p *page) table(class string, columns ...string) {
	p.put(`<div class="scroll"><table class="%s"><thead><tr>`, class)
	for _, c := range columns {
		if name, ok := strings.CutPrefix(c, "<"); ok {
			p.put(`<th class="name">%s</th>`, name)
		} else {
			p.put(`<th>%s</th>`, c)
		}
	}
	p.put("</tr></thead><tbody>\n")
}

func (p *page) endTable() { p.put("</tbody></table></div>\n") }

// row writes cells, each of them markup (with its <td>), a text or an integer.
func (p *page) row(cells ...any) {
	p.put("<tr>")
	for _, c := range cells {
		switch c := c.(type) {
		case markup:
			p.put("%s", c)
		case string:
			p.put("<td>%s</td>", c)
		default:
			p.put("%s", cell(c, fmt.Sprint(c)))
		}
	}
	p.put("</tr>\n")
}

// fill is put as a value.
func fill(format string, operands ...any) markup {
	return markup(fmt.Sprintf(format, escaped(operands)...))
}

// cell is a figure as it is shown, with the value by which the table is sorted.
func cell(value any, shown string) markup { return fill(`<td data-v="%v">%s</td>`, value, shown) }

// figure is a measured value: short, with the exact one beside it.
func figure(x float64) markup { return cell(exact(x), Number(x)) }

// name is text in a column of names.
func name(text string) markup { return fill(`<td class="name">%s</td>`, text) }

// shortName is the end of a long name, with the whole of it where one points at it.
func shortName(text string, n int) markup {
	return fill(`<td class="name" title="%s">%s</td>`, text, shorten(text, n))
}

// metered is a figure with bars below it; each bar is as wide as its share, from 0 to 100.
func metered(x float64, shown string, bars ...markup) markup {
	m := fill(`<td data-v="%s">%s<span class="meter">`, exact(x), shown)
	for _, b := range bars {
		m += b
	}
	return m + "</span></td>"
}

func bar(class string, share float64) markup {
	if class != "" {
		class = fmt.Sprintf(" class=%q", class)
	}
	return fill(`<i%s style="width:%s%%"></i>`, markup(class), exact(share))
}

// width returns 100*x/of limited to [0, 100] for the width of a bar.
func width(x, of float64) float64 {
	if !(of > 0) {
		return 0
	}
	return 100 * min(max(x/of, 0), 1)
}

// end closes the page and writes it. value stands in it as JSON, in the element with the given id.
func (p *page) end(w io.Writer, id string, value any) error {
	data, err := json.Marshal(value) // with <, > and & escaped
	if err != nil {
		return err
	}
	p.put("<script type=\"application/json\" id=\"%s\">%s</script>\n<script>\n%s</script>\n</body>\n</html>\n", id, markup(data), markup(pageScript))
	_, err = io.WriteString(w, p.b.String())
	return err
}
