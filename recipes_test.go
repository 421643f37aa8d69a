package qwb

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"qwb/quantizer/decision"
)

// placeFiles makes a project of files with so many samples in data, and goes to its folder.
func placeFiles(t *testing.T, samples int) *Project {
	t.Helper()
	t.Chdir(t.TempDir())
	saveNetwork(t, "m.onnx")
	saveInputs(t, "data", samples)
	return &Project{Model: "m.onnx", Plan: "m.plan.json", Catalog: Catalog{Version: "0.0.0", Now: time.Now}}
}

// files are the contents of the files of the current folder, without samples.
func filesHere(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() && e.Name() != "m.runs.jsonl" {
			all[e.Name()] = string(read(t, e.Name()))
		}
	}
	return all
}

const wholeRecipe = `- select: type:Softmax
  optional: true
  domain: fp32
- select: conv1
  per_tensor: true
- tune: {method: bias, budget: 5000forwards}
- select: conv2:in0
  observer: percentile(0.99)
- gate: {max_nsr: 0.5, data: data, samples: 8}
`

// A recipe with all kinds of steps: applied twice it gives the same bytes, on a plan of its own and over what somebody decided since; the
// recipe of that plan gives it again.
func TestRecipeAppliedTwice(t *testing.T) {
	ctx := context.Background()
	p := placeFiles(t, 48)
	put(t, OS{}, "r.yaml", []byte(wholeRecipe))
	o := CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"data"}}, Recipes: []string{"r.yaml"}, Threads: 2}
	r, _, err := p.Calibrate(ctx, o)
	require.NoError(t, err)
	require.Len(t, r.Tuned, 1)
	require.Len(t, r.Gates, 1)
	require.True(t, r.Gates[0].Held)
	require.Equal(t, 9, r.Gates[0].Line)
	first := filesHere(t)
	list := planIn(t, p).Decisions
	var by []decision.By
	for _, d := range list {
		by = append(by, d.By)
	}
	require.Equal(t, []decision.By{decision.ByCalibrate, decision.ByTarget, decision.ByRecipe, decision.ByTune}, by[:4])
	require.Equal(t, decision.ByRecipe, by[len(by)-1])
	derivesAgain(t, p)

	r, _, err = p.Calibrate(ctx, o)
	require.NoError(t, err)
	require.Empty(t, r.Tuned, "what is there is not tuned again")
	require.Len(t, r.Gates, 1)
	require.Equal(t, first, filesHere(t))

	o.Data = DataOptions{} // without data, from the statistics
	_, _, err = p.Calibrate(ctx, o)
	require.NoError(t, err)
	require.Equal(t, first, filesHere(t))

	_, _, err = p.Set(ctx, "gemm", []string{"domain=fp32"}, 1)
	require.NoError(t, err)
	set := filesHere(t)
	_, _, err = p.Calibrate(ctx, o)
	require.NoError(t, err)
	require.Equal(t, set, filesHere(t), "what was decided since stays")
	_, _, err = p.Undo(ctx, 1)
	require.NoError(t, err)

	own, _, err := p.Recipe(ctx)
	require.NoError(t, err)
	require.Equal(t, ownRecipe, string(own))
	put(t, OS{}, "own.yaml", own)
	o.Recipes, o.Fresh = []string{"own.yaml"}, true
	for range 2 {
		_, _, err = p.Calibrate(ctx, o)
		require.NoError(t, err)
		require.Equal(t, first["m.plan.json"], string(read(t, "m.plan.json")))
		again, _, err := p.Recipe(ctx)
		require.NoError(t, err)
		require.Equal(t, string(own), string(again))
	}

	elsewhere := placeFiles(t, 48)
	put(t, OS{}, "r.yaml", []byte(wholeRecipe))
	_, _, err = elsewhere.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"data"}},
		Recipes: []string{"r.yaml"}, Threads: 7})
	require.NoError(t, err)
	for name, b := range first {
		if !strings.HasSuffix(name, ".bak") {
			require.Equal(t, b, string(read(t, name)), name)
		}
	}
}

// ownRecipe is what plan recipe writes of wholeRecipe: no gates, nothing that was left out.
const ownRecipe = `# a recipe: qwb calibrate MODEL --data D --platform P --recipe FILE
- select: conv1
  per_tensor: true
- tune: {method: bias, budget: "5000 forwards"}
- select: conv2:in0
  observer: percentile(0.99)
`

