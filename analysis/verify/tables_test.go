package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// chains are functions of single elements between sums of products: HardSwish and SiLU written out, GELU, a chain with constants before
// and behind the argument, one whose inner result is read twice, one that is cut by a second reader, and one behind a fused Clip.
const chains = `
input x: f32[2,4,6,6]
const w1: f32[4,4,1,1] = normal(1)
const w2: f32[4,4,1,1] = normal(2)
const w3: f32[4,4,3,3] = normal(3)
const w4: f32[4,4,1,1] = normal(4)
const zero: f32[] = 0
const half: f32[] = 0.5
const one: f32[1] = 1
const three: f32[] = 3
const six: f32[] = 6
const root2: f32[] = 1.4142135
c1 = Conv(x, w1)
a = Add(c1, three); l = Clip(a, zero, six); m = Mul(c1, l); hs = Div(m, six)
c2 = Conv(hs, w2)
s = Sigmoid(c2); si = Mul(c2, s)
c3 = Conv(si, w3) {pads=[1,1,1,1]}
d = Div(c3, root2); e = Erf(d); p = Add(e, one); q = Mul(c3, p); ge = Mul(q, half)
c4 = Conv(ge, w4)
r6 = Clip(c4, zero, six)
t = Tanh(r6)
n = Sub(one, t); u = Exp(n)
k = Add(u, t)
y = Sqrt(k); z = Mul(y, y)
output z
output si`

// int16s is a target with symmetric int16 activations.
func int16s(tg target.Target) target.Target {
	tg.Activation.Format = qmath.IntegerFormat(16, false)
	tg.Activation.Policy = tg.Activation.Policy&^tqc.Asymmetric | tqc.Symmetric
	tg.Schemes.Activation = nil
	return tg
}

// Chains of functions become one table where the target has tables: two readers of a result, and a second tensor, end a chain.
func TestChainsAreTables(t *testing.T) {
	for _, c := range []struct {
		of      target.Target
		tables  int
		profile string
	}{
		{target.Pow2, 8, "pow2-half-even"}, {target.Pow2, 16, "pow2"}, {int16s(target.Pow2), 16, "pow2-half-even"},
		{target.ONNXRuntime, 8, "ort"}, {target.TFLite, 16, "tflite2"}, {int16s(target.TFLite), 16, "tflite2"}, {target.ONNX, 8, "rndnu"},
	} {
		tg := c.of
		tg.Tables, tg.Name = c.tables, "tabled"
		tg.Ops = slices.DeleteFunc(slices.Clone(tg.Ops), func(o target.Op) bool { return o.FixedScale != 0 }) // those are tables of their own
		require.NoError(t, tg.Validate())
		g, set, feeds := lowertest.ConfiguredFor(t, "opset 13\n"+strings.TrimSpace(chains), &tg)
		pr, err := qmath.ProfileNamed(c.profile)
		require.NoError(t, err)
		p, err := lower.Compile(g, set, &tg, pr)
		require.NoError(t, err, c.of.Name)
		var functions []string
		for i := range p.Steps {
			if op, ok := p.Steps[i].Op.(*lower.Table); ok {
				functions = append(functions, op.Function)
			}
		}
		require.Contains(t, functions, "Add Clip Mul Div", c.of.Name)
		require.Contains(t, functions, "Sigmoid Mul", c.of.Name)
		require.Contains(t, functions, "Div Erf Add Mul Mul", c.of.Name)
		require.Contains(t, functions, "Tanh Sub Exp Add Sqrt Mul", c.of.Name)
		require.Len(t, functions, 4, c.of.Name)
		for _, id := range g.Nodes() {
			require.Equal(t, tqc.DomainInt, set.Domains[id], "%s: %s", c.of.Name, g.Node(id).Op)
		}
		l := &lowered{g, set, p, feeds}
		for _, b := range programtest.Available() {
			v := l.verify(t, b)
			require.True(t, v.Holds(), "%s %s: %+v", c.of.Name, b.Name, v.First)
			require.Empty(t, v.Static.Faults)
			require.Empty(t, v.Simulated)
		}
	}
}

// An index of 16 bits is refused on a target whose tables have 8.
func TestATableIsTooLong(t *testing.T) {
	tg := int16s(target.Pow2)
	tg.Tables, tg.Name = 8, "tabled"
	g, set, _ := lowertest.ConfiguredFor(t, "opset 13\n"+strings.TrimSpace(chains), &tg)
	pr, err := qmath.ProfileNamed(tg.Profile)
	require.NoError(t, err)
	_, err = lower.Compile(g, set, &tg, pr)
	require.ErrorContains(t, err, "index of 16 bits: tables of tabled have 8")
	var at *graph.NodeError
	require.ErrorAs(t, err, &at)
}
