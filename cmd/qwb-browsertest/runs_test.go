package browsertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestASweepLeavesThePlan: its plan is another file, which is used by a click and taken back by one; all plans are rows of Runs, and two
// that are ticked are compared.
func TestASweepLeavesThePlan(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	command(t, dir, "set", "glyphs.plan.json", "type:Conv", "observer=mse") // a decision, which a sweep must not lose
	was, err := os.ReadFile(filepath.Join(dir, "glyphs.plan.json"))
	require.NoError(t, err)
	stays := func() {
		t.Helper()
		now, err := os.ReadFile(filepath.Join(dir, "glyphs.plan.json"))
		require.NoError(t, err)
		assert.Equal(t, string(was), string(now))
	}
	p := open(t, serve(t, dir, "glyphs.plan.json").url, desk)
	p.view("Sweep")
	p.choose("input[type=text]", "Samples", "data")
	p.click(".part button", "Sweep$")
	p.until(`/Its plan is glyphs.sweep.plan.json/.test(text())`)
	stays()
	p.click("button", "Use this plan")
	p.until(`/trt_int8: glyphs.sweep.plan.json/.test(document.querySelector("header.top").innerText)`)
	p.click("button", "Back to glyphs.plan.json")
	p.until(`/trt_int8: glyphs.plan.json/.test(document.querySelector("header.top").innerText) && all("button", "↶ Undo").some((b) => ` +
		`!b.disabled)`)
	stays()

	p.view("Runs")
	p.until(`all("table.results tbody tr").length >= 2 && /glyphs.sweep.plan.json/.test(one("table.results").innerText)`)
	p.looked("runs")
	p.click("input[type=checkbox]", "Tick glyphs.sweep.plan.json")
	p.click("button", "Compare the two ticked")
	p.until(`one("input", "A").value === "glyphs.plan.json" && one("input", "B").value === "glyphs.sweep.plan.json"`)
	p.until(`one(".view-compare .result .headline", /error of glyphs.sweep.plan.json/)`)
	p.until(`/a=glyphs.plan.json/.test(location.hash) && /b=glyphs.sweep.plan.json/.test(location.hash)`)
}
