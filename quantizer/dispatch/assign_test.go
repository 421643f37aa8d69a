package dispatch_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/internal/targettest"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

func parse(t testing.TB, text string) *graph.Graph {
	g := graphtest.Parse(t, text)
	require.Empty(t, graph.InferShapes(g))
	return g
}

func id(t testing.TB, g *graph.Graph, name string) graph.NodeID {
	n, ok := g.LookupNode(name)
	require.True(t, ok, name)
	return n
}

// free is a target for which borders cost nothing.
func free(tg target.Target) *target.Target {
	tg.BorderCost = 0
	return &tg
}

// A single 1x1 convolution: 4*4*16 multiply-accumulates per pixel pair, 4+4 elements per pixel at its borders.
const single = `
input x: f32[1,4,10,10]
const w: f32[8,4,1,1] = normal(1)
e = Exp(x) "before"
c = Conv(e, w) "conv"
y = Exp(c) "after"
output y
`

func TestARegionStaysOnlyIfItPaysForItsBorders(t *testing.T) {
	g := parse(t, single)
	// 100 pixels * 8 * 4 = 3200 multiply-accumulates, 100*(4+8) = 1200 elements: break-even at 3200/1200 = 2.67.
	for _, c := range []struct {
		cost float64
		want tqc.Domain
	}{{0, tqc.DomainInt}, {2.6, tqc.DomainInt}, {2.7, tqc.DomainFP32}} {
		tg := target.ONNXRuntime
		tg.BorderCost = c.cost
		a, err := dispatch.Assign(g, &tg, dispatch.Options{})
		require.NoError(t, err)
		require.Equal(t, c.want, a.Domains[id(t, g, "conv")], "cost %g", c.cost)
		if c.want == tqc.DomainFP32 {
			require.Equal(t, "cost: 3200 multiply-accumulates do not pay for converting 1200 elements", a.Why[id(t, g, "conv")])
			require.Empty(t, a.Borders())
		}
	}
	tg := target.ONNXRuntime
	tg.BorderCost = 3200.0 / 1200
	a, err := dispatch.Assign(g, &tg, dispatch.Options{})
	require.NoError(t, err)
	require.Equal(t, tqc.DomainFP32, a.Domains[id(t, g, "conv")], "breaking even is not enough")
}

func TestARegionOfUnknownSizeStays(t *testing.T) {
	dark := graphtest.Parse(t, "input x\nconst w: f32[8,4,1,1] = normal(1)\nc = Conv(x, w) \"conv\"\noutput c")
	a, err := dispatch.Assign(dark, &target.TRTInt8, dispatch.Options{})
	require.NoError(t, err)
	require.Equal(t, tqc.DomainInt, a.Domains[0])

	batch := parse(t, "input x: f32[N,4,10,10]\nconst w: f32[8,4,1,1] = normal(1)\nc = Conv(x, w) \"conv\"\noutput c")
	a, err = dispatch.Assign(batch, &target.TRTInt8, dispatch.Options{})
	require.NoError(t, err)
	require.Equal(t, tqc.DomainFP32, a.Domains[0], "an open batch counts as 1")
}

// Of the region above with open sizes as many elements were seen as it has there; the product of two activations is of unknown size still.
func TestARegionOfOpenSizeIsJudgedByWhatWasSeen(t *testing.T) {
	g := parse(t, strings.Replace(single, "[1,4,10,10]", "[N,4,H,W]", 1))
	seen := map[string]int64{"x": 400, "e": 400, "c": 800, "y": 800}
	observed := func(v graph.ValueID) (int64, bool) { n, ok := seen[g.Value(v).Name]; return n, ok }
	for cost, want := range map[float64]tqc.Domain{2.6: tqc.DomainInt, 2.7: tqc.DomainFP32} {
		tg := target.ONNXRuntime
		tg.BorderCost = cost
		a, err := dispatch.Assign(g, &tg, dispatch.Options{Observed: observed})
		require.NoError(t, err)
		require.Equal(t, want, a.Domains[id(t, g, "conv")], "cost %g", cost)
	}
	delete(seen, "c")
	a, err := dispatch.Assign(g, &target.TRTInt8, dispatch.Options{Observed: observed})
	require.NoError(t, err)
	require.Equal(t, tqc.DomainInt, a.Domains[id(t, g, "conv")], "no sample says how large it is")

	g = parse(t, "input x: f32[1,S,8]\ninput k: f32[1,8,S]\ne = Exp(x)\nh = Exp(k)\nm = MatMul(e, h) \"products\"\ny = Exp(m)\noutput y")
	seen = map[string]int64{"e": 32, "h": 32, "m": 16}
	a, err = dispatch.Assign(g, &target.TRTInt8, dispatch.Options{Observed: observed})
	require.NoError(t, err)
	require.Equal(t, tqc.DomainInt, a.Domains[id(t, g, "products")])
}

