package browsertest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPicturesOfTheDocs makes the pictures of docs/ anew, after real jobs on MobileNetV1, the demo and a language model, where QWB_PICTURES
// names a folder for them. No photograph is on them: what shows samples shows those of the demo.
func TestPicturesOfTheDocs(t *testing.T) {
	data := os.Getenv("QWB_TESTDATA")
	if os.Getenv("QWB_PICTURES") == "" || data == "" {
		t.Skip("QWB_PICTURES and QWB_TESTDATA name no folders")
	}
	t.Run("demo", func(t *testing.T) { picturesOfTheDemo(t) })
	t.Run("mobilenet", func(t *testing.T) { picturesOfMobileNet(t) })
	t.Run("language", func(t *testing.T) { picturesOfALanguageModel(t, data) })
}

var paper = look{1240, 800, false}

func picturesOfTheDemo(t *testing.T) {
	dir := planned(t)
	command(t, dir, "set", "glyphs.plan.json", "type:Conv", "observer=mse")
	command(t, dir, "eval", "glyphs.plan.json", "--data", "data", "--labels", "labels.tsv")
	command(t, dir, "dispatch", "glyphs.plan.json", "--auto", "--max-nsr", "0.05", "--data", "data")
	command(t, dir, "plan", "undo", "glyphs.plan.json")
	command(t, dir, "analyze", "glyphs.plan.json", "--html", "r.html")
	report := open(t, "file://"+filepath.ToSlash(filepath.Join(dir, "r.html")), paper)
	report.until(`document.querySelectorAll("table.rows tbody tr[data-i]").length > 5 && document.querySelector("canvas")`)
	report.draw("report")

	p := open(t, serve(t, dir, "glyphs.plan.json").url, paper)
	p.view("Calibrate")
	p.choose("input[type=text]", "Samples", "data")
	p.choose("input[type=text]", "Labels", "labels.tsv")
	p.click("button", "Show the samples")
	p.until(`all("ul.thumbnails canvas").length > 3`)
	p.show(`one("h3", "2. Preprocessing")`)
	p.draw("workbench-open")

	p.view("Samples")
	p.choose("input[type=text]", "Samples", "data")
	p.choose("input[type=text]", "Labels", "labels.tsv")
	p.click(".part button", "Measure on integers")
	p.until(`/± [0-9.]+ pp/.test(text())`)
	p.click(".part button", "Find changed predictions")
	p.until(`all("ul.samples canvas").length > 0`)
	p.show(`one("h3", "Predictions that changed")`)
	p.draw("workbench-samples")

	p.view("Sweep")
	p.choose("input[type=text]", "Samples", "data")
	p.click(".part button", "Sweep$")
	p.until(`all("table.results tbody tr").length > 3`)
	p.show(`[...document.querySelectorAll(".result .headline")].filter(visible).pop()`)
	p.draw("workbench-sweep")
	p.view("Pareto")
	p.choose("input[type=number]", "Value", "17")
	p.click(".part button", "Search$")
	p.until(`/Plans that were tried/.test(text()) && all("svg.scatter circle, .chart svg").length > 1`)
	p.show(`[...document.querySelectorAll(".result .headline")].filter(visible).pop()`)
	p.draw("workbench-pareto")
}

