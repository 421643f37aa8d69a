package sim_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/targettest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// networks have depthwise convolution and ReLU6, fire modules with Concat, residual Add, matrices.
var networks = []string{"mobilenet", "squeezenet", "resnet", "matrices"}

// eachNetwork runs f for every network on every target.
func eachNetwork(t *testing.T, f func(t *testing.T, g *graph.Graph, set *tqc.Set, feeds map[string]*tensor.Tensor)) {
	for _, name := range networks {
		for _, tg := range targettest.Distinct() {
			t.Run(name+"/"+tg.Name, func(t *testing.T) {
				g, set, feeds := lowertest.Configured(t, lowertest.Networks[name], tg.Name)
				f(t, g, set, feeds)
			})
		}
	}
}

func run(t testing.TB, g *graph.Graph, feeds map[string]*tensor.Tensor, h *exec.Hooks) []*tensor.Tensor {
	t.Helper()
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	out, err := session.NewRunner().Run(context.Background(), feeds, h)
	require.NoError(t, err)
	return out
}

func requireSame(t testing.TB, want, got []*tensor.Tensor, msg ...any) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	for i := range want {
		require.True(t, tensor.Equal(want[i], got[i]), msg...)
	}
}

func TestSimulationEqualsTheGraphWithPairsWritten(t *testing.T) {
	eachNetwork(t, func(t *testing.T, g *graph.Graph, set *tqc.Set, feeds map[string]*tensor.Tensor) {
		for id := range tqc.SlotID(set.NumSlots()) {
			if s := set.Slot(id); s.State().Quantizes() && s.Config.Rounding != qmath.HalfEven {
				t.Skip("does not apply: QuantizeLinear rounds half to even")
			}
		}
		s, err := sim.New(g, set, sim.Options{})
		require.NoError(t, err)
		got := run(t, g, feeds, s.Hooks(nil))
		requireSame(t, run(t, written(t, g, set), feeds, nil), got, "simulation and Q/DQ graph differ")
		float := run(t, g, feeds, nil)
		require.NotEqual(t, slices.Contains(set.Domains, tqc.DomainInt), tensor.Equal(float[0], got[0]), "the simulation does something")
	})
}

func TestMasks(t *testing.T) {
	eachNetwork(t, func(t *testing.T, g *graph.Graph, set *tqc.Set, feeds map[string]*tensor.Tensor) {
		s, err := sim.New(g, set, sim.Options{})
		require.NoError(t, err)
		full := run(t, g, feeds, s.Hooks(nil))
		requireSame(t, run(t, g, feeds, nil), run(t, g, feeds, s.Hooks(sim.Only(nil))), "no slot: the float graph")
		requireSame(t, full, run(t, g, feeds, s.Hooks(func(tqc.SlotID) bool { return true })),
			"quantizing again in front of a reader changes nothing")
		weights, acts := sim.Weights(set), sim.Activations(set)
		requireSame(t, full, run(t, g, feeds, s.Hooks(func(id tqc.SlotID) bool { return weights(id) || acts(id) })))
		w := run(t, g, feeds, s.Hooks(weights))
		requireSame(t, run(t, withWeights(t, g, set), feeds, nil), w, "weights alone: the float graph on replaced weights")
	})
}

// withWeights returns g with its parameters replaced by their fake-quantized values.
func withWeights(t testing.TB, g *graph.Graph, set *tqc.Set) *graph.Graph {
	c := g.Clone()
	for id := range tqc.SlotID(set.NumSlots()) {
		sl := set.Slot(id)
		if !sl.Weight || !sl.State().Quantizes() {
			continue
		}
		w := g.Const(sl.Value).Clone()
		require.NoError(t, sim.Apply(w, w, &sl.Config, set.Params(id), sim.Quantize))
		c.SetInput(sl.Node, sl.Index, c.AddConst("fake", w))
	}
	return c
}

