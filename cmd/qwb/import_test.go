package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/analysis"
	"qwb/quantizer/plan"
)

// What was exported and is imported again has the states, schemes, scales, zero points and integers of the plan, on every platform,
// and is exported as the same file but for the hash of its plan.
func TestImportOfAnExport(t *testing.T) {
	for _, platform := range []string{"trt_int8", "onnxruntime"} {
		t.Run(platform, func(t *testing.T) {
			workplace(t)
			done(t, "calibrate", "m.onnx", "--data", "data", "--platform", platform, "--observer", "percentile")
			done(t, "export", "--platform", platform, "-o", "q.onnx", "--unverified")
			r := done(t, "import", "q.onnx", "-o", "back.plan.json", "--json").object(t)
			require.Equal(t, platform, r["platform"])
			require.Equal(t, "back.float.onnx", r["model"])
			require.Empty(t, r["warnings"])
			fails(t, exitUsage, "run qwb verify back.plan.json --data D before", "export", "back.plan.json", "--platform", platform,
				"-o", "none.onnx")

			same := func(a, b string) {
				t.Helper()
				d := done(t, "diff", a, b, "--json").object(t)
				require.Equal(t, true, d["equal"], "%v", d["differences"])
				require.Greater(t, d["codes"], 1000.0)
				require.Greater(t, d["slots"], 6.0)
			}
			same("m.plan.json", "back.plan.json")
			same("m.plan.json", "q.onnx")
			done(t, "export", "back.plan.json", "--platform", platform, "-o", "again.onnx", "--unverified")
			same("q.onnx", "again.onnx")

			// The simulation of both plans, and the files themselves, compute the same numbers.
			done(t, "run", "q.onnx", "--input", "x=data/00.npy", "--output", "first")
			done(t, "run", "again.onnx", "--input", "x=data/00.npy", "--output", "second")
			require.Equal(t, read(t, "first/y.npy"), read(t, "second/y.npy"))

			// The float model's weights are those integers: rounding them costs nothing.
			var report analysis.Report
			require.NoError(t, json.Unmarshal([]byte(done(t, "analyze", "back.plan.json", "--layerwise", "--split", "--data", "data",
				"--json").stdout), &report))
			require.NotEmpty(t, report.Layerwise)
			for _, l := range report.Layerwise {
				if l.Weight != nil {
					require.InDelta(t, 0, *l.Weight, 1e-9, l.Node)
				}
			}
		})
	}
}

// With --float the plan's model has the weights of the network that was quantized. Commands that read the quantized file again work on it.
func TestImportOfTheFloatNetwork(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	done(t, "export", "--platform", "onnxruntime", "-o", "q.onnx", "--unverified")
	r := done(t, "import", "q.onnx", "--float", "m.onnx", "-o", "back.plan.json", "--json").object(t)
	require.Equal(t, "m.onnx", r["float"])
	require.Empty(t, r["warnings"])
	done(t, "run", "m.onnx", "--input", "x=data/00.npy", "--output", "original")
	done(t, "run", "back.float.onnx", "--input", "x=data/00.npy", "--output", "imported")
	require.Equal(t, read(t, "original/y.npy"), read(t, "imported/y.npy"))
	require.Equal(t, true, done(t, "diff", "m.plan.json", "back.plan.json", "--json").object(t)["equal"])
	done(t, "dispatch", "back.plan.json", "--fp32", "type:Conv")
	done(t, "dispatch", "back.plan.json", "--reset")
	require.Equal(t, true, done(t, "diff", "m.plan.json", "back.plan.json", "--json").object(t)["equal"])

	fails(t, exitUsage, "it is quantized; name the float network", "import", "q.onnx", "--float", "q.onnx")
	fails(t, exitFailed, "no such file", "import", "q.onnx", "--float", "missing.onnx", "-o", "other.plan.json")
	require.NoFileExists(t, "other.plan.json")
	require.NoFileExists(t, "other.float.onnx")
}

