package graph

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInferShapeComputations follows sizes through nodes that compute with them.
func TestInferShapeComputations(t *testing.T) {
	const head = `
		opset 13
		input x: f32[N,T,8]
		const i0: i64[] = 0; const i1: i64[] = 1; const i2: i64[] = 2
		const v0: i64[1] = [0]; const v1: i64[1] = [1]; const v8: i64[1] = [8]; const minus: i64[1] = [-1]
		const end: i64[1] = [9223372036854775807]
		s = Shape(x); n = Gather(s, v0); t = Gather(s, v1); ts = Gather(s, i1)
	`
	for _, c := range []struct{ name, text, want string }{
		{"one more", `more = Add(t, v1); c = Concat(n, more, v8) {axis=0}; y = ConstantOfShape(c)`, `f32[N,"(T+1)",8]`},
		{"half", `two = Identity(i2); h = Div(ts, two); u = Unsqueeze(h, v0); c = Concat(n, u) {axis=0}; y = ConstantOfShape(c)`,
			`f32[N,"(T/2)"]`},
		{"twice the half", `const two: i64[1] = [2]; h = Div(t, two); d = Mul(h, two); y = ConstantOfShape(d)`, `f32["2*(T/2)"]`},
		{"half of twice", `const two: i64[1] = [2]; d = Mul(t, two); h = Div(d, two); y = ConstantOfShape(h)`, `f32[T]`},
		{"a float quotient is not rounded", `const two: f32[1] = [2]; f = Cast(t) {to=1}; h = Div(f, two); d = Mul(h, two); ` +
			`i = Cast(d) {to=7}; y = ConstantOfShape(i)`, `f32[?]`},
		{"a range", `last = Add(ts, i1); y = Range(i0, last, i1)`, `i64["(T+1)"]`},
		{"positions behind others", `input p: f32[N,P,8]; ps = Shape(p); q = Gather(ps, i1); e = Add(q, ts); y = Range(q, e, i1)`, `i64[T]`},
		{"a table of positions", `const table: f32[512,8] = fill(1); q = Slice(table, v0, t, v0); y = Add(x, q)`, "f32[N,T,8]"},
		{"a cache", `input p: f32[N,P,8]; k = Concat(p, x) {axis=1}; r = Transpose(k) {perm=[0,2,1]}; y = MatMul(x, r)`, `f32[N,T,"(P+T)"]`},
		{"a class token, and without it", `const one: f32[1,1,8] = fill(1); sh = Concat(n, v1, v8) {axis=0}; cls = Expand(one, sh)
			z = Concat(cls, x) {axis=1}; r = Slice(z, v1, end, v1); y = Add(r, x)`, "f32[N,T,8]"},
		{"heads", `const sh: i64[4] = [0,0,2,4]; a = Reshape(x, sh); b = Transpose(a) {perm=[0,2,1,3]}; k = Transpose(a) {perm=[0,2,3,1]}
			m = MatMul(b, k); f = Softmax(m); w = MatMul(f, b); o = Transpose(w) {perm=[0,2,1,3]}
			back = Concat(n, t, minus) {axis=0}; y = Reshape(o, back)`, "f32[N,T,8]"},
		{"twice as large", `const sc: f32[1] = [2]; f = Cast(t) {to=1}; m = Mul(f, sc); fl = Floor(m); i = Cast(fl) {to=7}; ` +
			`y = ConstantOfShape(i)`, `f32["2*T"]`},
		{"a size that is not -1", `is = Equal(t, minus); w = Where(is, v1, t); y = ConstantOfShape(w)`, "f32[T]"},
		{"a difference may be -1", `d = Sub(t, v8); is = Equal(d, minus); w = Where(is, v1, d); y = ConstantOfShape(w)`, "f32[?]"},
		{"all elements", `z = Size(x); u = Unsqueeze(z, v0); y = Reshape(x, u)`, `f32["8*N*T"]`},
		{"a loop that keeps its shape", `y = Loop(i2, _, x) {body=graph { input i: i64[]; input c: bool[]; input v: f32[N,T,8]
			w = Relu(v); output c; output w }}`, "f32[N,T,8]"},
		{"a loop that does not", `const e: f32[1,0,8] = fill(0); y = Loop(i2, _, e) {body=graph { input i: i64[]; input c: bool[]; input v
			w = Concat(v, v) {axis=1}; output c; output w }}`, "f32[...]"},
	} {
		g, err := Parse(head + c.text + "\noutput y")
		require.NoError(t, err, c.name)
		require.Empty(t, InferShapes(g), c.name)
		require.Equal(t, c.want, typeOf(t, g, "y"), c.name)
	}
}