func picturesOfMobileNet(t *testing.T) {
	dir, plan, args := real(t)
	require.Equal(t, "mobilenet_v1.plan.json", plan)
	command(t, dir, "analyze", plan, "--graphwise", "--layerwise", "--statistical", "--split", "--html", "r.html")
	p := open(t, serve(t, dir, append(args, plan)...).url, paper)
	p.patience = running // tuning takes two minutes on an idle machine
	p.operators()
	p.until(isMeasured) // the analysis above is shown
	p.js(`all("[role=grid] [role=row], .tablehost tbody tr").find((r) => /Conv/.test(r.textContent)).click(), true`, nil)
	p.until(`all("[role=slider]").length > 0`)
	p.draw("workbench-network")
	p.do(p.sized(look{1240, 800, true}))
	p.draw("workbench-dark")
	p.do(p.sized(look{500, 900, false}))
	p.draw("workbench-narrow")
	p.do(p.sized(paper))

	p.drag(`all("[role=slider]", "Upper")[0]`, -40, 0)
	p.until(`one("table.beforeafter")`)
	p.show(`document.querySelector(".histogram") || one("h3", "Range")`)
	p.do(p.sized(look{1240, 1100, false}))
	p.draw("workbench-operator")
	p.do(p.sized(paper))
	p.click(".actions button", "Use")
	p.until(`/changed; Undo takes it back/.test(text())`)
	p.click("[role=tab]", "History")
	p.until(`/#2/.test(one("[role=tabpanel]").innerText)`)
	p.draw("workbench-history")
	p.click("button", "↶ Undo")
	p.until(`all("button", "↷ Redo").some((b) => !b.disabled)`)
	p.click("[role=tab]", "Advice")
	p.until(`/depthwise_conv_2d_1/.test(one("[role=tabpanel]").innerText)`)
	p.draw("workbench-advice")

	p.view("Tensors")
	p.until(`all("section.view-tensors canvas, section.view-tensors svg").length > 1`)
	p.draw("workbench-tensors")

	p.view("Tune")
	p.click(".part button", "Tune$")
	p.until(`all("table.results tbody tr").length > 1 && /held-out samples|Nothing was kept/.test(text())`)
	p.show(`[...document.querySelectorAll(".view-tune .result .headline")].pop()`)
	p.draw("workbench-tune")

	p.view("Verify")
	p.click(".part button", "Verify$")
	p.until(`/OK: 0 of [0-9,]+ integers differ/.test(text())`)
	p.show(`document.querySelector(".view-verify .result")`)
	p.draw("workbench-verify")

	p.view("Export")
	p.click(".part button", "Export")
	p.until(`/Written and verified/.test(text())`)
	p.draw("workbench-export")

	p.view("Compare")
	command(t, dir, "calibrate", "mobilenet_v1.onnx", "--data", args[3], "--preprocess", "imagenet-inception", "--platform", "trt_int8",
		"--observer", "kl", "--samples", "16", "-o", "kl.plan.json")
	p.choose("input[type=text]", "B", "kl.plan.json")
	p.click(".part button", "Compare$")
	p.until(`document.querySelector(".differs")`)
	p.show(`document.querySelector(".differs")`) // which draws it
	p.until(`document.querySelector(".differs canvas")`)
	p.show(`document.querySelector(".view-compare .result .headline")`)
	p.draw("workbench-compare")
}

func picturesOfALanguageModel(t *testing.T, data string) {
	p := withLanguageModel(t, data)
	p.show(`one("h3", "Which matrices suffer")`)
	p.draw("workbench-language")
}

// TestTheLanguageView ranks the matrices of a small language model, measures its loss and continues a text with it.
func TestTheLanguageView(t *testing.T) {
	t.Parallel()
	data := os.Getenv("QWB_TESTDATA")
	if data == "" {
		t.Skip("QWB_TESTDATA is not set: no real models")
	}
	p := withLanguageModel(t, data)
	p.until(`[...document.querySelectorAll(".strip p")].map((l) => l.textContent).join("|").startsWith("line 1 Once ` +
		`upon a time there was Lily. One day")`)
	p.until(`[...document.querySelectorAll(".strip .token")].every((e) => e.style.background && /^NLL .* in float, .* quantized: ` +
		`change .* nats; KL/.test(e.title))`)
	p.until(`new Set([...document.querySelectorAll(".strip .token")].map((e) => e.style.background)).size > 10 && ` +
		`document.querySelector(".strip .token.flip")`)
	p.until(`(() => { // the table has the same figures, the largest first
		const rows = [...all("table.results", "Tokens, the largest change first")[0].querySelectorAll("tbody tr")], of = (r) => Math.abs(Number(r.cells[4].title));
		return rows.length === 15 && rows.every((r, i) => of(r) > 0 && (!i || of(r) <= of(rows[i - 1])) && Math.abs(Number(r.cells[3].title) - Number(r.cells[2].title) - Number(r.cells[4].title)) < 1e-9);
	})()`)
	p.looked("language")
	for name, l := range looks {
		p.do(p.sized(l))
		p.drawn()
		p.shoot("language-" + name)
		var wide float64
		p.js(`document.documentElement.scrollWidth - innerWidth`, &wide)
		assert.LessOrEqual(t, wide, 1.0, name)
	}
	list, count := p.nameless()
	assert.Empty(t, list)
	assert.Greater(t, count, 10)
}

