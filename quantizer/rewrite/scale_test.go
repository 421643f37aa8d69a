package rewrite_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/rewrite"
)

// cases are graphs around a node "a", or several, whose channels can be multiplied.
var cases = []struct {
	name, text           string
	channels             int
	producers, consumers []string
}{
	{"Relu, depthwise and pooling", `input x: f32[N,3,8,8]
	output y
	const w: f32[6,3,3,3] = normal(seed=1); const b: f32[6] = normal(seed=2)
	const d: f32[6,1,3,3] = normal(seed=3); const e: f32[6] = normal(seed=4)
	t = Conv(x, w, b) {pads=[1, 1, 1, 1]} "a"
	r = Relu(t)
	p = MaxPool(r) {kernel_shape=[2, 2]}
	y = Conv(p, d, e) {group=6} "dw"`, 6, []string{"a"}, []string{"dw"}},
	{"depthwise as producer, PRelu, padding", `input x: f32[N,4,8,8]
	output y
	const d: f32[4,1,3,3] = normal(seed=3); const e: f32[4] = normal(seed=4); const s: f32[4,1,1] = normal(seed=5)
	const w: f32[5,4,1,1] = normal(seed=6); const n: i64[8] = [0, 0, 1, 1, 0, 0, 2, 0]
	t = Conv(x, d, e) {group=4} "a"
	r = PRelu(t, s)
	p = Pad(r, n)
	y = Conv(p, w) "c"`, 4, []string{"a"}, []string{"c"}},
	{"residual", `input x: f32[N,3,6,6]
	output y
	const w: f32[4,3,1,1] = normal(seed=1); const b: f32[4] = normal(seed=2)
	const v: f32[4,4,3,3] = normal(seed=3); const u: f32[4] = normal(seed=4)
	const k: f32[1] = [0.5]; const z: f32[7,4,1,1] = normal(seed=5)
	t = Conv(x, w, b) "a"
	r = Relu(t)
	q = Conv(r, v, u) {pads=[1, 1, 1, 1]} "m"
	s = Add(q, r)
	o = Add(s, k)
	l = LeakyRelu(o) {alpha=0.1}
	y = Conv(l, z) "c"`, 4, []string{"a", "m"}, []string{"m", "c"}},
	{"Concat, split and a transposed convolution", `input x: f32[N,3,6,6]
	output y
	const w: f32[4,3,1,1] = normal(seed=1); const v: f32[2,3,1,1] = normal(seed=3)
	const z: f32[6,3,2,2] = normal(seed=5); const st: i64[1] = [1]; const en: i64[1] = [6]; const ax: i64[1] = [1]
	const q: f32[5,2,1,1] = normal(seed=6)
	o = Conv(x, v) "b"
	t = Conv(x, w) "a"
	j = Concat(o, t) {axis=1}
	h = ConvTranspose(j, z) {strides=[2, 2]} "c"
	s = Slice(j, st, en, ax)
	i = ConvTranspose(s, q) "k"
	e = ReduceMean(i) {axes=[1, 2, 3]} "u"
	y = Add(h, e)`, 4, []string{"a"}, []string{"c", "k"}},
	{"Flatten and Gemm", `input x: f32[N,3,6,6]
	output y
	const w: f32[4,3,1,1] = normal(seed=1); const v: f32[10,36] = normal(seed=3); const u: f32[10] = normal(seed=4)
	t = Conv(x, w) "a"
	p = AveragePool(t) {kernel_shape=[2, 2], strides=[2, 2]}
	f = Flatten(p)
	y = Gemm(f, v, u) {transB=1, alpha=0.5} "c"`, 4, []string{"a"}, []string{"c"}},
	{"Gemm with one bias for all", `input x: f32[N,5]
	output y
	const w: f32[5,6] = normal(seed=1); const b: f32[1] = [0.7]; const v: f32[6,3] = normal(seed=3)
	t = Gemm(x, w, b) "a"
	r = Relu(t)
	y = Gemm(r, v) "c"`, 6, []string{"a"}, []string{"c"}},
	{"LayerNormalization and MatMul", `input x: f32[N,5,8]
	output y
	const g: f32[8] = normal(seed=1); const b: f32[8] = normal(seed=2)
	const q: f32[8,4] = normal(seed=3); const k: f32[8,4] = normal(seed=4); const p: f32[4] = normal(seed=5)
	t = LayerNormalization(x, g, b) "a"
	u = MatMul(t, q) "m"
	v = MatMul(t, k) "n"
	w = Add(v, p)
	y = Mul(u, w)`, 8, []string{"a"}, []string{"m", "n"}},
	{"LayerNormalization and Gemm of three axes", `input x: f32[N,5,8]
	output y
	const g: f32[8] = normal(seed=1); const b: f32[8] = normal(seed=2)
	const q: f32[8,6] = normal(seed=3); const k: f32[6,8] = normal(seed=4); const p: f32[6] = normal(seed=5)
	t = LayerNormalization(x, g, b) "a"
	u = Gemm(t, q, p) "m"
	v = Gemm(t, k) {transB=1} "n"
	y = Mul(u, v)`, 8, []string{"a"}, []string{"m", "n"}},
	{"MatMul, a constant and a transposition", `input x: f32[N,5,8]
	output y
	const w: f32[8,6] = normal(seed=3); const p: f32[6] = normal(seed=5); const v: f32[6,6] = normal(seed=4)
	t = MatMul(x, w) "a"
	u = Add(t, p)
	r = Relu(u)
	s = Transpose(r) {perm=[0, 2, 1]}
	y = MatMul(v, s) "c"`, 6, []string{"a"}, []string{"c"}},
	{"a gate", `input x: f32[N,3,6,6]
	output y
	const w: f32[4,3,1,1] = normal(seed=1); const v: f32[4,3,1,1] = normal(seed=3); const z: f32[5,4,1,1] = normal(seed=5)
	t = Conv(x, w) "a"
	g = GlobalAveragePool(x)
	h = Conv(g, v)
	i = Sigmoid(h)
	m = Mul(i, t)
	y = Conv(m, z) "c"`, 4, []string{"a"}, []string{"c"}},
	{"normalization between", `input x: f32[N,3,6,6]
	output y
	const w: f32[4,3,1,1] = normal(seed=1); const s: f32[4] = uniform(seed=3, low=0.5, high=2); const z: f32[5,4,1,1] = normal(seed=5)
	const m: f32[4] = normal(seed=6)
	t = Conv(x, w) "a"
	u = BatchNormalization(t, s, m, m, s) "bn"
	y = Conv(u, z) "c"`, 4, []string{"a"}, []string{"bn"}},
	{"ReLU6", `input x: f32[N,3,6,6]
	output y
	const w: f32[4,3,1,1] = normal(seed=1, std=4); const b: f32[4] = normal(seed=2); const lo: f32[] = [0]; const hi: f32[] = [6]
	const d: f32[4,1,3,3] = normal(seed=3)
	t = Conv(x, w, b) "a"
	r = Clip(t, lo, hi) "k"
	y = Conv(r, d) {group=4} "c"`, 4, []string{"a"}, []string{"c"}},
	{"ReLU6 twice, with a residual", `input x: f32[N,3,6,6]
	output y
	const w: f32[4,3,1,1] = normal(seed=1, std=4); const v: f32[4,4,1,1] = normal(seed=2); const lo: f32[] = [0]; const hi: f32[] = [6]
	const z: f32[5,4,1,1] = normal(seed=5)
	t = Conv(x, w) "a"
	r = Clip(t, lo, hi) "k"
	q = Conv(r, v) "m"
	s = Clip(q, lo, hi) "l"
	o = Add(r, s)
	y = Conv(o, z) "c"`, 4, []string{"a", "m"}, []string{"m", "c"}},
	{"the divisor of a HardSwish", `input x: f32[N,3,6,6]
	output y
	const w: f32[4,3,1,1] = normal(seed=1); const three: f32[1] = [3]; const six: f32[] = [6]; const z: f32[4,1,3,3] = normal(seed=5)
	t = Conv(x, w)
	p = Add(t, three)
	q = Clip(p) {min=0, max=6}
	m = Mul(t, q)
	h = Div(m, six) "a"
	y = Conv(h, z) {group=4} "c"`, 4, []string{"a"}, []string{"c"}},
	{"a gain and an offset", `input x: f32[N,5,4]
	output y
	const k: f32[1] = [0.3]; const o: f32[4] = normal(seed=2); const w: f32[4,6] = normal(seed=3)
	s = Sigmoid(x)
	g = Mul(k, s) "a"
	e = Add(g, o)
	y = MatMul(e, w) "c"`, 4, []string{"a"}, []string{"c"}},
}

