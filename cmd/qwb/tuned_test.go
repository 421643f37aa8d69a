package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/analysis"
	"qwb/calib/tune"
	"qwb/internal/longtest"
	"qwb/quantizer/plan"
)

// depthwise is a network of what mobile networks are made of, with channels of very different ranges in front of depthwise convolutions.
const depthwise = `graph depthwise
opset 13
input x: f32[1,3,12,12]
const w1: f32[16,3,3,3] = normal(seed=1, std=0.4)
const b1: f32[16] = normal(seed=2, std=2)
const wd: f32[16,1,3,3] = normal(seed=3, std=0.5)
const bd: f32[16] = normal(seed=4, std=1)
const wp: f32[16,16,1,1] = normal(seed=5, std=0.3)
const bp: f32[16] = normal(seed=6, std=1)
const wf: f32[10,16] = normal(seed=7, std=0.5)
const bf: f32[10] = normal(seed=8)
c1 = Conv(x, w1, b1) {pads=[1,1,1,1], strides=[2,2]} "first"
r1 = Relu(c1) "relu1"
d = Conv(r1, wd, bd) {pads=[1,1,1,1], group=16} "depth"
r2 = Relu(d) "relu2"
p = Conv(r2, wp, bp) "point"
a = Add(p, r1) "add"
g = GlobalAveragePool(a) "mean"
f = Flatten(g) "flat"
l = Gemm(f, wf, bf) {transB=1} "classify"
y = Softmax(l) "softmax"
output y
`

// downstream holds what has to hold of a tuned plan on every platform: it simulates, verifies with no differing integer, is exported in
// every format, and what is exported computes what is simulated.
func downstream(t *testing.T, platform string) {
	t.Helper()
	var v analysis.Verification
	require.NoError(t, json.Unmarshal([]byte(done(t, "verify", "--samples", "2", "--json").stdout), &v))
	require.Contains(t, []string{analysis.VerdictEqual, analysis.VerdictTies}, v.Verdict)
	done(t, "analyze", "--graphwise", "--samples", "2", "--json")
	done(t, "export", "--platform", platform, "-o", "tuned.onnx")
	require.NoError(t, os.MkdirAll("back", 0o755))
	back := done(t, "import", "tuned.onnx", "-o", "back/tuned.plan.json", "--platform", platform, "--json").object(t)
	require.Empty(t, back["warnings"])
	d := done(t, "diff", "m.plan.json", "back/tuned.plan.json", "--json").object(t)
	require.Equal(t, true, d["equal"], "the file holds the integers of the tuned plan: %v", d["differences"])
	for _, format := range []string{"c", "vectors", "patterns"} {
		out := filepath.Join("formats", format)
		if format == "c" {
			out += ".c"
		}
		require.NoError(t, os.MkdirAll("formats", 0o755))
		done(t, "export", "--format", format, "-o", out)
	}
	require.NoError(t, os.RemoveAll("formats"))
}

// Every method, on half of the platforms whose files have the plan's nodes: what it makes of a plan goes through everything behind it, is
// told by the log, is undone, and done again to the same bytes.
func TestTunedPlansDownstream(t *testing.T) {
	for k, platform := range qwb.SweepPlatforms {
		for i, m := range tune.Methods {
			if (i+k)%2 != 0 || !longtest.Wanted(t) && i != k%len(tune.Methods) {
				continue // each method on two platforms; one for each platform
			}
			t.Run(platform+" "+m.Name, func(t *testing.T) {
				inFolder(t)
				saveModel(t, "m.onnx", depthwise)
				saveInputs(t, "data", 100, 24, 1, 3, 12, 12)
				done(t, "calibrate", "m.onnx", "--data", "data", "--platform", platform, "--border-cost", "0")
				before := read(t, "m.plan.json")
				r := done(t, append(tuning(m.Name), "--json")...).object(t)
				file, _ := r["overlay"].(string)
				if file == "" {
					require.Equal(t, before, read(t, "m.plan.json"), "nothing was kept")
					downstream(t, platform)
					return
				}
				downstream(t, platform)
				after := read(t, "m.plan.json")
				log := done(t, "plan", "log").stdout
				require.Contains(t, log, m.Name+": kept at ")

				done(t, "plan", "undo")
				require.Equal(t, planHash(t, before), planHash(t, read(t, "m.plan.json")), "as before it was tuned")
				done(t, "plan", "redo")
				require.Equal(t, planHash(t, after), planHash(t, read(t, "m.plan.json")), "as tuned")

				// Deciding something that tuning does not hang on leaves it; what it hangs on makes it stale, which undo takes back.
				done(t, "set", "first:in0", "observer=minmax")
				downstream(t, platform)
				done(t, "plan", "undo")
				out := done(t, "set", "*:weight", "observer=mse")
				if strings.Contains(out.stderr, "what was tuned is not applied") {
					fails(t, exitCheck, "qwb tune again", "export", "--platform", platform, "-o", "stale.onnx")
				}
				done(t, "plan", "undo")
				require.Equal(t, planHash(t, after), planHash(t, read(t, "m.plan.json")))

				// Without its tuned values the plan still tells its story, and goes back to where it needs none.
				kept := read(t, file)
				require.NoError(t, os.Remove(file))
				told := done(t, "plan", "log")
				require.Contains(t, told.stderr, "the tuned values are gone")
				require.Contains(t, told.stdout, log)
				require.Contains(t, done(t, "plan", "show").stderr, "the tuned values are gone")
				fails(t, exitFailed, "the tuned values are gone", "verify", "--samples", "2")
				done(t, "plan", "undo")
				require.Equal(t, planHash(t, before), planHash(t, read(t, "m.plan.json")))
				fails(t, exitFailed, "the tuned values are gone", "plan", "redo")
				write(t, file, kept)
				done(t, "plan", "redo")
				require.Equal(t, planHash(t, after), planHash(t, read(t, "m.plan.json")))
			})
		}
	}
}

