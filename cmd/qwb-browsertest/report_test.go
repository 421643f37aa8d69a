package browsertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	devtools "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/reports/page"
)

// TestFiguresAreWrittenAsOnTheCommandLine holds format.js against the table that reports/format_test.go holds Go against.
func TestFiguresAreWrittenAsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../../reports/page/testdata/figures.json")
	require.NoError(t, err)
	files := http.FileServerFS(page.Files())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,">`)
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer s.Close()
	p := open(t, s.URL, desk)
	var wrong []string
	p.js(`import("/format.js").then((f) => `+string(table)+`.flatMap((w) => ["number", "small", "cosine", "percent", "count", "withError"].filter((k) => k !== "count" || w.value < 9e15)
		.map((k) => [k, f[k](k === "count" ? Math.trunc(w.value) : w.value, w.error), w[k], w.value]).filter(([, got, want]) => got !== want).map(String)))`, &wrong)
	require.Empty(t, wrong)
}

// layer is an operator in what analyze --json prints.
type layer struct {
	Node     string
	NSR      float64
	NSRError float64 `json:"nsr_error"`
}

// analysed is a report on the demo's plan, with what analyze --json printed beside it.
func analysed(t *testing.T) (file string, r *struct{ Layerwise []layer }) {
	t.Helper()
	dir := planned(t)
	r = new(struct{ Layerwise []layer })
	require.NoError(t, json.Unmarshal([]byte(command(t, dir, "analyze", "glyphs.plan.json", "--samples", "8", "--html", "r.html", "--json")),
		r))
	return "file://" + filepath.ToSlash(filepath.Join(dir, "r.html")), r
}

// TestTheReportIsOneFile opens it from disk: verdict, network, table and panel are there, linked, every control has a name, and no figure
// in the table differs from --json.
func TestTheReportIsOneFile(t *testing.T) {
	t.Parallel()
	file, r := analysed(t)
	p := open(t, file, desk)
	p.until(`document.querySelectorAll("table.rows tbody tr[data-i]").length > 5 && document.querySelector("canvas")`)
	p.until(`document.querySelector(".headline").textContent.includes("NSR")`)
	p.shoot("report")
	for _, l := range r.Layerwise[:3] {
		p.choose("input", "Filter", l.Node)
		p.until(fmt.Sprintf(`document.querySelector("table.rows tbody tr[data-i] bdi").textContent === %s`, quoted(l.Node)))
		var title string
		p.js(`[...document.querySelectorAll("table.rows tbody tr[data-i]")].find((tr) => tr.querySelector("bdi").textContent === `+quoted(l.Node)+
			`).querySelector("td:has(.meter)").title`, &title)
		var nsr, spread float64
		_, err := fmt.Sscanf(title, "NSR %g ± %g", &nsr, &spread)
		require.NoError(t, err, title)
		assert.Equal(t, l.NSR, nsr)
		assert.Equal(t, l.NSRError, spread)
		p.js(`document.querySelector("table.rows tbody tr[data-i]").click(), true`, nil)
		p.until(fmt.Sprintf(`document.querySelector(".layer h2").textContent === %[1]s && location.hash === "#node=" + encodeURIComponent(%[1]s)`,
			quoted(l.Node)))
	}
	p.choose("input", "Filter", "nsr>1e9")
	p.until(`text().includes("No operator passes the filter")`)
	p.choose("input", "Filter", "")
	p.js(`document.querySelector("table.rows tbody tr[data-i]").focus(), true`, nil)
	list, n := p.nameless()
	assert.Empty(t, list)
	assert.Greater(t, n, 20)
}

// TestTheReportFitsSmallAndDark: at 500 pixels nothing runs out of the page, and it follows the system to the dark.
func TestTheReportFitsSmallAndDark(t *testing.T) {
	t.Parallel()
	file, _ := analysed(t)
	p := open(t, file, look{500, 900, true})
	p.until(`document.querySelectorAll("table.rows tbody tr[data-i]").length > 5`)
	var wide, light float64
	p.js(`document.documentElement.scrollWidth`, &wide)
	p.js(`getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number).reduce((a, b) => a + b)`, &light)
	p.shoot("report-500-dark")
	assert.LessOrEqual(t, wide, 500.0)
	assert.Less(t, light, 150.0)
}

// TestTheReportInTheOrderOfTheNetwork: one bar for each operator with the error up to it, as --json has it, and a click selects the
// operator.
func TestTheReportInTheOrderOfTheNetwork(t *testing.T) {
	t.Parallel()
	file, r := analysed(t)
	p := open(t, file, desk)
	p.until(`all("svg.bars .column").length > 5`)
	var names []string
	p.js(`[...document.querySelectorAll("svg.bars g title")].map((e) => e.textContent)`, &names)
	for _, l := range r.Layerwise {
		assert.True(t, slices.ContainsFunc(names, func(n string) bool {
			return strings.HasPrefix(n, l.Node+": up to here ") && strings.Contains(n, "alone ")
		}), "%s is not in %q", l.Node, names)
	}
	p.js(`document.querySelector("svg.bars g:nth-of-type(3)").dispatchEvent(new MouseEvent("click", {bubbles: true})), true`, nil)
	p.until(`document.querySelector(".layer h2").textContent === document.querySelector("svg.bars g:nth-of-type(3) ` +
		`title").textContent.split(": up to")[0]`)
}