func TestScaleKeepsTheFunction(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := parse(t, c.text)
			id, _ := g.LookupNode("a")
			way, reason := rewrite.CanScale(g, id)
			require.NotNil(t, way, reason)
			assert.Equal(t, c.channels, way.Channels)
			assert.Equal(t, c.producers, names(g, way.Producers))
			assert.Equal(t, c.consumers, names(g, way.Consumers))
			after := apply(t, g, scale("a", c.channels))
			assert.NotEqual(t, graph.Format(g), graph.Format(after))
			// Once more, with the first step's graph as the base, and from another member of the group.
			apply(t, after, scale("a", c.channels))
			last := c.producers[len(c.producers)-1]
			apply(t, g, scale("a", c.channels), scale(last, c.channels))
		})
	}
}

func TestScaleMovesRanges(t *testing.T) {
	g := parse(t, cases[0].text)
	s := scale("a", 6)
	after := apply(t, g, s)
	f := s.Vectors["scale"]
	for i, w := range constOf(t, g, "a", 1).F32() {
		assert.InEpsilon(t, float64(w)*float64(f[i/27]), constOf(t, after, "a", 1).F32()[i], 1e-6)
	}
	for i, b := range constOf(t, g, "a", 2).F32() {
		assert.InEpsilon(t, float64(b)*float64(f[i]), constOf(t, after, "a", 2).F32()[i], 1e-6)
	}
	for i, w := range constOf(t, g, "dw", 1).F32() {
		assert.InEpsilon(t, float64(w)/float64(f[i/9]), constOf(t, after, "dw", 1).F32()[i], 1e-6)
	}
	assert.Equal(t, constOf(t, g, "dw", 2).F32(), constOf(t, after, "dw", 2).F32())
}