// withLanguageModel is the view after all three measurements of it.
func withLanguageModel(t *testing.T, data string) *tab {
	t.Helper()
	dir := t.TempDir()
	for to, from := range map[string]string{"stories260K.bin": "stories260K.bin", "tok512.bin": "tok512.bin"} {
		b, err := os.ReadFile(filepath.Join(data, "models", "llm", from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), b, 0o600))
	}
	text := ""
	for _, who := range []string{"Lily", "Tom", "a dog", "a bird"} {
		text += "Once upon a time there was " + who + ". One day it was warm and they went to the park to play with a big red ball.\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stories.txt"), []byte(text), 0o600))
	p := open(t, serve(t, dir, "stories260K.bin").url, look{1440, 900, false})
	p.view("Language model")
	p.until(`document.querySelector(".mapped table.heat")`)
	var share float64
	p.js(`((b) => b.width * b.height / innerWidth / innerHeight)(document.querySelector(".mapped .scroll").getBoundingClientRect())`, &share)
	assert.Greater(t, share, 0.55, "the checkpoint's drawing takes less of the window")
	p.do(p.sized(paper))
	p.choose("input[type=text]", "Tokenizer", "tok512.bin")
	p.choose("input[type=range]", "Bits", "4")
	p.choose("input[type=range]", "Group size", "0")
	p.choose("input[type=text]", "Text", "stories.txt")
	p.choose("input[type=number]", "Lines", "4")
	p.click(".part button", "Rank the matrices")
	p.until(`all("table.heat button.cell").length > 20`)
	p.click(".part button", "Measure$")
	p.until(`/perplexity [0-9.]+ → [0-9.]+/.test(text())`)
	p.choose("input[type=number]", "Tokens", "60")
	p.click(".part button", "Generate")
	p.until(`all(".texts .generated").length === 2`)
	return p
}

// show scrolls so that an element stands at the top of what is visible.
func (p *tab) show(element string) {
	p.t.Helper()
	p.js("("+element+").scrollIntoView({block: \"start\"}), true", nil)
}

// draw writes what is visible to the folder of QWB_PICTURES, with a palette: a fourth of the size.
func (p *tab) draw(name string) {
	p.t.Helper()
	p.do(chromedp.Sleep(300e6)) // what is drawn a frame later
	p.js(`document.activeElement.blur(), [...document.querySelectorAll(".stateline .plain")].filter(visible).forEach((b) => b.click()), true`,
		nil)
	ctx, stop := context.WithTimeout(p.ctx, answer)
	defer stop()
	shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	img, err := png.Decode(bytes.NewReader(shot))
	require.NoError(p.t, err)
	var b bytes.Buffer
	require.NoError(p.t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, reduced(img)))
	assert.LessOrEqual(p.t, b.Len(), 120_000, name)
	dir := os.Getenv("QWB_PICTURES")
	require.NoError(p.t, os.MkdirAll(dir, 0o755))
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, name+".png"), b.Bytes(), 0o644))
}

// reduced is a picture in the 128 most frequent of its colours, told apart by five bits of each channel at first.
func reduced(img image.Image) image.Image {
	type group struct{ r, g, b, n int }
	groups, out := map[[3]uint8]*group{}, image.NewPaletted(img.Bounds(), nil)
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA) }
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			c := at(x, y)
			key := [3]uint8{c.R >> 3, c.G >> 3, c.B >> 3}
			if groups[key] == nil {
				groups[key] = &group{}
			}
			g := groups[key]
			g.r, g.g, g.b, g.n = g.r+int(c.R), g.g+int(c.G), g.b+int(c.B), g.n+1
		}
	}
	all := slices.SortedFunc(maps.Values(groups), func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(fmt.Sprint(*a), fmt.Sprint(*b)))
	})
	for _, g := range all[:min(len(all), 128)] {
		out.Palette = append(out.Palette, color.RGBA{uint8(g.r / g.n), uint8(g.g / g.n), uint8(g.b / g.n), 255})
	}
	near := map[color.RGBA]uint8{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			c := at(x, y)
			if _, ok := near[c]; !ok {
				near[c] = uint8(out.Palette.Index(c))
			}
			out.SetColorIndex(x, y, near[c])
		}
	}
	return out
}
