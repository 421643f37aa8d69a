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

// dequantized multiplies codes of run time by constants, transposed constants and other codes of run time.
const dequantized = `
opset 13
input x: f32[2,3,4]
const w: i8[4,5] = [1,-2,3,4,5, 6,-7,8,9,10, 11,12,-13,14,15, 16,17,18,-19,20]
const ws: f32[5] = [0.1, 0.2, 0.3, 0.4, 0.5]
const wz: i8[5] = [0, 0, 0, 1, 0]
const v: i8[3,5] = [1,2,3,4,5, 6,7,8,9,10, 11,12,13,14,15]
const vs: f32[] = 0.25
const vz: i8[] = 0
const b: f32[3] = [1, 2, 3]
q, s, z = DynamicQuantizeLinear(x)
xd: f32[2,3,4] = DequantizeLinear(q, s, z)
wd: f32[4,5] = DequantizeLinear(w, ws, wz) {axis=1}
m: f32[2,3,5] = MatMul(xd, wd) "first"
p, t, u = DynamicQuantizeLinear(m)
md: f32[2,3,5] = DequantizeLinear(p, t, u)
vd: f32[3,5] = DequantizeLinear(v, vs, vz)
g: f32[2,3,3] = Gemm(md, vd, b) {transB=1} "second"
o, e, f = DynamicQuantizeLinear(g)
gd: f32[2,3,3] = DequantizeLinear(o, e, f)
y: f32[2,3,4] = MatMul(gd, xd) "third"
output y
`

// ops lists the operators of a graph that multiply.
func multiplications(g *graph.Graph) map[string]int {
	n := map[string]int{}
	for _, id := range g.Nodes() {
		switch op := g.Node(id).Op; op {
		case "MatMul", "Gemm", "MatMulInteger":
			n[op]++
		}
	}
	return n
}

func resultOf(t *testing.T, g *graph.Graph) []float32 {
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	out, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": graphtest.Normal(7, 2, 3, 4)}, nil)
	require.NoError(t, err)
	return out[0].F32()
}

func TestIntegerProducts(t *testing.T) {
	g := graphtest.Parse(t, dequantized)
	graph.InferShapes(g)
	want := resultOf(t, g)
	all := func(*graph.Node) bool { return true }

	none := g.Clone()
	n, err := passes.IntegerProducts(none, func(*graph.Node) bool { return false })
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, multiplications(g), multiplications(none))

	n, err = passes.IntegerProducts(g, all)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.NoError(t, g.Check())
	require.Equal(t, map[string]int{"MatMulInteger": 3}, multiplications(g))
	require.InDeltaSlice(t, want, resultOf(t, g), 1e-3)

	n, err = passes.FloatProducts(g)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.NoError(t, g.Check())
	require.Equal(t, map[string]int{"MatMul": 3}, multiplications(g), "the bias is an Add now")
	for _, id := range g.Nodes() {
		require.NotContains(t, g.Node(id).Name, "_scales", "products of scales that nobody reads are gone")
	}
	require.InDeltaSlice(t, want, resultOf(t, g), 1e-3)
}

// A Gemm of matrices whose weights are turned is a Gemm again, with its bias and without one.
func TestIntegerProductsOfTurnedMatrices(t *testing.T) {
	for _, bias := range []string{"", ", b"} {
		g := graphtest.Parse(t, `opset 18
input x: f32[2,12]
const w: i8[3,12] = normal(seed=1, std=40)
const ws: f32[3] = [0.1, 0.2, 0.3]
const wz: i8[3] = [0, 0, 0]
const b: f32[3] = [1, 2, 3]
q, s, z = DynamicQuantizeLinear(x)
xd: f32[2,12] = DequantizeLinear(q, s, z)
wd: f32[3,12] = DequantizeLinear(w, ws, wz) {axis=0}
y: f32[2,3] = Gemm(xd, wd`+bias+`) {transB=1} "turned"
output y
`)
		graph.InferShapes(g)
		run := func() []float32 {
			session, err := exec.New(g, exec.Options{})
			require.NoError(t, err)
			out, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": graphtest.Normal(7, 2, 12)}, nil)
			require.NoError(t, err)
			return out[0].F32()
		}
		want := run()
		for _, pass := range []func() (int, error){
			func() (int, error) { return passes.IntegerProducts(g, func(*graph.Node) bool { return true }) },
			func() (int, error) { return passes.FloatProducts(g) },
		} {
			n, err := pass()
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.NoError(t, g.Check())
			require.InDeltaSlice(t, want, run(), 1e-3)
		}
		id, ok := g.LookupNode("turned")
		require.True(t, ok)
		require.Equal(t, "Gemm", g.Node(id).Op)
		require.True(t, g.Node(id).Gemm().TransB)
		require.Len(t, g.Node(id).Inputs, 2+len(bias)/3)
	}
}

// What has no scale of run time, or sums of more terms than int32 holds, stays.
func TestIntegerProductsThatStay(t *testing.T) {
	for name, text := range map[string]string{
		"a fixed scale": `
input x: f32[3,4]
const w: i8[4,5] = normal(seed=1, std=40)
const s: f32[] = 0.1
const z: u8[] = 3
const wz: i8[] = 0
q: u8[3,4] = QuantizeLinear(x, s, z)
xd: f32[3,4] = DequantizeLinear(q, s, z)
wd: f32[4,5] = DequantizeLinear(w, s, wz)
y: f32[3,5] = MatMul(xd, wd)
output y`,
		"too many terms": `
input x: f32[1,65794]
const w: i8[65794,1] = normal(seed=1, std=20)
const ws: f32[] = 0.1
const wz: i8[] = 0
q, s, z = DynamicQuantizeLinear(x)
xd: f32[1,65794] = DequantizeLinear(q, s, z)
wd: f32[65794,1] = DequantizeLinear(w, ws, wz)
y: f32[1,1] = MatMul(xd, wd)
output y`,
		"a factor": `
input x: f32[3,4]
const w: i8[4,5] = normal(seed=1, std=40)
const ws: f32[] = 0.1
const wz: i8[] = 0
q, s, z = DynamicQuantizeLinear(x)
xd: f32[3,4] = DequantizeLinear(q, s, z)
wd: f32[4,5] = DequantizeLinear(w, ws, wz)
y: f32[3,5] = Gemm(xd, wd) {alpha=0.5}
output y`,
	} {
		t.Run(name, func(t *testing.T) {
			g := graphtest.Parse(t, "opset 13\n"+text)
			graph.InferShapes(g)
			n, err := passes.IntegerProducts(g, func(*graph.Node) bool { return true })
			require.NoError(t, err)
			require.Zero(t, n)
		})
	}
}
