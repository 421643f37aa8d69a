package pattern_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/pattern"
)

func parse(t testing.TB, text string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(text)
	require.NoError(t, err)
	require.NoError(t, g.Check())
	graph.InferShapes(g) // some of the graphs could not be executed
	return g
}

func node(t testing.TB, g *graph.Graph, name string) graph.NodeID {
	t.Helper()
	id, ok := g.LookupNode(name)
	require.True(t, ok, name)
	return id
}

func TestMatch(t *testing.T) {
	const head = "opset 13\ninput x: f32[1,4]\ninput z: f32[1,4]\nconst three: f32[] = 3\nconst vec: f32[4] = [3, 3, 3, 3]\n"
	cases := []struct {
		claim, pattern, graph string
		want                  bool
	}{
		{"operators and wiring", "h = Relu(x)\ny = Mul(x, h)", "a = Relu(x); y = Mul(x, a); output y", true},
		{"Mul commutes", "h = Relu(x)\ny = Mul(x, h)", "a = Relu(x); y = Mul(a, x); output y", true},
		{"Sub does not commute", "h = Relu(x)\ny = Sub(x, h)", "a = Relu(x); y = Sub(a, x); output y", false},
		{"a name is one value", "h = Relu(x)\ny = Mul(x, h)", "a = Relu(x); y = Mul(z, a); output y", false},
		{"both orders are tried below each other", "a = Add(x, u)\nb = Add(v, a)\ny = Mul(b, x)",
			"a = Add(z, x); b = Add(a, z); y = Mul(x, b); output y", true},
		{"alternatives", "y = Add|Sum(x, k)", "y = Sum(x, z); output y", true},
		{"another operator", "y = Add|Sum(x, k)", "y = Mul(x, z); output y", false},
		{"domains differ", "y = Gelu(x)", "y = com.microsoft::Gelu(x); output y", false},
		{"domain named", "y = com.microsoft::Gelu(x)", "y = com.microsoft::Gelu(x); output y", true},
		{"a number", "y = Add(x, 3)", "y = Add(x, three); output y", true},
		{"a number is a scalar", "y = Add(x, 3)", "y = Add(x, vec); output y", false},
		{"relative tolerance", "y = Add(x, 3.0002)", "y = Add(x, three); output y", true},
		{"out of tolerance", "y = Add(x, 3.001)", "y = Add(x, three); output y", false},
		{"a relation holds for all elements", "y = Add(x, const c > 2)", "y = Add(x, vec); output y", true},
		{"a relation that fails", "y = Add(x, const c < 3)", "y = Add(x, vec); output y", false},
		{"a constant is required", "y = Add(x, const c)", "y = Add(x, z); output y", false},
		{"an input is a constant too when it is the only one", "y = Add(const c, x)", "y = Add(x, three); output y", true},
		{"optional input absent", "y = Clip(x, lo?, const hi?)", "y = Clip(x); output y", true},
		{"optional input skipped", "y = Clip(x, lo?, const hi)", "y = Clip(x, _, three); output y", true},
		{"an absent input must be absent", "y = Clip(x, _, const hi)", "y = Clip(x, three, three); output y", false},
		{"too many inputs", "y = Clip(x)", "y = Clip(x, three); output y", false},
		{"any number of inputs", "y = Concat(x, ...)", "y = Concat(x, z, x) {axis=0}; output y", true},
		{"attribute equal", "y = Clip(x) {min = 0, max = 6}", "y = Clip(x) {min=0.0, max=6.0}; output y", true},
		{"attribute absent", "y = Clip(x) {min = 0}", "y = Clip(x); output y", false},
		{"optional attribute absent", "y = Softmax(x) {axis ?= -1}", "y = Softmax(x); output y", true},
		{"optional attribute wrong", "y = Softmax(x) {axis ?= -1}", "y = Softmax(x) {axis=1}; output y", false},
		{"list attribute", "y = ReduceMean(x) {axes = [1, 2]}", "y = ReduceMean(x) {axes=[1, 2]}; output y", true},
		{"list attribute of another length", "y = ReduceMean(x) {axes = [1]}", "y = ReduceMean(x) {axes=[1, 2]}; output y", false},
		{"string attribute", `y = Pad(x) {mode ?= "constant"}`, `y = Pad(x) {mode="edge", pads=[0, 0, 1, 1]}; output y`, false},
		{"an inner value with another reader", "h = Relu(x)\ny = Exp(h)", "h = Relu(x); y = Exp(h); w = Neg(h); output y, w", false},
		{"an inner value that is an output", "h = Relu(x)\ny = Exp(h)", "h = Relu(x); y = Exp(h); output y, h", false},
		{"an inner value read twice inside", "h = Relu(x)\ny = Mul(h, h)", "h = Relu(x); y = Mul(h, h); output y", true},
		{"the root may have many readers", "y = Relu(x)", "y = Relu(x); w = Exp(y); output y, w", true},
		{"several results", "y, m = Dropout(x)\nw = Cast(m)", "y, m = Dropout(x); w = Cast(m) {to=1}; output w", true},
		{"an unnamed result in use", "a = Split(x)\ny = Relu(a)", "a, b = Split(x); y = Relu(a); output y, b", false},
		{"an unnamed result not in use", "a = Split(x)\ny = Relu(a)", "a, b = Split(x); y = Relu(a); output y", true},
		{"one node for one statement", "a = Relu(x)\nb = Relu(z)\ny = Mul(a, b)", "a = Relu(x); y = Mul(a, a); output y", false},
	}
	for _, c := range cases {
		t.Run(c.claim, func(t *testing.T) {
			g := parse(t, head+c.graph)
			p, err := pattern.Parse(c.pattern)
			require.NoError(t, err)
			last := g.Producer(g.Outputs[0])
			m, ok := p.Match(g, last)
			require.Equal(t, c.want, ok)
			if ok {
				assert.Equal(t, last, m.Root)
			}
		})
	}
}

