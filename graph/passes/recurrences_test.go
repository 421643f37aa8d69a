package passes_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// Cells of codes are written for the engine and read back with the same weights; directions with scales of their own for every row become
// two nodes, which compute the same.
func TestRecurrences(t *testing.T) {
	const text = `
opset 17
input x: f32[4,2,3]
const b: f32[2,16] = normal(seed=1, std=0.2)
const s: f32[8] = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08]
const z: i8[8] = [0, 0, 0, 0, 0, 0, 0, 0]
q, k, o = DynamicQuantizeLinear(x)
xd: f32[4,2,3] = DequantizeLinear(q, k, o)
wd: f32[2,8,3] = DequantizeLinear(w, s, z) {axis=1}
rd: f32[2,8,2] = DequantizeLinear(r, s, z) {axis=1}
y: f32[4,2,2,2], h: f32[2,2,2] = LSTM(xd, wd, rd, b) {hidden_size=2, direction="bidirectional"} "cells"
output y, h
`
	g := graphtest.Parse(t, text[:len("\nopset 17\n")]+"const w: i8[2,8,3] = ["+codesOf(48)+"]\nconst r: i8[2,8,2] = ["+codesOf(32)+"]\n"+
		text[len("\nopset 17\n"):])
	n, err := passes.IntegerRecurrences(g)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, g.Check())
	graph.InferShapes(g)
	id, _ := g.LookupNode("cells")
	require.Equal(t, "DynamicQuantizeLSTM", g.Node(id).Op)
	require.Len(t, g.Nodes(), 1)
	want := cellsOf(t, g)

	back := g.Clone()
	n, err = passes.FloatRecurrences(back)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, back.Check())
	at, _ := back.LookupNode("cells")
	require.Equal(t, "LSTM", back.Node(at).Op)
	again := back.Clone()
	graph.InferShapes(again)
	n, err = passes.IntegerRecurrences(again)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, want, cellsOf(t, again))

	scale := g.Const(g.Node(id).Inputs[8]).Clone()
	scale.F32()[9] *= 2 // of the second direction alone
	g.SetConst(g.Node(id).Inputs[8], scale)
	want = cellsOf(t, g)
	_, err = passes.FloatRecurrences(g)
	require.NoError(t, err)
	require.NoError(t, g.Check())
	graph.InferShapes(g)
	n, err = passes.IntegerRecurrences(g)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, want, cellsOf(t, g))
}

// What nobody reads of a cell goes with it: the states at the end, and the result of all steps before one that is read.
func TestRecurrencesWithUnreadOutputs(t *testing.T) {
	for outputs, want := range map[string]string{"y, h, c": "y", "_, h, c": "h", "y, h, c ": "c"} {
		g := graphtest.Parse(t, `
opset 17
input x: f32[4,2,3]
const s: f32[8] = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08]
const z: i8[8] = [0, 0, 0, 0, 0, 0, 0, 0]
const w: i8[1,8,3] = [`+codesOf(24)+`]
const r: i8[1,8,2] = [`+codesOf(16)+`]
q, k, o = DynamicQuantizeLinear(x)
xd: f32[4,2,3] = DequantizeLinear(q, k, o)
wd: f32[1,8,3] = DequantizeLinear(w, s, z) {axis=1}
rd: f32[1,8,2] = DequantizeLinear(r, s, z) {axis=1}
`+outputs+` = LSTM(xd, wd, rd) {hidden_size=2} "cells"
output `+want+"\n")
		n, err := passes.IntegerRecurrences(g)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, g.Check())
		graph.InferShapes(g)
		before := cellsOf(t, g)
		n, err = passes.FloatRecurrences(g)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, g.Check())
		graph.InferShapes(g)
		n, err = passes.IntegerRecurrences(g)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, before, cellsOf(t, g))
	}
}

func codesOf(n int) (s string) {
	for i := range n {
		if i > 0 {
			s += ","
		}
		s += []string{"-90", "17", "64", "-3", "120", "-128", "45"}[i*5%7]
	}
	return s
}

func cellsOf(t *testing.T, g *graph.Graph) (list []float32) {
	t.Helper()
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	out, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": graphtest.Normal(7, 4, 2, 3)}, nil)
	require.NoError(t, err)
	for _, o := range out {
		list = append(list, o.F32()...)
	}
	return list
}