// tuning are the words that tune by a method, whatever it gains; those that learn take few steps.
func tuning(method string) []string {
	words := []string{"tune", "--method", method, "--force"}
	if method == "block" || method == "distill" {
		words = append(words, "--steps", "40")
	}
	return words
}

// planHash identifies a plan by its inputs, decisions and numbers.
func planHash(t *testing.T, file []byte) string {
	t.Helper()
	p, err := plan.Parse("m.plan.json", file)
	require.NoError(t, err)
	h, err := p.Hash()
	require.NoError(t, err)
	return h
}

// One thread and seven give the same bytes of plan and tuned values, whatever the method.
func TestTuningOnAnyNumberOfThreads(t *testing.T) {
	names := []string{"auto"}
	if longtest.Wanted(t) {
		for _, m := range tune.Methods {
			names = append(names, m.Name)
		}
	}
	inFolder(t)
	saveModel(t, "m.onnx", depthwise)
	saveInputs(t, "data", 100, 16, 1, 3, 12, 12)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	before := read(t, "m.plan.json")
	for _, name := range names {
		var files [2]map[string][]byte
		for i, threads := range []int{1, 7} {
			write(t, "m.plan.json", before)
			for _, old := range overlays(t) {
				require.NoError(t, os.Remove(old))
			}
			done(t, append(tuning(name), "--threads", fmt.Sprint(threads))...)
			files[i] = map[string][]byte{"m.plan.json": read(t, "m.plan.json")}
			for _, file := range overlays(t) {
				files[i][file] = read(t, file)
			}
		}
		require.Equal(t, len(files[0]), len(files[1]), name)
		for file, b := range files[0] {
			require.True(t, bytes.Equal(b, files[1][file]), "%s: %s", name, file)
		}
	}
}

func overlays(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("m.plan.tuned.*")
	require.NoError(t, err)
	more, err := filepath.Glob("m.tuned.*")
	require.NoError(t, err)
	return append(list, more...)
}

// What only export refused is refused where it is decided, with what the platform can.
func TestSetRefusesWhatExportWould(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	fails(t, exitFailed, `onnxruntime would reject the exported model: one-type: node "concat"`, "set", "conv2",
		"activations=int16-sym-tensor")
	done(t, "set", "*", "activations=int16-sym-tensor")
	done(t, "plan", "undo")
	fails(t, exitFailed, "a divisor is for symmetric scales, and this is uint8-asym-tensor; onnxruntime can have activations=int8-sym-tensor",
		"set", "conv1:in0", "divisor=100")
	fails(t, exitUsage, `unknown dispatcher "foo": one of conservative`, "set", "*", "dispatcher=foo")
	require.Contains(t, done(t, "plan", "explain", "conv1").stdout, ", zero point ")
}

// Real networks, tuned, exported in every format.
func TestTunedNetworksDownstream(t *testing.T) {
	longtest.Need(t, "takes a minute")
	for _, c := range []struct{ model, data, preprocess string }{
		{"models/mlperf-tiny/pretrainedResnet.onnx", "data/cifar10/calibration_500.bin", "none"},
	} {
		model := shared(t, filepath.FromSlash(c.model))
		for _, platform := range []string{"onnxruntime", "trt_int8"} {
			t.Run(filepath.Base(c.model)+" "+platform, func(t *testing.T) {
				inFolder(t)
				d := shared(t, filepath.FromSlash(c.data))
				b := read(t, model)
				write(t, "m.onnx", b)
				done(t, "calibrate", "m.onnx", "--data", d, "--preprocess", c.preprocess, "--samples", "64", "--platform", platform)
				done(t, "tune", "--method", "auto", "--samples", "40")
				v := done(t, "verify", "--samples", "2", "--json").object(t)
				require.Contains(t, []any{analysis.VerdictEqual, analysis.VerdictTies}, v["verdict"])
				done(t, "export", "--platform", platform, "-o", "tuned.onnx")
				done(t, "export", "--format", "c", "-o", "tuned.c")
				done(t, "export", "--format", "vectors", "-o", "vectors")
				done(t, "import", "tuned.onnx", "-o", "back.plan.json", "--platform", platform)
				require.Equal(t, true, done(t, "diff", "m.plan.json", "back.plan.json", "--json").object(t)["equal"])
			})
		}
	}
}
