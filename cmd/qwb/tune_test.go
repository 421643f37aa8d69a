package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/graph/onnx"
)

// means is a network whose activations lie far from zero, so that few weights of few values shift what follows: bias correction helps.
const means = `graph means
opset 13
input x: f32[1,8,20,20]
const w1: f32[16,8,3,3] = normal(seed=1, std=0.2)
const b1: f32[16] = normal(seed=2, std=4)
const w2: f32[16,16,3,3] = normal(seed=3, std=0.1)
const b2: f32[16] = normal(seed=4, std=4)
const w3: f32[32,16,1,1] = normal(seed=5, std=0.3)
const w4: f32[32,8] = normal(seed=8, std=0.3)
c1 = Conv(x, w1, b1) {pads=[1,1,1,1]} "c1"
r1 = Relu(c1)
c2 = Conv(r1, w2, b2) {pads=[1,1,1,1]} "c2"
r2 = Relu(c2)
c3 = Conv(r2, w3) "c3"
r3 = Relu(c3)
g = GlobalAveragePool(r3)
f = Flatten(g)
l = MatMul(f, w4)
y = Softmax(l)
output y
`

// tunable makes a folder with a calibrated plan and data of which about half is held out.
func tunable(t *testing.T, platform string) {
	t.Helper()
	inFolder(t)
	saveModel(t, "m.onnx", means)
	saveInputs(t, "data", 100, 48, 1, 8, 20, 20)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", platform)
}

func TestTuneWritesAnOverlayThatEveryCommandRunsOn(t *testing.T) {
	for _, platform := range []string{"trt_int8", "onnxruntime"} {
		t.Run(platform, func(t *testing.T) {
			tunable(t, platform)
			plan, model := read(t, "m.plan.json"), read(t, "m.onnx")
			before := done(t, "analyze", "--json", "--graphwise").object(t)
			done(t, "export", "--platform", platform, "-o", "before.onnx")
			r := done(t, "tune", "--method", "bias", "--json").object(t)
			for _, key := range []string{"plan", "overlay", "samples", "held_out", "held_out_kind", "before", "after", "methods"} {
				require.Contains(t, r, key)
			}
			require.Equal(t, "unseen", r["held_out_kind"])
			require.Equal(t, 48.0, r["samples"])
			require.Equal(t, "simulation", r["judged"])
			nsr := func(at string) float64 { return r[at].(map[string]any)["nsr"].(float64) }
			require.Less(t, nsr("after"), nsr("before"))
			method := r["methods"].([]any)[0].(map[string]any)
			require.Equal(t, "bias", method["name"])
			require.Positive(t, method["kept"])
			require.Equal(t, model, read(t, "m.onnx"), "the model is never changed")

			file := r["overlay"].(string)
			require.FileExists(t, file)
			list, err := qwb.OverlayFiles(qwb.OS{}, "m.plan.json")
			require.NoError(t, err)
			require.Equal(t, []string{file}, list)

			after := done(t, "analyze", "--json", "--graphwise").object(t)
			centred := func(o map[string]any) float64 {
				return o["outputs"].([]any)[0].(map[string]any)["centred"].(map[string]any)["nsr"].(float64)
			}
			require.Less(t, centred(after), centred(before), "analyze runs the tuned graph and compares it with the float one")
			v := done(t, "verify", "--samples", "2", "--json").object(t)
			require.Contains(t, []any{"equal", "ties"}, v["verdict"])
			done(t, "export", "--platform", platform, "-o", "after.onnx")
			require.NotEqual(t, biases(t, "before.onnx"), biases(t, "after.onnx"))
			if platform == "onnxruntime" {
				done(t, "export", "--format", "c", "-o", "m.c")
			}

			// Tuning again starts from there, and never overwrites.
			done(t, "tune", "--method", "bias", "--force")
			require.FileExists(t, file)

			// Another content, and none.
			kept := read(t, file)
			tunedPlan := read(t, "m.plan.json.bak")
			write(t, "m.plan.json", tunedPlan)
			write(t, file, flip(kept, 1, 1))
			fails(t, exitFailed, "the tuned values were changed", "verify", "--samples", "2")
			require.NoError(t, os.Remove(file))
			fails(t, exitFailed, "the tuned values are gone", "export", "--platform", platform, "-o", "gone.onnx")

			// The plan from before is whole without it.
			write(t, "m.plan.json", plan)
			done(t, "export", "--platform", platform, "-o", "again.onnx")
			require.Equal(t, biases(t, "before.onnx"), biases(t, "again.onnx"))
		})
	}
}

// biases lists the constants of one dimension of an ONNX file.
func biases(t *testing.T, file string) [][]byte {
	t.Helper()
	m, _, err := onnx.Open(file)
	require.NoError(t, err)
	defer m.Close()
	var list [][]byte
	for _, v := range m.Graph.Values() {
		if c := m.Graph.Const(v); c != nil && len(c.Shape) == 1 && len(c.F32())+c.Len() > 0 {
			switch d := c.Data.(type) {
			case []float32:
				for _, x := range d {
					list = append(list, []byte(strings.TrimSpace(string(rune(int(x*1e4))))))
				}
			case []int32:
				for _, x := range d {
					list = append(list, []byte{byte(x), byte(x >> 8), byte(x >> 16), byte(x >> 24)})
				}
			}
		}
	}
	return list
}

