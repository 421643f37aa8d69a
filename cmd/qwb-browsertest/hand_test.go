package browsertest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheAnswerIsWhereTheHandIs: what a dragged handle gives stands beside it; an estimate of an earlier choice is grey and cannot be used;
// an observer is put into the plan from its row; the error of a sample opens in its card.
func TestTheAnswerIsWhereTheHandIs(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	command(t, dir, "set", "glyphs.plan.json", "type:Conv", "observer=mse") // so that some predictions change
	command(t, dir, "analyze", "glyphs.plan.json", "--samples", "8")
	p := open(t, serve(t, dir, "glyphs.plan.json").url, look{1440, 900, false})
	p.operators()
	p.js(`all(".tablehost tbody tr").find((r) => /Conv/.test(r.textContent)).click(), one(".drawer").click(), true`, nil)
	p.until(`all("[role=slider]").length > 0`)
	p.drag(`all("[role=slider]", "Upper")[0]`, -60, 0)
	p.until(`/dB, was .* dB/.test((document.querySelector(".beside-handle .first") || {}).textContent)`)
	var away float64
	p.js(`((n, h) => Math.max(Math.abs(n.right - h.left), n.bottom > innerHeight ? 1e4 : 0))(document.querySelector(".beside-handle rect")`+
		`.getBoundingClientRect(), one("[role=slider]", "Upper").getBoundingClientRect())`, &away)
	require.Less(t, away, 240.0)

	p.choose("select", "What to decide", "fp32")
	p.until(`/Estimated/.test(one(".decide .effect").innerText)`)
	p.js(`window.fetch = ((plain) => async (...a) => { if (/estimate/.test(a[0])) await new Promise((later) => setTimeout(later, 600)); `+
		`return plain(...a); })(window.fetch), true`, nil)
	p.allow("409") // an estimate that is so late asks about a plan that has changed since
	p.choose("select", "What to decide", "int")
	p.until(`one(".decide .effect.asking") && one(".decide button", "Use").disabled`)
	p.until(`!one(".decide .effect.asking") && !one(".decide button", "Use").disabled`)

	before := len(inForce(t, dir))
	p.click("table.observers button", "Use")
	p.until(`/changed; Undo takes it back/.test(text())`)
	require.Len(t, inForce(t, dir), before+1)
	p.js(`document.dispatchEvent(new KeyboardEvent("keydown", {key: "z", ctrlKey: true, bubbles: true})), true`, nil)
	p.until(`all("button", "↷ Redo").some((b) => !b.disabled)`)
	require.Len(t, inForce(t, dir), before)

	p.view("Samples")
	p.choose("input[type=text]", "Samples", "data")
	p.choose("input[type=text]", "Labels", "labels.tsv")
	p.click(".part button", "Find changed predictions")
	p.until(`all("ul.samples canvas").length > 0`)
	p.click("ul.samples button", "Error by operator")
	p.until(`all("ul.samples li.wide svg.bars rect").length > 3`)
}

// TestACureIsUsedAndTakenBackInItsCard: the card of an advice tries its command, puts it into the plan, and takes it back.
func TestACureIsUsedAndTakenBackInItsCard(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	command(t, dir, "calibrate", "glyphs.onnx", "--data", "data", "--platform", "trt_int8", "--per-tensor", "--observer", "minmax")
	command(t, dir, "analyze", "glyphs.plan.json")
	p := open(t, serve(t, dir, "glyphs.plan.json").url, desk)
	p.view("Advice")
	card := `all("ol.advice li").find((l) => /qwb set/.test(l.innerText))`
	p.until(card)
	was := len(inForce(t, dir))
	press := func(name string) {
		t.Helper()
		at := `[...` + card + `.querySelectorAll("button")].find((b) => visible(b) && !b.disabled && b.textContent === ` + quoted(name) + `)`
		p.until(at)
		p.js(at+".click(), true", nil)
	}
	press("Try")
	p.until(`/Estimated/.test(` + card + `.innerText)`)
	require.Len(t, inForce(t, dir), was)
	press("Use")
	p.until(`/In the plan/.test(` + card + `.innerText)`)
	require.Greater(t, len(inForce(t, dir)), was)
	press("Undo")
	p.until(`!/In the plan/.test(` + card + `.innerText)`)
	require.Len(t, inForce(t, dir), was)
}
