package analysis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/reports"
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
	r, err := analysis.Inspect("m", g, nil, nil)
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

// What depends on open sizes is said to be open, in the graph and in bodies, instead of being counted as nothing; a batch of one is
// assumed in bodies too, and of Loop one iteration counts.
func TestInspectSaysWhatIsOpen(t *testing.T) {
	text := `
opset 17
input x: f32[N,3,H,8]
const w: f32[2,3,1,1] = uniform(seed=1)
const trips: i64[] = [5]; const yes: bool[] = [true]
f: f32[2,2] = Identity(k)
const k: f32[2,2] = uniform(seed=2)
a = Conv(x, w)
m = MatMul(f, f)
l = Loop(trips, yes, a) {body=graph {
  input i: i64[], c: bool[], v: f32[N,2,H,8]
  const u: f32[2,2,1,1] = uniform(seed=3)
  d = Conv(v, u)
  e = Identity(c)
  output e, d
}}
output l, m`
	inspect := func(text string) *analysis.Inspection {
		g := graphtest.Parse(t, text)
		graph.InferShapes(g)
		r, err := analysis.Inspect("m", g, nil, nil)
		require.NoError(t, err)
		r.SetRoofline(analysis.Roofline{FloatGOPS: 1, IntegerGOPS: 4, Read: []analysis.ReadSpeed{{Bytes: 1, GBps: 1}}})
		return r
	}
	r := inspect(text)
	require.Equal(t, 2, r.Open)
	require.EqualValues(t, 8, r.MACs, "the product of known sizes")
	require.Equal(t, 1, r.Bodies[0].Open)
	require.Zero(t, r.Bodies[0].MACs)
	require.Equal(t, 2, r.Roofline.Open, "the convolution and the loop have no least time")
	r = inspect(strings.ReplaceAll(text, "H", "4"))
	require.Zero(t, r.Open)
	require.EqualValues(t, 2*2*4*8, r.Bodies[0].MACs)
	require.EqualValues(t, 2*3*4*8+8+2*2*4*8, r.MACs)
	require.Equal(t, 1, r.Roofline.Open, "the bytes of a loop's graph are not known")
	require.Contains(t, reported(t, r, false), "one iteration")
}

// Numbers stand to the right, names to the left and shortened; operators beyond a screen are summed up unless all is asked for.
func TestInspectText(t *testing.T) {
	r := &analysis.Inspection{Model: "m.onnx", Open: 3,
		Inputs: []analysis.ValueInfo{{Name: strings.Repeat("n", 200), DType: "f32", Shape: []any{int64(1), "T"}}}}
	for i := range 30 {
		op := analysis.OpCount{Op: fmt.Sprintf("Op%02d", i), Version: 17, Count: i + 1, Bytes: int64(1000 * i)}
		if i == 7 {
			op.MACs, op.Open = 4096, 1
		}
		r.Ops = append(r.Ops, op)
	}
	short, all := reported(t, r, false), reported(t, r, true)
	require.Contains(t, short, "depend on open dimensions")
	require.Contains(t, short, "  op         version  count   MACs  share  bytes\n  Op07            17      8  ≥4.1k      -     7k\n",
		"most work first, on the right")
	require.Less(t, strings.Index(short, "Op07"), strings.Index(short, "Op29"))
	require.Less(t, strings.Index(short, "Op29"), strings.Index(short, "Op28"))
	require.Contains(t, short, "14 others")
	require.NotContains(t, all, "others")
	require.Contains(t, all, "Op00")
	for _, line := range strings.Split(short, "\n") {
		require.Less(t, len(line), 120)
		require.Equal(t, strings.TrimRight(line, " "), line)
	}
}

func reported(t *testing.T, r *analysis.Inspection, nodes bool) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, reports.InspectText(&b, r, nodes))
	return b.String()
}