// TestTheReportOnPaper: it is light although the screen is dark, the network fits on one page in the colours of its legend, nothing runs
// out of the page, and what is made for paper is gone afterwards.
func TestTheReportOnPaper(t *testing.T) {
	t.Parallel()
	file, _ := analysed(t)
	p := open(t, file, look{760, 1060, true}) // a page of A4 within its margins
	p.until(`all("table.rows tbody tr[data-i]").length > 5 && document.querySelector(".legend-bar")`)
	legend := `document.querySelector(".legend-bar").style.backgroundImage`
	var screen, paper, light string
	p.js(legend, &screen)
	p.js(`dispatchEvent(new Event("beforeprint")), true`, nil)
	p.do(ask(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print",
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}))
	var size []float64
	p.js(`((b) => [b.width, b.height])(document.querySelector("canvas.graph-paper").getBoundingClientRect())`, &size)
	assert.LessOrEqual(t, size[0], 760.0)
	assert.LessOrEqual(t, size[1], 1060.0)
	var buttons int
	p.js(`document.querySelectorAll("table.rows thead button").length`, &buttons)
	assert.Zero(t, buttons, "a head with buttons is not repeated on the next page")
	var wide, dark float64
	p.js(`document.documentElement.scrollWidth`, &wide)
	assert.LessOrEqual(t, wide, 760.0)
	p.js(`getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number).reduce((a, b) => a + b)`, &dark)
	assert.Equal(t, 765.0, dark, "white")
	p.js(legend, &paper)
	assert.NotEqual(t, screen, paper)
	p.js(`dispatchEvent(new Event("afterprint")), true`, nil)
	p.js(legend, &light)
	assert.Equal(t, screen, light)
	var left int
	p.js(`document.querySelectorAll("canvas.graph-paper").length`, &left)
	assert.Zero(t, left)
	p.js(`document.querySelectorAll("table.rows thead button").length`, &buttons)
	assert.Positive(t, buttons)

	// Chromium's --print-to-pdf prints as soon as the document is there.
	p.do(ask(devtools.AddScriptToEvaluateOnNewDocument, devtools.AddScriptToEvaluateOnNewDocumentParams{Source: `addEventListener("DOMContentLoaded", () => {
		dispatchEvent(new Event("beforeprint"));
		window.printed = [document.querySelectorAll("table.rows thead th").length, document.querySelectorAll("table.rows thead button").length, document.querySelectorAll("canvas.graph-paper").length];
	})`}), chromedp.Navigate(file))
	p.until(`window.printed`)
	var printed []int
	p.js(`window.printed`, &printed)
	assert.Greater(t, printed[0], 10)
	assert.Equal(t, []int{0, 1}, printed[1:], "buttons, networks")
}

// TestHostileNamesAreText: names that are markup, commands of a terminal or turn the direction of writing are shown as text, and nothing
// runs.
func TestHostileNamesAreText(t *testing.T) {
	t.Parallel()
	names := []string{`</script><script>alert(1)</script>`, `"><img src=x onerror=alert(2)>`, "\u202egnp.exe", "a\x1b[31mb", "\u2028",
		"{{7*7}}", "javascript:alert(3)"}
	file, r := analysed(t)
	path := strings.TrimPrefix(file, "file://")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Greater(t, len(r.Layerwise), len(names))
	for i, n := range names {
		hostile, err := json.Marshal(n)
		require.NoError(t, err)
		old, err := json.Marshal(r.Layerwise[i].Node)
		require.NoError(t, err)
		text = bytes.ReplaceAll(text, old, hostile) // in the values that stand in the page; the policy has the hash of the script alone
	}
	require.NoError(t, os.WriteFile(path, text, 0o600))
	p := open(t, file, desk)
	p.until(`document.querySelectorAll("table.rows tbody tr[data-i]").length >= 7`)
	for i := range names {
		p.js(fmt.Sprintf(`document.querySelectorAll("table.rows")[0].querySelectorAll("tbody tr[data-i]")[%d].click(), true`, i), nil)
	}
	var shown []string
	p.js(`[...document.querySelectorAll("table.rows")[0].querySelectorAll("tbody bdi")].map((e) => e.textContent)`, &shown)
	require.Contains(t, shown, names[0])
	require.Contains(t, shown, `\u202egnp.exe`)
	require.Contains(t, shown, `a\x1b[31mb`)
	var elements int
	p.js(`document.querySelectorAll("img, script:not([type]):not(:last-of-type), iframe").length`, &elements)
	require.Zero(t, elements)
}

// TestHistogramsComeWithTheStatistics: a report of the layers alone has the histograms of calibration, and says of no moment that it is 0;
// the axis of the order has names.
func TestHistogramsComeWithTheStatistics(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	command(t, dir, "analyze", "glyphs.plan.json", "--layerwise", "--samples", "4", "--html", "report.html")
	p := open(t, "file://"+filepath.Join(dir, "report.html"), desk)
	p.until(`all(".layer svg.histogram path.area").length > 0`)
	p.until(`all("#tensors svg.histogram path.area").length === 1 && /As calibration saw them/.test(one("#tensors").innerText)`)
	var means []string
	p.js(`((heads) => all("#tensors tbody tr").map((r) => r.cells[heads.findIndex((h) => h.startsWith("mean"))].innerText.trim()))(`+
		`all("#tensors thead th").map((h) => h.innerText.trim().toLowerCase()))`, &means)
	require.NotEmpty(t, means)
	require.Len(t, slices.Compact(means), 1)
	require.NotContains(t, means[0], "0")
	p.until(`[...document.querySelectorAll("svg.bars text")].some((e) => e.textContent === "last_dw")`)
}
