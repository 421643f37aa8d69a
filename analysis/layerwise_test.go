package analysis

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/targettest"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// fusedNet has activations of several operators: HardSwish written out, Swish, GELU, and an integer output beside the float one.
const fusedNet = `graph fused
opset 13
input x: f32[1,8,10,10]
const w1: f32[16,8,3,3] = normal(seed=1, std=0.15)
const w2: f32[16,16,3,3] = normal(seed=2, std=0.1)
const w3: f32[16,16,3,3] = normal(seed=3, std=0.1)
const wf: f32[64,16] = normal(seed=4, std=0.3)
const wg: f32[16,64] = normal(seed=5, std=0.2)
const three: f32[] = 3
const zero: f32[] = 0
const six: f32[] = 6
const root: f32[] = 1.4142135
const one: f32[] = 1
const half: f32[] = 0.5
c1 = Conv(x, w1) {pads=[1,1,1,1]}
a1 = Add(c1, three)
k1 = Clip(a1, zero, six)
m1 = Mul(c1, k1)
h1 = Div(m1, six)
c2 = Conv(h1, w2) {pads=[1,1,1,1]}
s2 = Sigmoid(c2)
h2 = Mul(c2, s2)
c3 = Conv(h2, w3) {pads=[1,1,1,1]}
sum = Add(c3, h1)
p = GlobalAveragePool(sum)
f = Flatten(p)
u = Gemm(f, wf) {transB=1}
d = Div(u, root)
e = Erf(d)
e1 = Add(e, one)
ue = Mul(u, e1)
gelu = Mul(ue, half)
y = Gemm(gelu, wg) {transB=1}
top = ArgMax(y) {axis=1}
output top, y
`

// attentionNet multiplies computed matrices and splits one tensor among several readers.
const attentionNet = `graph attention
opset 13
input x: f32[1,16,256]
const wq: f32[256,256] = normal(seed=1, std=0.06)
const wk: f32[256,256] = normal(seed=2, std=0.06)
const wv: f32[256,256] = normal(seed=3, std=0.06)
const wo: f32[256,256] = normal(seed=4, std=0.06)
const scale: f32[] = 0.0625
q = MatMul(x, wq)
k = MatMul(x, wk)
v = MatMul(x, wv)
kt = Transpose(k) {perm=[0,2,1]}
qk = MatMul(q, kt)
qs = Mul(qk, scale)
a = Softmax(qs) {axis=-1}
av = MatMul(a, v)
o = MatMul(av, wo)
r = Add(o, x)
y = Relu(r)
output y
`

// integerNet answers with nothing but an integer.
const integerNet = `graph integer
opset 13
input x: f32[1,8,10,10]
const w1: f32[16,8,3,3] = normal(seed=1, std=0.15)
const w2: f32[16,16,3,3] = normal(seed=2, std=0.1)
c1 = Conv(x, w1) {pads=[1,1,1,1]}
r1 = Relu(c1)
c2 = Conv(r1, w2) {pads=[1,1,1,1]}
top = ArgMax(c2) {axis=1}
output top
`

