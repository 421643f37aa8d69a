package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// several has one result in floats of all types, as classes, and as numbers cut to integers.
const several = `
graph several
opset 17
input x: f32[1,3,8,8]
const w: f32[8,3,3,3] = normal(seed=3, std=0.3)
const shape: i64[2] = [1, 8]
const big: f32[] = 1e4
c = Conv(x, w) {pads=[1, 1, 1, 1]} "c_n"
p = GlobalAveragePool(c) "p_n"
s = Reshape(p, shape) "s_n"
half = Cast(s) {to=10} "half_n"
brain = Cast(s) {to=16} "brain_n"
double = Cast(s) {to=11} "double_n"
class = ArgMax(s) {axis=1, keepdims=0} "class_n"
large = Mul(s, big) "large_n"
cut = Cast(large) {to=7} "cut_n"
output s: f32[1,8]
output half: f16[1,8]
output brain: bf16[1,8]
output double: f64[1,8]
output class: i64[1]
output cut: i64[1,8]
`

// Floats of every type are compared as numbers, integers as shares that differ; --output says which one a metric reads, and the share of
// the work on integers stands in the last line.
func TestOutputsOfAllTypes(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", several)
	saveInputs(t, "calib", 1, 12, 1, 3, 8, 8)
	saveInputs(t, "eval", 100, 16, 1, 3, 8, 8)
	r := done(t, "calibrate", "m.onnx", "--data", "calib", "--platform", "onnxruntime", "--border-cost", "0", "-o", "m.plan.json")
	for _, r := range []result{r, done(t, "verify", "m.plan.json"), done(t, "export", "m.plan.json", "-o", "o.onnx")} {
		assert.Regexp(t, `[0-9]+ % of the work on integers$`, strings.TrimSpace(r.stdout))
	}

	by := map[string]map[string]any{}
	for _, o := range done(t, "analyze", "m.plan.json", "--graphwise", "--data", "eval", "--json").object(t)["outputs"].([]any) {
		o := o.(map[string]any)
		by[o["output"].(string)] = o
	}
	want := by["s"]["nsr"].(float64)
	require.Positive(t, want)
	for _, name := range []string{"half", "brain", "double"} {
		assert.InEpsilon(t, want, by[name]["nsr"], 0.05, name)
	}
	for _, name := range []string{"class", "cut"} {
		assert.Equal(t, true, by[name]["integer"], name)
	}
	text := done(t, "analyze", "m.plan.json", "--graphwise", "--data", "eval").stdout
	assert.Regexp(t, `cut +[0-9.]+ % differ`, text)
	assert.Contains(t, text, "cut: no signal left: ")
	for _, mode := range []string{"sim", "int8"} {
		assert.Contains(t, done(t, "compare", "m.plan.json", "m.onnx", "--mode", mode, "--data", "eval").stdout, "cut: no signal left: ", mode)
		for _, name := range []string{"half", "brain", "double"} {
			text := done(t, "eval", "m.plan.json", "--mode", mode, "--data", "eval", "--metric", "cosine", "--output", name).stdout
			assert.Contains(t, text, "cosine", fmt.Sprint(mode, name))
		}
	}
	checks, _ := gated(t, exitCheck, "m.plan.json", "--max-nsr", "0.5", "--data", "eval")
	assert.Contains(t, checks, "signal of cut")
	fails(t, exitUsage, "none", "eval", "m.plan.json", "--mode", "sim", "--data", "eval", "--metric", "cosine", "--output", "none")
}

// Where no output is float, sweep, the HTML report and the page speak of mismatches.
func TestIntegerOutputsAreSharesThatDiffer(t *testing.T) {
	inFolder(t)
	text := several
	for _, out := range []string{"s: f32[1,8]", "half: f16[1,8]", "brain: bf16[1,8]", "double: f64[1,8]", "class: i64[1]"} {
		text = strings.Replace(text, "output "+out+"\n", "", 1)
	}
	saveModel(t, "m.onnx", text)
	saveInputs(t, "calib", 1, 32, 1, 3, 8, 8)
	r := done(t, "sweep", "m.onnx", "--data", "calib", "--platforms", "onnxruntime", "--observers", "minmax,mse")
	assert.Contains(t, r.stdout, "output mismatches")
	assert.NotContains(t, r.stdout, "NSR")
	done(t, "analyze", "m.plan.json", "--graphwise", "--data", "calib", "--html", "m.html")
	page, err := os.ReadFile("m.html")
	require.NoError(t, err)
	assert.Regexp(t, `"output":"cut"[^{}]*"mismatches":true|"mismatches":true[^{}]*"output":"cut"`, string(page))
	assert.NotRegexp(t, `"mismatches":true[^{}]*"level":"(small|visible|large)"`, string(page))
}

// An integer output beside float ones stands in each row of a sweep, as the share that differs, which is that of eval.
func TestSweepShowsIntegerOutputs(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", several)
	saveInputs(t, "calib", 1, 32, 1, 3, 8, 8)
	args := []string{"sweep", "m.onnx", "--data", "calib", "--platforms", "onnxruntime", "--observers", "minmax,mse"}
	assert.Regexp(t, `output NSR .* class mismatches +cut mismatches`, done(t, args...).stdout)
	for _, row := range done(t, append(args, "--fresh", "--json")...).object(t)["rows"].([]any) {
		list := row.(map[string]any)["integer_outputs"].([]any)
		require.Len(t, list, 2)
		for i, name := range []string{"class", "cut"} {
			o := list[i].(map[string]any)
			assert.Equal(t, []any{name, true}, []any{o["output"], o["mismatch"]})
		}
		assert.Positive(t, list[1].(map[string]any)["nsr"], "some of the numbers that were cut are others")
	}
}