func TestCaptures(t *testing.T) {
	g := parse(t, `opset 13
		input u: f32[1,4]
		const k: f32[] = 1.5
		b = Mul(k, u)
		s = Sigmoid(b)
		y = Mul(s, u)
		output y`)
	m, ok := pattern.Swish.Match(g, node(t, g, "y"))
	require.True(t, ok)
	assert.Equal(t, "u", g.Value(m.Value("x")).Name)
	assert.Equal(t, "k", g.Value(m.Value("beta")).Name)
	assert.Equal(t, graph.NoValue, m.Value("nothing"))
	assert.Equal(t, node(t, g, "s"), m.Node("s"))
	assert.Equal(t, graph.NoNode, m.Node("beta"))
	names, values := m.Captures()
	assert.Equal(t, []string{"x", "beta"}, names)
	assert.Len(t, values, 2)
	var inner []string
	for _, v := range m.Inner() {
		inner = append(inner, g.Value(v).Name)
	}
	assert.Equal(t, []string{"b", "s"}, inner)
}

func TestBlockedNamesTheReader(t *testing.T) {
	p := pattern.MustParse("h = Relu(x)\ny = Exp(h)")
	g := parse(t, "opset 13\ninput x: f32[2]\nh = Relu(x)\ny = Exp(h)\nw = Neg(h)\noutput y, w")
	assert.EqualError(t, p.Blocked(g, node(t, g, "y")), `"h" is also read by node "w" (Neg)`)
	assert.NoError(t, p.Blocked(g, node(t, g, "w")))

	g = parse(t, "opset 13\ninput x: f32[2]\nh = Relu(x)\ny = Exp(h)\noutput y, h")
	assert.EqualError(t, p.Blocked(g, node(t, g, "y")), `"h" is a graph output`)

	g = parse(t, `opset 13
		input x: f32[2]
		input c: bool[]
		h = Relu(x)
		y = Exp(h)
		z = If(c) {then_branch=graph a { t = Neg(h); output t }, else_branch=graph b { e = Neg(x); output e }}
		output y, z`)
	assert.EqualError(t, p.Blocked(g, node(t, g, "y")), `"h" is read inside a subgraph`)
}

