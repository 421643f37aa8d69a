package graph

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenBatch(t *testing.T) {
	const net = `
		opset 13
		input x: f32[1,8,6,6]
		const w: f32[16,8,3,3] = fill(0.1)
		const flat: i64[2] = [1, 256]
		const heads: i64[3] = [-1, 4, 8]
		const v: f32[256,32] = fill(0.1)
		const b: f32[1,32] = fill(1)
		c: f32[1,16,4,4] = Conv(x, w)
		r: f32[1,256] = Reshape(c, flat)
		m = MatMul(r, v)
		s = Add(m, b)
		h = Reshape(s, heads)
		n = Shape(c)
		output h; output n`
	g := parsed(t, net)
	require.Empty(t, InferShapes(g))
	before := Format(g)
	open, err := OpenBatch(g)
	require.NoError(t, err)
	require.NoError(t, open.Check())
	require.Equal(t, before, Format(g), "the graph given is not changed")
	for name, want := range map[string]string{"x": "f32[batch,8,6,6]", "c": "f32[batch,16,4,4]", "r": "f32[batch,256]",
		"s": "f32[batch,32]", "h": "f32[batch,4,8]", "n": "i64[4]"} {
		require.Equal(t, want, typeOf(t, open, name), name)
		was, _ := g.Lookup(name)
		is, _ := open.Lookup(name)
		require.Equal(t, was, is, "ids stay")
	}
	again, err := OpenBatch(open)
	require.NoError(t, err)
	require.Same(t, open, again, "nothing to do")
}

func TestOpenBatchNamesTheNodeThatPreventsIt(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"input x: f32[1,6]; const s: i64[2] = [2, 3]; a = Relu(x); r = Reshape(a, s); y = Relu(r); output y",
			`batch: node "r" (Reshape, f32[batch,6], i64[2]): its output 0, f32[2,3], does not have the samples`},
		{"input x: f32[1,6]; y = ReduceMean(x) {axes=[0], keepdims=0}; output y", `node "y" (ReduceMean, f32[batch,6]): its output 0, f32[6]`},
		{"input x: f32[1,6]; y = Transpose(x); output y", `node "y" (Transpose, f32[batch,6]): its output 0, f32[6,batch]`},
		{"input x: f32[1,6]; const k: f32[2,6] = fill(1); y = Concat(x, k) {axis=0}; output y", `node "y" (Concat`},
		{"input x: f32[1,6]; const i: i64[] = 0; y = Gather(x, i); output y", `node "y" (Gather`},
		{"input x: f32[1,6]; y = my.own::Op(x); output y", `node "y" (Op, f32[batch,6]): its output 0, undefined[...]`},
		{"input x: f32[2,6]; y = Relu(x); output y", `input "x", f32[2,6], has a fixed size other than 1`},
		{"input x: f32[]; y = Relu(x); output y", `input "x", f32[], has no axis for samples`},
	} {
		_, err := OpenBatch(parsed(t, "opset 13\n"+c.text))
		require.ErrorContains(t, err, c.want, c.text)
	}
}
