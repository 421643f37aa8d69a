package exec_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// runText executes a graph without inputs twice, so that the second run is planned, and returns its outputs as text.
func runText(t *testing.T, text string) ([]string, error) {
	t.Helper()
	s, err := exec.NewPoisoned(graphtest.Parse(t, text), exec.Options{Threads: 2})
	if err != nil {
		return nil, err
	}
	r := s.NewRunner()
	var list []string
	for range 2 {
		outs, err := r.Run(context.Background(), nil, nil)
		if err != nil {
			return nil, err
		}
		list = list[:0]
		for _, o := range outs {
			list = append(list, fmt.Sprintf("%s %v", o.Type(), o.Data))
		}
	}
	return list, nil
}

// counting is a body that carries v, adds 1 to it, goes on while it is below five, and collects its double.
const counting = `graph {
	input i: i64[]; input go: bool[]; input v: i64[1]
	w = Add(v, one); more = Less(w, five); scalar = Reshape(more, none); double: i64[1] = Add(w, w)
	output scalar; output w; output double
}`

func TestLoop(t *testing.T) {
	const head = "graph g\nopset 14\nconst one: i64[1] = [1]; const five: i64[1] = [5]; const none: i64[0] = []\n" +
		"const start: i64[1] = [0]; const three: i64[] = 3; const nine: i64[] = 9; const zero: i64[] = 0; const below: i64[] = -4\n" +
		"const yes: bool[] = true; const no: bool[1] = [false]\n"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"a number of times", "last, all = Loop(three, _, start) {body=" + counting + "}; output last; output all",
			[]string{"i64[1] [3]", "i64[3,1] [2 4 6]"}},
		{"ends early", "last, all = Loop(nine, yes, start) {body=" + counting + "}; output last; output all",
			[]string{"i64[1] [5]", "i64[5,1] [2 4 6 8 10]"}},
		{"no trip count", "last, all = Loop(_, yes, start) {body=" + counting + "}; output last; output all",
			[]string{"i64[1] [5]", "i64[5,1] [2 4 6 8 10]"}},
		{"neither", "last = Loop(_, _, start) {body=" + counting + "}; output last", []string{"i64[1] [5]"}},
		{"not once", "last, all = Loop(zero, yes, start) {body=" + counting + "}; output last; output all",
			[]string{"i64[1] [0]", "i64[0,1] []"}},
		{"a negative trip count", "last, all = Loop(below, _, start) {body=" + counting + "}; output last; output all",
			[]string{"i64[1] [0]", "i64[0,1] []"}},
		{"false from the start", "last, all = Loop(three, no, start) {body=" + counting + "}; output last; output all",
			[]string{"i64[1] [0]", "i64[0,1] []"}},
		{"what is carried grows", `last = Loop(three, _, start) {body=graph {
				input i: i64[]; input go: bool[]; input v: i64[1]
				n = Reshape(i, one); w = Concat(v, n) {axis=0}
				output go; output w
			}}; output last`, []string{"i64[4] [0 0 1 2]"}},
		{"a state passed on and a value from outside", `last, all = Loop(three, _, start) {body=graph {
				input i: i64[1]; input go: bool[1]; input v: i64[1]
				output go; output v; output five
			}}; output last; output all`, []string{"i64[1] [0]", "i64[3,1] [5 5 5]"}},
		{"two states change places", `a, b = Loop(three, _, start, five) {body=graph {
				input i: i64[]; input go: bool[]; input v; input w
				output go; output w; output v
			}}; output a; output b`, []string{"i64[1] [5]", "i64[1] [0]"}},
		{"a loop in a branch in a loop", `last = Loop(three, _, start) {body=graph {
				input i: i64[]; input go: bool[]; input v: i64[1]
				odd = Mod(i, two); is = Cast(odd) {to=9}
				w = If(is) {then_branch=graph {
					r = Loop(three, _, v) {body=graph {
						input k: i64[]; input on: bool[]; input u: i64[1]
						s = Add(u, i); output on; output s
					}}; output r
				}, else_branch=graph { d = Add(v, five); output d }}
				output go; output w
			}}; output last
			const two: i64[] = 2`, []string{"i64[1] [13]"}}, // 0+5, +3*1, +5
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := runText(t, head+c.text)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestScan(t *testing.T) {
	const sums = `body=graph {
		input acc: f32[2]; input slice: f32[2]
		next = Add(acc, slice); output next; output next
	}`
	const since9 = "graph g\nopset 11\nconst s: f32[2] = [0, 10]; const x: f32[3,2] = [1, 2, 3, 4, 5, 6]; const y: f32[2,3] = [1, 3, " +
		"5, 2, 4, 6]\n"
	const at8 = "graph g\nopset 8\nconst s: f32[2,1] = [0, 10]; const x: f32[2,3,1] = [1, 2, 3, 4, 5, 6]; const n: i64[2] = [2, 3]\n"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"sums", since9 + "a, b = Scan(s, x) {num_scan_inputs=1, " + sums + "}; output a; output b",
			[]string{"f32[2] [9 22]", "f32[3,2] [1 12 4 16 9 22]"}},
		{"another axis", since9 + "a, b = Scan(s, y) {num_scan_inputs=1, scan_input_axes=[-1], scan_output_axes=[1], " + sums +
			"}; output a; output b", []string{"f32[2] [9 22]", "f32[2,3] [1 4 9 12 16 22]"}},
		{"backwards", since9 + "a, b = Scan(s, x) {num_scan_inputs=1, scan_input_directions=[1], " + sums + "}; output a; output b",
			[]string{"f32[2] [9 22]", "f32[3,2] [5 16 8 20 9 22]"}},
		{"written backwards", since9 + "a, b = Scan(s, x) {num_scan_inputs=1, scan_output_directions=[1], " + sums + "}; output a; output b",
			[]string{"f32[2] [9 22]", "f32[3,2] [9 22 4 16 1 12]"}},
		{"two inputs, no state", since9 + `a = Scan(x, y) {num_scan_inputs=2, scan_input_axes=[0, 1], body=graph {
				input p: f32[2]; input q: f32[2]
				d = Sub(p, q); output d
			}}; output a`, []string{"f32[3,2] [0 0 0 0 0 0]"}},
		{"nothing to scan", since9 + "const e: f32[0,2] = []; a, b = Scan(s, e) {num_scan_inputs=1, body=graph {\n" +
			"input acc: f32[2]; input slice: f32[2]; next: f32[2] = Add(acc, slice); output next; output next }}; output a; output b",
			[]string{"f32[2] [0 10]", "f32[0,2] []"}},
		{"a batch", at8 + `a, b = Scan(_, s, x) {num_scan_inputs=1, body=graph {
				input acc: f32[1]; input slice: f32[1]
				next = Add(acc, slice); output next; output next
			}}; output a; output b`, []string{"f32[2,1] [6 25]", "f32[2,3,1] [1 3 6 14 19 25]"}},
		{"a batch of different lengths, backwards", at8 + `a, b = Scan(n, s, x) {num_scan_inputs=1, directions=[1], body=graph {
				input acc: f32[1]; input slice: f32[1]
				next = Add(acc, slice); output next; output next
			}}; output a; output b`, []string{"f32[2,1] [3 25]", "f32[2,3,1] [2 3 0 16 21 25]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := runText(t, c.text)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestBadLoops(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no body": {"y = Loop(m, _, x)", "attribute body is missing"},
		"few inputs": {"y = Loop(m, _, x) {body=graph { input i: i64[]; input go: bool[]; output go; output go }}",
			"its body has 2 inputs, not 3"},
		"few outputs": {"y = Loop(m, _, x) {body=graph { input i: i64[]; input go: bool[]; input v; output go }}",
			"its body has 1 outputs for 2"},
		"no condition":  {"y = Loop(m, _, x) {body=graph { input i: i64[]; input go: bool[]; input v; output v; output v }}", "condition f32[2]"},
		"no slices":     {"y = Scan(x) {body=graph { input a; output a }}", "num_scan_inputs 0 with 1 inputs"},
		"a scalar":      {"y = Scan(k) {num_scan_inputs=1, body=graph { input a; output a }}", "axis 0 is outside of rank 0"},
		"other lengths": {"y = Scan(x, z) {num_scan_inputs=2, body=graph { input a; input b; output a }}", "scan inputs have lengths 2 and 3"},
		"unlike slices": {"s, y = Loop(m, _, x) {body=graph { input i: i64[]; input go: bool[]; input v; w = Concat(v, v) {axis=0}; output go; " +
			"output w; output w }}", "output 1 in iteration 1: f32[8] cannot be joined with f32[4]"},
		"a failing node": {"y = Loop(m, _, x) {body=graph { input i: i64[]; input go: bool[]; input v; w = Add(v, z); output go; output w }}",
			`iteration 0: execute: node "w" (Add, f32[2], f32[3])`},
	} {
		_, err := runText(t, "graph g\nopset 13\nconst m: i64[] = 3; const x: f32[2] = [1, 2]; const z: f32[3] = [1, 2, 3]; const k: f32[] = 1\n"+
			c.text+"; output y")
		assert.ErrorContains(t, err, c.want, name)
	}
}

