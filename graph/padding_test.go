package graph

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// attention is a head of attention over embedded tokens; in front of it a mask is made of m.
const attention = `
	opset 17
	input ids: i64[B,T]
	%s
	const table: f32[16,4] = fill(1); const zero: i64[] = 0; const none: f32[] = 0; const one: f32[] = 1
	const low: f32[] = -1e9; const lowest: f32[] = -inf; const ax: i64[1] = [1]
	x = Gather(table, ids)
	t = Transpose(x) {perm=[0,2,1]}
	s = MatMul(x, t)
	%s
	p = Softmax(z)
	y = MatMul(p, x)
	const last: i64[1] = [1]
	mean = ReduceMean(y) {axes=[1], keepdims=0}
	output y
	output mean
`

// What masks are made of in networks, and what they have where a position is real.
func TestFindPadding(t *testing.T) {
	for _, c := range []struct {
		name, mask, code string
		real             float64
	}{
		{"one minus the mask, times a low number", "input m: i64[B,T]",
			"u = Unsqueeze(m, ax); f = Cast(u) {to=1}; i = Sub(one, f); b = Mul(i, low); z = Add(s, b)", 1},
		{"the mask times a number, less that number", "input m: f32[B,T]",
			"u = Unsqueeze(m, ax); const up: f32[] = 1e9; i = Mul(u, up); b = Sub(i, up); z = Add(s, b)", 1},
		{"a bias by Where", "input m: i64[B,T]", "u = Unsqueeze(m, ax); c = Cast(u) {to=9}; b = Where(c, none, lowest); z = Add(s, b)", 1},
		{"scores that are filled", "input m: i64[B,T]", "u = Unsqueeze(m, ax); c = Equal(u, zero); z = Where(c, lowest, s)", 1},
		{"a boolean mask", "input m: bool[B,T]", "u = Unsqueeze(m, ax); z = Where(u, s, lowest)", 1},
		{"a boolean mask of the padding", "input m: bool[B,T]", "u = Unsqueeze(m, ax); z = Where(u, lowest, s)", 0},
		{"a mask beside a causal one", "input m: bool[B,T]; input causal: bool[1,T,T]",
			"u = Unsqueeze(m, ax); c = And(causal, u); z = Where(c, s, lowest)", 1},
		{"a mask by numbers of samples and positions", "input m: i64[B,T]; input at: i64[B,1,T,2]", `c = Cast(m) {to=9}; i = GatherND(c, at)
			u = Squeeze(i, ax); b = Where(u, none, lowest); z = Add(s, b)`, 1},
		{"a mask by places in a row", "input m: i64[B,T]; input at: i64[N]; input like: i64[3]",
			"c = Flatten(m) {axis=0}; i = Gather(c, at) {axis=1}; r = Reshape(i, like); u = Cast(r) {to=9}; z = Where(u, s, lowest)", 1},
		{"a mask with all its axes", "input m: f32[B,1,T]", "i = Sub(one, m); b = Mul(i, low); z = Add(s, b)", 1},
		{"of rows and columns", "input m: i64[B,T]", `const ax2: i64[1] = [2]; f = Cast(m) {to=1}; u = Unsqueeze(f, ax); v = Unsqueeze(f, ax2)
			q = Mul(u, v); i = Sub(one, q); b = Mul(i, low); z = Add(s, b)`, 1},
		{"a mask for each query", "input m: f32[B,T,T]", "i = Sub(one, m); b = Mul(i, low); z = Add(s, b)", 1},
		{"a mask for each query, behind a causal one", "input causal: bool[1,T,T]; input m: bool[B,1,T]",
			"c = And(causal, m); z = Where(c, s, lowest)", 1},
		{"a mask that is added", "input m: f32[B,1,T]", "z = Add(s, m)", 0},
		{"a mask that is added for each query", "input m: f32[B,T,T]", "z = Add(s, m)", 0},
	} {
		g := padded(t, c.mask, c.code)
		p, err := FindPadding(g, "")
		require.NoError(t, err, c.name)
		require.NotNil(t, p, c.name)
		require.Equal(t, "m", g.Value(p.Mask).Name, c.name)
		require.Equal(t, c.real, p.Real, c.name)
		for name, want := range map[string][]role{"x": {samples, positions, noRole}, "t": {samples, noRole, positions},
			"s": {samples, positions, positions}, "z": {samples, positions, positions}, "y": {samples, positions, noRole}, "mean": nil, "m": nil,
			"b": nil, "table": nil} {
			if v, ok := g.Lookup(name); ok {
				require.Equal(t, want, p.roles[v], "%s: %s", c.name, name)
			}
		}
	}
	for name, code := range map[string][2]string{
		"nothing low":         {"input m: i64[B,T]", "u = Unsqueeze(m, ax); f = Cast(u) {to=1}; z = Add(s, f)"},
		"data that are added": {"input m: f32[B,1,T]", "const d: f32[] = 1; a = Add(m, d); r = Relu(m); z = Add(a, r)"},
		"infinity times 0":    {"input m: f32[B,T]", "u = Unsqueeze(m, ax); b = Mul(u, lowest); z = Add(s, b)"},
		"it masks all":        {"input m: f32[B,T]", "u = Unsqueeze(m, ax); b = Add(u, low); z = Add(s, b)"},
		"not of positions":    {"input m: f32[B,5,T]", "i = Sub(one, m); b = Mul(i, low); z = Add(s, b)"},
	} {
		g := padded(t, code[0], code[1])
		p, err := FindPadding(g, "")
		require.NoError(t, err, name)
		require.Nil(t, p, name)
		_, err = FindPadding(g, "m")
		require.ErrorContains(t, err, `"m" is no input that masks positions`, name)
	}
}

