package browsertest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReportsThatAreDropped: a report is shown beside what is open, with the figures of its file; nothing of it is uploaded, run or kept.
// The page without a server has the same views.
func TestReportsThatAreDropped(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	printed := command(t, dir, "analyze", "glyphs.plan.json", "--samples", "8", "--html", "r.html", "--json")
	command(t, dir, "verify", "glyphs.plan.json", "--samples", "2", "--html", "v.html")
	htmlFile, err := os.ReadFile(filepath.Join(dir, "r.html"))
	require.NoError(t, err)
	verified, err := os.ReadFile(filepath.Join(dir, "v.html"))
	require.NoError(t, err)
	var r struct{ Layerwise []layer }
	require.NoError(t, json.Unmarshal([]byte(printed), &r))
	worst := r.Layerwise[0]
	for _, l := range r.Layerwise {
		if l.NSR > worst.NSR {
			worst = l
		}
	}
	before, err := os.ReadDir(dir)
	require.NoError(t, err)

	p := open(t, serve(t, dir, "glyphs.plan.json").url, desk)
	p.until(`document.querySelector("nav.tabs button[aria-current]")`)
	drop := func(name, content string) {
		t.Helper()
		p.view("Open")
		p.js(`(() => { const i = document.querySelector("input[aria-label='Choose files of this machine']"), d = new DataTransfer();
			d.items.add(new File([`+quoted(content)+`], `+quoted(name)+`)); i.files = d.files; return i.dispatchEvent(new Event("change")); })()`, nil)
	}
	of := func(file string) string {
		return `one(".view-report .measure b") && one(".view-report .measure b").textContent === ` + quoted(file)
	}
	for _, x := range []struct {
		name, content string
		network       bool
	}{{"elsewhere.html", string(htmlFile), true}, {"elsewhere.json", printed, false}} {
		drop(x.name, x.content)
		p.until(of(x.name) + ` && one(".view-report .headline").textContent.includes("NSR") && all(".view-report table.rows tbody ` +
			`tr[data-i]").length > 5`)
		var canvas bool
		p.js(`Boolean(one(".view-report canvas.graph-canvas, .view-report .network canvas"))`, &canvas)
		assert.Equal(t, x.network, canvas, x.name)
		var first, title string
		p.js(`one(".view-report table.rows tbody tr[data-i] bdi").textContent`, &first)
		p.js(`one(".view-report table.rows tbody tr[data-i] td:has(.meter)").title`, &title)
		assert.Equal(t, worst.Node, first, x.name)
		assert.Regexp(t, "^NSR "+number(t, worst.NSR), title)
		p.shoot("dropped-" + x.name[len("elsewhere."):])
	}
	drop("check.html", string(verified))
	p.until(of("check.html") + ` && text().includes("Sums of products")`)
	// A file that only looks like a report: what can be shown is, and the page goes on.
	drop("broken.json", `{"layerwise": 3, "outputs": [{"nsr": "x"}], "model": "<img src=x onerror=alert(1)>"}`)
	p.until(of("broken.json") + ` && text().includes("cannot be shown")`)
	drop("other.html", "<p>a page</p>")
	p.until(`text().includes("other.html is no report of qwb")`)
	p.view("Report")
	p.click("main button", "Close the report")
	p.until(`!one("nav.tabs button", "Report") && one("nav.tabs button", "Open").getAttribute("aria-current") === "page"`)
	after, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, after, len(before))
}

// number is a figure as JavaScript writes it.
func number(t *testing.T, x float64) string {
	t.Helper()
	b, err := json.Marshal(x)
	require.NoError(t, err)
	return string(b)
}
