package calib_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// examined runs a graph on feeds and returns what they leave out of it.
func examined(t *testing.T, text string, feeds ...map[string]*tensor.Tensor) (texts []string) {
	t.Helper()
	g := parse(t, text)
	graph.InferShapes(g)
	var list []*exec.Sample
	for i, f := range feeds {
		list = append(list, &exec.Sample{Name: string(rune('a' + i)), Feeds: f, Hash: data.Hash(f)})
	}
	cover := calib.NewCoverage(g)
	stats := run(t, g, list, calib.Config{Coverage: cover, Threads: 2, MinMaxOnly: true})
	for _, w := range data.Warnings(cover.Findings(stats)) {
		texts = append(texts, w.Text)
	}
	return texts
}

func ids(n ...int64) map[string]*tensor.Tensor {
	return map[string]*tensor.Tensor{"i": tensor.FromI64(n, len(n))}
}

const embedding = `
opset 17
input i: i64[N]
const table: f32[4,2] = [0, 1, -1, 0.5, 9, 0, 0.1, 0.2]
const w: f32[2,2] = [1, 2, 3, 4]
e = Gather(table, i) "lookup"
y = MatMul(e, w)
output y: f32[N,2]
`

func TestRowsThatAreNeverRead(t *testing.T) {
	const cure = "; calibrate on samples that read the rest too: ranges behind it are those of what was read"
	require.Equal(t, []string{`1 of 4 rows of "table" were never read: those that were reach from -1 to 1, all of them from -1 to 9` + cure},
		examined(t, embedding, ids(0, 1), ids(3, 1)))
	require.Empty(t, examined(t, embedding, ids(0, 1), ids(-2, 3)), "all are read, one from the end")
	require.Empty(t, examined(t, embedding, ids(0, 1), ids(2, 2)), "the row that is left out is like the others")
	computed := "opset 17\ninput i: i64[N]\nconst two: i64[] = [2]\nk = Div(i, two)" + embedding[len("\nopset 17\ninput i: i64[N]"):]
	computed = replace(t, computed, "Gather(table, i)", "Gather(table, k)")
	require.Len(t, examined(t, computed, ids(0, 1), ids(3, 2)), 1, "what is read is computed")
	require.Empty(t, examined(t, computed, ids(0, 5), ids(3, 2)))
}

func TestPositionsThatAreNeverRead(t *testing.T) {
	const positions = `
opset 17
input x: f32[N,2]
input i: i64[1]
const zero: i64[1] = [0]
const table: f32[4,2] = [0, 1, -1, 0.5, 0.3, 0, 5, 0.2]
p = Slice(table, zero, i, zero) "positions"
y = Add(x, p)
output y: f32[N,2]
`
	feeds := func(n int64) map[string]*tensor.Tensor {
		x := tensor.New(tensor.Float32, int(n), 2)
		for i := range x.F32() {
			x.F32()[i] = float32(i) - 0.5
		}
		return map[string]*tensor.Tensor{"x": x, "i": tensor.FromI64([]int64{n}, 1)}
	}
	got := examined(t, positions, feeds(2), feeds(3))
	require.Len(t, got, 1)
	require.Contains(t, got[0], `only a part of "table" was read: from -1 to 1; all of it reaches from -1 to 5`)
	require.Empty(t, examined(t, positions, feeds(2), feeds(4)))
}

func TestBranchesThatAreNeverTaken(t *testing.T) {
	const branches = `
opset 17
input x: f32[2]
const zero: f32[] = [0]
s = ReduceSum(x) {keepdims=0}
c = Greater(s, zero)
y = If(c) {then_branch=graph {
	a = Relu(x)
	output a
}, else_branch=graph {
	b = Neg(x)
	output b
}} "choice"
output y: f32[2]
`
	x := func(a, b float32) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{a, b}, 2)}
	}
	require.Equal(t, []string{"its condition is true in all of 2 runs: the other branch was never run; record samples that take it: " +
		"ranges behind " +
		"it are those of the other way; if it never is taken, fix what decides it (qwb bind)"}, examined(t, branches, x(1, 2), x(3, -1)))
	require.Empty(t, examined(t, branches, x(1, 2), x(-3, 1)))
}

