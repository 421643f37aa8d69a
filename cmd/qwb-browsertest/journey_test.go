package browsertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph/tensor"
	"qwb/internal/demo"
)

// pictures writes the demo's pictures and their labels into a folder.
func pictures(t *testing.T, dir string, n int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data"), 0o755))
	camera := demo.NewCamera()
	labels := "file\tindex\n"
	for i := range n {
		img, class := camera.Shot(demo.Calibration, 1, i)
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, tensor.FromF32(img, 1, 1, demo.Size, demo.Size)))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "data", fmt.Sprintf("%05d.npy", i)), b.Bytes(), 0o600))
		labels += fmt.Sprintf("%05d.npy\t%d\n", i, class)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.tsv"), []byte(labels), 0o600))
}

// planned is a folder with the demo's model, pictures and a plan.
func planned(t *testing.T) string {
	t.Helper()
	return glyphs.copied(t)
}

var glyphs = made{name: "glyphs", fill: func(t *testing.T, dir string) {
	pictures(t, dir, 48)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "glyphs.onnx"), demo.Model, 0o600))
	command(t, dir, "calibrate", "glyphs.onnx", "--data", "data", "--platform", "trt_int8")
}}

// decisions are the last ones of a plan, as the command line lists them.
func decisions(t *testing.T, dir string) []map[string]any {
	t.Helper()
	var log struct {
		Decisions []map[string]any `json:"decisions"`
	}
	require.NoError(t, json.Unmarshal([]byte(command(t, dir, "plan", "log", "glyphs.plan.json", "--json")), &log))
	return log.Decisions
}

// inForce counts the decisions of a user that hold.
func inForce(t *testing.T, dir string) (list []map[string]any) {
	t.Helper()
	for _, d := range decisions(t, dir) {
		if d["by"] == "user" && d["in_force"] == true {
			list = append(list, d)
		}
	}
	return list
}

// TestFromAModelToAFile is what somebody does who comes with a model: drop it, calibrate, look, drag a threshold, keep an operator in
// float, take that back, export. The file has the bytes that the command line writes.
func TestFromAModelToAFile(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	pictures(t, dir, 48)
	model := filepath.Join(elsewhere, "glyphs.onnx")
	require.NoError(t, os.WriteFile(model, demo.Model, 0o600))
	p := open(t, serve(t, dir).url, desk)

	p.until(`one("h3", "Model")`)
	p.until(`!location.href.includes("token")`)
	p.do(chromedp.SetUploadFiles(`input[type=file]`, []string{model}))
	p.until(`one("input", "Model or plan").value.endsWith("glyphs.onnx")`)
	p.until(`/No plan yet/.test(text())`)
	p.click(".stateline button", "Choose samples and target")
	p.until(`one("h3", "1. Samples")`)
	p.choose("input[type=text]", "Samples", "data")
	p.choose("select", "Target", "trt_int8")
	p.click(".part button", "Calibrate")
	p.click("button", "See the network")

	p.until(`text().includes("It has not been measured yet")`)
	p.click(".stateline button", "Measure$")
	p.until(isMeasured)

	// The worst operator, by the table, which begins with it.
	p.operators()
	p.js(`all(".tablehost tbody tr, [role=grid] [role=row]").find((r) => /Conv/.test(r.textContent)).click(), true`, nil)
	p.until(`all("[role=slider]").length >= 1`)
	before := len(decisions(t, dir))
	p.drag(`all("[role=slider]", "Upper")[0]`, -60, 0)
	p.until(`one("table.beforeafter")`)
	var took []float64
	p.js(`performance.getEntriesByName("qwb-whatif").map((e) => e.duration)`, &took)
	require.NotEmpty(t, took)
	t.Logf("threshold to number, in ms: %.0f (the aim is 50)", took)
	var was, is string
	p.js(`document.querySelector("table.beforeafter tbody tr td").title + document.querySelector("table.beforeafter").innerText`, &was)
	p.click(".actions button", "Use")
	p.until(`/changed; Undo takes it back/.test(text())`)
	require.Greater(t, len(decisions(t, dir)), before)
	mine := inForce(t, dir)
	require.Len(t, mine, 1)
	assert.Contains(t, fmt.Sprint(mine[0]), "scale")
	p.js(`text()`, &is)
	assert.Contains(t, is, "measured before the last change")
	p.until(`/qwb set glyphs.plan.json/.test(document.querySelector("footer").textContent)`)

	// Keep it in float, see the effect first, and take that back.
	p.choose("select", "What to decide", "fp32")
	p.until(`/Estimated SQNR of the outputs/.test(text())`)
	p.click(".decide button", "Use")
	p.until(`/domain=fp32/.test(document.querySelector("footer").textContent)`)
	require.Len(t, inForce(t, dir), 2)
	p.click("button", "↶ Undo")
	p.until(`all("button", "↷ Redo").some((b) => !b.disabled)`)
	mine = inForce(t, dir)
	require.Len(t, mine, 1)
	assert.Contains(t, fmt.Sprint(mine[0]), "scale")

	p.view("Export")
	p.choose("input[type=text]", "File", "page.onnx")
	p.click(".part button", "Export")
	p.until(`/Written and verified: no integer differs/.test(text())`)
	command(t, dir, "export", "glyphs.plan.json", "--platform", "trt_int8", "-o", "line.onnx")
	line, err := os.ReadFile(filepath.Join(dir, "line.onnx"))
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(dir, "page.onnx"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(line, page), "the file of the page is another one")
}