// What a Clip clips to stays one number, the largest; the rest is a Min, one however many steps there are.
func TestScaleBoundsEachChannel(t *testing.T) {
	g := parse(t, cases[11].text)
	s := rewrite.Step{Kind: "scale", At: "a", Vectors: map[string][]float32{"scale": {1, 0.5, 2, 0.25}}}
	after := apply(t, g, s)
	assert.Equal(t, []float32{12}, constOf(t, after, "k", 2).F32())
	assert.Equal(t, []float32{6, 3, 12, 1.5}, constOf(t, after, "k/min", 1).F32())
	assert.Equal(t, []int{4, 1, 1}, constOf(t, after, "k/min", 1).Shape)
	after = apply(t, g, s, rewrite.Step{Kind: "scale", At: "a", Vectors: map[string][]float32{"scale": {0.5, 2, 0.25, 4}}})
	assert.Equal(t, []float32{6}, constOf(t, after, "k", 2).F32())
	assert.Equal(t, []float32{3, 6, 3, 6}, constOf(t, after, "k/min", 1).F32())
	assert.Equal(t, g.NumNodes()+1, after.NumNodes())
	same := apply(t, g, rewrite.Step{Kind: "scale", At: "a", Vectors: map[string][]float32{"scale": {2, 2, 2, 2}}})
	assert.Equal(t, g.NumNodes(), same.NumNodes())
	assert.Equal(t, []float32{12}, constOf(t, same, "k", 2).F32())
}

// A constant that others read keeps its value for them.
func TestScaleSharedConstants(t *testing.T) {
	g := parse(t, `input x: f32[N,4,6,6]
	output y, z
	const w: f32[4,4,1,1] = normal(seed=1); const b: f32[4] = normal(seed=2)
	t = Conv(x, w, b) "a"
	r = Relu(t)
	y = Conv(r, w, b) "c"
	z = Conv(x, w, b) "d"`)
	after := apply(t, g, scale("a", 4))
	assert.Equal(t, constOf(t, g, "d", 1).F32(), constOf(t, after, "d", 1).F32())
}

