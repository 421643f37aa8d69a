package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/analysis"
)

// detector puts boxes of hundreds and scores below 1 into one tensor.
const detector = `
graph detector
opset 17
input x: f32[1,3,8,8]
const w: f32[16,3,3,3] = normal(seed=3, std=0.3)
const wb: f32[4,16,1,1] = normal(seed=4, std=0.3)
const ws: f32[8,16,1,1] = normal(seed=5, std=0.5)
const size: f32[1] = fill(300)
c = Conv(x, w) {pads=[1, 1, 1, 1]} "c_n"
r = Relu(c) "r_n"
b = Conv(r, wb) "b_n"
boxes = Mul(b, size) "boxes_n"
s = Conv(r, ws) "s_n"
scores = Sigmoid(s) "scores_n"
y = Concat(boxes, scores) {axis=1} "y_n"
output y: f32[1,12,8,8]
`

// Scores that are all one value beside boxes are found by every command that judges, though the NSR of the whole output is small.
func TestScoresBesideBoxesAreJudged(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", detector)
	saveInputs(t, "calib", 1, 12, 1, 3, 8, 8)
	saveInputs(t, "eval", 100, 16, 1, 3, 8, 8)
	data := []string{"--data", "eval"}
	calibrate := done(t, "calibrate", "m.onnx", "--data", "calib", "--platform", "qnn", "--border-cost", "0", "-o", "m.plan.json")
	assert.Contains(t, calibrate.stderr, "this plan is bad")

	r := done(t, append([]string{"analyze", "m.plan.json", "--json", "--layerwise", "--graphwise"}, data...)...).object(t)
	out := r["outputs"].([]any)[0].(map[string]any)
	assert.Less(t, out["nsr"], 1e-3, "the whole output")
	by := map[string]map[string]any{}
	for _, s := range out["slices"].([]any) {
		by[s.(map[string]any)["name"].(string)] = s.(map[string]any)
	}
	assert.Equal(t, analysis.SignalLost, by["scores"]["finding"])
	assert.Equal(t, []any{false, true}, []any{by["scores"]["signal"], by["boxes"]["signal"]})
	advice := r["advice"].([]any)
	require.NotEmpty(t, advice)
	assert.Equal(t, "qwb set m.plan.json y_n domain=fp32", advice[0].(map[string]any)["command"])

	checks, _ := gated(t, exitCheck, append([]string{"m.plan.json", "--max-nsr", "0.01"}, data...)...)
	assert.Contains(t, checks, "NSR of scores")
	fails(t, exitUsage, "no part of an output is called that",
		append([]string{"gate", "m.plan.json", "--max-nsr", "0.01", "--slice", "none"}, data...)...)

	const lost = "scores (4..11 of axis 1 of y): no signal left"
	r = done(t, append([]string{"analyze", "m.plan.json", "--json", "--explain"}, data...)...).object(t)
	causes := r["explained"].(map[string]any)["outputs"].([]any)[0].(map[string]any)["slices"].([]any)
	assert.Contains(t, fmt.Sprint(causes), "name:scores")
	assert.Contains(t, done(t, append([]string{"certify", "m.plan.json", "-o", "c.json"}, data...)...).stdout, lost)
	assert.Contains(t, invoke("gate", "c.json", "--max-nsr", "0.01").stdout, "\n"+lost)
	_, held := gated(t, exitDone, append([]string{"m.plan.json", "--max-nsr", "0.01", "--slice", "boxes"}, data...)...)
	assert.Contains(t, held.stdout, `"headlines": [
    "`+lost, "a gate that holds")
	checks, _ = gated(t, exitCheck, "c.json", "--max-nsr", "0.01")
	assert.Contains(t, checks, "NSR of scores")
	assert.Contains(t, done(t, append([]string{"eval", "m.plan.json", "--mode", "sim"}, data...)...).stdout, "of part scores of output y: ")

	done(t, "set", "m.plan.json", "y_n", "domain=fp32")
	gated(t, exitDone, append([]string{"m.plan.json", "--max-nsr", "0.02"}, data...)...)

	write(t, "s.tsv", []byte("# groups\nlow\t1\t0\t4\nhigh\t1\t4\t12\ty\n"))
	out = done(t, append([]string{"analyze", "m.plan.json", "--json", "--graphwise", "--slices", "s.tsv"},
		data...)...).object(t)["outputs"].([]any)[0].(map[string]any)
	require.Len(t, out["slices"], 2)
	gated(t, exitDone, append([]string{"m.plan.json", "--max-nsr", "0.02", "--slice", "high"}, data...)...) // of the last analysis
	for text, want := range map[string]string{"low\t1\t0": "with tabs between", "low\t7\t0\t4": "no axis 7",
		"low\t1\t0\t13": "no part of axis 1", "low\t1\ta\t4": "no number",
		"low\t1\t0\t4\tz": "no output", "a\t1\t0\t4\na\t1\t4\t5": "twice", "#": "no line names a slice"} {
		write(t, "bad.tsv", []byte(text))
		fails(t, exitFailed, want, append([]string{"gate", "m.plan.json", "--max-nsr", "1", "--slices", "bad.tsv"}, data...)...)
	}
}