func TestTuneFromStatistics(t *testing.T) {
	tunable(t, "onnxruntime")
	r := done(t, "tune", "--method", "bias-analytic", "--json").object(t)
	require.Positive(t, r["methods"].([]any)[0].(map[string]any)["kept"])
	r = done(t, "tune", "--method", "auto", "--json", "--budget", "100000forwards").object(t)
	require.Contains(t, methodNames(r), "bias-analytic")
	require.Equal(t, 100000.0, r["budget"])
	require.Less(t, r["work"], 100000.0)
	log := done(t, "plan", "log").stdout
	require.Contains(t, log, "bias-analytic: kept at ")
	require.Contains(t, log, " held-out samples (unseen) of 48: ")
	require.NoFileExists(t, "m.tuning")

	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "--observer", "minmax", "--minmax-only", "-o",
		"few.plan.json")
	fails(t, exitFailed, "the statistics have no sums", "tune", "few.plan.json", "--method", "bias-analytic")
	auto := done(t, "tune", "few.plan.json", "--method", "auto", "--json")
	require.Contains(t, auto.stderr, "the statistics lack histograms")
	names := methodNames(auto.object(t))
	require.Contains(t, names, "bias")
	require.NotContains(t, names, "bias-analytic")
}

// methodNames are the methods that tune --json says it ran.
func methodNames(r map[string]any) (names []string) {
	for _, m := range r["methods"].([]any) {
		names = append(names, m.(map[string]any)["name"].(string))
	}
	return names
}

func TestStaleTuningIsNotApplied(t *testing.T) {
	tunable(t, "trt_int8")
	done(t, "tune", "--method", "bias", "--force")
	// The weights get other scales.
	r := done(t, "set", "*:weight", "observer=mse")
	require.Contains(t, r.stderr, "tuned values do not fit any more at", "the command that did it says so")
	r = invoke("analyze", "--json", "--graphwise")
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "tuned values do not fit any more at"), "one line, however many")
	r = done(t, "plan", "undo")
	require.NotContains(t, r.stderr, "not applied")
	done(t, "plan", "redo")
	for _, args := range [][]string{{"verify", "--samples", "2"}, {"export", "--platform", "trt_int8", "-o", "q.onnx"}} {
		r := invoke(args...)
		require.Equal(t, exitCheck, r.code, r.stderr)
		require.Contains(t, r.lastLine(), "qwb tune again")
	}
	_, err := os.Stat("q.onnx")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTuneRefuses(t *testing.T) {
	tunable(t, "trt_int8")
	fails(t, exitUsage, `unknown method "banana": auto or`, "tune", "--method", "banana")
	fails(t, exitUsage, "--budget soon", "tune", "--method", "bias", "--budget", "soon")
	require.NoError(t, os.RemoveAll("data"))
	fails(t, exitFailed, "data", "tune", "--method", "bias")
	saveInputs(t, "few", 900, 12, 1, 8, 20, 20)
	before := tree(t, ".")
	fails(t, exitCheck, "12 samples can confirm nothing: give at least 16 that differ", "tune", "--method", "bias", "--data", "few")
	require.Equal(t, before, tree(t, "."))
	done(t, "tune", "--method", "bias", "--data", "few", "--force")
	files, err := filepath.Glob("*.safetensors")
	require.NoError(t, err)
	require.Len(t, files, 1)
	done(t, "set", "*", "domain=fp32")
	fails(t, exitFailed, "nothing is quantized in", "tune", "--data", "few")
}

// Scales of activations that tuning chose are decisions: they stand in the log, later commands derive them again, and undo takes them back.
func TestTunedRangesAreDecisions(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", means)
	saveInputs(t, "data", 100, 48, 1, 8, 20, 20)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "--observer", "percentile(0.9)")
	before := read(t, "m.plan.json")
	r := done(t, "tune", "--method", "range", "--json").object(t)
	require.Less(t, r["after"].(map[string]any)["nsr"], 0.2*r["before"].(map[string]any)["nsr"].(float64))
	log := done(t, "plan", "log").stdout
	require.Regexp(t, `tune: \S+ observer=`, log)
	done(t, "plan", "rederive")
	require.Contains(t, []any{"equal", "ties"}, done(t, "verify", "--samples", "2", "--json").object(t)["verdict"])
	done(t, "export", "--platform", "onnxruntime", "-o", "after.onnx")
	after := done(t, "analyze", "--json", "--graphwise").object(t)
	require.NotEmpty(t, after)
	done(t, "plan", "undo")
	plan := func(text string) string { return text[strings.Index(text, `"nodes"`):] }
	require.Equal(t, plan(string(before)), plan(string(read(t, "m.plan.json"))))

	done(t, "set", "c1:out0", "observer=percentile(0.9)") // what somebody decided stays
	done(t, "tune", "--method", "range", "--json")
	require.NotContains(t, done(t, "plan", "log").stdout, "tune: c1:out0")
}