func TestClipOnlyClips(t *testing.T) {
	g, set, feeds := lowertest.Configured(t, lowertest.Networks["mobilenet"], "onnxruntime")
	s, err := sim.New(g, set, sim.Options{})
	require.NoError(t, err)
	id, _ := g.LookupNode("conv1")
	in := set.Input(id, 0)
	hooks := s.NewHooks(sim.View{Mode: sim.Clip, Mask: sim.Only([]tqc.SlotID{in})})
	x := feeds["x"]
	got, err := hooks.Input(g.Node(id), 0, x)
	require.NoError(t, err)
	grid := set.Grid(in, 0)
	lo, hi := grid.Dequantize(grid.QMin), grid.Dequantize(grid.QMax)
	clipped := 0
	for i, v := range x.F32() {
		require.Equal(t, min(max(v, lo), hi), got.F32()[i])
		if v < lo || v > hi {
			clipped++
		}
	}
	require.Positive(t, clipped)
}

func TestConstantsKeepTheirPointer(t *testing.T) {
	g, set, _ := lowertest.Configured(t, lowertest.Networks["mobilenet"], "onnxruntime")
	s, err := sim.New(g, set, sim.Options{})
	require.NoError(t, err)
	id, _ := g.LookupNode("conv1")
	w := g.Const(g.Node(id).Inputs[1])
	var mu sync.Mutex
	seen := map[*tensor.Tensor]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			got, err := s.Hooks(nil).Input(g.Node(id), 1, w)
			mu.Lock()
			defer mu.Unlock()
			seen[got] = err == nil
		}()
	}
	wg.Wait()
	require.Len(t, seen, 1)
	clipped, err := s.NewHooks(sim.View{Mode: sim.Clip}).Input(g.Node(id), 1, w)
	require.NoError(t, err)
	require.False(t, seen[clipped], "clipped weights are others")
	require.False(t, seen[w], "the graph's constant is not written to")
}

func TestRunnersInParallelGiveTheSameBits(t *testing.T) {
	g, set, feeds := lowertest.Configured(t, lowertest.Networks["resnet"], "onnxruntime")
	s, err := sim.New(g, set, sim.Options{})
	require.NoError(t, err)
	want := run(t, g, feeds, s.Hooks(nil))
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	results := make([][]*tensor.Tensor, 4)
	errs := make([]error, 4)
	for i := range results {
		wg.Add(1)
		go func() {
			defer wg.Done()
			results[i], errs[i] = session.NewRunner().Run(context.Background(), feeds, s.Hooks(nil))
		}()
	}
	wg.Wait()
	for i := range results {
		require.NoError(t, errs[i])
		requireSame(t, want, results[i])
	}
}

const island = `
input x: f32[4,5]
const w: f32[5,3] = normal(1)
y: f32[4,3] = MatMul(x, w) "mm"
z: f32[4,3] = Exp(y) "exp"
output z
`

func TestIslandsRoundToTheirPrecision(t *testing.T) {
	g := graphtest.Parse(t, island)
	set := tqc.NewSet(g)
	feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(1, 4, 5)}
	for _, p := range []qmath.Precision{qmath.FP32, qmath.TF32, qmath.FP16, qmath.BF16} {
		for id := range set.Domains {
			set.Domains[id] = tqc.FloatDomain(p)
		}
		s, err := sim.New(g, set, sim.Options{})
		require.NoError(t, err)
		got := run(t, g, feeds, s.Hooks(nil))[0]

		round := func(x *tensor.Tensor) *tensor.Tensor {
			y := x.Clone()
			p.RoundSlice(y.F32(), x.F32())
			return y
		}
		w, _ := g.Lookup("w")
		c := g.Clone()
		c.SetConst(w, round(g.Const(w)))
		mm := graphtest.Parse(t, "input x: f32[4,5]\ninput w: f32[5,3]\ny: f32[4,3] = MatMul(x, w)\noutput y")
		exp := graphtest.Parse(t, "input y: f32[4,3]\nz: f32[4,3] = Exp(y)\noutput z")
		y := run(t, mm, map[string]*tensor.Tensor{"x": round(feeds["x"]), "w": round(g.Const(w))}, nil)[0]
		if p != qmath.TF32 { // tensor cores round what they read only
			y = round(y)
		}
		z := run(t, exp, map[string]*tensor.Tensor{"y": y}, nil)[0]
		if p != qmath.TF32 {
			z = round(z)
		}
		require.True(t, tensor.Equal(z, got), "%s", p)
		requireSame(t, run(t, g, feeds, nil), run(t, g, feeds, s.Hooks(sim.Only(nil))), "a mask leaves islands alone")
	}
}

