package data

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// examined shows feeds to a doctor of a graph and returns what it warns of.
func examined(t *testing.T, text string, feeds ...map[string]*tensor.Tensor) []string {
	t.Helper()
	g := graphtest.Parse(t, text)
	graph.InferShapes(g)
	d := NewDoctor(SpecOf(g), g, nil)
	for i, f := range feeds {
		d.Observe(&exec.Sample{Name: string(rune('a' + i)), Feeds: f, Hash: Hash(f)})
	}
	return texts(d.Warnings())
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
	require.Equal(t, []string{"its condition is true in all of 2 samples: the other branch was never run; record samples that take it: " +
		"ranges behind " +
		"it are those of one branch; if it never is taken, fix what decides it (qwb bind)"}, examined(t, branches, x(1, 2), x(3, -1)))
	require.Empty(t, examined(t, branches, x(1, 2), x(-3, 1)))
}

// A state that is 0 everywhere, or has no elements, says how it is recorded.
func TestStatesThatAreNotThere(t *testing.T) {
	const state = `
opset 17
input x: f32[1,2]
input h: f32[N,2]
y = Concat(x, h) {axis=0}
output y: f32[M,2]
`
	feeds := func(rows int, a float32) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{a, -a}, 1, 2), "h": tensor.New(tensor.Float32, rows, 2)}
	}
	for rows, want := range []string{"the input has no element in any of 2 samples: none of its numbers was seen",
		"the input is constant in 2 of 2 samples (first: a)"} {
		got := examined(t, state, feeds(rows, 1), feeds(rows, 2))
		require.Len(t, got, 1)
		require.Contains(t, got[0], want)
		require.Contains(t, got[0], "; record the state by r") // rolling or running it
	}
}

func replace(t *testing.T, text, old, by string) string {
	t.Helper()
	require.Contains(t, text, old)
	return strings.Replace(text, old, by, 1)
}