func padded(t *testing.T, mask, code string) *Graph {
	g, err := Parse(fmt.Sprintf(attention, mask, code))
	require.NoError(t, err)
	require.Empty(t, InferShapes(g))
	return g
}

// Axes are followed through shapes that join and cut them.
func TestPaddingBehindReshape(t *testing.T) {
	for _, c := range []struct {
		in, out Shape
		from    []role
		want    []role
	}{
		{Shape{dim("B"), dim("T"), n(12)}, Shape{dim("B"), dim("T"), n(3), n(4)}, []role{samples, positions, 0},
			[]role{samples, positions, 0, 0}},
		{Shape{dim("B"), dim("T"), n(12)}, Shape{dim("B*T"), n(12)}, []role{samples, positions, 0}, []role{both, 0}},
		{Shape{dim("B*T"), n(12)}, Shape{dim("B"), dim("T"), n(12)}, []role{both, 0}, []role{samples, positions, 0}},
		{Shape{n(1), n(8), n(12)}, Shape{n(8), n(12)}, []role{samples, positions, 0}, []role{both, 0}},
		{Shape{n(1), n(8)}, Shape{n(1), n(1), n(1), n(8)}, []role{samples, positions}, []role{samples, 0, 0, positions}},
		{Shape{n(1), n(4), n(8), n(3)}, Shape{n(4), n(8), n(3)}, []role{samples, 0, positions, 0}, []role{0, positions, 0}},
		{Shape{dim("B"), n(4), dim("T"), n(3)}, Shape{dim("4*B"), dim("T"), n(3)}, []role{samples, 0, positions, 0}, []role{0, positions, 0}},
		{Shape{dim("B"), dim("T"), n(12)}, Shape{dim("B"), dim("12*T")}, []role{samples, positions, 0}, []role{samples, 0}},
	} {
		require.Equal(t, c.want, regrouped(c.from, c.in, c.out), "%s to %s", c.in, c.out)
	}
}

func dim(s string) Dim { return Dim{N: -1, Symbol: s} }
func n(k int64) Dim    { return Dim{N: k} }

// Runs of real elements, from anywhere on, in either layout; what has another size than the mask is real as a whole.
func TestRealRuns(t *testing.T) {
	g := padded(t, "input m: bool[B,T]", "u = Unsqueeze(m, ax); z = Where(u, s, lowest)")
	p, err := FindPadding(g, "")
	require.NoError(t, err)
	feed := func(real ...bool) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"m": {DType: tensor.Bool, Shape: []int{2, 3}, Data: real}}
	}
	d := p.Of(g, feed(true, true, false, true, false, false))
	runs := func(name string, first, n int, shape ...int) (list [][2]int) {
		v, _ := g.Lookup(name)
		require.NoError(t, d.Real(v, shape, tensor.RowMajor, first, n, func(from, to int) error {
			list = append(list, [2]int{from, to})
			return nil
		}))
		return list
	}
	require.Equal(t, [][2]int{{0, 8}, {12, 16}}, runs("x", 0, 24, 2, 3, 4))
	require.Equal(t, [][2]int{{0, 3}, {7, 9}}, runs("x", 5, 9, 2, 3, 4))
	require.Equal(t, [][2]int{{0, 2}, {3, 5}, {9, 10}}, runs("s", 0, 18, 2, 3, 3))
	require.Equal(t, [][2]int{{0, 40}}, runs("x", 0, 40, 2, 5, 4))
	require.Nil(t, p.Of(g, feed(true, true, true, true, true, true)), "nothing is padded")
	require.Nil(t, p.Of(g, feed(false, false, false, false, false, false)), "nothing is real")
	require.Nil(t, (*Padding)(nil).Of(g, nil))
	all, left := p.Count(g, feed(true, true, false, true, false, false))
	require.Equal(t, []int{6, 3}, []int{all, left})
}

