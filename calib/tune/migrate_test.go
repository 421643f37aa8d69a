package tune

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// The groups are the best of all assignments of channels to groups, whether neighbours or not.
func TestPartitionIsBest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		n := 6
		width, weight := make([]float64, n), make([]float64, n)
		for i := range width {
			width[i], weight[i] = math.Exp(r.NormFloat64()*2), r.Float64()
		}
		cost, groups := partition(width, weight, 3)
		require.Len(t, cost, 3)
		for k := 1; k <= 3; k++ {
			best := math.Inf(1)
			for code := range int(math.Pow(float64(k), float64(n))) {
				list := make([][]int, k)
				for c := range n {
					list[code%k] = append(list[code%k], c)
					code /= k
				}
				best = min(best, costOf(width, weight, list))
			}
			require.InEpsilon(t, best, cost[k-1], 1e-12)
			require.InEpsilon(t, best, costOf(width, weight, groups[k-1]), 1e-12)
			require.Len(t, groups[k-1], k)
			require.Equal(t, []int{0, 1, 2, 3, 4, 5}, slices.Sorted(slices.Values(slices.Concat(groups[k-1]...))))
		}
	}
	require.Equal(t, 2, enough([]float64{1, 0.5, 0.45, 0.1}, 0.3))
	require.Equal(t, 1, enough([]float64{1, 0.8}, 0.3))
}

// inputs are n samples for an input x, as many elements of each as shape has.
func inputs(from, n int, shape ...int) (list []*exec.Sample) {
	for i := range n {
		list = append(list, &exec.Sample{Name: fmt.Sprint(i), Hash: sha256.Sum256([]byte{byte(i), byte(from)}),
			Feeds: map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(from+i), shape...)}})
	}
	return list
}

// rewritable is a bench on a graph with an input x, which can be rewritten.
func rewritable(t *testing.T, g *graph.Graph, platform *target.Target, shape ...int) *Bench {
	t.Helper()
	require.Empty(t, graph.InferShapes(g))
	var make func(g *graph.Graph, steps []rewrite.Step) *Bench
	make = func(normal *graph.Graph, steps []rewrite.Step) *Bench {
		g, err := rewrite.Apply(normal, steps)
		require.NoError(t, err)
		configure := func() *tqc.Set {
			stats, err := calib.Run(context.Background(), g, &exec.InMemory{Samples: inputs(1000, 20, shape...)}, calib.Config{})
			require.NoError(t, err)
			a, err := dispatch.Assign(g, platform, dispatch.Options{BorderCost: new(float64)})
			require.NoError(t, err)
			set, _, err := quantizer.Configure(g, a, platform, quantizer.Options{})
			require.NoError(t, err)
			_, err = calib.Render(context.Background(), g, set, stats, calib.RenderConfig{})
			require.NoError(t, err)
			return set
		}
		Prepare(g, configure())
		return &Bench{Steps: steps, Reference: g, Graph: g.Clone(), Set: configure(), Fit: inputs(2000, 16, shape...),
			Held: inputs(3000, 24, shape...),
			Simulate: func(h *graph.Graph, set *tqc.Set, shared *sim.Constants) (*sim.Simulator, error) {
				return sim.New(h, set, sim.Options{Runs: g, Constants: shared})
			},
			Rewrite: func(_ context.Context, _ *Bench, steps []rewrite.Step) (*Bench, error) {
				return make(normal, steps), nil
			}}
	}
	return make(g, nil)
}

// sameFunction holds a reference against the graph that it came from, on the held-out samples.
func sameFunction(t *testing.T, from, reference *graph.Graph, samples []*exec.Sample) {
	t.Helper()
	var noise, signal float64
	a, err := exec.New(from, exec.Options{})
	require.NoError(t, err)
	b, err := exec.New(reference, exec.Options{})
	require.NoError(t, err)
	for _, s := range samples {
		want, err := a.NewRunner().Run(context.Background(), s.Feeds, nil)
		require.NoError(t, err)
		got, err := b.NewRunner().Run(context.Background(), s.Feeds, nil)
		require.NoError(t, err)
		for name, w := range want {
			for i, x := range w.ToRowMajor().F32() {
				d := float64(got[name].ToRowMajor().F32()[i]) - float64(x)
				noise, signal = noise+d*d, signal+float64(x)*float64(x)
			}
		}
	}
	require.Less(t, noise/signal, 1e-6)
}

// stretch multiplies elements of a constant.
func stretch(g *graph.Graph, name string, factor func(i int) float32) {
	v, _ := g.Lookup(name)
	c := g.Const(v).Clone()
	for i := range c.F32() {
		c.F32()[i] *= factor(i)
	}
	g.SetConst(v, c)
}