const residual = `
input x: f32[1,8,16,16]
const w1: f32[8,8,3,3] = normal(1)
const w2: f32[8,8,3,3] = normal(2)
const w3: f32[8,8,3,3] = normal(3)
a = Conv(x, w1) {pads=[1,1,1,1]} "conv1"
r = Relu(a) "relu1"
b = Conv(r, w2) {pads=[1,1,1,1]} "conv2"
s = Add(b, r) "add"
t = Relu(s) "relu2"
p = MaxPool(t) {kernel_shape=[2,2], strides=[2,2]} "pool"
c = Conv(p, w3) {pads=[1,1,1,1]} "conv3"
q = GlobalAveragePool(c) "gap"
y = Exp(q) "exp"
output y
`

func TestBordersAndWork(t *testing.T) {
	g := parse(t, residual)
	a, err := dispatch.Assign(g, &target.ONNXRuntime, dispatch.Options{})
	require.NoError(t, err)
	integer, total := a.Work()
	require.Equal(t, int64(2*16*16*8*8*9+8*8*8*8*9), total)
	require.Equal(t, total, integer)
	require.Equal(t, "x/2048/in q/8/out ", borders(g, a))

	forced := user(t, g, "conv2")
	a, err = dispatch.Assign(g, &target.ONNXRuntime, dispatch.Options{Forced: forced})
	require.NoError(t, err)
	integer, _ = a.Work()
	require.Equal(t, total-16*16*8*8*9, integer)
	require.Equal(t, "conservative: input \"b\" is float", a.Why[id(t, g, "add")], "the Add has a float branch")
	require.Equal(t, "conservative: goes with \"add\"", a.Why[id(t, g, "relu2")])
	require.Equal(t, "user: conv2", a.Why[id(t, g, "conv2")])
	require.Equal(t, "x/2048/in r/2048/out p/512/in q/8/out ", borders(g, a))
}

func borders(g *graph.Graph, a *dispatch.Assignment) string {
	s := ""
	for _, b := range a.Borders() {
		dir := "in"
		if b.ToFloat {
			dir = "out"
		}
		s += fmt.Sprintf("%s/%d/%s ", g.Value(b.Value).Name, b.Elements, dir)
	}
	return s
}

// user is what a user sends to float.
func user(t testing.TB, g *graph.Graph, selector string) []dispatch.Forced {
	nodes, err := decision.Nodes(g, selector)
	require.NoError(t, err)
	return []dispatch.Forced{{Nodes: nodes, Who: dispatch.ByUser, Why: selector}}
}

// Whatever set of nodes is forced, and whatever the strategy, the constraints hold afterwards.
func TestConstraintsHoldForEverySetOfFloatNodes(t *testing.T) {
	g := parse(t, residual)
	order, err := g.Order()
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(3, 3))
	conflicts, all := 0, targettest.Distinct()
	for round := range 500 * len(all) {
		b, err := all[round%len(all)].Bind(g)
		require.NoError(t, err)
		strategy := dispatch.Strategies[round/len(all)%len(dispatch.Strategies)].Name
		f, kept := dispatch.Forced{Who: dispatch.BySearch}, dispatch.Forced{Who: dispatch.ByUser, Domain: tqc.DomainInt}
		for _, n := range order {
			switch r.IntN(10) {
			case 0, 1:
				f.Nodes = append(f.Nodes, n)
			case 2:
				if b.Ops[n] != nil && b.Ops[n].Role == target.Weighted {
					kept.Nodes = append(kept.Nodes, n)
				}
			}
		}
		a, err := dispatch.AssignBound(b, dispatch.Options{Strategy: strategy, Forced: []dispatch.Forced{f, kept}})
		var conflict *dispatch.Conflict
		if errors.As(err, &conflict) {
			require.Contains(t, f.Nodes, conflict.Float)
			require.Contains(t, kept.Nodes, conflict.Integer)
			conflicts++
			continue
		}
		require.NoError(t, err)
		for _, n := range kept.Nodes {
			require.Equal(t, tqc.DomainInt, a.Domains[n], "a node that is forced to integers is on them")
		}
		integer := func(n graph.NodeID) bool { return n != graph.NoNode && a.Domains[n] == tqc.DomainInt }
		for _, n := range f.Nodes {
			require.False(t, integer(n), "a forced node is float")
		}
		for _, n := range order {
			require.NotEmpty(t, a.Why[n])
			if head := b.Heads[n]; head != graph.NoNode {
				require.Equal(t, integer(head), integer(n), "%s stays with %s", g.Node(n).Name, g.Node(head).Name)
			}
			if op := b.Ops[n]; integer(n) && op.Role != target.Weighted && strategy == dispatch.ByConservative {
				for _, i := range b.DataInputs(n) {
					if v := g.Node(n).Inputs[i]; g.Const(v) == nil {
						require.True(t, integer(g.Producer(v)), "input %d of %s", i, g.Node(n).Name)
					}
				}
			}
		}
	}
	require.Positive(t, conflicts)
}