func TestImportErrors(t *testing.T) {
	workplace(t)
	fails(t, exitFailed, "nothing in the model is quantized", "import", "m.onnx")
	fails(t, exitFailed, "no such file", "import", "missing.onnx")
	fails(t, exitUsage, "unknown platform", "import", "m.onnx", "--platform", "no-such")
	fails(t, exitUsage, "ends in .plan.json", "import", "m.onnx", "-o", "x.json")
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	done(t, "export", "--platform", "onnxruntime", "-o", "q.onnx", "--unverified")
	require.NoError(t, os.Rename("q.onnx", "q.float.onnx"))
	fails(t, exitFailed, "would replace", "import", "q.float.onnx", "-o", "q.plan.json")
	done(t, "import", "q.float.onnx", "-o", "p.plan.json", "--platform", "trt_int8") // with a warning of what TensorRT would refuse
	r := invoke("import", "q.float.onnx", "-o", "p.plan.json", "--platform", "trt_int8")
	require.Contains(t, r.stderr, "trt_int8 does not take this as it is")
	fails(t, exitUsage, "no data: name some with --data", "eval", "p.plan.json")
	flipped := flip(read(t, "q.float.onnx"), 1, 1)
	require.NoError(t, os.Rename("q.float.onnx", "away.onnx"))
	fails(t, exitFailed, "was imported and its scales come from another file", "dispatch", "p.plan.json", "--fp32", "type:Conv")
	write(t, "q.float.onnx", flipped)
	require.Equal(t, exitFailed, invoke("dispatch", "p.plan.json", "--fp32", "type:Conv").code)
	require.NoError(t, os.Rename("away.onnx", "q.float.onnx"))
	fails(t, exitFailed, "or make a plan from this one with qwb import", "calibrate", "q.float.onnx", "--data", "data",
		"--platform", "trt_int8")
	fails(t, exitUsage, "two plans or models", "diff", "p.plan.json")
	fails(t, exitFailed, "nothing in the model is quantized", "diff", "p.plan.json", "m.onnx")
}

// An imported plan is dispatched by the grids of its file: operators go back to float and return, and a search finds them.
func TestDispatchOfAnImport(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "--observer", "minmax")
	done(t, "export", "--platform", "onnxruntime", "-o", "q.onnx", "--unverified")
	done(t, "import", "q.onnx", "-o", "p.plan.json")
	whole := read(t, "p.plan.json")
	p, err := plan.Read("p.plan.json")
	require.NoError(t, err)
	first := p.Nodes[0].Name

	r := done(t, "dispatch", "p.plan.json", "--fp32", first, "--json").object(t)
	require.Contains(t, r["fp32"], first)
	d := done(t, "diff", "q.onnx", "p.plan.json", "--json").object(t)
	require.Equal(t, false, d["equal"])
	require.Zero(t, d["scales"], "what stays on integers has the scales of the file")
	v := done(t, "verify", "p.plan.json", "--data", "data", "--json").object(t)
	require.Contains(t, []any{analysis.VerdictEqual, analysis.VerdictTies}, v["verdict"])
	done(t, "export", "p.plan.json", "--platform", "onnxruntime", "-o", "mixed.onnx", "--unverified")
	done(t, "run", "mixed.onnx", "--input", "x=data/00.npy", "--output", "mixed")

	done(t, "dispatch", "p.plan.json", "--reset")
	require.Equal(t, nodesOf(t, whole), nodesOf(t, read(t, "p.plan.json")), "as it was imported")

	fails(t, exitCheck, "4 samples can confirm nothing: give at least 16 that differ", "dispatch", "p.plan.json", "--auto", "--max-nsr",
		"1e-3", "--data", "data")
	found := done(t, "dispatch", "p.plan.json", "--auto", "--max-nsr", "1", "--data", "data", "--force", "--json").object(t)
	require.Empty(t, found["fp32"], "as it is")
	limit := 0.8 * found["before"].(float64)
	found = done(t, "dispatch", "p.plan.json", "--auto", "--max-nsr", fmt.Sprint(limit), "--data", "data", "--force", "--json").object(t)
	require.LessOrEqual(t, found["after"], limit)
	require.Equal(t, false, found["claimed"], "nothing is held out")
	require.NotEmpty(t, found["fp32"])
	fails(t, exitUsage, "no data: name some with --data", "dispatch", "p.plan.json", "--auto", "--max-nsr", "0.1")
}

// nodesOf is the derived part of a plan's file.
func nodesOf(t *testing.T, file []byte) string {
	t.Helper()
	_, nodes, ok := strings.Cut(string(file), "\"nodes_sha256\"")
	require.True(t, ok)
	return nodes
}