// A tuning that keeps nothing is remembered: the steps behind it are found again.
func TestRecipeRemembersATuningThatKeptNothing(t *testing.T) {
	ctx := context.Background()
	p := placeFiles(t, 48)
	put(t, OS{}, "r.yaml", []byte("- tune: {method: bias, budget: 1forwards}\n- select: conv1\n  domain: fp32\n"))
	o := CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"data"}}, Recipes: []string{"r.yaml"}, Threads: 2}
	_, _, err := p.Calibrate(ctx, o)
	require.NoError(t, err)
	list := planIn(t, p).Decisions
	require.Equal(t, decision.ByTune, list[2].By)
	require.Empty(t, list[2].Overlay)
	first := filesHere(t)
	_, _, err = p.Calibrate(ctx, o)
	require.NoError(t, err)
	require.Equal(t, first, filesHere(t))
}

// A preset may tune behind calibration: its report comes with the result, nothing is hinted at that it does, and twice is once.
func TestPresetThatTunes(t *testing.T) {
	ctx := context.Background()
	p := placeFiles(t, 48)
	o := CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"data"}}, Threads: 2,
		Recipes: []string{"preset:corrected"}}
	r, _, err := p.Calibrate(ctx, o)
	require.NoError(t, err)
	require.Nil(t, r.Hint)
	require.Len(t, r.Tuned, 1)
	var names []string
	for _, m := range r.Tuned[0].Methods {
		names = append(names, m.Name)
	}
	require.Equal(t, []string{"spread", "migrate", "bias"}, names)
	require.Less(t, r.Tuned[0].After.NSR, r.Tuned[0].Before.NSR)
	require.NotEmpty(t, r.Tuned[0].Overlay)
	first := filesHere(t)
	_, _, err = p.Calibrate(ctx, o)
	require.NoError(t, err)
	require.Equal(t, first, filesHere(t))
}

// A gate that is missed, a step that cannot be carried out: an error with the line, and no file of the plan changes. The statistics stay.
func TestRecipeAllOrNothing(t *testing.T) {
	ctx := context.Background()
	p := placeFiles(t, 48)
	o := CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"data"}}, Recipes: []string{"r.yaml"}, Threads: 2}
	run := func(text string) (*CalibrateResult, error) {
		put(t, OS{}, "r.yaml", []byte(text))
		r, _, err := p.Calibrate(ctx, o)
		return r, err
	}
	missed := "- select: conv1\n  domain: fp32\n- tune: {method: bias, budget: 5000forwards}\n- gate:\n    max_nsr: 1e-9\n    data: data\n"
	r, err := run(missed)
	require.ErrorAs(t, err, new(CheckError))
	require.ErrorContains(t, err, "r.yaml:4: gate missed: nsr")
	require.False(t, r.Gates[0].Held)
	require.FileExists(t, "m.stats")
	require.NoFileExists(t, "m.plan.json")
	entries, err := filepath.Glob("*")
	require.NoError(t, err)
	require.Len(t, entries, 4, "%v", entries) // no outcome of a plan that is not there: data, model, statistics, recipe

	o.Data = DataOptions{}
	_, err = run("[]")
	require.NoError(t, err)
	_, _, err = p.Set(ctx, "conv1", []string{"domain=fp32"}, 1)
	require.NoError(t, err)
	put(t, OS{}, "r.yaml", nil)
	before := filesHere(t)
	for text, want := range map[string]string{
		missed:                                               "r.yaml:4: gate missed",
		"- tune: {method: [bias, bais]}":                     `r.yaml:1: unknown method "bais"`,
		"- tune: {method: bias, budget: 10m}":                "r.yaml:1: budget 10m",
		"- tune: {method: bias, budget: many}":               "r.yaml:1: --budget many",
		"- observer: kl\n\n- select: conv77\n  domain: fp32": `r.yaml:3: selector "conv77" matches no node`,
		"- observer: acme/x":                                 "r.yaml:1: unknown observer",
		"- observer: kl\n  dispatcher: best":                 "r.yaml:2: ",
		"- select: conv1\n  domain: int\n- select: conv2\n  weights: nf4-sym-channel": "r.yaml:3: configure: node",
		"- gate: {max_nsr: 1}\n- select: conv2\n  weights: nf4-sym-channel":           "r.yaml:2: configure: node",
		"- gate: {max_nsr: 1, data: nowhere}":                                         "r.yaml:1: ",
		"- gate: {max_drop: 1, data: data, labels: none.tsv}":                         "r.yaml:1: ",
	} {
		_, err := run(text)
		require.ErrorContains(t, err, want, text)
		put(t, OS{}, "r.yaml", nil)
		require.Equal(t, before, filesHere(t), text)
	}
}
