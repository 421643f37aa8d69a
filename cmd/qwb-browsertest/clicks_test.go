package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hand uses a page as somebody does who sees only what the window shows: with a mouse, at what lies on top, and it counts.
type hand struct {
	*tab
	clicks, scrolls int
}

// inSight brings an element into the window, as a wheel would, and counts that where it was needed. What something else covers counts, too:
// one cannot read it.
func (h *hand) inSight(element string) (x, y float64) {
	h.t.Helper()
	h.until(element)
	h.drawn()
	at := struct {
		X, Y float64
		Seen bool
	}{}
	look := `((e) => { const b = e.getBoundingClientRect(), x = b.left + Math.min(b.width, 200) / 2, y = b.top + Math.min(b.height, 40) / 2,
		top = document.elementFromPoint(x, y);
		return {X: x, Y: y, Seen: Boolean(top && (e.contains(top) || top.contains(e) || (e.labels || [])[0] === top))}; })(` + element + `)`
	h.js(look, &at)
	if !at.Seen {
		h.scrolls++
		h.js("("+element+`).scrollIntoView({block: "center"}), true`, nil)
		h.drawn()
		h.js(look, &at)
		require.True(h.t, at.Seen, "%s is hidden behind something", element)
	}
	return at.X, at.Y
}

// press clicks an element that can be used, with the mouse.
func (h *hand) press(element string) {
	h.t.Helper()
	h.until("((e) => e && !e.disabled)(" + element + ")")
	x, y := h.inSight(element)
	h.do(chromedp.MouseClickXY(x, y))
	h.clicks++
}

// show goes to a view by the spine: a click, two where its step has to be opened first.
func (h *hand) show(view string) {
	h.t.Helper()
	at := fmt.Sprintf(`[...document.querySelectorAll("nav.tabs button.to:not([hidden])")].find((b) => b.textContent === %s)`, quoted(view))
	h.until(at)
	var there bool
	if h.js("visible("+at+")", &there); !there {
		h.press(at + `.closest(".step").querySelector(".name")`)
	}
	h.press(at)
}

// pick chooses one of a list: a click that opens it, and one on the choice.
func (h *hand) pick(name, value string) {
	h.t.Helper()
	h.inSight(fmt.Sprintf("one(\"select\", %s)", quoted(name)))
	h.choose("select", name, value)
	h.clicks += 2
}

// begin counts anew.
func (h *hand) begin() { h.clicks, h.scrolls = 0, 0 }

// TestClicksOfFiveJobs plays the five jobs of docs/workbench.md as somebody does who sees them for the first time, and says what they take.
// What has to be looked for outside of the window is a fault of the page, and so is a click more.
func TestClicksOfFiveJobs(t *testing.T) {
	t.Parallel()
	dir, plan, args := real(t)
	if len(args) == 0 {
		t.Skip("QWB_TESTDATA has no mobilenet_v1.onnx")
	}
	const model = "mobilenet_v1.onnx"
	took := func(h *hand, job string, clicks int) {
		t.Helper()
		t.Logf("| %s | %d | %d |", job, h.clicks, h.scrolls)
		assert.LessOrEqual(t, h.clicks, clicks, job)
		assert.Zero(t, h.scrolls, job)
		h.shoot("job " + job)
		h.begin()
	}
	t.Log("| job | clicks | scrolls |")

	alone := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(alone, "m"), os.DirFS(dir)))
	require.NoError(t, os.Rename(filepath.Join(alone, "m", model), filepath.Join(alone, model)))
	h := &hand{tab: open(t, serve(t, alone, model).url, look{1440, 900, false})}
	h.inSight(`document.querySelector(".graph canvas")`)
	took(h, "see a model", 0)

	command(t, dir, "calibrate", model, "--data", args[3], "--preprocess", "imagenet-inception", "--platform", "trt_int8", "--observer", "kl",
		"--samples", "16", "-o", "kl.plan.json")
	h = &hand{tab: open(t, serve(t, dir, append(args, plan)...).url, look{1440, 900, false})}
	h.patience = running
	h.press(`one(".stateline button", "Measure")`)
	h.until(isMeasured)
	h.press(`one("header .verdict", /look at depthwise_conv_2d_1/)`)
	h.inSight(`one("ol.advice li p", /in depthwise_conv_2d_1 42 %/)`)
	took(h, "the worst operator, and why", 2)

	h.press(`one(".advice button", "Try all of them")`)
	tried := `all("ol.advice table.results tbody tr", /dB/)`
	h.until(tried + ".length >= 2")
	h.inSight(tried + "[1]")
	h.press(`one("[role=tab]", "Operator")`)
	h.pick("What to decide", "fp32")
	h.inSight(`one(".decide .effect", /Estimated/)`)
	h.press(`one("[role=tab]", "Advice")`)
	h.press(tried + `[0].querySelector("button.primary")`)
	h.until(tried + `[0].innerText.includes("in use")`)
	h.inSight(tried + `[0].querySelector("button")`)
	assert.Contains(t, command(t, dir, "plan", "log", plan), "tune")
	took(h, "three cures tried, one kept", 6)

	h.show("Runs")
	h.press(`one("input[type=checkbox]", "Tick kl.plan.json")`)
	h.press(`one("button", "Compare the two ticked")`)
	h.inSight(`one(".view-compare .result .headline", /The output error of kl.plan.json is larger .* dB, not .* dB/)`)
	took(h, "two plans compared", 3)

	h.show("Export")
	h.press(`one(".view-export .part button", /^Export/)`)
	h.inSight(`one(".view-export .headline", /^Written and verified/)`)
	took(h, "exported, verified", 2)
}
