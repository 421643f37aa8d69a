package verify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// become gives a slot another format whose scales are the old ones times factor.
func become(l *lowered, id tqc.SlotID, cfg tqc.Config, factor float32) {
	slot, p := l.set.Slot(id), l.set.Params(id)
	cfg.Rounding, cfg.Axis, cfg.Observer = slot.Config.Rounding, slot.Config.Axis, slot.Config.Observer
	slot.Config = cfg
	if cfg.RunTime() {
		p.Scale, p.ZeroPoint = nil, nil
	}
	for i := range p.Scale {
		p.Scale[i], p.ZeroPoint[i] = p.Scale[i]*factor, 0
	}
}

// Numbers that no integers stand for make islands that say so, weights and activations alike; the rest is compared, and whole and simulated
// runs agree.
func TestFormatsWithoutIntegersAreIslands(t *testing.T) {
	per := func(gran, rest tqc.Policy, f qmath.Format) tqc.Config {
		return tqc.Config{Policy: gran | rest, Format: f}
	}
	weights := func(cfg tqc.Config, factor float32) func(*testing.T, *lowered) {
		return func(t *testing.T, l *lowered) { become(l, weightSlot(t, l, "expand3"), cfg, factor) }
	}
	activation := func(cfg tqc.Config, factor float32) func(*testing.T, *lowered) {
		return func(t *testing.T, l *lowered) {
			id, _ := l.g.LookupNode("srelu")
			root := l.set.Root(l.set.Output(id, 0))
			become(l, root, cfg, factor)
			for k := range l.set.NumSlots() { // those that borrow the scale have the same format
				if l.set.Root(tqc.SlotID(k)) == root {
					l.set.Slot(tqc.SlotID(k)).Config = l.set.Slot(root).Config
				}
			}
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, l *lowered)
		steps  []string // that are simulated
		why    string
	}{
		"int16 weights": {weights(per(tqc.PerChannel, tqc.Symmetric|tqc.Linear, qmath.IntegerFormat(16, false)), 1.0/256), []string{"expand3"},
			"weights of int16 (-32768 to 32767) are wider than 8 bits"},
		"e4m3 weights": {weights(per(tqc.PerChannel, tqc.Symmetric|tqc.Floating, qmath.FormatOf(qmath.FloatE4M3)), 127.0/448),
			[]string{"expand3"}, "weights are e4m3: floating-point numbers, which integers do not stand for"},
		"e2m1 weights": {weights(per(tqc.PerChannel, tqc.Symmetric|tqc.Floating, qmath.FormatOf(qmath.FloatE2M1)), 127.0/6), []string{"expand3"},
			"weights are e2m1"},
		"nf4 weights": {weights(per(tqc.PerChannel, tqc.Symmetric|tqc.Floating, qmath.FormatOf(qmath.BookNF4)), 127), []string{"expand3"},
			"weights are the code book nf4"},
		"e4m3 activations": {activation(per(tqc.PerTensor, tqc.Symmetric|tqc.Floating, qmath.FormatOf(qmath.FloatE4M3)), 255.0/448),
			[]string{"squeeze", "pool", "expand1", "expand3"}, "e4m3: floating-point numbers"},
		"dynamic activations": {activation(per(tqc.PerTensor, tqc.Asymmetric|tqc.Linear|tqc.Dynamic, qmath.IntegerFormat(8, true)), 0),
			[]string{"squeeze", "pool", "expand1", "expand3"}, "uint8 with scales that are computed at run time"},
		"dynamic tokens": {activation(per(tqc.PerToken, tqc.Symmetric|tqc.Linear|tqc.Dynamic, qmath.IntegerFormat(8, false)), 0),
			[]string{"squeeze", "pool", "expand1", "expand3"}, "int8 with scales that are computed at run time"},
	} {
		t.Run(name, func(t *testing.T) {
			tg := target.ONNX
			l := prepared(t, networkText("squeezenet"), &tg)
			c.change(t, l)
			pr, err := qmath.ProfileNamed(tg.Profile)
			require.NoError(t, err)
			_, err = lower.Compile(l.g, l.set, &tg, pr)
			require.ErrorContains(t, err, c.why)
			l.p, err = lower.CompilePartial(l.g, l.set, &tg, pr)
			require.NoError(t, err)
			for _, b := range []program.Backend{program.Reference, cpu.Backend} {
				v := l.verify(t, b)
				require.Empty(t, v.Static.Faults, lower.Format(l.p))
				require.Equal(t, analysis.VerdictPartial, v.Verdict, "%+v\n%s", v.First, lower.Format(l.p))
				require.Positive(t, v.IntegersCompared)
				var names []string
				for _, s := range v.Simulated {
					names = append(names, s.Node)
				}
				require.Equal(t, c.steps, names, lower.Format(l.p))
				require.Contains(t, v.Simulated[0].Why, c.why)
				for _, d := range v.Drift {
					require.Less(t, d.NSR, 1e-3, "%s drifts\n%s", d.Output, lower.Format(l.p))
				}
			}
			_, op := step[*lower.Simulated](t, l, nil)
			plantFormat(op)
			require.Equal(t, analysis.VerdictDifferent, l.verify(t, program.Reference).Verdict)
		})
	}
}

