package verify_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// attention has products of every kind that may have scales of run time: with a bias and a Relu behind it, of a transposed matrix, and of
// two tensors.
const attention = `
input x: f32[2,6,8]
const wq: f32[8,8] = normal(seed=1, std=0.4)
const bq: f32[8] = normal(2)
const wk: f32[8,8] = normal(seed=3, std=0.4)
const wv: f32[8,8] = normal(seed=4, std=0.4)
const wo: f32[5,8] = normal(seed=5, std=0.4)
const bo: f32[5] = normal(6)
q: f32[2,6,8] = Gemm(x, wq, bq) "query"
r: f32[2,6,8] = Relu(q) "positive"
k: f32[2,6,8] = MatMul(x, wk) "key"
kt: f32[2,8,6] = Transpose(k) {perm=[0,2,1]} "turned"
s: f32[2,6,6] = MatMul(r, kt) "scores"
p: f32[2,6,6] = Softmax(s) {axis=-1} "shares"
v: f32[2,6,8] = MatMul(x, wv) "value"
c: f32[2,6,8] = MatMul(p, v) "context"
m: f32[2,8] = ReduceMean(c) {axes=[1], keepdims=0} "mean"
y: f32[2,5] = Gemm(m, wo, bo) {transB=1} "head"
output y
`

// feedForward has products by constants alone, whose data may have a scale for each row.
const feedForward = `
input x: f32[2,6,8]
const wq: f32[8,9] = normal(seed=1, std=0.4)
const bq: f32[9] = normal(2)
const wo: f32[9,8] = normal(seed=5, std=0.4)
q: f32[2,6,9] = Gemm(x, wq, bq) "query"
r: f32[2,6,9] = Relu(q) "positive"
y: f32[2,6,8] = MatMul(r, wo) "out"
output y
`

// images has convolutions of one image, of all channels and of each.
const images = `
input x: f32[1,3,7,6]
const wq: f32[8,3,3,3] = normal(seed=1, std=0.4)
const bq: f32[8] = normal(2)
const wo: f32[16,1,2,2] = normal(seed=5, std=0.4)
q: f32[1,8,3,6] = Conv(x, wq, bq) {strides=[2,1], pads=[1,2,0,2], dilations=[1,2]} "query"
r: f32[1,8,3,6] = Relu(q) "positive"
c: f32[1,16,2,5] = Conv(r, wo) {group=8} "each"
const wp: f32[5,16,1,1] = normal(seed=6, std=0.4)
y: f32[1,5,2,5] = Conv(c, wp) "out"
output y
`

// atRunTime is ONNX Runtime's platform with scales of run time.
func atRunTime(f qmath.Format, policy tqc.Policy) *target.Target {
	tg := target.ONNXRuntime
	tg.Activation.Format, tg.Activation.Policy, tg.BorderCost = f, policy|tqc.Linear|tqc.Dynamic, 0
	return &tg
}

func TestScalesOfRunTime(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		target *target.Target
		steps  int
	}{
		"uint8":  {attention, atRunTime(qmath.IntegerFormat(8, true), tqc.Asymmetric|tqc.PerTensor), 6},
		"int8":   {attention, atRunTime(qmath.IntegerFormat(8, false), tqc.Symmetric|tqc.PerTensor), 6},
		"rows":   {feedForward, atRunTime(qmath.IntegerFormat(8, false), tqc.Symmetric|tqc.PerToken), 2},
		"images": {images, atRunTime(qmath.IntegerFormat(8, false), tqc.Asymmetric|tqc.PerTensor), 3},
	} {
		t.Run(name, func(t *testing.T) {
			l := prepared(t, c.text, c.target)
			pr, err := qmath.ProfileNamed(c.target.Profile)
			require.NoError(t, err)
			l.p, err = lower.Compile(l.g, l.set, c.target, pr)
			require.NoError(t, err)
			steps := 0
			for _, s := range l.p.Steps {
				if _, ok := s.Op.(*lower.RunTime); ok {
					steps++
				}
			}
			require.Equal(t, c.steps, steps, lower.Format(l.p))
			for _, b := range []program.Backend{program.Reference, cpu.Backend} {
				v := l.verify(t, b)
				require.Empty(t, v.Static.Faults, lower.Format(l.p))
				require.Equal(t, analysis.VerdictEqual, v.Verdict, "%+v", v.First)
				require.Positive(t, v.IntegersCompared)
				for _, d := range v.Drift {
					require.Less(t, d.NSR, 1e-8, "%s is not the simulation", d.Output)
				}
			}
			for _, what := range []string{"weight code", "weight scale", "bias"} {
				l.p, err = lower.Compile(l.g, l.set, c.target, pr)
				require.NoError(t, err)
				plantAtRunTime(t, l.p, what)
				v := l.verify(t, program.Reference)
				require.Equal(t, analysis.VerdictDifferent, v.Verdict, what)
				require.NotEmpty(t, v.Static.Faults, what)
				require.Positive(t, v.Simulation.Different, what)
			}
		})
	}
}

// plantAtRunTime changes a constant of the operators of a product.
func plantAtRunTime(t *testing.T, p *lower.Program, what string) {
	reads := map[string]string{"weight code": "Integer", "weight scale": "Mul", "bias": "Add"}[what]
	for _, s := range p.Steps {
		op, ok := s.Op.(*lower.RunTime)
		if !ok || p.Name(s.ID) != "query" {
			continue
		}
		for _, id := range op.Graph.Nodes() {
			for _, v := range op.Graph.Node(id).Inputs {
				c := op.Graph.Const(v)
				if !strings.HasSuffix(op.Graph.Node(id).Op, reads) || c == nil || c.Len() < 8 {
					continue
				}
				if x := c.F32(); x != nil {
					changed := append([]float32(nil), x...)
					changed[0] *= 1.5
					op.Graph.SetConst(v, tensor.FromF32(changed, c.Shape...))
				} else {
					codes := c.Integers()
					codes[0] -= 2
					op.Graph.SetConst(v, c.WithIntegers(codes))
				}
				return
			}
		}
	}
	require.Fail(t, "no constant", what)
}