// Diff finds what was changed, and says so without failing.
func TestDiffFindsWhatWasChanged(t *testing.T) {
	calibrated(t)
	p, err := plan.Read("m.plan.json")
	require.NoError(t, err)
	s := &p.Nodes[0].Slots[0]
	require.NotEmpty(t, s.Scale)
	s.Scale[0] *= 2
	for i := range p.Nodes[0].Slots {
		if w := &p.Nodes[0].Slots[i]; w.At == "in1" {
			w.Scale[3] *= 2
		}
	}
	p.NodesHash = "" // another plan, not one that was edited
	require.NoError(t, p.Write("other.plan.json"))
	r := invoke("diff", "m.plan.json", "other.plan.json", "--json")
	require.Equal(t, exitDone, r.code)
	var d qwb.DiffResult
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &d))
	require.False(t, d.Equal)
	require.Equal(t, 2, d.Scales)
	require.Equal(t, 0, d.ZeroPoints+d.States+d.Domains+d.Missing+d.Extra)
	require.Greater(t, d.Flipped, 10, "half of a channel's codes")
	require.LessOrEqual(t, d.Flipped, 27, "no other channel's")
	for _, x := range d.Differences {
		require.Equal(t, p.Nodes[0].Name, x.Node)
		if x.What == analysis.DiffScale {
			require.Equal(t, 1, x.Count)
			require.Equal(t, 1.0, x.Largest)
		}
	}
	text := done(t, "diff", "m.plan.json", "other.plan.json").stdout
	require.Contains(t, text, "2 scales, 0 zero points")
	require.Contains(t, done(t, "diff", "m.plan.json", "m.plan.json").stdout, "0 domains, 0 states, 0 schemes, 0 scales, 0 zero points, 0 of")
}

// The scale of a bias follows from input and weight, that of what a MaxPool gives from its input: they are counted. Plans say which
// decisions they do not share.
func TestDiffFoldsWhatFollows(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "--observer", "minmax")
	require.NoError(t, os.Rename("m.plan.json", "a.plan.json"))
	done(t, "calibrate", "m.onnx", "--platform", "onnxruntime", "--observer", "percentile(0.99)")
	var d qwb.DiffResult
	require.NoError(t, json.Unmarshal([]byte(done(t, "diff", "a.plan.json", "m.plan.json", "--json").stdout), &d))
	follows := 0
	for _, x := range d.Differences {
		if x.Follows {
			follows++
		}
		require.Equal(t, x.At == "in2" || x.Op == "MaxPool" && x.At == "out0" || x.Op == "Flatten", x.Follows, "%v", x)
	}
	require.Equal(t, follows, d.Following)
	require.GreaterOrEqual(t, follows, 2, "scales of biases")
	require.Equal(t, []string{"calibrate: observer=minmax per_tensor=false"}, d.OnlyA)
	require.Equal(t, []string{"calibrate: observer=percentile(0.99) per_tensor=false"}, d.OnlyB)
	text := done(t, "diff", "a.plan.json", "m.plan.json").stdout
	require.True(t, strings.HasPrefix(text, "only in a.plan.json: calibrate: observer=minmax per_tensor=false\n"), text)
	require.NotContains(t, text, "in2")
	require.Contains(t, done(t, "diff", "a.plan.json", "m.plan.json", "--all").stdout, "in2")
}

