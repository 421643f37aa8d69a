package analysis_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/graphtest"
)

// Constants count wherever they are: as constants of the graph, in Constant nodes, in branches.
func TestInspectLooksIntoBodies(t *testing.T) {
	g := graphtest.Parse(t, `
opset 17
input x: f32[2,3]
input big: bool[]
const w: f32[3,4] = uniform(seed=1)
y: f32[2,4] = MatMul(x, w)
c: f32[4] = Constant() {value=f32[4] [1, 2, 3, 4]}
z: f32[2,4] = If(big) {then_branch=graph {
  const v: f32[4,4] = uniform(seed=2)
  p = MatMul(y, v)
  q = Add(p, c)
  output q
}, else_branch=graph {
  const s: f32[] = 2
  p = Mul(y, s)
  output p
}}
output z
`)
	graph.InferShapes(g)
	r, err := analysis.Inspect("m", g, nil)
	require.NoError(t, err)
	require.EqualValues(t, 12+4+16+1, r.Parameters)
	require.EqualValues(t, 4*(12+4+16+1), r.Bytes)
	require.EqualValues(t, 2*3*4+2*4*4, r.MACs, "of If the branch with the most work")
	require.Len(t, r.Nodes, 3)
	require.Len(t, r.Bodies, 2)
	require.Equal(t, "then_branch", r.Bodies[0].Attribute)
	require.Equal(t, 2, r.Bodies[0].Nodes)
	require.EqualValues(t, 32, r.Bodies[0].MACs)
	require.EqualValues(t, 1, r.Bodies[1].Parameters)
}
