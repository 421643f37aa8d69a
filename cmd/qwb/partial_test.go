package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// odd is a quantized file: one convolution of 8 bits, and one whose weights have no integer form.
const odd = `
graph odd
opset 21
input x: f32[1,4,6,6]
const s: f32[] = [0.05]
const z: i8[] = [-3]
const w1: i8[4,4,1,1] = iota(start=-8, step=1)
const s1: f32[] = [0.02]
const z1: i8[] = [0]
const w2: %[1]s[4,4,1,1] = [-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7]
const s2: f32[%[2]s] = fill(0.03)
const z2: %[1]s[%[2]s] = [0%[4]s]
xq = QuantizeLinear(x, s, z)
xd = DequantizeLinear(xq, s, z)
w1d = DequantizeLinear(w1, s1, z1)
a = Conv(xd, w1d) "first"
aq = QuantizeLinear(a, s, z)
ad = DequantizeLinear(aq, s, z)
w2d = DequantizeLinear(w2, s2, z2)%[3]s
b = Conv(ad, w2d) "second"
bq = QuantizeLinear(b, s, z)
y = DequantizeLinear(bq, s, z)
output y: f32[1,4,6,6]
`

// A plan of which one layer has weights of 16 bits or in groups verifies as far as it has an integer form, is exported with the share
// that was verified, and is refused where a whole program is needed.
func TestPartialPlans(t *testing.T) {
	for name, text := range map[string]string{
		"16 bits":          fmt.Sprintf(odd, "i16", "", "", ""),
		"4 bits in groups": fmt.Sprintf(odd, "i4", "4,2,1,1", " {axis=1, block_size=2}", ", 0, 0, 0, 0, 0, 0, 0"),
		"groups":           fmt.Sprintf(odd, "i8", "4,2,1,1", " {axis=1, block_size=2}", ", 0, 0, 0, 0, 0, 0, 0"),
	} {
		t.Run(name, func(t *testing.T) {
			inFolder(t)
			saveModel(t, "q.onnx", text)
			saveInputs(t, "data", 100, 3, 1, 4, 6, 6)
			done(t, "import", "q.onnx", "--platform", "onnx", "-o", "m.plan.json")
			r := done(t, "verify", "--data", "data", "--json")
			o := r.object(t)
			require.Equal(t, analysis.VerdictPartial, o["verdict"])
			require.Zero(t, o["integers_different"])
			require.Positive(t, o["integers_compared"])
			require.Equal(t, map[string]any{"of": "macs", "verified": 576.0, "all": 1152.0}, o["share"])
			list := o["simulated"].([]any)
			require.Len(t, list, 1)
			require.Equal(t, "second", list[0].(map[string]any)["node"])
			require.NotEmpty(t, list[0].(map[string]any)["why"])
			v := planVerification(t)
			require.Equal(t, "partial", v.Verdict)
			require.InDelta(t, 0.5, *v.Share, 1e-9)
			text := done(t, "verify", "--data", "data", "--html", "v.html").stdout
			require.Contains(t, text, "Verified: 50.00 % of the multiply-accumulates")
			require.Contains(t, string(read(t, "v.html")), "second")

			explained := done(t, "analyze", "--explain", "--data", "data", "--json").object(t)["explained"].(map[string]any)
			require.Len(t, explained["layers"], 2, "what is simulated has its loss, too")

			done(t, "export", "--platform", "onnx", "-o", "again.onnx")
			v = planVerification(t)
			require.Equal(t, "partial 0.5000 "+v.Digest, metadataOf(t, "again.onnx")["qwb.verification"])
			done(t, "run", "q.onnx", "--input", "x=data/00.npy", "--output", "first")
			done(t, "run", "again.onnx", "--input", "x=data/00.npy", "--output", "second")
			require.Equal(t, read(t, "first/y.npy"), read(t, "second/y.npy"))

			fails(t, exitFailed, `format c needs a plan that runs completely on integers.*"second"`, "export", "--format", "c", "-o", "m.c")
			fails(t, exitFailed, `test vectors need a plan that runs completely on integers.*"second"`, "verify", "--data", "data",
				"--dump", "vectors")
			fails(t, exitFailed, `"second"`, "eval", "m.plan.json", "--data", "data", "--mode", "int8")
		})
	}
}

