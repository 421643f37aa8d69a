package overlay_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/language/checkpoint"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/overlay"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

const net = `opset 13
input x: f32[1,4,6,6]
const w: f32[4,4,3,3] = normal(seed=1, std=0.3)
const b: f32[4] = [1, 2, 3, 4]
c1 = Conv(x, w, b) "c1"
c2 = Conv(c1, w, b) "c2"
c3 = Conv(c2, w) {pads=[1,1,1,1]} "c3"
output c3
`

// weighted gives the weights of all nodes a scale; it returns the set.
func weighted(t *testing.T, g *graph.Graph, scale float32) *tqc.Set {
	t.Helper()
	set := tqc.NewSet(g)
	for _, name := range []string{"c1", "c2", "c3"} {
		id, _ := g.LookupNode(name)
		set.Domains[id] = tqc.DomainInt
		c := target.TRTInt8.Weight
		require.NoError(t, set.Configure(set.Input(id, 1), c))
		require.NoError(t, set.Render(set.Input(id, 1), tqc.Params{Scale: []float32{scale, scale, scale, scale}, ZeroPoint: make([]int32, 4)}))
	}
	return set
}

func entry(t *testing.T, g *graph.Graph, set *tqc.Set, node string, value ...float32) overlay.Entry {
	t.Helper()
	id, _ := g.LookupNode(node)
	e := overlay.Entry{Node: node, Input: 2, For: overlay.Fingerprint(set, id), Value: tensor.FromF32(value, len(value))}
	if v := g.Node(id).Input(2); v == graph.NoValue {
		e.Added, e.Base = true, overlay.TensorHash(tensor.New(tensor.Float32, len(value)))
	} else {
		e.Base = overlay.TensorHash(g.Const(v))
	}
	return e
}

func bias(t *testing.T, g *graph.Graph, node string) []float32 {
	t.Helper()
	id, _ := g.LookupNode(node)
	v := g.Node(id).Input(2)
	require.NotEqual(t, graph.NoValue, v)
	return g.Const(v).F32()
}

func TestApplyLeavesTheReferenceAndOtherReadersAlone(t *testing.T) {
	g := graphtest.Parse(t, net)
	set := weighted(t, g, 0.01)
	o := &overlay.Overlay{Entries: []overlay.Entry{entry(t, g, set, "c1", 5, 6, 7, 8), entry(t, g, set, "c3", 1, 1, 1, 1)}}
	o.Prepare(g)
	require.NoError(t, g.Check())
	tuned, stale := o.Apply(g, weighted(t, g, 0.01))
	require.Empty(t, stale)
	require.NoError(t, tuned.Check())
	require.Equal(t, []int{g.NumNodes(), g.NumValues()}, []int{tuned.NumNodes(), tuned.NumValues()}, "the same numbers")
	require.Equal(t, []float32{5, 6, 7, 8}, bias(t, tuned, "c1"))
	require.Equal(t, []float32{1, 2, 3, 4}, bias(t, tuned, "c2"), "the bias was shared")
	require.Equal(t, []float32{1, 1, 1, 1}, bias(t, tuned, "c3"))
	require.Equal(t, []float32{1, 2, 3, 4}, bias(t, g, "c1"))
	require.Equal(t, []float32{0, 0, 0, 0}, bias(t, g, "c3"), "zeros compute what no bias does")
}

func TestWhatDoesNotFitIsStale(t *testing.T) {
	g := graphtest.Parse(t, net)
	set := weighted(t, g, 0.01)
	o := &overlay.Overlay{Entries: []overlay.Entry{entry(t, g, set, "c1", 5, 6, 7, 8)}}
	o.Prepare(g)

	other, stale := o.Apply(g, weighted(t, g, 0.02))
	require.Len(t, stale, 1)
	require.Equal(t, "c1:in2: the weight of the node is quantized otherwise than when it was tuned", stale[0].String())
	require.Equal(t, []float32{1, 2, 3, 4}, bias(t, other, "c1"))

	float := weighted(t, g, 0.01)
	id, _ := g.LookupNode("c1")
	float.Domains[id] = tqc.DomainFP32
	other, stale = o.Apply(g, float)
	require.Empty(t, stale, "a float node takes the reference's value, and nothing is wrong")
	require.Equal(t, []float32{1, 2, 3, 4}, bias(t, other, "c1"))

	changed := g.Clone()
	changed.SetConst(changed.Node(id).Input(2), tensor.FromF32([]float32{1, 2, 3, 5}, 4))
	_, stale = o.Apply(changed, nil)
	require.Len(t, stale, 1)
	require.Contains(t, stale[0].Why, "another value")

	o.Entries[0].Node = "gone"
	_, stale = o.Apply(g, nil)
	require.Equal(t, "the model has no such node", stale[0].Why)
}

