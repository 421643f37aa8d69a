package browsertest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestATensorOfTwoPlans: a click on a row of Compare draws the tensor in both plans over one axis, with the figures that the command line has.
func TestATensorOfTwoPlans(t *testing.T) {
	dir := planned(t)
	command(t, dir, "calibrate", "glyphs.onnx", "--data", "data", "--platform", "trt_int8", "--observer", "kl", "-o", "kl.plan.json")
	var diff struct {
		Differences []struct{ Node, At, What, A, B string }
	}
	require.NoError(t, json.Unmarshal([]byte(command(t, dir, "diff", "glyphs.plan.json", "kl.plan.json", "--json")), &diff))
	p := open(t, serve(t, dir, "glyphs.plan.json").url, desk)
	p.view("Compare")
	p.choose("input[type=text]", "B", "kl.plan.json")
	p.click(".part button", "Show differing settings")
	p.until(`all("table.results tbody tr").length > 0`)
	for _, d := range diff.Differences {
		if d.What != "scale" || d.At != "in0" {
			continue
		}
		p.js(fmt.Sprintf(`all("table.results tbody tr").find((r) => r.textContent.includes(%s) && r.textContent.includes("in0")).querySelector("button").click(), true`, quoted(d.Node)), nil)
		p.until(fmt.Sprintf(`one(".pair svg[role=img]", /A: .* levels .* apart. B: .* levels .* apart/) && one("h4", %s)`, quoted(d.Node+":in0")))
		p.until(`document.querySelectorAll(".pair line.side-A").length === 2 && document.querySelectorAll(".pair line.side-B").length === 2 && document.querySelectorAll(".pair .area").length === 1`)
		p.until(fmt.Sprintf(`all(".result table.results tr").some((r) => /^scale/.test(r.textContent) && r.cells[1].title === %q && r.cells[2].title === %q)`, d.A, d.B))
		p.show(`document.querySelector(".pair")`)
		p.looked("pair")
		p.click("button", "in1")
		p.until(fmt.Sprintf(`one("h4", %s) && one("button[aria-pressed=true]", "in1")`, quoted(d.Node+":in1")))
		p.click("button", "Show this operator in the network")
		p.until(`one("nav.tabs button", "Network").getAttribute("aria-current") === "page"`)
		return
	}
	t.Fatal("the two plans have the same scales")
}