// transformer is a normalization with channels far wider than others and far from zero, and two products.
func transformer(t *testing.T, products string) *graph.Graph {
	g := graphtest.Parse(t, `opset 17
	input x: f32[1,8,16]
	output y
	const s: f32[16] = normal(seed=1); const b: f32[16] = normal(seed=2)
	const w: f32[16,24] = normal(seed=3, std=0.3); const p: f32[24] = normal(seed=4); const v: f32[24,8] = normal(seed=5, std=0.3); const q: f32[8] = normal(seed=6)
	n = LayerNormalization(x, s, b) "norm"
`+products)
	wide := func(c int) float32 {
		if c == 3 || c == 11 {
			return 40
		}
		return 1
	}
	stretch(g, "s", wide)
	stretch(g, "b", func(c int) float32 { return 2 * wide(c) })
	stretch(g, "w", func(i int) float32 { return 1 / wide(i/24) })
	return g
}

// products are the two forms of linear layers: as a file has them, and as the normal form does.
var products = map[string]string{
	"MatMul and Add": `m = MatMul(n, w) "one"
	a = Add(m, p)
	r = Relu(a)
	m2 = MatMul(r, v) "two"
	y = Add(m2, q)`,
	"Gemm": `a = Gemm(n, w, p) "one"
	r = Relu(a)
	y = Gemm(r, v, q) "two"`,
}

// postNorm is that of a network that normalizes behind the sum: the residual branch reads the normalization too.
const postNorm = `a = MatMul(n, w) "one"
	r = Relu(a)
	m = MatMul(r, u) "two"
	const u: f32[24,16] = normal(seed=7, std=0.3)
	y = Add(m, n)`

// What the residual branch reads stays; the product reads a copy, which is not counted as moved to float.
func TestMigrationBesideAResidual(t *testing.T) {
	g := transformer(t, postNorm)
	b := rewritable(t, g, &target.OpenVINO, 1, 8, 16)
	reports, err := b.Tune(context.Background(), &Migrate)
	require.NoError(t, err)
	require.True(t, reports[0].Confirmed)
	require.Less(t, reports[0].After.NSR, 0.5*reports[0].Before.NSR)
	require.Equal(t, "copy", b.Steps[0].Kind)
	require.Equal(t, "norm/copy", b.Steps[1].At)
	sameFunction(t, g, b.Reference, b.Held)
}

func TestMigrationThroughLayerNormalization(t *testing.T) {
	for _, platform := range []*target.Target{&target.TRTInt8, &target.ONNXRuntime} {
		for form, products := range products {
			t.Run(platform.Name+" "+form, func(t *testing.T) { migrates(t, transformer(t, products), platform) })
		}
	}
}

func migrates(t *testing.T, g *graph.Graph, platform *target.Target) {
	b := rewritable(t, g, platform, 1, 8, 16)
	reports, err := b.Tune(context.Background(), &Migrate)
	require.NoError(t, err)
	r := reports[0]
	require.True(t, r.Confirmed)
	require.Less(t, r.After.NSR, 0.1*r.Before.NSR)
	require.NotEmpty(t, b.Steps)
	require.Equal(t, "norm", b.Steps[0].At)
	sameFunction(t, g, b.Reference, b.Held)
	require.Equal(t, b.Steps, b.Overlay(b.Set, nil).Steps)
}

// behind is a convolution, an activation from t to h, and a depthwise convolution, with channels of very different ranges in between: every
// fourth is multiplied by one of by, and its weights behind by back of that.
func behind(t *testing.T, activation string, by []float32, back func(by float32) float32) *graph.Graph {
	g := graphtest.Parse(t, `opset 13
	input x: f32[1,4,12,12]
	output y
	const w: f32[16,4,1,1] = normal(seed=1); const b: f32[16] = normal(seed=2); const three: f32[1] = [3]; const six: f32[1] = [6]
	const lo: f32[] = [0]; const hi: f32[] = [6]
	const d: f32[16,1,3,3] = normal(seed=4); const e: f32[16] = normal(seed=5); const p: f32[8,16,1,1] = normal(seed=6, std=0.3)
	t = Conv(x, w, b) "a"
	`+activation+`
	c = Conv(h, d, e) {group=16, pads=[1, 1, 1, 1]} "dw"
	r = Relu(c)
	y = Conv(r, p) "pw"`)
	stretch(g, "w", func(i int) float32 { return by[i/4%4] })
	stretch(g, "b", func(i int) float32 { return by[i%4] })
	stretch(g, "d", func(i int) float32 { return back(by[i/9%4]) })
	return g
}

// hardSwish is behind a HardSwish in pieces.
func hardSwish(t *testing.T) *graph.Graph {
	return behind(t, `t3 = Add(t, three)
	tc = Clip(t3, lo, hi)
	tm = Mul(t, tc)
	h = Div(tm, six)`, []float32{12, 0.25, 1, 0.3}, func(by float32) float32 { return 1 / by / (by + 1) })
}