func TestGroups(t *testing.T) {
	for platform, want := range map[string]string{
		// The input belongs to the group where it is quantized there, and not where its producer does that.
		"trt_int8":    "[depthwise relu2] rd: depthwise.in0 depthwise.in1 reads",
		"onnxruntime": "[depthwise relu2] rd: depthwise.in1 depthwise.in2 relu2.out0 reads depthwise.in0",
	} {
		g, set, _ := lowertest.Configured(t, lowertest.Networks["mobilenet"], platform)
		s, err := sim.New(g, set, sim.Options{})
		require.NoError(t, err)
		id, _ := g.LookupNode("depthwise")
		groups := s.Groups()
		gr := groups[slices.IndexFunc(groups, func(gr sim.Group) bool { return gr.Nodes[0] == id })]
		var names []string
		for _, n := range gr.Nodes {
			names = append(names, g.Node(n).Name)
		}
		text := fmt.Sprintf("%v %s: ", names, g.Value(gr.Output).Name)
		for _, sl := range gr.Slots {
			text += fmt.Sprintf("%s.%s%d ", g.Node(set.Slot(sl).Node).Name, set.Slot(sl).Kind, set.Slot(sl).Index)
		}
		text += "reads"
		for _, sl := range gr.Reads {
			text += fmt.Sprintf(" %s.%s%d", g.Node(set.Slot(sl).Node).Name, set.Slot(sl).Kind, set.Slot(sl).Index)
		}
		require.Equal(t, want, text, platform)
	}
}

func TestNewRefusesWhatCannotBeSimulated(t *testing.T) {
	g := graphtest.Parse(t, lowertest.Networks["squeezenet"])
	conv, _ := g.LookupNode("squeeze")
	act := target.ONNXRuntime.Activation
	weight := target.ONNXRuntime.Weight

	set := tqc.NewSet(g)
	require.NoError(t, set.Configure(set.Input(conv, 1), weight))
	require.NoError(t, set.Render(set.Input(conv, 1), tqc.Params{Scale: []float32{1, 1, 1}, ZeroPoint: []int32{0, 0, 0}}))
	_, err := sim.New(g, set, sim.Options{})
	require.ErrorContains(t, err, `node "squeeze" (Conv, f32[1,3,8,8], f32[4,3,3,3]): in 1: 3 scales for [4,3,3,3] along axis 0, wanted 4`)

	set = tqc.NewSet(g)
	act.Policy, act.GroupSize = tqc.PerGroup|tqc.Asymmetric|tqc.Linear, 3
	require.NoError(t, set.Configure(set.Input(conv, 0), act))
	require.NoError(t, set.Render(set.Input(conv, 0), tqc.Params{Scale: []float32{1}, ZeroPoint: []int32{0}}))
	_, err = sim.New(g, set, sim.Options{})
	require.ErrorContains(t, err, "scales of groups of an activation are computed at run time only")

	other := graphtest.Parse(t, island)
	_, err = sim.New(other, set, sim.Options{})
	require.ErrorContains(t, err, "configs of 9 nodes for a graph of 2")
}

