package browsertest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestResultsOfEveryView runs what every view runs, on the demo, and looks at what comes of it in light, in dark and at 500 pixels: nothing
// runs out of its view, everything that can be used has a name.
func TestResultsOfEveryView(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	command(t, dir, "set", "glyphs.plan.json", "type:Conv", "observer=mse") // so that some predictions change
	command(t, dir, "calibrate", "glyphs.onnx", "--data", "data", "--platform", "trt_int8", "--observer", "kl", "-o", "kl.plan.json")
	p := open(t, serve(t, dir, "glyphs.plan.json").url, desk)
	p.operators()
	p.click(".stateline button", "Measure$")
	p.until(isMeasured)
	p.js(`all("[role=grid] [role=row], .tablehost tbody tr").find((r) => /Conv/.test(r.textContent)).click(), true`, nil)
	p.until(`all("[role=slider]").length > 0`)
	p.drag(`all("[role=slider]", "Upper")[0]`, -60, 0)
	p.until(`one("table.beforeafter")`)
	p.looked("operator")
	p.click("[role=tab]", "Advice")
	p.looked("advice")
	p.click("[role=tab]", "History")
	p.until(`/#2/.test(one("[role=tabpanel]").innerText)`)
	p.click("button", "Show as a recipe")
	p.until(`one("pre", "Recipe")`)
	p.looked("history")

	p.view("Tensors")
	p.until(`all(".view-tensors table.rows tbody tr[data-i]").length > 3`)
	p.looked("tensors")

	data := func() {
		p.choose("input[type=text]", "Samples", "data")
		p.choose("input[type=text]", "Labels", "labels.tsv")
	}
	p.view("Calibrate")
	data()
	p.click("button", "Show the samples")
	p.until(`all("ul.thumbnails canvas").length > 3`)
	p.click("button", "Try preprocessings")
	p.until(`/Nothing runs/.test(text())`)
	p.looked("calibrate")

	p.view("Samples")
	data()
	p.click(".part button", "Measure on integers")
	p.until(`/± [0-9.]+ pp|No loss of top-1/.test(text())`)
	p.click(".part button", "Find changed predictions")
	p.until(`all("ul.samples canvas").length > 0`)
	p.click("ul.samples button", "Error by operator")
	p.until(`all("svg.bars rect").length > 3`)
	p.looked("samples")
	p.js(`window.fetch = ((plain) => async (...a) => { if (/thumbnails/.test(a[0])) await new Promise((later) => setTimeout(later, 2000)); `+
		`return plain(...a); })(window.fetch), true`, nil)
	p.click(".part button", "Show answers side by side")
	p.until(`all("ul.answers canvas").length > 3`)
	p.click("ul.answers button", "Look inside the network")
	p.until(`all("ul.answers canvas.thumbnail").length > 3`) // pictures come later than what was opened
	p.until(`all("ul.answers .where canvas").length > 3`)
	p.looked("answers")

	p.view("Sweep")
	p.choose("input[type=text]", "Samples", "data")
	p.click(".part button", "Sweep$")
	p.until(`all("table.results tbody tr").length > 3`)
	p.looked("sweep")

	p.view("Pareto")
	p.choose("input[type=number]", "Value", "20")
	p.click(".part button", "Search$")
	p.until(`/Plans that were tried/.test(text()) && all("svg.scatter").length > 0`)
	p.looked("pareto")

	p.view("Tune")
	p.click(".part button", "Tune$")
	p.until(`/held-out samples|Nothing was kept/.test(text()) && all("table.results tbody tr").length > 1`)
	p.looked("tune")

	p.view("Compare")
	data()
	p.choose("input[type=text]", "B", "kl.plan.json")
	p.click(".part button", "Show differing settings")
	p.click(".part button", "Compare$")
	p.until(`document.querySelector(".differs")`)
	p.show(`document.querySelector(".differs")`) // which draws it
	p.until(`document.querySelector(".differs canvas")`)
	p.looked("compare")

	p.view("Verify")
	p.click(".part button", "Verify$")
	p.until(`/OK: 0 of [0-9,]+ integers differ/.test(text())`)
	p.looked("verify")

	p.view("Export")
	p.click(".part button", "Export")
	p.until(`/Written and verified/.test(text())`)
	p.looked("export")
}

// looked looks at the view that is shown in every look.
func (p *tab) looked(name string) {
	p.t.Helper()
	for _, how := range slices.Sorted(maps.Keys(looks)) {
		l := looks[how]
		p.do(p.sized(l))
		p.drawn()
		var out []string
		p.js(`[...document.querySelectorAll("main .view, main .side [role=tabpanel]")].filter(visible).filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => (e.className || e.id) + ": " + e.scrollWidth + " > " + e.clientWidth +
			"; " + [...e.querySelectorAll("*")].filter((x) => visible(x) && !x.closest(".scroll") && x.getBoundingClientRect().right > e.getBoundingClientRect().left + e.clientWidth + 1).slice(0, 3).map((x) => x.tagName + "." + x.className).join(", "))
			.concat(document.documentElement.scrollWidth > innerWidth + 1 ? ["the page: " + document.documentElement.scrollWidth] : [])`, &out)
		assert.Empty(p.t, out, "%s, %s: wider than its place", name, how)
		if os.Getenv("QWB_SCREENSHOTS") != "" { // all of it, not only what the window has room for
			var high int64
			p.js(`Math.min(5000, Math.max(document.documentElement.scrollHeight, innerHeight + Math.max(0, `+
				`...[...document.querySelectorAll("main .view, main .side [role=tabpanel]")].filter(visible).map((e) `+
				`=> e.scrollHeight - e.clientHeight))))`, &high)
			p.do(p.sized(look{l.width, high, l.dark}))
			p.drawn()
			p.shoot(fmt.Sprintf("result-%s-%s", name, how))
		}
	}
	p.do(p.sized(desk))
	list, count := p.nameless()
	assert.Empty(p.t, list, name)
	assert.Greater(p.t, count, 10, name)
}