func TestFindAllIsIndependentOfStorageOrder(t *testing.T) {
	const text = `opset 13
		input x: f32[1,4]
		a = Sigmoid(x)
		b = Mul(a, x)
		c = Sigmoid(b)
		d = Mul(b, c)
		e = Sigmoid(d)
		f = Mul(e, d)
		output f`
	roots := func(g *graph.Graph) (names []string) {
		for _, m := range pattern.MustParse("s = Sigmoid(x)\ny = Mul(x, s)").FindAll(g) {
			names = append(names, g.Node(m.Root).Name)
		}
		return names
	}
	g := parse(t, text)
	want := []string{"b", "d", "f"}
	require.Equal(t, want, roots(g))
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		g.Shuffle(rng.Perm(g.NumNodes()))
		require.Equal(t, want, roots(g))
	}
}

func TestParseErrors(t *testing.T) {
	cases := []struct{ text, want string }{
		{"", "needs a statement"},
		{"y Relu(x)", `"Relu" where "=" belongs`},
		{"y = Relu(x", `end of text where "," belongs`},
		{"y = Relu(x) z", "where the statement should end"},
		{"y = Relu(y)", "its own argument"},
		{"a = Relu(x)\ny = Exp(x)", `no later statement reads "a"`},
		{"a = Relu(x)\na = Exp(a)", "used above or reserved"},
		{"y = Relu(x)\nx = Exp(y)", "used above or reserved"},
		{"y = Add(const x, const x)", "belong to its first mention"},
		{"y = Add(x, scalar 3)", "name of a constant"},
		{"y = Add(x, const c == d)", "where a number belongs"},
		{"y = Add(x, 1e)", "where a number belongs"},
		{"y = Relu(x) {axis}", `"=" belongs`},
		{"y = Relu(x) {axis = [1 2]}", `"," belongs`},
		{"y = Relu(x) {axis = \"a}", "not closed"},
		{"y = Relu(x, ..., z)", `")" belongs`},
		{"y = Relu(&x)", "unexpected character"},
		{"_ = Relu(x)", "reserved"},
		{"y = Add(x, const const)", "reserved"},
	}
	for _, c := range cases {
		_, err := pattern.Parse(c.text)
		var at *graph.ParseError
		require.ErrorContains(t, err, c.want, c.text)
		require.True(t, errors.As(err, &at), c.text)
		assert.Positive(t, at.Line, c.text)
	}
	assert.Panics(t, func() { pattern.MustParse("y =") })
}

func FuzzParse(f *testing.F) {
	for _, family := range pattern.Families {
		f.Add(family.Forms[0].String())
	}
	f.Add("y, m = a::B|C(x?, _, const k >= 1e-3, ...) {t ?= \"s\", u = [1, -2]}")
	g, err := graph.Parse("opset 13\ninput x: f32[2]\nconst k: f32[] = 3\na = Add(x, k)\nb = Mul(a, x)\ny = Mul(b, a)\noutput y")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := pattern.Parse(text)
		if err != nil {
			return
		}
		again, err := pattern.Parse(p.String())
		require.NoError(t, err)
		require.Equal(t, len(p.FindAll(g)), len(again.FindAll(g)))
	})
}

func BenchmarkFindAll(b *testing.B) {
	g := graph.New("chain", 13)
	v, err := g.AddValue(graph.Value{Name: "x"})
	require.NoError(b, err)
	g.Inputs = []graph.ValueID{v}
	for i := range 1000 {
		op := []string{"Relu", "Sigmoid", "Exp"}[i%3]
		out, err := g.AddValue(graph.Value{})
		require.NoError(b, err)
		_, err = g.AddNode(graph.Node{Name: g.Value(out).Name, Op: op, Inputs: []graph.ValueID{v}, Outputs: []graph.ValueID{out}})
		require.NoError(b, err)
		v = out
	}
	g.Outputs = []graph.ValueID{v}
	p := pattern.MustParse("s = Sigmoid(x)\ny = Exp(s)")
	for b.Loop() {
		if n := len(p.FindAll(g)); n != 333 {
			b.Fatal(n)
		}
	}
}
