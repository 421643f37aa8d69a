package sim_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/graphtest"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/passes"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// networks have what the real ones have: depthwise convolution and ReLU6, fire modules with Concat, residual Add, matrices.
var networks = map[string]string{
	"mobilenet": `
input x: f32[1,3,9,9]
const w1: f32[8,3,3,3] = normal(seed=1, std=0.3)
const b1: f32[8] = normal(2)
const wd: f32[8,1,3,3] = normal(seed=3, std=0.5)
const bd: f32[8] = normal(4)
const w2: f32[12,8,1,1] = normal(seed=5, std=0.4)
const lo: f32[] = 0
const hi: f32[] = 6
const axes: i64[2] = [2, 3]
const wf: f32[12,5] = normal(6)
const bf: f32[5] = normal(7)
c1: f32[1,8,9,9] = Conv(x, w1, b1) {pads=[1,1,1,1]} "conv1"
r1: f32[1,8,9,9] = Clip(c1, lo, hi) "relu1"
cd: f32[1,8,9,9] = Conv(r1, wd, bd) {pads=[1,1,1,1], group=8} "depthwise"
rd: f32[1,8,9,9] = Clip(cd, lo, hi) "relu2"
c2: f32[1,12,9,9] = Conv(rd, w2) "pointwise"
p: f32[1,12,1,1] = GlobalAveragePool(c2) "pool"
f: f32[1,12] = Flatten(p) "flat"
y: f32[1,5] = Gemm(f, wf, bf) "fc"
z: f32[1,5] = Softmax(y) {axis=1} "soft"
output z
`,
	"squeezenet": `
input x: f32[1,3,8,8]
const w0: f32[4,3,3,3] = normal(seed=1, std=0.3)
const w1: f32[6,4,1,1] = normal(seed=2, std=0.4)
const w3: f32[6,4,3,3] = normal(seed=3, std=0.3)
const b3: f32[6] = normal(4)
c0: f32[1,4,8,8] = Conv(x, w0) {pads=[1,1,1,1]} "squeeze"
r0: f32[1,4,8,8] = Relu(c0) "srelu"
m0: f32[1,4,4,4] = MaxPool(r0) {kernel_shape=[2,2], strides=[2,2]} "pool"
c1: f32[1,6,4,4] = Conv(m0, w1) "expand1"
r1: f32[1,6,4,4] = Relu(c1) "erelu1"
c3: f32[1,6,4,4] = Conv(m0, w3, b3) {pads=[1,1,1,1]} "expand3"
r3: f32[1,6,4,4] = Relu(c3) "erelu3"
k: f32[1,12,4,4] = Concat(r1, r3) {axis=1} "concat"
y: f32[1,12,1,1] = GlobalAveragePool(k) "gap"
output y
output k
`,
	"resnet": `
input x: f32[2,4,6,6]
const w1: f32[4,4,3,3] = normal(seed=1, std=0.3)
const w2: f32[4,4,3,3] = normal(seed=2, std=0.3)
const w3: f32[4,4,1,1] = normal(seed=3, std=0.5)
const b: f32[4] = normal(4)
const s: f32[1,4,1,1] = normal(6)
a: f32[2,4,6,6] = Conv(x, w1, b) {pads=[1,1,1,1]} "stem"
ra: f32[2,4,6,6] = Relu(a) "stemrelu"
c: f32[2,4,6,6] = Conv(ra, w2, b) {pads=[1,1,1,1]} "block"
d: f32[2,4,6,6] = Add(c, ra) "add"
e: f32[2,4,6,6] = Relu(d) "addrelu"
m: f32[2,4,6,6] = Mul(e, s) "scale"
g: f32[2,4,6,6] = Sigmoid(m) "gate"
h: f32[2,4,6,6] = Mul(m, g) "swish"
q: f32[2,4,6,6] = Conv(h, w3) "project"
output h
output q
`,
	"matrices": `
input x: f32[1,6,8]
const wq: f32[8,8] = normal(seed=1, std=0.3)
const wk: f32[8,8] = normal(seed=2, std=0.3)
const wl: f32[6,6] = normal(seed=3, std=0.3)
q: f32[1,6,8] = MatMul(x, wq) "q"
k: f32[1,6,8] = MatMul(x, wk) "k"
kt: f32[1,8,6] = Transpose(k) {perm=[0,2,1]} "kt"
a: f32[1,6,6] = MatMul(q, kt) "scores"
l: f32[1,6,6] = MatMul(wl, a) "left"
s: f32[1,6,6] = Softmax(l) {axis=-1} "soft"
y: f32[1,6,8] = MatMul(s, x) "mix"
output y
`,
}

