package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// looks are what every view is looked at in.
var looks = map[string]look{"light": desk, "dark": {1400, 900, true}, "narrow": {500, 900, false}}

// real is a folder with a plan of MobileNetV1 for TensorRT, where the real models are; else of the demo's model.
func real(t *testing.T) (dir, plan string, args []string) {
	t.Helper()
	data := os.Getenv("QWB_TESTDATA")
	if data == "" {
		return planned(t), "glyphs.plan.json", nil
	}
	if _, err := os.Stat(filepath.Join(data, mobilenetModel)); err != nil {
		return planned(t), "glyphs.plan.json", nil
	}
	dir = mobilenet.copied(t)
	return dir, "mobilenet_v1.plan.json", []string{"--root", dir, "--root", filepath.Join(data, mobilenetPictures)}
}

const mobilenetModel, mobilenetPictures = "models/classifiers/mobilenet_v1_1.0_224.onnx", "data/pets/calibration"

var mobilenet = made{name: "mobilenet", fill: func(t *testing.T, dir string) {
	data := os.Getenv("QWB_TESTDATA")
	model, err := os.ReadFile(filepath.Join(data, mobilenetModel))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mobilenet_v1.onnx"), model, 0o600))
	command(t, dir, "calibrate", "mobilenet_v1.onnx", "--data", filepath.Join(data, mobilenetPictures), "--preprocess", "imagenet-inception",
		"--platform", "trt_int8", "--observer", "mse", "--samples", "16")
}}

// TestEveryView: nothing on the console, a name for everything that can be used, nothing wider than the window; pictures of all.
func TestEveryView(t *testing.T) {
	t.Parallel()
	dir, plan, args := real(t)
	p := open(t, serve(t, dir, append(args, plan)...).url, desk)
	p.operators()
	p.click(".stateline button", "Measure$")
	p.until(isMeasured)
	p.js(`all("[role=grid] [role=row], .tablehost tbody tr").find((r) => /Conv/.test(r.textContent)).click(), true`, nil)
	p.until(`all("[role=slider]").length > 0`)
	var views []string
	p.js(`all("nav.tabs button.to").map(nameOf)`, &views)
	require.GreaterOrEqual(t, len(views), 8)
	for _, view := range views {
		for name, l := range looks {
			p.do(p.sized(l))
			p.view(view)
			p.drawn()
			p.shoot(fmt.Sprintf("%s-%s", strings.ReplaceAll(strings.ToLower(view), " ", "-"), name))
			var wide float64
			p.js(`document.documentElement.scrollWidth - innerWidth`, &wide)
			assert.LessOrEqual(t, wide, 1.0, "%s, %s: the page is wider than the window", view, name)
		}
		list, count := p.nameless()
		assert.Empty(t, list, view)
		assert.Greater(t, count, 10, view)
	}
}

// TestWhyDidItLose is the walk of docs/workbench.md: why did MobileNetV1 lose, and what cures it.
func TestWhyDidItLose(t *testing.T) {
	t.Parallel()
	dir, plan, args := real(t)
	if plan != "mobilenet_v1.plan.json" {
		t.Skip("QWB_TESTDATA has no mobilenet_v1.onnx")
	}
	p := open(t, serve(t, dir, append(args, plan)...).url, desk)
	p.operators()
	p.click(".stateline button", "Measure$")
	p.until(headNSR + " > 0")
	var before, after float64
	p.js(headNSR, &before)
	p.until(`/^\s*(\[?.?\]?\s*)?\d*\s*depthwise_conv_2d_1\b/m.test(all("[role=grid] [role=row], ` +
		`.tablehost tbody tr")[0].innerText) || /depthwise_conv_2d_1\b/.test(all("[role=grid] [role=row], .tablehost tbody tr")[1].innerText)`)
	p.shoot("walk-1-worst")
	p.click("[role=tab]", "Advice")
	p.until(`/depthwise_conv_2d_1/.test(one("[role=tabpanel]").innerText)`)
	p.shoot("walk-2-advice")
	p.click("[role=tab]", "Operator")
	p.choose("select", "What to decide", "fp32")
	p.until(`/Estimated/.test(text())`)
	p.shoot("walk-3-estimate")
	p.click(".decide button", "Use")
	p.until(`/domain=fp32/.test(document.querySelector("footer").textContent)`)
	p.click(".stateline button", "Measure again$")
	p.until(headNSR + fmt.Sprintf(" < %g", before/2))
	p.js(headNSR, &after)
	p.shoot("walk-4-cured")
	t.Logf("NSR at the outputs %g, with depthwise_conv_2d_1 in float %g", before, after)
}