// Weights of 4 bits with one scale have an integer form: such a plan is verified as a whole.
func TestFourBitsAreVerified(t *testing.T) {
	inFolder(t)
	saveModel(t, "q.onnx", fmt.Sprintf(odd, "i4", "", "", ""))
	saveInputs(t, "data", 100, 3, 1, 4, 6, 6)
	done(t, "import", "q.onnx", "--platform", "onnx", "-o", "m.plan.json")
	o := done(t, "verify", "--data", "data", "--json").object(t)
	require.Contains(t, []string{"equal", "ties"}, o["verdict"])
	require.NotContains(t, o, "simulated")
}

// A plan in which nothing is quantized is not verified: nothing was compared.
func TestNothingIsNoSuccess(t *testing.T) {
	calibrated(t)
	done(t, "dispatch", "--fp32", "/./")
	r := invoke("verify", "--json")
	require.Equal(t, exitCheck, r.code, r.stderr)
	o := r.object(t)
	require.Equal(t, "nothing", o["verdict"])
	require.Zero(t, o["integers_compared"])
	require.Contains(t, r.lastLine(), "nothing was compared")
	r = invoke("export", "--platform", "trt_int8", "-o", "f.onnx")
	require.Equal(t, exitCheck, r.code, r.stderr)
	require.Contains(t, r.lastLine(), "--unverified")
	require.NoFileExists(t, "f.onnx")
	done(t, "export", "--platform", "trt_int8", "-o", "f.onnx", "--unverified")
	require.True(t, strings.HasPrefix(metadataOf(t, "f.onnx")["qwb.verification"], "unverified "))
}

// withBias is a float network whose second operator has a bias.
const withBias = `
graph withBias
opset 21
input x: f32[1,4,6,6]
const w1: f32[4,4,1,1] = iota(start=-8, step=1)
const w2: f32[5,144] = iota(start=-300, step=1)
const b2: f32[5] = [1, -2, 3, -4, 5]
a = Conv(x, w1) "first"
f = Flatten(a) "flat"
y = Gemm(f, w2, b2) {transB=1} "second"
output y: f32[1,5]
`

// Weights in groups that somebody decides have no bias of one scale per channel: it stays float, and the operator is simulated.
func TestBiasBehindWeightsInGroups(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", withBias)
	saveInputs(t, "data", 100, 3, 1, 4, 6, 6)
	shown := done(t, "target", "show", "onnx").stdout
	mine := strings.NewReplacer("name: onnx\n", "name: mine\n", "weight: {scheme: int8-sym-channel,",
		"weight: {scheme: int8-sym-channel, others: [int4-sym-g16],").Replace(shown)
	require.Contains(t, mine, "g16")
	require.NoError(t, os.WriteFile("mine.yaml", []byte(mine), 0o644))
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "mine.yaml", "--border-cost", "0")
	done(t, "set", "second", "weights=int4-sym-g16")
	o := done(t, "verify", "--json").object(t)
	require.Equal(t, analysis.VerdictPartial, o["verdict"])
	require.Equal(t, "second", o["simulated"].([]any)[0].(map[string]any)["node"])
	done(t, "export", "--platform", "mine", "-o", "q.onnx")
	p, err := plan.Read("m.plan.json")
	require.NoError(t, err)
	bias := p.Nodes[len(p.Nodes)-1].Slots[2]
	require.Equal(t, "in2", bias.At)
	require.Equal(t, tqc.FP32, bias.State)
}

// Where a platform has integer biases, an operator with weights in groups computes in float, its bias stays float, and the rest is
// verified.
func TestGroupsWhereBiasesAreIntegers(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", withBias)
	saveInputs(t, "data", 100, 3, 1, 4, 6, 6)
	mine := strings.NewReplacer("name: onnxruntime\n", "name: mine\n", "others: [int8-sym-tensor]",
		"others: [int4-sym-g16]").Replace(done(t, "target", "show", "onnxruntime").stdout)
	require.Contains(t, mine, "g16")
	require.NoError(t, os.WriteFile("mine.yaml", []byte(mine), 0o644))
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "mine.yaml", "--border-cost", "0")
	done(t, "set", "second", "weights=int4-sym-g16")
	p, err := plan.Read("m.plan.json")
	require.NoError(t, err)
	require.Equal(t, tqc.FP32, p.Nodes[len(p.Nodes)-1].Slots[2].State, "the bias")
	r := done(t, "export", "--platform", "mine.yaml", "-o", "x.onnx")
	require.Contains(t, r.stderr+r.stdout, "partial: 0 of")
}