func TestScaleRefuses(t *testing.T) {
	const head = `input x: f32[N,3,6,6]
	output y
	const w: f32[4,3,1,1] = normal(seed=1); const z: f32[5,4,1,1] = normal(seed=5); const v: f32[4,4,1,1] = normal(seed=2)
	const lo: f32[] = [-1]; const hi: f32[] = [6]; const one: f32[] = [1]
	t = Conv(x, w) "a"
	`
	for _, c := range []struct{ text, reason string }{
		{"r = Sigmoid(t)\n y = Conv(r, z)", "Sigmoid does not keep"},
		{"r = HardSwish(t)\n y = Conv(r, z)", "HardSwish does not keep"},
		{"r = Clip(t, lo, hi)\n y = Conv(r, z)", "Clip to [-1, 6] does not keep"},
		{"y = Relu(t)", "output of the graph"},
		{"y = Softmax(t) {axis=1}", "Softmax does not keep"},
		{"r = Mul(t, t)\n y = Conv(r, z)", "a square"},
		{"r = Relu(t)\n q = Mul(t, r)\n y = Conv(q, z)", "both operands of Mul"},
		{"r = Conv(t, v)\n q = Concat(t, r) {axis=1}\n s = Slice(q, st, en, ax)\n const st: i64[1] = [3]; const en: i64[1] = [7]\n" +
			" const ax: i64[1] = [1]\n" + "p = Add(s, t)\n y = Conv(p, z)", "two factors for one channel"},
		{"s = Slice(x, st, en, ax)\n const st: i64[1] = [0]; const en: i64[1] = [1]; const ax: i64[1] = [1]\n q = Add(t, s)\n y = Conv(q, z)",
			"other numbers of channels"},
		{"r = ReduceMean(t) {axes=[1]}\n y = Relu(r)", "reduces the channels"},
		{"q = Reshape(t, s)\n const s: i64[3] = [0, 2, -1]\n y = Relu(q)", "two factors for one channel"},
	} {
		g := parse(t, head+c.text)
		_, err := rewrite.Apply(g, []rewrite.Step{scale("a", 4)})
		var broken *rewrite.Broken
		require.True(t, errors.As(err, &broken), "%s: %v", c.text, err)
		assert.Contains(t, err.Error(), c.reason)
		assert.Equal(t, "a", broken.At)
	}
}

func TestStepsThatDoNotFit(t *testing.T) {
	g := parse(t, cases[0].text)
	with := func(at string, f ...float32) rewrite.Step {
		return rewrite.Step{Kind: "scale", At: at, Vectors: map[string][]float32{"scale": f}}
	}
	for _, c := range []struct {
		step   rewrite.Step
		reason string
	}{
		{rewrite.Step{Kind: "other", At: "a"}, "no such kind"},
		{with("gone", 1), "no such node"},
		{with("r", 1), "Relu has no weights"},
		{with("a", 1, 2), "2 factors for 6 channels"},
		{with("a", 1, 1, 1, 0, 1, 1), "the factor 0 of channel 3"},
		{with("a", 1, 1, 1, -1, 1, 1), "the factor -1 of channel 3"},
		{with("a", 1, 1, 1, 1, float32(math.Inf(1)), 1), "element 4 of its vector"},
		{with("a", 3e38, 1, 1, 1, 1, 1), "range of float32"},
	} {
		_, err := rewrite.Apply(g, []rewrite.Step{scale("a", 6), c.step})
		var broken *rewrite.Broken
		require.True(t, errors.As(err, &broken), "%v", err)
		assert.Equal(t, 1, broken.Index)
		assert.Contains(t, err.Error(), c.reason)
	}
}

// TestSpread: below the part of the bound that a channel has left nothing changes, and above it is clipped; factors are not below 1.
func TestSpread(t *testing.T) {
	g := parse(t, `input x: f32[1,2,1,2]
	output y
	const w: f32[2,1,1,1] = [1, 1]; const d: f32[2,1,1,1] = [1, 1]; const lo: f32[] = [0]; const hi: f32[] = [6]
	t = Conv(x, w) {group=2} "a"
	r = Clip(t, lo, hi)
	y = Conv(r, d) {group=2} "c"`)
	step := func(f ...float32) []rewrite.Step {
		return []rewrite.Step{{Kind: "spread", At: "a", Vectors: map[string][]float32{"scale": f}}}
	}
	after, err := rewrite.Apply(g, step(1, 4))
	require.NoError(t, err)
	require.Equal(t, g.NumNodes(), after.NumNodes())
	s, err := exec.New(after, exec.Options{})
	require.NoError(t, err)
	x := tensor.FromF32([]float32{-1, 5, 1.5, 5}, 1, 2, 1, 2)
	out, err := s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": x}, nil)
	require.NoError(t, err)
	require.Equal(t, []float32{0, 5, 1.5, 1.5}, out[0].ToRowMajor().F32())
	_, err = rewrite.Apply(g, step(1, 0.5))
	require.ErrorContains(t, err, "the factor 0.5 of channel 1")
}