func TestFileRoundTrip(t *testing.T) {
	g := graphtest.Parse(t, net)
	set := weighted(t, g, 0.01)
	o := &overlay.Overlay{Entries: []overlay.Entry{entry(t, g, set, "c3", 1, 2, 3, 4), entry(t, g, set, "c1", 5, 6, 7, float32(math.Pi))}}
	b, err := o.Encode()
	require.NoError(t, err)
	back, err := overlay.Parse(b)
	require.NoError(t, err)
	require.Equal(t, "c1", back.Entries[0].Node, "sorted")
	require.Equal(t, o.Entries[0], back.Entries[1])
	again, err := back.Encode()
	require.NoError(t, err)
	require.Equal(t, b, again)
	s, err := checkpoint.ParseSafetensors(b)
	require.NoError(t, err)
	require.Equal(t, []int{4}, s.Arrays[0].Shape)

	w := graphtest.Parse(t, net)
	id, _ := w.LookupNode("c1")
	weight := w.Const(w.Node(id).Input(1))
	slot := set.Slot(set.Input(id, 1))
	frozen := &overlay.Overlay{Entries: []overlay.Entry{{Node: "c1", Input: 1, Base: overlay.TensorHash(weight),
		For: overlay.Fingerprint(set, id), Value: weight,
		Scheme: overlay.SchemeText(&slot.Config), Scale: []float32{0.1, 1.0 / 3, 2, 3e-9}, ZeroPoint: []int32{0, -1, 2, math.MaxInt32}}}}
	require.Equal(t, "int8-sym-channel, -128 to 127, axis 0, half-even", frozen.Entries[0].Scheme)
	require.True(t, frozen.Entries[0].Freezes(&slot.Config))
	require.Equal(t, frozen, parsed(t, frozen))
	other := slot.Config
	other.QMax = 7
	require.False(t, frozen.Entries[0].Freezes(&other))
	frozen.Entries[0].ZeroPoint = frozen.Entries[0].ZeroPoint[:3]
	require.False(t, frozen.Entries[0].Freezes(&slot.Config))
	_, err = frozen.Encode()
	require.ErrorContains(t, err, "4 scales and 3 zero points")

	o.Entries[0].Value.F32()[1] = float32(math.NaN())
	b, err = o.Encode()
	require.NoError(t, err)
	_, err = overlay.Parse(b)
	require.ErrorContains(t, err, "element 1 is not finite")
	_, err = overlay.Parse(b[:20])
	require.ErrorContains(t, err, "overlay: safetensors")
}

func parsed(t *testing.T, o *overlay.Overlay) *overlay.Overlay {
	t.Helper()
	b, err := o.Encode()
	require.NoError(t, err)
	back, err := overlay.Parse(b)
	require.NoError(t, err)
	return back
}

func TestNames(t *testing.T) {
	name := overlay.FileName("dir/m.plan.json", "0123456789abcdef")
	require.Equal(t, "dir/m.tuned.01234567.safetensors", name)
	require.True(t, overlay.Belongs("dir/m.plan.json", name))
	for _, other := range []string{"dir/n.tuned.01234567.safetensors", "dir/m.tuned.0123456.safetensors", "dir/m.tuned.0123456x.safetensors",
		"dir/m.stats"} {
		require.False(t, overlay.Belongs("dir/m.plan.json", other), other)
	}
}

func TestStepsInTheFile(t *testing.T) {
	g := graphtest.Parse(t, net)
	require.Empty(t, graph.InferShapes(g))
	plain := &overlay.Overlay{Entries: []overlay.Entry{entry(t, g, weighted(t, g, 0.01), "c2", 1, 2, 3, 5)}}
	without, err := plain.Encode()
	require.NoError(t, err)
	steps := []rewrite.Step{
		{Kind: "scale", At: "c1", Vectors: map[string][]float32{"scale": {1, 2, 0.5, 1.0 / 3}}},
		{Kind: "scale", At: "c2", Nodes: []string{"c3"}, Groups: [][]int{{0, 1}, {2, 3}}, Vectors: map[string][]float32{"scale": {4, 1, 1, 1},
			"shift": {0}}},
	}
	o := &overlay.Overlay{Steps: steps, Entries: plain.Entries}
	b, err := o.Encode()
	require.NoError(t, err)
	require.NotEqual(t, without, b)
	back, err := overlay.Parse(b)
	require.NoError(t, err)
	require.Equal(t, steps, back.Steps)
	require.Len(t, back.Entries, 1)
	again, err := back.Encode()
	require.NoError(t, err)
	require.Equal(t, b, again)

	ref, err := back.Reference(g)
	require.NoError(t, err)
	require.InDeltaSlice(t, []float32{1, 4, 1.5, 4.0 / 3}, bias(t, ref, "c1"), 1e-6)
	_, err = (&overlay.Overlay{Steps: []rewrite.Step{{Kind: "scale", At: "gone"}}}).Reference(g)
	var broken *rewrite.Broken
	require.ErrorAs(t, err, &broken)

	s, err := checkpoint.ParseSafetensors(b)
	require.NoError(t, err)
	s.Arrays = s.Arrays[:len(s.Arrays)-1]
	var short bytes.Buffer
	require.NoError(t, s.Write(&short))
	_, err = overlay.Parse(short.Bytes())
	require.ErrorContains(t, err, "is not there")
}

func TestStatisticsNames(t *testing.T) {
	name := overlay.StatisticsName("m.plan.json", "0123456789abcdef")
	require.Equal(t, "m.01234567.stats", name)
	require.True(t, overlay.StatisticsBelong("m.plan.json", name))
	for _, other := range []string{"m.stats", "m.0123456.stats", "m.tuned.01234567.stats", "n.01234567.stats", "m.0123456x.stats"} {
		require.False(t, overlay.StatisticsBelong("m.plan.json", other), other)
	}
}

// A bias that tuning added has one number for each channel; where a step has doubled channels since, it is none, and no operator is left
// with a bias that is too short.
func TestAddedBiasOfOtherChannels(t *testing.T) {
	g := graphtest.Parse(t, net)
	o := &overlay.Overlay{Entries: []overlay.Entry{entry(t, g, weighted(t, g, 0.01), "c3", 1, 2, 3)}}
	o.Prepare(g)
	id, _ := g.LookupNode("c3")
	require.Equal(t, graph.NoValue, g.Node(id).Input(2))
	_, stale := o.Apply(g, nil)
	require.Len(t, stale, 1)
	o.Entries[0].Value = tensor.FromF32([]float32{1, 2, 3, 4}, 4)
	o.Prepare(g)
	require.Equal(t, 4, g.Const(g.Node(id).Input(2)).Len())
}