// A position is real if one query may look at it: a mask of the past alone hides none, and one that is added has numbers of its own.
func TestPaddingOfQueries(t *testing.T) {
	const times = "i = Sub(one, m); b = Mul(i, low); z = Add(s, b)"
	inf := float32(math.Inf(-1))
	for _, c := range []struct {
		input, code string
		x           []float32
		real        []bool // nil: no padding
	}{
		{"input m: f32[B,T,T]", times, []float32{1, 0, 0, 1, 1, 0, 1, 1, 0}, []bool{true, true, false}},
		{"input m: f32[B,T,T]", times, []float32{1, 0, 0, 1, 1, 0, 1, 1, 1}, nil},
		{"input m: f32[B,T,T]", "z = Add(s, m)", []float32{0, inf, inf, 0, 0, -1e9, 0, 0, inf}, []bool{true, true, false}},
		{"input m: f32[B,T,T]", "z = Add(s, m)", []float32{0.5, inf, inf, 0, 0, -1e9, 0, 0, inf}, nil},
	} {
		g := padded(t, c.input, c.code)
		p, err := FindPadding(g, "m")
		require.NoError(t, err)
		feeds := map[string]*tensor.Tensor{"m": tensor.FromF32(c.x, 1, 3, 3)}
		d := p.Of(g, feeds)
		require.Equal(t, c.real == nil, d == nil)
		if d != nil {
			require.Equal(t, c.real, d.real)
		}
		all, left := p.Count(g, feeds)
		require.Equal(t, 3, all)
		require.Equal(t, len(c.real) > 0, left == 1)
	}
}

// Operators with attention inside: what they read as a mask, and what counts positions behind them.
func TestPaddingOfFusedAttention(t *testing.T) {
	const head = `opset 23
		opset com.microsoft 1
		input x: f32[B,T,8]
		input m: %s
		const w: f32[8,24] = fill(1); const b: f32[24] = fill(2); const k: f32[8,8,3] = fill(3); const c8: f32[8] = fill(4)
		const ax: i64[1] = [1]
		const one: i64[] = 1; const ax2: i64[2] = [1,2]; const n: i32[] = 3; const scale: f32[8] = fill(5)
		%s
		t = Transpose(y) {perm=[0,2,1]}
		z = Conv(t, k, c8) {pads=[1,1], kernel_shape=[3]}
		output z`
	for name, c := range map[string][2]string{
		"bool":       {"bool[B,T]", "u = Unsqueeze(m, ax2); y = Attention(x, x, x, u) {q_num_heads=2, kv_num_heads=2}"},
		"added":      {"f32[B,1,1,T]", "y = Attention(x, x, x, m) {q_num_heads=2, kv_num_heads=2}"},
		"raw":        {"i32[B,T]", "y = com.microsoft::Attention(x, w, b, m) {num_heads=2}"},
		"multi head": {"i32[B,T]", "y = com.microsoft::MultiHeadAttention(x, x, x, _, m) {num_heads=2}"},
		"lengths": {"i64[B,T]", "s = ReduceSum(m, ax) {keepdims=0}; l = Sub(s, one); i = Cast(l) {to=6}; " +
			"y = com.microsoft::GroupQueryAttention(x, x, x, _, _, i, n) {num_heads=2, kv_num_heads=2}"},
		"skip and norms": {"i32[B,T]", "a = com.microsoft::Attention(x, w, b, m) {num_heads=2}; " +
			"y = com.microsoft::SkipLayerNormalization(a, x, scale)"},
	} {
		g, err := Parse(fmt.Sprintf(head, c[0], c[1]))
		require.NoError(t, err, name)
		require.Empty(t, InferShapes(g), name)
		p, err := FindPadding(g, "")
		require.NoError(t, err, name)
		require.NotNil(t, p, name)
		for value, want := range map[string][]role{"y": {samples, positions, noRole}, "z": {samples, noRole, positions}} {
			v, _ := g.Lookup(value)
			require.Equal(t, want, p.roles[v], "%s: %s %s", name, value, g.Value(v).Shape)
		}
	}
}
