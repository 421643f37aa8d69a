package graph

import (
	"fmt"
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
		"nothing low":        {"input m: f32[B,T]", "u = Unsqueeze(m, ax); z = Add(s, u)"},
		"infinity times 0":   {"input m: f32[B,T]", "u = Unsqueeze(m, ax); b = Mul(u, lowest); z = Add(s, b)"},
		"it masks all":       {"input m: f32[B,T]", "u = Unsqueeze(m, ax); b = Add(u, low); z = Add(s, b)"},
		"not of positions":   {"input m: f32[B,T,T]", "i = Sub(one, m); b = Mul(i, low); z = Add(s, b)"},
		"a mask of the past": {"input causal: f32[1,T,T]", "i = Sub(one, causal); b = Mul(i, low); z = Add(s, b)"},
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