// TestTwoTabs: a tab that shows an older plan changes nothing, says so, and shows the plan as it is.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	s := serve(t, dir, "glyphs.plan.json")
	a := open(t, s.url, desk)
	a.until(`one("nav.tabs button", "Network")`)
	a.until(`all("button", "↶ Undo").length`)
	a.operators()
	a.until(`performance.getEntriesByType("resource").filter((e) => /api.view/.test(e.name)).length > 1`) // the brief one and the whole
	a.drawn()
	command(t, dir, "set", "glyphs.plan.json", "type:Conv", "observer=minmax") // a command beside the tab, of which no event tells
	a.allow("409")                                                             // which the browser lists as a failed request
	a.js(`all(".tablehost tbody tr, [role=grid] [role=row]").find((r) => /Conv/.test(r.textContent)).click(), true`, nil)
	a.choose("select", "What to decide", "fp32")
	a.until(`/Estimated SQNR|cannot|Estimated/.test(text())`)
	a.click(".decide button", "Use")
	a.until(`/changed in another tab or by a command/.test(text())`)
	mine := inForce(t, dir)
	require.Len(t, mine, 1)
	assert.Contains(t, fmt.Sprint(mine[0]), "minmax")

	b := open(t, s.url, desk)
	b.until(`all("button", "↶ Undo").some((b) => !b.disabled)`)
	b.click("button", "↶ Undo")
	b.until(`all("button", "↷ Redo").some((b) => !b.disabled)`)
	require.Empty(t, inForce(t, dir))
	a.until(`all("button", "↷ Redo").some((b) => !b.disabled)`) // the other tab has heard of it
}

// TestHostileNames: whatever a model calls its operators is shown as text. Nothing of it acts.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	data := os.Getenv("QWB_TESTDATA")
	if data == "" {
		t.Skip("QWB_TESTDATA is not set: no real models")
	}
	model, err := os.ReadFile(filepath.Join(data, "review", "repro", "hostile_names.onnx"))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "hostile.onnx"), model, 0o600))
	command(t, dir, "calibrate", "hostile.onnx", "--data", "synthetic:4", "--platform", "onnxruntime")
	p := open(t, serve(t, dir, "hostile.plan.json").url, desk)
	p.operators()
	for _, name := range []string{"Tensors", "Samples", "Verify", "Export", "Network"} {
		var there bool
		if p.js(fmt.Sprintf(`Boolean(one("nav.tabs button", %s))`, quoted(name)), &there); there {
			p.view(name)
		}
	}
	p.click(".stateline button", "Measure$")
	p.until(isMeasured)
	p.shoot("hostile")
	var foreign []string
	p.js(`[...document.querySelectorAll("script, img, iframe, object, embed, link, `+
		`a[href]")].map((e) => e.src || e.href || e.tagName).filter((u) => u && !String(u).startsWith(location.origin))`, &foreign)
	assert.Empty(t, foreign)
	var scripts int
	p.js(`document.querySelectorAll("script").length`, &scripts)
	assert.Equal(t, 1, scripts, "that of the page itself")
}

// TestKilledAndStartedAgain: a server that is killed in the middle of a job loses no decision; the page says that it is gone, and that of
// the next start has all of them.
func TestKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	s := serve(t, dir, "glyphs.plan.json")
	p := open(t, s.url, desk)
	p.operators()
	p.js(`all("[role=grid] [role=row], .tablehost tbody tr").find((r) => /Conv/.test(r.textContent)).click(), true`, nil)
	p.choose("select", "What to decide", "fp32")
	p.click(".decide button", "Use")
	p.until(`all("button", "↶ Undo").some((b) => !b.disabled)`)
	p.click(".stateline button", "Measure$")
	p.allow("Failed to load resource", "does not answer", "ERR_")
	s.kill()
	p.until(`/qwb serve does not answer/.test(text())`)
	require.Len(t, inForce(t, dir), 1)

	again := open(t, serve(t, dir, "glyphs.plan.json").url, desk)
	again.until(`all("button", "↶ Undo").some((b) => !b.disabled)`)
	again.click("button", "↶ Undo")
	again.until(`all("button", "↷ Redo").some((b) => !b.disabled)`)
	require.Empty(t, inForce(t, dir))
}