func TestInferBatchedScan(t *testing.T) {
	g := parsed(t, `
		opset 8
		input s: f32[B,3]
		input x: f32[B,L,3]
		last, all = Scan(_, s, x) {num_scan_inputs=1, body=graph {
			input acc; input slice
			next = Add(acc, slice); output next; output next
		}}
		output last; output all`)
	require.Empty(t, InferShapes(g))
	require.Equal(t, "f32[B,3]", typeOf(t, g, "last"))
	require.Equal(t, "f32[B,L,3]", typeOf(t, g, "all"))
}

// TestSymbolsComputeAsTheirNumbers compares expressions of names with the same expressions of numbers.
func TestSymbolsComputeAsTheirNumbers(t *testing.T) {
	sizes := map[string]int64{"H": 7, "W": 5, "N": 2, "past": 3}
	atoms := []Elem{symbol("H"), symbol("W"), symbol("N"), known(2), known(3), symbol("(H+1)"), symbol("2*W"), symbol("past + 1"),
		symbol("((H+1)/2)"), symbol("(W-1)")}
	ops := []struct {
		name  string
		elem  func(a, b Elem) Elem
		exact func(a, b int64) (int64, bool)
	}{
		{"+", addElems, func(a, b int64) (int64, bool) { return a + b, true }},
		{"-", subElems, func(a, b int64) (int64, bool) { return a - b, true }},
		{"*", mulElems, func(a, b int64) (int64, bool) { return a * b, true }},
		{"/", quotientElems, func(a, b int64) (int64, bool) { return a / max(b, 1), b > 0 }},
	}
	checked := 0
	for _, a := range atoms {
		for _, b := range atoms {
			for _, c := range atoms {
				for _, first := range ops {
					for _, second := range ops {
						ab := first.elem(a, b)
						e := second.elem(ab, c)
						if !e.Known && e.Symbol == "" {
							continue
						}
						n, ok1 := first.exact(a.bind(sizes).N, b.bind(sizes).N)
						m, ok2 := second.exact(n, c.bind(sizes).N)
						if !ok1 || !ok2 {
							continue
						}
						require.Equal(t, known(m), e.bind(sizes), "(%v %s %v) %s %v = %v", a, first.name, b, second.name, c, e)
						checked++
					}
				}
			}
		}
	}
	require.Greater(t, checked, 5000)
}

func TestSymbolsOfHostileModels(t *testing.T) {
	for _, s := range []string{strings.Repeat("(", 1<<20), strings.Repeat("a*", 1<<20), strings.Repeat("(a+b)*", 10) + "1", "()", "(", ")",
		"*", "+", "-", "(/0)",
		"(a/0)", "9223372036854775807*a", "(a+9223372036854775807)", "a - ", "((((a", "1 + ", "(a)(b)"} {
		e := symbol(s)
		if len(s) > maxSymbol {
			e = Elem{Symbol: s}
		}
		for _, o := range []Elem{e, symbol("a"), known(2), known(math.MaxInt64), known(math.MinInt64)} {
			for _, f := range []func(a, b Elem) Elem{addElems, subElems, mulElems, divElems, quotientElems} {
				f(e, o)
				f(o, e)
			}
		}
		e.bind(map[string]int64{"a": math.MaxInt64})
		require.NotPanics(t, func() { floorDiv(e, math.MaxInt64, 2) })
	}
}