func TestGroupsInFrontOfADepthwiseConvolution(t *testing.T) {
	g := hardSwish(t)
	b := rewritable(t, g, &target.ONNXRuntime, 1, 4, 12, 12)
	said := ""
	b.Room, b.Say = &Room{Model: SizeOf(g), Work: 0.05, Bytes: 0.05}, func(text string) { said += text + "\n" }
	reports, err := b.Tune(context.Background(), &Migrate)
	require.NoError(t, err)
	r := reports[0]
	require.True(t, r.Confirmed)
	require.Less(t, r.After.NSR, 0.4*r.Before.NSR)
	require.Contains(t, said, "engines take longer for them")
	sameFunction(t, g, b.Reference, b.Held)
	kinds := map[string]int{}
	for _, s := range b.Steps {
		kinds[s.Kind]++
	}
	require.Equal(t, 1, kinds["group"])
	for _, id := range b.Reference.Nodes() {
		if n := b.Reference.Node(id); n.Op == "Conv" {
			require.Equal(t, tqc.DomainInt, b.Set.Domains[id], n.Name)
		}
	}

	// Where only what convolutions read is rounded, the divisor of the HardSwish takes the ranges up and nothing is taken apart.
	b = rewritable(t, g, &target.TRTInt8, 1, 4, 12, 12)
	reports, err = b.Tune(context.Background(), &Migrate)
	require.NoError(t, err)
	require.True(t, reports[0].Confirmed)
	require.Less(t, reports[0].After.NSR, 0.2*reports[0].Before.NSR)
	for _, s := range b.Steps {
		require.Equal(t, "scale", s.Kind)
	}
}

func TestMigrationLeavesAloneWhatDoesNotGain(t *testing.T) {
	g := graphtest.Parse(t, shifted)
	b := rewritable(t, g, &target.TRTInt8, 1, 8, 12, 12)
	was, set := b.Graph, b.Set
	reports, err := b.Tune(context.Background(), &Migrate)
	require.NoError(t, err)
	require.Zero(t, reports[0].Kept)
	require.Same(t, was, b.Graph)
	require.Same(t, set, b.Set)
	require.Empty(t, b.Steps)
}

// With one scale for all weights, a few large ones cost all others their precision: doubling channels, or operators, gives it back.
func TestSplitHalvesLargeWeights(t *testing.T) {
	const net = `opset 14
	input x: f32[1,4,12,12]
	output y
	const w: f32[40,4,1,1] = normal(seed=1); const b: f32[40] = normal(seed=2); const p: f32[8,40,1,1] = normal(seed=6, std=0.1)
	t = Conv(x, w, b) "a"
	h = HardSwish(t)
	y = Conv(h, p) "pw"`
	coarse := target.TRTInt8
	coarse.Weight.Bits, coarse.Weight.QMin, coarse.Weight.QMax = 4, -7, 7
	coarse.Weight.Policy = coarse.Weight.Policy&^tqc.PerChannel | tqc.PerTensor
	coarse.Weight.Axis = 0
	for name, large := range map[string][]int{"channels": {7, 47, 87}, "weight": {7, 50, 93}} {
		t.Run(name, func(t *testing.T) {
			g := graphtest.Parse(t, net)
			stretch(g, "p", func(i int) float32 {
				if slices.Contains(large, i) {
					return 0
				}
				return 1
			})
			v, _ := g.Lookup("p")
			for _, i := range large {
				g.Const(v).F32()[i] = 1.5
			}
			b := rewritable(t, g, &coarse, 1, 4, 12, 12)
			reports, err := b.Tune(context.Background(), &Split)
			require.NoError(t, err)
			require.True(t, reports[0].Confirmed)
			require.Less(t, reports[0].After.NSR, 0.6*reports[0].Before.NSR)
			kinds := map[string]int{}
			for _, s := range b.Steps {
				kinds[s.Kind]++
			}
			require.Positive(t, kinds["split-"+name], "%v", kinds)
			sameFunction(t, g, b.Reference, b.Held)

			// What costs too much is not tried, and said first.
			b = rewritable(t, g, &coarse, 1, 4, 12, 12)
			var said []string
			b.Say = func(text string) { said = append(said, text) }
			b.Room = &Room{Model: SizeOf(b.Reference), Work: 0.001, Bytes: 0.001}
			reports, err = b.Tune(context.Background(), &Split)
			require.NoError(t, err)
			require.Zero(t, reports[0].Kept)
			require.Empty(t, b.Steps)
			require.Regexp(t, `split: 1 of 1 changes are left out: all of them cost [\d.]+ (% more|times the) work and [\d.]+ `+
				`(% more bytes than|times the bytes of) the model; --max-work`, said[0])
			require.Regexp(t, "--max-(work|bytes) [0-9]+ allows it", reports[0].Layers[0].Why)
			b = rewritable(t, g, &coarse, 1, 4, 12, 12)
			b.Say = func(text string) { said = append(said, text) }
			b.Room = &Room{Model: SizeOf(b.Reference), Work: 1, Bytes: 1}
			reports, err = b.Tune(context.Background(), &Split)
			require.NoError(t, err)
			require.Positive(t, reports[0].Kept)
			require.Regexp(t, "split: 1 changes are tried that cost [0-9.]+ (% more|times the) work", said[len(said)-1])
		})
	}
}