const cureOfWays = "; record samples that take it: ranges behind it are those of the other way; if it never is taken, " +
	"fix what decides it (qwb bind)"

// turning is a Loop inside of a branch.
const turning = `
opset 17
input x: f32[2]
input n: i64[]
input c: bool[]
input go: bool[]
y = If(c) {then_branch=graph {
	a = Loop(n, go, x) {body=graph {
		input i: i64[]
		input on: bool[]
		input v: f32[2]
		stay = Identity(on)
		w = Add(v, x)
		output stay
		output w
	}} "turns"
	output a
}, else_branch=graph {
	b = Neg(x)
	output b
}} "choice"
output y: f32[2]
`

func TestLoopsThatNeverTurn(t *testing.T) {
	feeds := func(n int64, c, on bool) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{float32(n) - 1, 2}, 2), "n": tensor.FromI64([]int64{n}),
			"c": {DType: tensor.Bool, Shape: []int{}, Data: []bool{c}}, "go": {DType: tensor.Bool, Shape: []int{}, Data: []bool{on}}}
	}
	never := "its body was not run once in 2 runs: there was nothing to go through, or its condition was false at first" + cureOfWays
	require.Equal(t, []string{never}, examined(t, turning, feeds(0, true, true), feeds(0, true, true), feeds(3, false, true)))
	require.Equal(t, []string{never}, examined(t, turning, feeds(2, true, false), feeds(0, true, true), feeds(3, false, true)))
	require.Empty(t, examined(t, turning, feeds(0, true, true), feeds(1, true, true), feeds(3, false, true)))
	got := examined(t, turning, feeds(0, false, true), feeds(1, false, true))
	require.Len(t, got, 1, "the branch says it all: the loop in it was never met")
	require.Contains(t, got[0], "its condition is false in all of 2 runs")
}

func TestScansOfNothing(t *testing.T) {
	const scan = `
opset 17
input h: f32[2]
input x: f32[T,2]
s, z = Scan(h, x) {num_scan_inputs=1, body=graph {
	input a: f32[2]
	input b: f32[2]
	c = Add(a, b)
	d = Identity(c)
	output c
	output d
}} "scan"
output s: f32[2]
output z: f32[T,2]
`
	feeds := func(n int, a float32) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"h": tensor.FromF32([]float32{a, 2}, 2), "x": tensor.New(tensor.Float32, n, 2)}
	}
	got := examined(t, scan, feeds(0, 1), feeds(0, 2))
	require.NotEmpty(t, got)
	require.Contains(t, got[0], "its body was not run once in 2 runs")
	require.Empty(t, examined(t, scan, feeds(0, 1), feeds(1, 2)))
}

func TestOperandsThatAreNeverChosen(t *testing.T) {
	const where = `
opset 17
input x: f32[2]
const zero: f32[] = [0]
s = ReduceSum(x) {keepdims=0}
c = Greater(s, zero)
far = Exp(x)
y = Where(c, x, far) "select"
output y: f32[2]
`
	x := func(a, b float32) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{a, b}, 2)}
	}
	require.Equal(t, []string{"its condition is true for every element of all samples: the other operand was never taken" + cureOfWays},
		examined(t, where, x(1, 2), x(3, -1)))
	require.Empty(t, examined(t, where, x(1, 2), x(-3, -1)))
	require.Empty(t, examined(t, replace(t, where, "far = Exp(x)", "far = Expand(zero, zero_shape)\nconst zero_shape: i64[1] = [2]"), x(1, 2)),
		"a constant instead is no branch")
}

func TestResultsWithoutElements(t *testing.T) {
	const kept = `
opset 17
input x: f32[4]
const limit: f32[] = [9]
c = Greater(x, limit)
k = Compress(x, c) {axis=0} "keep"
r = Relu(k)
output r: f32[K]
`
	x := func(a float32) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{a, 2, 3, 4}, 4)}
	}
	require.Equal(t, []string{"its result has no element in any of 2 samples; record samples in which it has some: no range behind it is " +
		"known otherwise"}, examined(t, kept, x(1), x(2)))
	require.Empty(t, examined(t, kept, x(1), x(10)))
}

func replace(t *testing.T, text, old, by string) string {
	t.Helper()
	require.Contains(t, text, old)
	return strings.Replace(text, old, by, 1)
}
