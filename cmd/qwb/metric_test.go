package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/longtest"
)

// metricOf is the first of metrics[] of an eval.
func metricOf(t *testing.T, args ...string) map[string]any {
	t.Helper()
	all := done(t, append(args, "--json")...).object(t)["metrics"].([]any)
	return all[0].(map[string]any)
}

func TestEvalWithoutLabels(t *testing.T) {
	contested(t)
	o := done(t, "eval", "a.plan.json", "--data", "eval", "--mode", "sim", "--json").object(t)
	require.NotContains(t, o, "top1")
	require.NotContains(t, o, "drop")
	require.Positive(t, o["nsr"])
	labelled := done(t, "eval", "a.plan.json", "--data", "eval", "--labels", "labels.tsv", "--mode", "sim", "--json").object(t)
	require.NotContains(t, labelled, "metrics")
	require.Equal(t, labelled["flips"], o["flips"], "flips need no labels")
	list := o["metrics"].([]any)
	require.Len(t, list, 2)
	cosine, top := list[0].(map[string]any), list[1].(map[string]any)
	require.Equal(t, []any{"cosine", "float", 1.0}, []any{cosine["name"], cosine["against"], cosine["float"]})
	require.Equal(t, []any{"top1", "float", 1.0}, []any{top["name"], top["against"], top["float"]})
	require.InDelta(t, 1-o["flip_rate"].(float64), top["value"], 1e-12)
	require.InDelta(t, 100*o["flip_rate"].(float64), top["drop"], 1e-9)

	integers := done(t, "eval", "a.plan.json", "--data", "eval", "--mode", "int8", "--json").object(t)
	require.Contains(t, integers["metrics"].([]any)[0], "sim")
	text := done(t, "eval", "a.plan.json", "--data", "eval", "--mode", "sim").stdout
	require.Regexp(t, `cosine +float +1\.0000 +0\.\d+ +0\.\d+ ± 0\.\d+`, text)
	require.Contains(t, text, "predictions changed")
	require.Contains(t, text, "NSR of the outputs: ")

	fails(t, exitFailed, "24 of 24 samples have no label.*--mode sim or int8", "eval", "a.plan.json", "--data", "eval")
	require.Equal(t, exitCheck, invoke("eval", "a.plan.json", "--data", "eval", "--mode", "sim", "--max-drop", "1e-6").code)
}

func TestEvalMetric(t *testing.T) {
	contested(t)
	eval := []string{"eval", "a.plan.json", "--data", "eval", "--labels", "labels.tsv", "--mode", "sim", "--metric"}
	o := done(t, append(eval, "top1,top3,f1,auc", "--json")...).object(t)
	list := o["metrics"].([]any)
	require.Len(t, list, 4)
	require.InDelta(t, o["drop"], list[0].(map[string]any)["drop"], 1e-9)
	require.InDelta(t, o["top1"].(float64)/24, list[0].(map[string]any)["value"], 1e-12)
	require.Equal(t, "labels", list[1].(map[string]any)["against"])
	require.GreaterOrEqual(t, list[1].(map[string]any)["value"], list[0].(map[string]any)["value"])
	require.Equal(t, done(t, append(eval, "f1,top3", "--json", "--threads", "1")...).object(t)["metrics"].([]any)[0], list[2],
		"whatever stands beside it, for any number of threads")

	fails(t, exitUsage, `--metric: no metric "tpo1".*did you mean "?top1`, append(eval, "tpo1")...)
	fails(t, exitUsage, "top1 and cosine take different labels", append(eval, "top1,cosine")...)
	fails(t, exitUsage, "top3 is there twice", append(eval, "top3,top3")...)
	fails(t, exitUsage, "exclude each other", append(eval, "top3", "--metric-cmd", "true")...)
	fails(t, exitFailed, `metric cosine: labels labels.tsv: |has 10 elements`, append(eval, "cosine")...)
	fails(t, exitFailed, `metric cer: needs --alphabet`, append(eval, "cer")...)
	fails(t, exitFailed, `metric map: labels labels.tsv: not COCO's JSON`, append(eval, "map")...)
	fails(t, exitFailed, `f32\[1,10\]; a map of classes is`, append(eval, "miou")...)
	fails(t, exitFailed, `f32\[1,10\]; boxes are float32 \[N, 6\]`, "eval", "a.plan.json", "--data", "eval", "--mode", "sim",
		"--metric", "map")
	fails(t, exitFailed, `none.txt: `, append(eval, "top1", "--alphabet", "none.txt")...)
}