// configured returns a network with scales from the extremes of one run, as calibration would find them.
func configured(t testing.TB, text, platform string) (*graph.Graph, *tqc.Set, map[string]*tensor.Tensor) {
	t.Helper()
	g := graphtest.Parse(t, text)
	tg, err := target.Find(platform)
	require.NoError(t, err)
	free := *tg
	free.BorderCost = 0
	a, err := dispatch.Assign(g, &free)
	require.NoError(t, err)
	set, _, err := quantizer.Configure(g, a, &free, quantizer.Options{})
	require.NoError(t, err)
	feeds := map[string]*tensor.Tensor{}
	for i, v := range g.Inputs {
		shape, _ := g.Value(v).Shape.Ints()
		feeds[g.Value(v).Name] = graphtest.Normal(uint64(100+i), shape...)
	}
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	values, err := session.NewRunner().RunAll(context.Background(), feeds, nil, nil)
	require.NoError(t, err)
	for _, v := range g.Inputs {
		values[v] = feeds[g.Value(v).Name]
	}
	for id := range tqc.SlotID(set.NumSlots()) {
		sl := set.Slot(id)
		if sl.State() != tqc.Initial {
			continue
		}
		require.NoError(t, set.Render(id, minmax(t, g, sl, values)))
	}
	_, err = passes.SolveBias(g, set)
	require.NoError(t, err)
	return g, set, feeds
}

func minmax(t testing.TB, g *graph.Graph, sl *tqc.Slot, values []*tensor.Tensor) tqc.Params {
	if sl.Config.Observer == tqc.ObserverFixed {
		return tqc.Params{Scale: []float32{sl.Config.FixedScale}, ZeroPoint: []int32{sl.Config.FixedZeroPoint}}
	}
	x := values[sl.Value]
	if c := g.Const(sl.Value); c != nil {
		x = c
	}
	outer, n, inner := 1, 1, x.Len()
	if sl.Config.Policy.Has(tqc.PerChannel) {
		outer, n, inner = x.Blocks(sl.Config.Axis)
	}
	var p tqc.Params
	for c := range n {
		lo, hi := math.Inf(1), math.Inf(-1)
		for o := range outer {
			for _, v := range x.F32()[(o*n+c)*inner:][:inner] {
				lo, hi = min(lo, float64(v)), max(hi, float64(v))
			}
		}
		s, z, _, err := qmath.ScaleFromRange(lo*0.8, hi*0.8, sl.Config.Scheme()) // something has to clip
		require.NoError(t, err)
		p.Scale, p.ZeroPoint = append(p.Scale, s), append(p.ZeroPoint, z)
	}
	return p
}

