package verify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph/tensor"
	"qwb/internal/targettest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// widened gives the weights of a node 16 bits.
func widened(t *testing.T, l *lowered, node string) {
	id := weightSlot(t, l, node)
	cfg, p := &l.set.Slot(id).Config, l.set.Params(id)
	cfg.Bits, cfg.QMin, cfg.QMax = 16, -32767, 32767
	for i := range p.Scale {
		p.Scale[i] /= 256
	}
}

// grouped gives the weights of a node 4 bits and a scale for every 2 elements along axis.
func grouped(axis int) func(t *testing.T, l *lowered, node string) {
	return func(t *testing.T, l *lowered, node string) {
		id := weightSlot(t, l, node)
		cfg, p := &l.set.Slot(id).Config, l.set.Params(id)
		cfg.Policy = tqc.Symmetric | tqc.PerGroup | tqc.Linear
		cfg.Bits, cfg.QMin, cfg.QMax, cfg.Axis, cfg.GroupSize = 4, -7, 7, axis, 2
		w := l.g.Const(l.set.Slot(id).Value)
		n := w.Shape[axis]
		count := w.Len() / n * ((n + 1) / 2)
		p.Scale, p.ZeroPoint = make([]float32, count), make([]int32, count)
		for i := range p.Scale {
			p.Scale[i] = 0.05 + 0.001*float32(i)
		}
	}
}

func weightSlot(t *testing.T, l *lowered, node string) tqc.SlotID {
	id, ok := l.g.LookupNode(node)
	require.True(t, ok)
	slot := l.set.Input(id, 1)
	require.True(t, l.set.Slot(slot).State().Quantizes())
	return slot
}

// prepared configures a network for a target of the test's own, without lowering it.
func prepared(t *testing.T, text string, tg *target.Target) *lowered {
	g, set, feeds := lowertest.ConfiguredFor(t, text, tg)
	return &lowered{g: g, set: set, feeds: feeds}
}

// sines has an operator that no family lowers, with activations and a sum behind real numbers of it.
const sines = `
input x: f32[1,3,6,6]
const w1: f32[4,3,3,3] = normal(seed=1, std=0.3)
const w2: f32[5,4,1,1] = normal(seed=3, std=0.6)
const b2: f32[5] = normal(4)
a: f32[1,4,6,6] = Conv(x, w1) {pads=[1,1,1,1]} "first"
s: f32[1,4,6,6] = Sin(a) "sine"
d: f32[1,4,6,6] = Add(s, a) "sum"
y: f32[1,5,6,6] = Conv(d, w2, b2) "last"
output y
`

// A part of a plan without an integer form is simulated and listed; everything else is compared, and holds.
func TestPartial(t *testing.T) {
	for name, c := range map[string]struct {
		text, node string
		ops        []target.Op
		change     func(t *testing.T, l *lowered, node string)
		why        string
	}{
		"16 bits, Conv":      {text: networkText("mobilenet"), node: "pointwise", change: widened, why: "wider than 8 bits"},
		"16 bits, depthwise": {text: networkText("mobilenet"), node: "depthwise", change: widened, why: "wider than 8 bits"},
		"16 bits, residual":  {text: networkText("resnet"), node: "block", change: widened, why: "wider than 8 bits"},
		"groups, Gemm":       {text: networkText("mobilenet"), node: "fc", change: grouped(0), why: "in groups of"},
		"groups, Conv":       {text: networkText("squeezenet"), node: "expand3", change: grouped(1), why: "in groups of"},
		"no family": {text: sines, node: "sine", ops: []target.Op{{Type: "Sin", Role: target.Arithmetic}},
			why: "Sin has no integer form"},
	} {
		for _, base := range []target.Target{target.ONNXRuntime, target.TRTInt8, target.ONNX} {
			t.Run(name+"/"+base.Name, func(t *testing.T) {
				tg := base
				tg.Ops = append(append([]target.Op(nil), base.Ops...), c.ops...)
				l := prepared(t, c.text, &tg)
				id, _ := l.g.LookupNode(c.node)
				if l.set.Domains[id] != tqc.DomainInt {
					t.Skip("does not apply: not on integers there")
				}
				if c.change != nil {
					c.change(t, l, c.node)
				}
				pr, err := qmath.ProfileNamed(tg.Profile)
				require.NoError(t, err)
				_, err = lower.Compile(l.g, l.set, &tg, pr)
				require.ErrorContains(t, err, c.why)
				require.ErrorContains(t, err, c.node)
				l.p, err = lower.CompilePartial(l.g, l.set, &tg, pr)
				require.NoError(t, err)
				for _, b := range []program.Backend{program.Reference, cpu.Backend} {
					v := l.verify(t, b)
					require.Empty(t, v.Static.Faults, lower.Format(l.p))
					require.Zero(t, v.IntegersDifferent, "%+v\n%s", v.First, lower.Format(l.p))
					require.Positive(t, v.IntegersCompared)
					require.Equal(t, analysis.VerdictPartial, v.Verdict)
					require.True(t, v.Holds())
					require.Len(t, v.Simulated, 1, lower.Format(l.p))
					require.Equal(t, c.node, v.Simulated[0].Node)
					require.Contains(t, v.Simulated[0].Why, c.why)
					macs, _ := l.g.MACs(id)
					require.Equal(t, macs, v.Simulated[0].MACs)
					require.Equal(t, "macs", v.Share.Of)
					require.Equal(t, macs, v.Share.All-v.Share.Verified)
					for _, d := range v.Drift {
						require.Less(t, d.NSR, 0.02, "%s drifts: the simulated step is not the simulation\n%s", d.Output, lower.Format(l.p))
					}
					for _, c := range v.PerTensor {
						require.NotEqual(t, v.Simulated[0].Node, c.Node, "what is not compared is not counted")
					}
				}
				plantInSimulated(t, l)
				require.Equal(t, analysis.VerdictDifferent, l.verify(t, program.Reference).Verdict)
			})
		}
	}
}