// TestEvalOfText: a network that writes text is scored by its labels, by its alphabet.
func TestEvalOfText(t *testing.T) {
	t.Chdir(t.TempDir())
	saveModel(t, "m.onnx", "opset 17\ninput x: f32[1,4,3]\ny = Softmax(x) {axis=-1}\noutput y: f32[1,4,3]\n")
	require.NoError(t, os.Mkdir("data", 0o755))
	for i, classes := range [][]int{{1, 0, 2, 2}, {2, 2, 2, 1}} {
		x := tensor.New(tensor.Float32, 1, 4, 3)
		for s, c := range classes {
			x.F32()[3*s+c] = 1
		}
		saveArray(t, filepath.Join("data", fmt.Sprintf("%d.npy", i)), x)
	}
	write(t, "alphabet.txt", []byte("\na\nb\n"))
	write(t, "labels.tsv", []byte("file\ttext\n0.npy\tab\n1.npy\tbb\n"))
	eval := []string{"eval", "m.onnx", "--data", "data", "--labels", "labels.tsv", "--alphabet", "alphabet.txt", "--metric"}
	require.InDelta(t, 0.25, metricOf(t, append(eval, "cer")...)["value"], 0, "ab is right, ba is one edit from bb")
	require.InDelta(t, 0.5, metricOf(t, append(eval, "em")...)["value"], 0)
	fails(t, exitUsage, "no metric here asks for classes", append(eval, "em", "--answers", "a.tsv")...)
	write(t, "alphabet.txt", []byte("\na\n"))
	fails(t, exitFailed, "3 classes and the alphabet 2 lines", append(eval, "cer")...)
}

func TestMetricCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a Unix shell")
	}
	t.Setenv("TMPDIR", t.TempDir())
	contested(t)
	eval := []string{"eval", "a.plan.json", "--data", "eval", "--labels", "labels.tsv", "--mode", "sim", "--metric-cmd"}
	m := metricOf(t, append(eval, `while read l; do case $l in *'"label":3,'*) echo '{"value":1,"weight":3}';; `+
		`*) echo '{"value":0.5}';; esac; done`)...)
	require.Equal(t, "command", m["name"])
	three := 0.0
	for _, line := range strings.Fields(string(read(t, "labels.tsv"))) {
		if line == "3" {
			three++
		}
	}
	require.InDelta(t, (3*three+0.5*(24-three))/(3*three+24-three), m["value"], 1e-12, "the weighted mean")
	require.Zero(t, m["drop"])
	require.InDelta(t, 128+4*10,
		metricOf(t, append(eval, `while read l; do f=${l##*'"file":"'}; f=${f%%'"'*}; echo "{\"value\":$(wc -c < "$f")}"; done`)...)["value"], 0,
		"the output is an npy file")
	for command, want := range map[string]string{
		"exit 4":                  `"exit 4": ended without an answer: exit status 4`,
		"exit 0":                  "has to answer every line",
		"echo hi; cat >/dev/null": `answered "hi"`,
		`echo '{"value":1,"wight":2}'; cat > /dev/null`:     "an answer is one line",
		`echo '{"weight":2}'; cat > /dev/null`:              "an answer is one line",
		`echo '{"value":1,"weight":-2}'; cat > /dev/null`:   "negative weight",
		`echo '{"value":1e999,"weight":1}'; cat >/dev/null`: "an answer is one line",
	} {
		fails(t, exitFailed, want, append(eval, command)...)
	}
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left, "the folder of the outputs is gone")

	// One that never answers is stopped by an interruption.
	ctx, stop := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer stop()
	start := time.Now()
	r := invokeContext(ctx, watcher{}, append(eval, "cat > /dev/null")...)
	require.Equal(t, exitFailed, r.code)
	require.Less(t, time.Since(start), longtest.Hang)
}

// TestSearchByMetric: a budget may be on any metric.
func TestSearchByMetric(t *testing.T) {
	contested(t)
	saveInputs(t, "many", 950, 120, 1, 3, 8, 8)
	budget := 0.8 * metricOf(t, "eval", "b.plan.json", "--data", "many", "--mode", "sim", "--metric", "cosine")["drop"].(float64)
	r := done(t, "dispatch", "b.plan.json", "--auto", "--metric", "cosine", "--max-drop", fmt.Sprint(budget), "--data", "many",
		"--json").object(t)
	goal := r["goal"].(map[string]any)
	require.Equal(t, []any{"cosine", budget}, []any{goal["metric"], goal["budget"]})
	require.NotEmpty(t, r["fp32"])
	held := r["held_out"].(map[string]any)
	require.LessOrEqual(t, held["upper"], budget)
	require.Positive(t, held["value"])
	fails(t, exitUsage, "a budget is on one metric", "dispatch", "a.plan.json", "--auto", "--metric", "top1,top3", "--max-drop", "1",
		"--data", "many")
}
