package browsertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
)

// segmenter gives each pixel of a picture one of eleven classes, by its neighbourhood.
const segmenter = `
graph segmenter
opset 17
input x: f32[1,1,16,16]
const w1: f32[16,1,3,3] = normal(seed=3, std=0.3)
const b1: f32[16] = normal(seed=4, std=0.1)
const w2: f32[11,16,3,3] = normal(seed=5, std=0.2)
const b2: f32[11] = normal(seed=6, std=0.1)
c = Conv(x, w1, b1) {pads=[1, 1, 1, 1]} "conv1"
r = Relu(c) "relu"
y = Conv(r, w2, b2) {pads=[1, 1, 1, 1]} "conv2"
output y: f32[1,11,16,16]
`

// segmented is a folder with the segmenter's plan, pictures, and masks of stripes.
func segmented(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	m := &onnx.Model{Graph: graphtest.Parse(t, segmenter)}
	require.NoError(t, m.Save(filepath.Join(dir, "s.onnx"), onnx.SaveOptions{}))
	for _, sub := range []string{"data", "masks"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	for i := range 6 {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(i), 1, 1, 16, 16)))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "data", fmt.Sprintf("%02d.npy", i)), b.Bytes(), 0o600))
		mask := image.NewGray(image.Rect(0, 0, 16, 16))
		for j := range 256 {
			mask.SetGray(j%16, j/16, color.Gray{Y: uint8(j % 11)})
		}
		b.Reset()
		require.NoError(t, png.Encode(&b, mask))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "masks", fmt.Sprintf("%02d.png", i)), b.Bytes(), 0o600))
	}
	command(t, dir, "calibrate", "s.onnx", "--data", "data", "--platform", "trt_int8", "--per-tensor", "--observer", "minmax")
	return dir
}

// TestMapsOfClasses: of a network that gives each pixel a class, accuracy is that of its metric, answers are maps with what differs from
// float marked, and the parts of its outputs are rows; all with the figures of the command line.
func TestMapsOfClasses(t *testing.T) {
	t.Parallel()
	dir := segmented(t)
	p := open(t, serve(t, dir, "s.plan.json").url, desk)
	p.view("Samples")
	p.choose("input[type=text]", "Samples", "data")
	p.choose("input[type=text]", "Labels", "masks")
	p.choose("select", "Metric", "miou")
	p.click(".part button", "Measure on integers")
	var r struct {
		Metrics []struct{ Value, Float float64 }
		Slices  []struct{ NSR float64 }
	}
	require.NoError(t, json.Unmarshal([]byte(command(t, dir, "eval", "s.plan.json", "--data", "data", "--labels", "masks", "--metric", "miou",
		"--mode", "int8", "--json")), &r))
	require.Len(t, r.Metrics, 1)
	tile := `[...document.querySelectorAll(".tiles > *")].filter(visible).map((e) => e.innerText.replace(/\s+/g, " ")).join("|")`
	p.until(fmt.Sprintf(tile+`.includes("miou on integers %.2f %%")`, 100*r.Metrics[0].Value))
	p.until(fmt.Sprintf(tile+`.includes("miou in float %.2f %%")`, 100*r.Metrics[0].Float))
	p.click("summary", fmt.Sprintf("Parts of the outputs: %d", len(r.Slices)))
	p.until(`all("table.rows tbody tr[data-i]").length > 5`)

	p.click(".part button", "Show answers side by side")
	p.until(`all("ul.answers > li").length === 6 && all("ul.answers canvas.answer").length === 18`)
	p.until(`all("ul.answers p.hint", /^[0-9.]+ % of the pixels unlike float/).length === 12`)
	p.until(`all("ul.answers p.hint", /^0.00 % of the pixels unlike float/).length < 12`) // some differ
	p.looked("maps")

	p.click("header button", "Measure the error")
	p.until(isMeasured)
	p.view("Runs")
	p.until(fmt.Sprintf(`one("table.results th", "miou") && one("table.results").innerText.includes("%.2f %%")`, 100*r.Metrics[0].Value))
}