// TestEndlessLoopsCanBeInterrupted: neither a trip count nor a condition ends them, with and without nodes in the body.
func TestEndlessLoopsCanBeInterrupted(t *testing.T) {
	for _, body := range []string{"output go; output v", "w = Neg(v); output go; output w"} {
		s, err := exec.New(graphtest.Parse(t, `graph g
			opset 13
			const x: f32[64] = fill(1)
			y = Loop(_, _, x) {body=graph { input i: i64[]; input go: bool[]; input v; `+body+` }}
			output y`), exec.Options{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, err = s.NewRunner().Run(ctx, nil, nil)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

// TestLoopsDoNotAllocatePerIteration: what an iteration allocates does not grow with the tensors it carries.
func TestLoopsDoNotAllocatePerIteration(t *testing.T) {
	if racing {
		t.Skip("the race detector allocates")
	}
	s, err := exec.New(graphtest.Parse(t, `graph g
		opset 13
		input m: i64[]
		const x: f32[100000] = fill(1)
		y = Loop(m, _, x) {body=graph { input i: i64[]; input go: bool[]; input v; w = Neg(v); output go; output w }}
		output y`), exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	bytes := func(trips int64) int64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := r.Run(context.Background(), map[string]*tensor.Tensor{"m": tensor.FromI64([]int64{trips})}, nil)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		return int64(after.TotalAlloc - before.TotalAlloc)
	}
	bytes(4)
	assert.Less(t, bytes(40)-bytes(4), int64(36*4000), "tensors of 400 KB in each of 36 iterations")
}