// plantInSimulated changes a number or an operator of the simulated part.
func plantInSimulated(t *testing.T, l *lowered) {
	_, op := step[*lower.Simulated](t, l, nil)
	for _, id := range op.Graph.Nodes() {
		n := op.Graph.Node(id)
		for _, v := range n.Inputs {
			if c := op.Graph.Const(v); c != nil && c.DType == tensor.Float32 {
				other := c.Clone()
				other.F32()[other.Len()/2] += 1e-3
				op.Graph.SetConst(v, other)
				return
			}
		}
	}
	op.Graph.Node(op.Graph.Nodes()[0]).Op = "Cos"
}

// An operator that reads real numbers of a part without an integer form has none either.
func TestPartialSpreadsOverRealNumbers(t *testing.T) {
	tg := target.TRTInt8 // adds to real sums
	tg.Ops = append([]target.Op{{Type: "Einsum", Role: target.Weighted}}, tg.Ops...)
	l := prepared(t, `
input x: f32[4,6]
const w: f32[6,6] = normal(seed=1, std=0.3)
const v: f32[6,3] = normal(seed=2, std=0.3)
e: f32[4,6] = Einsum(x, w) {equation="ij,jk->ik"} "einsum"
s: f32[4,6] = Add(e, x) "sum"
y: f32[4,3] = MatMul(s, v) "last"
output y
`, &tg)
	sum, _ := l.g.LookupNode("sum")
	l.set.Domains[sum] = tqc.DomainInt
	pr, err := qmath.ProfileNamed(tg.Profile)
	require.NoError(t, err)
	l.p, err = lower.CompilePartial(l.g, l.set, &tg, pr)
	require.NoError(t, err)
	v := l.verify(t, program.Reference)
	require.Empty(t, v.Static.Faults)
	require.Equal(t, analysis.VerdictPartial, v.Verdict, lower.Format(l.p))
	require.Len(t, v.Simulated, 2, lower.Format(l.p))
	require.Contains(t, v.Simulated[1].Why, `real numbers of "einsum"`)
}

// Of whole plans CompilePartial makes the program of Compile.
func TestWholeProgramsStayWhole(t *testing.T) {
	for name, text := range lowertest.Networks {
		for _, tg := range targettest.Distinct() {
			l, err := compile(t, text, tg.Name, tg.Profile)
			require.NoError(t, err)
			pr, err := qmath.ProfileNamed(tg.Profile)
			require.NoError(t, err)
			p, err := lower.CompilePartial(l.g, l.set, tg, pr)
			require.NoError(t, err)
			require.Equal(t, lower.Format(l.p), lower.Format(p), name)
		}
	}
}

// Where nothing runs on integers nothing was compared, which is no success.
func TestNothing(t *testing.T) {
	tg := target.ONNXRuntime
	tg.Ops = nil
	l := prepared(t, networkText("squeezenet"), &tg)
	pr, err := qmath.ProfileNamed(tg.Profile)
	require.NoError(t, err)
	l.p, err = lower.Compile(l.g, l.set, &tg, pr)
	require.NoError(t, err)
	v := l.verify(t, cpu.Backend)
	require.Equal(t, analysis.VerdictNothing, v.Verdict)
	require.False(t, v.Holds())
	require.Zero(t, v.IntegersCompared)

	tg = target.ONNXRuntime // nor is a plan of which every operator was simulated
	l = prepared(t, `
input x: f32[1,3,6,6]
const w: f32[4,3,3,3] = normal(seed=1, std=0.3)
y: f32[1,4,4,4] = Conv(x, w) "only"
output y
`, &tg)
	widened(t, l, "only")
	l.p, err = lower.CompilePartial(l.g, l.set, &tg, pr)
	require.NoError(t, err)
	v = l.verify(t, cpu.Backend)
	require.Len(t, v.Simulated, 1)
	require.Equal(t, analysis.VerdictNothing, v.Verdict)
}
