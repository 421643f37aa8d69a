package browsertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
)

// large writes a residual network of 5,000 operators.
func large(t *testing.T, file string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("graph large\nopset 17\ninput x: f32[1,4,4,4]\n")
	in := "x"
	for i := range 1250 {
		fmt.Fprintf(&b, "const wa%d: f32[4,4,1,1] = normal(seed=%d, std=0.5)\nconst wb%d: f32[4,4,1,1] = normal(seed=%d, std=0.05)\n", i,
			2*i, i, 2*i+1)
		fmt.Fprintf(&b, "a%d = Conv(%s, wa%d) \"block%d/expand\"\nr%d = Relu(a%d) \"block%d/relu\"\n"+
			"b%d = Conv(r%d, wb%d) \"block%d/project\"\ny%d = Add(%s, b%d) \"block%d/add\"\n", i, in, i, i, i, i, i, i, i, i, i, i, in, i, i)
		in = fmt.Sprintf("y%d", i)
	}
	fmt.Fprintf(&b, "output %s\n", in)
	g, err := graph.Parse(b.String())
	require.NoError(t, err)
	require.Len(t, g.Nodes(), 5000)
	require.NoError(t, (&onnx.Model{Graph: g}).Save(file, onnx.SaveOptions{}))
}

// TestAThousandBlocks: a network of 5,000 operators can be used, in the report and in the live page. What it takes is logged; the limits
// are those of a loaded machine, several times what an idle one needs.
func TestAThousandBlocks(t *testing.T) {
	dir := t.TempDir()
	large(t, filepath.Join(dir, "large.onnx"))
	command(t, dir, "calibrate", "large.onnx", "--data", "synthetic:2", "--platform", "trt_int8")
	command(t, dir, "analyze", "large.plan.json", "--graphwise", "--statistical", "--samples", "2", "--html", "r.html")
	for name, url := range map[string]string{"report": "file://" + filepath.ToSlash(filepath.Join(dir, "r.html")),
		"live": serve(t, dir, "large.plan.json").url} {
		t.Run(name, func(t *testing.T) {
			p := open(t, url, desk)
			if name == "live" {
				p.operators()
			}
			p.until(`all("table.rows tbody tr[data-i]").length > 5 && one(".graph-canvas") && /5,?000 operators/.test(text()) && ` +
				`performance.getEntriesByName("first-contentful-paint").length > 0`)
			var first, filter float64
			p.js(`performance.getEntriesByName("first-contentful-paint")[0].startTime`, &first)
			// From the letter typed to the picture after it, as often as there are letters.
			p.js(`(async () => { const box = one("input[type=search]", "Filter"), took = [];
				for (const word of ["b", "block12", "type:Conv", "/add$/", ""]) {
					await new Promise(requestAnimationFrame);
					const from = performance.now();
					box.value = word; box.dispatchEvent(new Event("input", {bubbles: true}));
					document.querySelector("table.rows tbody").getBoundingClientRect();
					took.push(performance.now() - from);
				}
				return Math.max(...took); })()`, &filter)
			p.choose("input[type=search]", "Filter", "block12")
			p.until(`/244 of/.test(text())`) // 12, 120 to 129, 1200 to 1249: 61 blocks of four
			p.choose("input[type=search]", "Filter", "")
			p.click(".graph button", "Open all blocks")
			var frames []float64
			p.js(`(async () => { const c = document.querySelector(".graph-canvas"), b = c.getBoundingClientRect(), took = []; c.setPointerCapture = () => {};
				const send = (kind, x, y) => c.dispatchEvent(new PointerEvent(kind, {pointerId: 1, clientX: b.left + x, clientY: b.top + y, bubbles: true}));
				send("pointerdown", 200, 200);
				let last = await new Promise(requestAnimationFrame);
				for (let i = 1; i <= 60; i++) {
					send("pointermove", 200 - 2 * i, 200 - i);
					const now = await new Promise(requestAnimationFrame);
					took.push(now - last); last = now;
				}
				send("pointerup", 80, 140);
				return took.sort((a, b) => a - b); })()`, &frames)
			var heap float64
			p.js(`performance.memory.usedJSHeapSize`, &heap)
			t.Logf("first paint %.0f ms, filter at most %.0f ms, a picture while panning %.0f ms (median; worst %.0f), JavaScript heap %.0f MB, "+
				"renderer %d MB", first, filter, frames[30], frames[59], heap/1e6, p.resident()>>20)
			assert.Less(t, first, 5000.0)
			assert.Less(t, filter, 300.0)
			assert.Less(t, frames[30], 100.0)
			assert.Less(t, heap, 500e6)
		})
	}
}

// resident is the memory of the largest renderer of this browser: that of the tab just opened; 0 where the system does not tell.
func (p *tab) resident() (most int) {
	ctx, stop := context.WithTimeout(p.ctx, answer)
	defer stop()
	info, err := chromedp.CallBrowser(ctx, systeminfo.GetProcessInfo, cdp.Empty{})
	require.NoError(p.t, err)
	for _, x := range info.ProcessInfo {
		var pages, own int
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", int(x.ID)))
		if _, err := fmt.Sscan(string(b), &pages, &own); err == nil && x.Type == "renderer" {
			most = max(most, own*os.Getpagesize())
		}
	}
	return most
}