// TestNodesThatAreNotConfiguredAreAnError changes the graph that runs, but not the one that was configured: nothing may stay in float
// because it is not recognised.
func TestNodesThatAreNotConfiguredAreAnError(t *testing.T) {
	const text = "opset 13; input x: f32[1,2,4,4]; const w: f32[2,2,1,1] = [1, -1, 0.5, 2]; const b: f32[2] = [1, 2]; c = Conv(x, " +
		"w) \"conv\"; y = Relu(c) \"relu\"; output y"
	for name, change := range map[string]func(g *graph.Graph){
		`node "conv" (Conv) has 3 inputs and 1 outputs, other ones than in the graph that was configured (2 and 1)`: func(g *graph.Graph) {
			b, _ := g.Lookup("b")
			conv, _ := g.LookupNode("conv")
			g.SetInput(conv, 2, b)
		},
		`node "other" (Conv) is "conv" (Conv)`: func(g *graph.Graph) {
			conv, _ := g.LookupNode("conv")
			require.NoError(t, g.RenameNode(conv, "other"))
		},
		`node "late" (Abs) has number 2, the graph that was configured has 2 nodes`: func(g *graph.Graph) {
			c, _ := g.Lookup("c")
			relu, _ := g.LookupNode("relu")
			v, err := g.AddValue(graph.Value{})
			require.NoError(t, err)
			_, err = g.AddNode(graph.Node{Name: "late", Op: "Abs", Inputs: []graph.ValueID{c}, Outputs: []graph.ValueID{v}})
			require.NoError(t, err)
			g.SetInput(relu, 0, v)
		},
	} {
		g, set, feeds := lowertest.Configured(t, text, "onnxruntime")
		s, err := sim.New(g, set, sim.Options{})
		require.NoError(t, err)
		other := g.Clone()
		run(t, other, feeds, s.Hooks(nil)) // a clone is the graph that was configured
		change(other)
		session, err := exec.New(other, exec.Options{})
		require.NoError(t, err)
		_, err = session.NewRunner().Run(context.Background(), feeds, s.Hooks(nil))
		require.ErrorContains(t, err, name)
	}
}

// An LSTM whose gates are open counts up by one each step: from 27.5 on the fifth of eight steps is beyond 32, and all behind it.
func TestCutCells(t *testing.T) {
	tg := target.TFLiteInt8
	tg.Ops, tg.BorderCost = slices.Clone(tg.Ops), 0
	at := slices.IndexFunc(tg.Ops, func(o target.Op) bool { return o.Type == "LSTM" })
	tg.Ops[at].Asked, tg.Ops[at].Schemes.Activation = false, tg.Ops[at].Schemes.Activation[1:]
	g := graphtest.Parse(t, `
input x: f32[8,1,4]
input c: f32[1,1,2]
const w: f32[1,8,4] = normal(seed=1, std=0.01)
const r: f32[1,8,2] = normal(seed=2, std=0.01)
const b: f32[1,16] = normal(seed=3)
y: f32[8,1,1,2] = LSTM(x, w, r, b, _, _, c) {hidden_size=2} "cells"
output y
`)
	require.Empty(t, graph.InferShapes(g))
	id, _ := g.LookupNode("cells")
	for i, b := 0, g.Const(g.Node(id).Inputs[3]).F32(); i < len(b); i++ {
		b[i] = 15
	}
	set, feeds := lowertest.Configure(t, g, &tg)
	s, err := sim.New(g, set, sim.Options{})
	require.NoError(t, err)
	for i := range feeds["c"].F32() {
		feeds["c"].F32()[i] = 20
	}
	run(t, g, feeds, s.Hooks(nil))
	require.Zero(t, s.CutCells())
	for i := range feeds["c"].F32() {
		feeds["c"].F32()[i] = 27.5
	}
	run(t, g, feeds, s.Hooks(nil))
	require.Equal(t, 4.0/16, s.CutCells())
}