// Import says which scales calibration would not have chosen, keeps them, and without data compares weights only.
func TestImportOfTrainedScales(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "--observer", "minmax")
	whole := read(t, "m.plan.json")
	p, err := plan.Parse("m.plan.json", whole)
	require.NoError(t, err)
	node := p.Nodes[0]
	var old float32
	var zero int32
	for _, s := range node.Slots {
		if s.At == "in0" {
			old, zero = s.Scale[0], s.ZeroPoint[0]
		}
	}
	done(t, "set", node.Name+":in0", fmt.Sprintf("scale=%g", 3*old), fmt.Sprintf("zero_point=%d", zero))
	done(t, "export", "--platform", "onnxruntime", "-o", "q.onnx", "--unverified")

	imported := func(flags ...string) (r qwb.ImportResult) {
		out := done(t, append([]string{"import", "q.onnx", "-o", "back.plan.json", "--json"}, flags...)...)
		require.NoError(t, json.Unmarshal([]byte(out.stdout), &r))
		return r
	}
	r := imported()
	require.Nil(t, r.ActivationsTrained)
	require.Positive(t, r.Weights)
	require.Zero(t, r.WeightsTrained, "weights have their min-max")
	for _, x := range r.Tensors {
		require.Equal(t, x.Weight, x.Trained != nil)
		require.Equal(t, x.Weight, x.Ratio != nil)
		require.NotEmpty(t, x.Scale)
	}
	r = imported("--data", "data", "--observer", "minmax")
	require.Equal(t, 1, *r.ActivationsTrained)
	list := r.Farthest()
	require.Len(t, list, 1)
	require.Equal(t, node.Name, list[0].Node)
	require.InEpsilon(t, 3, *list[0].Ratio, 1e-3)
	require.InEpsilon(t, old, list[0].Calibrated[0], 1e-3)
	d := done(t, "diff", "m.plan.json", "back.plan.json", "--json").object(t)
	require.Equal(t, true, d["equal"], "the scales of the plan are the file's")

	text := done(t, "import", "q.onnx", "-o", "back.plan.json", "--data", "data", "--observer", "minmax").stdout
	require.Contains(t, text, "1 of")
	require.Contains(t, text, "3.000")
	require.Contains(t, done(t, "import", "q.onnx", "-o", "back.plan.json").stdout, "not compared: that takes --data")
	fails(t, exitUsage, "need --data", "import", "q.onnx", "--observer", "mse")
	fails(t, exitUsage, "unknown observer", "import", "q.onnx", "--data", "data", "--observer", "none-such")
}

// fakeQuantized is a convolution with a bias of real numbers between pairs, as training with quantization exports it.
const fakeQuantized = `
graph fake
opset 13
input x: f32[1,2,6,6]
const s: f32[] = [0.05]
const z: u8[] = [128]
const sr: f32[] = [0.04]
const zr: u8[] = [0]
const w: f32[4,2,3,3] = normal(seed=3)
const b: f32[4] = normal(seed=4)
const sw: f32[4] = [0.01, 0.02, 0.03, 0.04]
const zw: i8[4] = fill(0)
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
wq = QuantizeLinear(w, sw, zw) {axis=0}
wd = DequantizeLinear(wq, sw, zw) {axis=0}
c = Conv(d, wd, b) "conv"
r = Relu(c) "relu"
rq = QuantizeLinear(r, sr, zr)
y = DequantizeLinear(rq, sr, zr)
output y: f32[1,4,4,4]
`

// For a platform that adds integers the biases of a trained network become such, and stay it when the plan is dispatched.
func TestImportOfFloatBiases(t *testing.T) {
	inFolder(t)
	saveModel(t, "q.onnx", fakeQuantized)
	saveInputs(t, "data", 100, 4, 1, 2, 6, 6)
	r := done(t, "import", "q.onnx", "-o", "p.plan.json", "--platform", "onnxruntime")
	require.Contains(t, r.stderr, "1 biases are float in the file; onnxruntime adds integers")
	whole := read(t, "p.plan.json")
	v := done(t, "verify", "p.plan.json", "--data", "data", "--json").object(t)
	require.Contains(t, []any{analysis.VerdictEqual, analysis.VerdictTies}, v["verdict"])
	done(t, "export", "p.plan.json", "--platform", "onnxruntime", "-o", "again.onnx", "--unverified")
	done(t, "import", "again.onnx", "-o", "back.plan.json")
	require.Equal(t, true, done(t, "diff", "p.plan.json", "back.plan.json", "--json").object(t)["equal"])

	done(t, "dispatch", "p.plan.json", "--fp32", "conv")
	require.Contains(t, string(read(t, "p.plan.json")), "user")
	done(t, "plan", "undo", "p.plan.json")
	require.Equal(t, nodesOf(t, whole), nodesOf(t, read(t, "p.plan.json")), "as it was imported")
	done(t, "set", "p.plan.json", "relu:out0", "scale=0.05", "zero_point=0")
	done(t, "plan", "undo", "p.plan.json")
	require.Equal(t, nodesOf(t, whole), nodesOf(t, read(t, "p.plan.json")))
}