// eachNetwork runs f for every network on every target.
func eachNetwork(t *testing.T, f func(t *testing.T, g *graph.Graph, set *tqc.Set, feeds map[string]*tensor.Tensor)) {
	for name, text := range networks {
		for _, tg := range target.All {
			t.Run(name+"/"+tg.Name, func(t *testing.T) {
				g, set, feeds := configured(t, text, tg.Name)
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

// written returns g with a Q/DQ pair at every slot that quantizes, as an exporter writes it: at an input for this reader alone,
// at an output for all readers. Integer biases are initializers with a DQ.
func written(t testing.TB, g *graph.Graph, set *tqc.Set) *graph.Graph {
	c := g.Clone()
	for id := range tqc.SlotID(set.NumSlots()) {
		sl := set.Slot(id)
		if !sl.State().Quantizes() {
			continue
		}
		v := sl.Value
		if sl.Weight && sl.Config.QMin != -128 { // QuantizeLinear would not stop at -127, and does not make int32
			c.SetInput(sl.Node, sl.Index, pair(t, c, g, set, sl, graph.NoValue, codes(g, set, sl)))
			continue
		}
		if sl.Kind == tqc.Input {
			c.SetInput(sl.Node, sl.Index, pair(t, c, g, set, sl, v, nil))
			continue
		}
		raw, err := c.AddValue(graph.Value{DType: tensor.Float32, Shape: g.Value(v).Shape})
		require.NoError(t, err)
		require.NoError(t, c.SetOutput(sl.Node, sl.Index, raw))
		d := pair(t, c, g, set, sl, raw, nil)
		require.NoError(t, c.SetOutput(c.Producer(d), 0, v))
	}
	require.NoError(t, c.Check())
	return c
}

// codes returns the integers of a parameter.
func codes(g *graph.Graph, set *tqc.Set, sl *tqc.Slot) *tensor.Tensor {
	w, p := g.Const(sl.Value), set.Params(sl.ID)
	outer, n, inner := 1, 1, w.Len()
	if sl.Config.Policy.Has(tqc.PerChannel) {
		outer, n, inner = w.Blocks(sl.Config.Axis)
	}
	if sl.Config.Bits == 32 {
		q := tensor.New(tensor.Int32, w.Shape...)
		for i, x := range w.F32() {
			tensor.Of[int32](q)[i], _ = qmath.QuantizeBias(x, p.Scale[i/inner%n])
		}
		return q
	}
	d := tensor.Int8
	if !sl.Config.Signed() {
		d = tensor.Uint8
	}
	q := tensor.New(d, w.Shape...)
	for i := range outer * n * inner {
		code := p.Grid(&sl.Config, i/inner%n).Quantize(w.F32()[i])
		if d == tensor.Int8 {
			tensor.Of[int8](q)[i] = int8(code)
		} else {
			tensor.Of[uint8](q)[i] = uint8(code)
		}
	}
	return q
}

// pair adds Q and DQ behind raw, or a DQ behind the integers codes, and returns the DQ's output.
func pair(t testing.TB, c, g *graph.Graph, set *tqc.Set, sl *tqc.Slot, raw graph.ValueID, codes *tensor.Tensor) graph.ValueID {
	p := set.Params(sl.ID)
	dt, shape := tensor.Int8, []int{}
	if !sl.Config.Signed() {
		dt = tensor.Uint8
	}
	if codes != nil {
		dt = codes.DType
	}
	if sl.Config.Policy.Has(tqc.PerChannel) {
		shape = []int{len(p.Scale)}
	}
	zero := tensor.New(dt, shape...)
	for i, z := range p.ZeroPoint {
		switch d := zero.Data.(type) {
		case []int8:
			d[i] = int8(z)
		case []uint8:
			d[i] = uint8(z)
		case []int32:
			d[i] = z
		}
	}
	scale := c.AddConst("scale", tensor.FromF32(p.Scale, shape...))
	z := c.AddConst("zero", zero)
	axis := graph.Int("axis", int64(sl.Config.Axis))
	var q graph.ValueID
	var err error
	if codes != nil {
		q = c.AddConst("codes", codes)
	} else {
		q, err = c.AddValue(graph.Value{DType: dt, Shape: g.Value(sl.Value).Shape})
		require.NoError(t, err)
		_, err = c.AddNode(graph.Node{Name: c.FreshName("q"), Op: "QuantizeLinear", Attrs: []graph.Attr{axis},
			Inputs: []graph.ValueID{raw, scale, z}, Outputs: []graph.ValueID{q}})
		require.NoError(t, err)
	}
	d, err := c.AddValue(graph.Value{DType: tensor.Float32, Shape: g.Value(sl.Value).Shape})
	require.NoError(t, err)
	_, err = c.AddNode(graph.Node{Name: c.FreshName("dq"), Op: "DequantizeLinear", Attrs: []graph.Attr{axis},
		Inputs: []graph.ValueID{q, scale, z}, Outputs: []graph.ValueID{d}})
	require.NoError(t, err)
	return d
}

func TestSimulationEqualsTheGraphWithPairsWritten(t *testing.T) {
	eachNetwork(t, func(t *testing.T, g *graph.Graph, set *tqc.Set, feeds map[string]*tensor.Tensor) {
		s, err := sim.New(g, set, sim.Options{})
		require.NoError(t, err)
		got := run(t, g, feeds, s.Hooks(nil))
		requireSame(t, run(t, written(t, g, set), feeds, nil), got, "simulation and Q/DQ graph differ")
		float := run(t, g, feeds, nil)
		require.False(t, tensor.Equal(float[0], got[0]), "the simulation does something")
	})
}

func TestMasks(t *testing.T) {
	eachNetwork(t, func(t *testing.T, g *graph.Graph, set *tqc.Set, feeds map[string]*tensor.Tensor) {
		s, err := sim.New(g, set, sim.Options{})
		require.NoError(t, err)
		full := run(t, g, feeds, s.Hooks(nil))
		requireSame(t, run(t, g, feeds, nil), run(t, g, feeds, s.Hooks(sim.Only(nil))), "no slot: the float graph")
		requireSame(t, full, run(t, g, feeds, s.Hooks(func(tqc.SlotID) bool { return true })), "quantizing again in front of a reader changes nothing")
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
	g, set, feeds := configured(t, networks["mobilenet"], "onnxruntime")
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
	g, set, _ := configured(t, networks["mobilenet"], "onnxruntime")
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
	g, set, feeds := configured(t, networks["resnet"], "onnxruntime")
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
		s, err := sim.New(g, set, sim.Options{Island: p})
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
		// The input belongs to the group on both targets, whoever quantizes it in the whole graph.
		"trt_int8":    "[depthwise relu2] rd: depthwise.in0 depthwise.in1 ",
		"onnxruntime": "[depthwise relu2] rd: depthwise.in0 depthwise.in1 depthwise.in2 relu2.out0 ",
	} {
		g, set, _ := configured(t, networks["mobilenet"], platform)
		s, err := sim.New(g, set, sim.Options{})
		require.NoError(t, err)
		id, _ := g.LookupNode("depthwise")
		gr := s.Group(id)
		var names []string
		for _, n := range gr.Nodes {
			names = append(names, g.Node(n).Name)
		}
		text := fmt.Sprintf("%v %s: ", names, g.Value(gr.Output).Name)
		for _, sl := range gr.Slots {
			text += fmt.Sprintf("%s.%s%d ", g.Node(set.Slot(sl).Node).Name, set.Slot(sl).Kind, set.Slot(sl).Index)
		}
		require.Equal(t, want, text, platform)
	}
}

func TestNewRefusesWhatCannotBeSimulated(t *testing.T) {
	g := graphtest.Parse(t, networks["squeezenet"])
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
	require.ErrorContains(t, err, "per-group scales of an activation")

	other := graphtest.Parse(t, island)
	_, err = sim.New(other, set, sim.Options{})
	require.ErrorContains(t, err, "configs of 9 nodes for a graph of 2")
}

func TestApplyAlongAnAxisInBothLayouts(t *testing.T) {
	x := graphtest.Normal(3, 2, 3, 4, 5)
	cfg := tqc.Config{Policy: tqc.Asymmetric | tqc.PerChannel | tqc.Linear, Bits: 8, QMax: 255}
	for axis, scales := range [][]float32{{0.1, 0.2}, {0.1, 0.2, 0.3}, {0.1, 0.2, 0.3, 0.4}, {0.1, 0.2, 0.3, 0.4, 0.5}} {
		cfg.Axis = axis - 4*(axis%2) // negative axes count from the end
		p := tqc.Params{Scale: scales, ZeroPoint: make([]int32, len(scales))}
		for i := range p.ZeroPoint {
			p.ZeroPoint[i] = int32(100 + i)
		}
		want := x.Clone()
		for i, v := range x.F32() {
			at := [4]int{i / 60, i / 20 % 3, i / 5 % 4, i % 5}
			want.F32()[i] = p.Grid(&cfg, at[axis]).Fake(v)
		}
		row, last := x.Clone(), x.ToChannelsLast()
		require.NoError(t, sim.Apply(row, x, &cfg, &p, sim.Quantize))
		require.NoError(t, sim.Apply(last, last, &cfg, &p, sim.Quantize))
		require.True(t, tensor.Equal(want, row), "axis %d", axis)
		require.True(t, tensor.Equal(want, last.ToRowMajor()), "axis %d, channels last", axis)
	}
	cfg.Axis = 4
	require.ErrorContains(t, sim.Apply(x, x, &cfg, &tqc.Params{Scale: []float32{1}, ZeroPoint: []int32{0}}, sim.Quantize), "along axis 4 of f32[2,3,4,5]")
}

func TestApplyPerGroup(t *testing.T) {
	x := graphtest.Normal(4, 5, 2) // groups of 2 along axis 0: rows 0-1, 2-3, 4
	cfg := tqc.Config{Policy: tqc.Symmetric | tqc.PerGroup | tqc.Linear, Bits: 4, QMin: -8, QMax: 7, GroupSize: 2}
	p := tqc.Params{Scale: []float32{0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, ZeroPoint: make([]int32, 6)}
	got := x.Clone()
	require.NoError(t, sim.Apply(got, x, &cfg, &p, sim.Quantize))
	for i, v := range x.F32() {
		row, col := i/2, i%2
		require.Equal(t, p.Grid(&cfg, row/2*2+col).Fake(v), got.F32()[i])
	}
	p.Scale = p.Scale[:5]
	require.Error(t, sim.Apply(got, x, &cfg, &p, sim.Quantize))
}

// A float32 quotient has 24 bits: a code of 30 needs the float64 division that the exporter uses.
func TestBiasCodesAreExact(t *testing.T) {
	cfg := tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Bits: 32, QMin: math.MinInt32, QMax: math.MaxInt32}
	p := tqc.Params{Scale: []float32{3e-9}, ZeroPoint: []int32{0}}
	x := graphtest.Uniform(5, -2, 2, 1000)
	got := x.Clone()
	require.NoError(t, sim.Apply(got, x, &cfg, &p, sim.Quantize))
	for i, v := range x.F32() {
		q := int32(math.RoundToEven(float64(v) / float64(p.Scale[0])))
		require.Equal(t, float32(q)*p.Scale[0], got.F32()[i])
	}
}