// repeated runs the whole graph once per operator and measurement and averages: the slow way, with nothing of the fast one.
func repeated(t *testing.T, g *graph.Graph, q *sim.Simulator, data *exec.InMemory) []LayerError {
	t.Helper()
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	groups, err := groupsOf(g, q)
	require.NoError(t, err)
	n := float64(len(data.Samples))
	var list []LayerError
	for _, grp := range groups {
		meters := make([]meter, len(g.Outputs))
		var kinds []outputError
		l := LayerError{Node: g.Node(grp.node).Name}
		var weight, activation, read float64
		for _, sample := range data.Samples {
			runs := func(hooks *exec.Hooks) ([]*tensor.Tensor, *tensor.Tensor) {
				own := []*tensor.Tensor{}
				out, err := s.NewRunner().Run(context.Background(), sample.Feeds, looking(hooks, func(graph.ValueID) bool { return true },
					func(n *graph.Node, i int, x *tensor.Tensor) error {
						if n.Outputs[i] == grp.output {
							own = append(own, x.Clone())
						}
						return nil
					}))
				require.NoError(t, err)
				require.Len(t, own, 1)
				return out, own[0]
			}
			f, float := runs(&exec.Hooks{})
			x, quantized := runs(q.NewHooks(sim.View{Mask: grp.all}))
			_, clipped := runs(q.NewHooks(sim.View{Mask: grp.all, Mode: sim.Clip}))
			_, weights := runs(q.NewHooks(sim.View{Mask: grp.weights}))
			clip, round, err := parts(float, clipped, quantized)
			require.NoError(t, err)
			l.Clip, l.Round = l.Clip+clip/n, l.Round+round/n
			w, a, err := parts(float, weights, quantized)
			require.NoError(t, err)
			weight, activation = weight+w/n, activation+a/n
			if grp.reads != nil {
				_, reading := runs(q.NewHooks(sim.View{Mask: grp.reads}))
				_, r, err := parts(float, float, reading)
				require.NoError(t, err)
				read, l.Read = read+r/n, &read
			}
			kinds, err = NewJudge(g).compareOutputs(x, f)
			require.NoError(t, err)
			for i := range kinds {
				meters[i].add(kinds[i].Error)
			}
		}
		l.Local, l.Weight, l.Activation = l.Clip+l.Round, &weight, &activation
		l.Error, l.Spread = worst(meters, kinds)
		list = append(list, l)
	}
	return list
}

func TestLayerwiseEqualsNaiveRepetitionAtLessCost(t *testing.T) {
	for _, net := range []struct {
		name, text string
		shape      []int
		groups     int
	}{
		{"residual", residualNet, []int{1, 8, 10, 10}, 4},
		{"fused", fusedNet, []int{1, 8, 10, 10}, 3},
		{"attention", attentionNet, []int{1, 16, 256}, 4},
		{"integer", integerNet, []int{1, 8, 10, 10}, 2},
	} {
		for _, tgt := range targettest.Distinct() {
			for _, narrow := range []float64{1, 0.6} {
				t.Run(fmt.Sprintf("%s/%s/%g", net.name, tgt.Name, narrow), func(t *testing.T) {
					data := samplesOf(1, net.shape...)
					g, q := configured(t, net.text, tgt, data, narrow)
					want := repeated(t, g, q, data)
					if slices.ContainsFunc(tgt.Ops, func(o target.Op) bool { return o.Type == "Add" }) {
						require.GreaterOrEqual(t, len(want), net.groups)
					} else if len(want) == 0 {
						t.Skip("does not apply: of targets with integers for products of constants only") // what is left for them is not worth its borders
					}
					for _, memory := range []int64{0, 1, 20_000} {
						r := analyze(t, g, q, data, Config{Layerwise: true, Split: true, Memory: memory})
						require.Len(t, r.Layerwise, len(want))
						for i, l := range r.Layerwise {
							got := LayerError{Node: l.Node, Error: l.Error, Spread: l.Spread, Local: l.Local, Clip: l.Clip, Round: l.Round, Weight: l.Weight,
								Activation: l.Activation, Read: l.Read}
							require.Equal(t, want[i], got)
							require.Positive(t, l.Local, l.Node)
						}
						// One float run, the tails, one operator for weights, one for clipping and one for what it reads, one to choose what is kept.
						if memory == 0 {
							require.LessOrEqual(t, r.Forwards, 1+tails(t, g, q)+3+1+1e-9)
						}
					}
				})
			}
		}
	}
}

// tails adds up, over the operators analysed, the share of the work that follows each: what restarting costs at the most.
func tails(t *testing.T, g *graph.Graph, q *sim.Simulator) float64 {
	t.Helper()
	order, err := g.Order()
	require.NoError(t, err)
	groups, err := groupsOf(g, q)
	require.NoError(t, err)
	w := newWork(g)
	sum := 0.0
	for _, grp := range groups {
		sum += w.share(w.sum(order[slices.Index(order, grp.node):]))
	}
	return sum
}