func TestShapeNodes(t *testing.T) {
	g := parse(t, `
input x: f32[1,4,8,8]
input boxes: f32[1,2,4]
const w: f32[4,4,1,1] = normal(1)
const two: i64[1] = [2]
const one: f32[4] = [1, 1, 2, 2]
c = Conv(x, w) "conv"
s = Shape(c) "shape"
h = Slice(s, two, two) "half"
f = Cast(s) {to=1} "float"
m = Mul(f, one) "scaled"
i = Cast(m) {to=7} "int"
z = Resize(c, _, _, i) {mode="nearest"} "resize"
n = NonZero(boxes) "nonzero"
g = ConstantOfShape(s) "zeros"
y = Add(c, g) "add"
output y
output n
output z
output h
`)
	a, err := dispatch.Assign(g, free(target.ONNXRuntime), dispatch.Options{})
	require.NoError(t, err)
	for name, want := range map[string]tqc.Domain{"conv": tqc.DomainInt, "shape": tqc.DomainSOI, "half": tqc.DomainSOI, "float": tqc.DomainSOI,
		"scaled": tqc.DomainSOI, "int": tqc.DomainSOI, "resize": tqc.DomainInt, "nonzero": tqc.DomainFP32, "zeros": tqc.DomainSOI,
		"add": tqc.DomainFP32} {
		require.Equal(t, want, a.Domains[id(t, g, name)], name)
	}
}

// TestUpsample: what opset 9 calls Upsample passes integers through as Resize does, unless it interpolates, on targets that have integers
// of either; TFLite resizes no int16.
func TestUpsample(t *testing.T) {
	for _, tg := range targettest.Distinct() {
		has := func(typ string) bool {
			return slices.ContainsFunc(tg.Ops, func(o target.Op) bool { return o.Type == typ })
		}
		require.Equal(t, has("Resize"), has("Upsample"), tg.Name)
		if !has("Upsample") {
			continue
		}
		g := parse(t, `
opset 9
input x: f32[1,4,8,8]
const w: f32[4,4,1,1] = normal(1)
const s: f32[4] = [1, 1, 2, 2]
c = Conv(x, w) "a"
u = Upsample(c, s) {mode="nearest"} "nearest"
d = Conv(u, w) "b"
v = Upsample(d, s) {mode="linear"} "linear"
e = Conv(v, w) "c"
output e
`)
		a, err := dispatch.Assign(g, free(*tg), dispatch.Options{})
		require.NoError(t, err)
		require.Equal(t, tqc.DomainInt, a.Domains[id(t, g, "nearest")], tg.Name)
		require.Equal(t, tqc.DomainFP32, a.Domains[id(t, g, "linear")], tg.Name)
	}
}

// TestWhyIsSaidInWords: who decided is named so that somebody who has read nothing understands it.
func TestWhyIsSaidInWords(t *testing.T) {
	for why, want := range map[string]string{
		"conservative": "the dispatcher conservative (on integers: operators with weights, " +
			"and what follows them as long as every number it reads is an integer already)",
		"pointwise: input x is float": "the dispatcher pointwise (on integers: operators with weights and the activations fused with them, " +
			"nothing else): input x is float",
		"target: Softmax stays float": "the target: Softmax stays float",
		"user":                        "a user",
	} {
		require.Equal(t, want, dispatch.Words(why))
	}
}