// plantFormat changes a format of a simulated step, or a constant where it has none.
func plantFormat(op *lower.Simulated) {
	for _, f := range append(op.In, op.Out...) {
		if f != nil {
			f.Config.QMax /= 2
			return
		}
	}
	for _, v := range op.Graph.Values() {
		if c := op.Graph.Const(v); c != nil && c.DType == tensor.Float32 {
			other := c.Clone()
			other.F32()[other.Len()/2] += 1e-3
			op.Graph.SetConst(v, other)
			return
		}
	}
}

// A mean of more codes of 16 bits than 32 bits hold has no integer form: it is simulated, and everything else is compared.
func TestMeansOfManyWordsAreIslands(t *testing.T) {
	tg := target.ONNX
	tg.Activation = tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.IntegerFormat(16, true),
		Observer: tqc.ObserverMinMax}
	l := prepared(t, `
input x: f32[1,2,190,190]
const w: f32[3,2,1,1] = normal(seed=1, std=0.5)
c: f32[1,3,190,190] = Conv(x, w) "conv"
y: f32[1,3,1,1] = GlobalAveragePool(c) "mean"
output y
`, &tg)
	pr, err := qmath.ProfileNamed("tflite2")
	require.NoError(t, err)
	_, err = lower.Compile(l.g, l.set, &tg, pr)
	require.ErrorContains(t, err, "average of 36100 codes")
	l.p, err = lower.CompilePartial(l.g, l.set, &tg, pr)
	require.NoError(t, err)
	v := l.verify(t, cpu.Backend)
	require.Equal(t, analysis.VerdictPartial, v.Verdict)
	require.Len(t, v.Simulated, 1)
	require.Equal(t, "mean", v.Simulated[0].Node)
	require.Contains(t, v.Simulated[0].Why, "average of 36100 codes; between 1 and 32768 fit into int32")
}

// Float operators of less precision are rounded by Casts of the program, which are held to the domains of the plan: a program without one
// of them, or with one in another place, is not the plan's.
func TestRoundingOfIslands(t *testing.T) {
	text := `
input x: f32[2,4,6,6]
const w: f32[4,4,1,1] = normal(seed=1, std=0.5)
const s: f32[4,1,1] = normal(seed=2, std=1)
c: f32[2,4,6,6] = Conv(x, w) "conv"
e: f32[2,4,6,6] = Exp(c) "exp"
m: f32[2,4,6,6] = Mul(e, s) "scale"
l: f32[2,4,6,6] = Tanh(m) "tanh"
y: f32[2,4,6,6] = Conv(l, w) "last"
output y
`
	g, set, feeds := lowertest.Configured(t, text, "trt_int8")
	pr, err := qmath.ProfileNamed("trt")
	require.NoError(t, err)
	for _, name := range []string{"exp", "scale", "tanh"} {
		id, _ := g.LookupNode(name)
		require.Equal(t, tqc.DomainFP32, set.Domains[id], name)
		if name != "tanh" {
			set.Domains[id] = tqc.DomainFP16
		}
	}
	fresh := func() *lowered {
		p, err := lower.Compile(g, set, &target.TRTInt8, pr)
		require.NoError(t, err)
		return &lowered{g, set, p, feeds}
	}
	for _, b := range []program.Backend{program.Reference, cpu.Backend} {
		v := fresh().verify(t, b)
		require.Equal(t, analysis.VerdictEqual, v.Verdict, "%+v", v.First)
		for _, d := range v.Drift {
			require.Less(t, d.NSR, 1e-12, "the simulation rounds where the program does")
		}
	}
	l := fresh()
	_, op := step[*lower.Island](t, l, nil)
	casts := 0
	for _, id := range op.Graph.Nodes() {
		if op.Graph.Node(id).Op == "Cast" {
			casts++
		}
	}
	require.Equal(t, 6, casts, "of c, of what exp computes, and of what scale computes: to and fro; scales are rounded already")
	for name, plant := range map[string]func(g *graph.Graph){
		"input": func(g *graph.Graph) {
			id, _ := g.LookupNode("exp")
			g.SetInput(id, 0, g.Inputs[0])
		},
		"constant": func(g *graph.Graph) {
			id, _ := g.LookupNode("scale")
			other := g.Const(g.Node(id).Inputs[1]).Clone()
			other.F32()[1] += 1e-6
			g.SetConst(g.Node(id).Inputs[1], other)
		},
		"output": func(g *graph.Graph) {
			id, _ := g.LookupNode("scale")
			to, _ := g.LookupNode("tanh")
			g.SetInput(to, 0, g.Node(id).Outputs[0])
		},
		"float32": func(g *graph.Graph) {
			id, _ := g.LookupNode("tanh")
			out, err := g.AddValue(graph.Value{Name: "planted", DType: tensor.Float32, Shape: g.Value(g.Node(id).Inputs[0]).Shape})
			require.NoError(t, err)
			_, err = g.AddNode(graph.Node{Name: "planted", Op: "Cast", Attrs: []graph.Attr{graph.Int("to", int64(tensor.Float32))},
				Inputs: []graph.ValueID{g.Node(id).Inputs[0]}, Outputs: []graph.ValueID{out}})
			require.NoError(t, err)
			g.SetInput(id, 0, out)
		},
	} {
		l := fresh()
		_, op := step[*lower.Island](t, l, nil)
		plant(op.Graph)
		require.Equal(t, analysis.VerdictDifferent, l.verify(t, program.Reference).Verdict, name)
	}
}