// The count of forwards is that of the work done, by whoever counts it.
func TestForwardsCountTheNodesThatRan(t *testing.T) {
	data := samplesOf(1, 1, 8, 10, 10)
	g, q := configured(t, residualNet, &target.TRTInt8, data, 1)
	none := analyze(t, g, q, data, Config{Statistical: true})
	require.Equal(t, 1.0, none.Forwards, "statistics need the float graph only")
	require.Nil(t, none.Outputs)
	require.Equal(t, 2.0, analyze(t, g, q, data, Config{Graphwise: true}).Forwards)
	require.Equal(t, 2.0, analyze(t, g, q, data, Config{Outputs: true}).Forwards)
	// Nothing is clipped with the whole range, so that no operator runs for that; everything behind an operator does.
	r := analyze(t, g, q, data, Config{Layerwise: true})
	require.InDelta(t, 1+1+reach(t, g, q), r.Forwards, 1e-9)
}

// reach is tails of what really depends on each operator.
func reach(t *testing.T, g *graph.Graph, q *sim.Simulator) float64 {
	t.Helper()
	order, err := g.Order()
	require.NoError(t, err)
	groups, err := groupsOf(g, q)
	require.NoError(t, err)
	w := newWork(g)
	sum := 0.0
	for _, grp := range groups {
		changed := map[graph.ValueID]bool{}
		var ran []graph.NodeID
		for _, id := range order {
			n := g.Node(id)
			if id == grp.node || slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool { return changed[v] }) {
				ran = append(ran, id)
				for _, v := range n.Outputs {
					changed[v] = true
				}
			}
		}
		sum += w.share(w.sum(ran))
	}
	return sum
}

func TestInfiniteValuesAreRefusedNotReported(t *testing.T) {
	data := samplesOf(1, 1, 8, 10, 10)
	g, q := configured(t, residualNet, &target.TRTInt8, data, 1)
	bad := graphtest.Normal(1, 1, 8, 10, 10)
	bad.F32()[5] = float32(math.Inf(1))
	for _, cfg := range []Config{{Layerwise: true}, {Graphwise: true}, {Outputs: true}} {
		_, err := Analyze(context.Background(), g, q,
			&exec.InMemory{Samples: []*exec.Sample{{Name: "bad", Feeds: map[string]*tensor.Tensor{"x": bad}}}}, cfg)
		require.ErrorContains(t, err, "analyze: sample bad")
		require.ErrorContains(t, err, "not finite")
	}
}

// Dimensions that the model leaves open must not make the work of its operators vanish from the ranking.
func TestLayersOfOpenShapesHaveWork(t *testing.T) {
	data := samplesOf(1, 1, 8, 10, 10)
	g, q := configured(t, strings.Replace(residualNet, "f32[1,8,10,10]", "f32[N,8,H,W]", 1), &target.TRTInt8, data, 1)
	r, err := Analyze(context.Background(), g, q, data, Config{Layerwise: true})
	require.NoError(t, err)
	most := int64(0)
	for _, l := range r.Layerwise {
		most = max(most, l.MACs)
	}
	require.EqualValues(t, 16*16*9, most, "of one output element of the second Conv in every channel")
}

// An operator in less than float32, and nothing else: layerwise analysis of it is the error of the whole graph.
func TestLayerwiseOfFloatIslands(t *testing.T) {
	for _, domain := range []tqc.Domain{tqc.DomainFP16, tqc.DomainBF16, tqc.DomainTF32} {
		data := samplesOf(3, 1, 8, 10, 10)
		g := graphtest.Parse(t, residualNet)
		require.Empty(t, graph.InferShapes(g))
		seen := 0
		for _, id := range g.Nodes() {
			if sp := g.Node(id).Spec(); sp == nil || sp.Kind != graph.KindComputing {
				continue
			}
			set := tqc.NewSet(g)
			set.Domains[id] = domain
			q, err := sim.New(g, set, sim.Options{})
			require.NoError(t, err)
			r := analyze(t, g, q, data, Config{Layerwise: true, Outputs: true, Split: true})
			require.Len(t, r.Layerwise, 1)
			l := r.Layerwise[0]
			require.Equal(t, g.Node(id).Name, l.Node)
			require.Positive(t, l.NSR, "%s %s", l.Node, domain)
			require.Equal(t, r.Worst().NSR, l.NSR, "%s %s", l.Node, domain)
			require.Zero(t, l.Clip)
			require.Equal(t, l.Local, l.Round)
			seen++
		}
		require.GreaterOrEqual(t, seen, 4)
	}
}
