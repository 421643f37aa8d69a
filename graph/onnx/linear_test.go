package onnx

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
)

// A Gemm of more than two axes is written as MatMul and Add, and is one again where the file is read back; others stay as they are.
func TestLinearsAreMatMulAndAdd(t *testing.T) {
	g := graphtest.Parse(t, `
input x: f32[N,S,4]
const w: f32[4,3] = normal(1)
const b: f32[3] = normal(2)
const v: f32[3,2] = normal(3)
h: f32[N,S,3] = Gemm(x, w, b) "up"
n: f32[N,S,2] = Gemm(h, v) "plain"
input m: f32[2,4]
z: f32[2,3] = Gemm(m, w, b) "matrix"
output n, z`)
	var file bytes.Buffer
	require.NoError(t, (&Model{Graph: g}).Write(&file))
	back, _, err := Read(bytes.NewReader(file.Bytes()), int64(file.Len()), nil)
	require.NoError(t, err)
	ops := func(g *graph.Graph) map[string]string {
		m := map[string]string{}
		for _, id := range g.Nodes() {
			m[g.Node(id).Name] = g.Node(id).Op
		}
		return m
	}
	require.Equal(t, map[string]string{"up": "MatMul", "up_bias": "Add", "plain": "MatMul", "matrix": "Gemm"}, ops(back.Graph))
	one := Linears(back.Graph)
	require.Equal(t, map[string]string{"up": "Gemm", "plain": "MatMul", "matrix": "Gemm"}, ops(one))
	id, _ := one.LookupNode("up")
	require.Equal(t, "h", one.Value(one.Node(id).Outputs[0]).Name)
	require.Equal(t, "b", one.Value(one.Node(id).Input(graph.BiasInput)).Name)
	require.Equal(t, "Gemm", ops(g)["up"], "the graph that is written stays as it is")
}
