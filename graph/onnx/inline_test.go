package onnx

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
)

// function is a FunctionProto in domain "my" for opset 13.
func function(name string, inputs, outputs []string, parts ...msg) msg {
	m := msg{}.str(1, name).str(10, "my").add(9, msg{}.int(2, 13))
	for _, s := range inputs {
		m = m.str(4, s)
	}
	for _, s := range outputs {
		m = m.str(5, s)
	}
	for _, p := range parts {
		m = append(m, p...)
	}
	return m
}

// param declares an attribute of a function, with a default unless that is negative.
func param(name string, def float32) msg {
	if def < 0 {
		return msg{}.str(6, name)
	}
	return msg{}.add(11, floatAttr(name, def))
}

func floatAttr(name string, f float32) msg {
	m := msg{}.str(1, name).int(20, 1)
	return protowire.AppendFixed32(protowire.AppendTag(m, 2, protowire.Fixed32Type), math.Float32bits(f))
}

// refAttr is a float attribute that refers to one of the function.
func refAttr(name, to string) msg { return msg{}.str(1, name).str(21, to).int(20, 1) }

// step is a node of a function.
func step(domain, op, name, outputs, inputs string, attrs ...msg) msg {
	n := node(op, name, strings.Fields(outputs), strings.Fields(strings.ReplaceAll(inputs, "_", ""))).str(7, domain)
	if strings.Contains(inputs, "_") { // absent inputs
		n = msg{}
		for _, s := range strings.Fields(inputs) {
			n = n.str(1, strings.Trim(s, "_"))
		}
		n = append(n, node(op, name, strings.Fields(outputs), nil).str(7, domain)...)
	}
	for _, a := range attrs {
		n = n.add(5, a)
	}
	return n
}

func body(nodes ...msg) msg {
	m := msg{}
	for _, n := range nodes {
		m = m.add(7, n)
	}
	return m
}

// calling is a model with nodes that compute y from x, and functions.
func calling(nodes []msg, functions ...msg) msg {
	g := msg{}
	for _, n := range nodes {
		g = g.add(1, n)
	}
	m := model(g.str(2, "g").add(11, info("x", 2)).add(12, info("y", 2))).add(8, msg{}.str(1, "my").int(2, 1))
	for _, f := range functions {
		m = m.add(25, f)
	}
	return m
}

func call(name, f, outputs, inputs string, attrs ...msg) msg {
	return step("my", f, name, outputs, inputs, attrs...)
}

func TestFunctionsAreInlined(t *testing.T) {
	leaky := function("Leaky", []string{"a"}, []string{"b"}, param("slope", 0.5),
		body(step("", "LeakyRelu", "lr", "b", "a", refAttr("alpha", "slope"))))
	twice := function("Twice", []string{"a"}, []string{"c"}, param("s", -1), body(
		call("first", "Leaky", "b", "a", refAttr("slope", "s")), call("", "Leaky", "c", "b")))
	then := msg{}.add(1, step("", "Neg", "n", "o", "a")).str(2, "t").add(12, msg{}.str(1, "o"))
	other := msg{}.add(1, step("", "Identity", "i", "o", "b")).str(2, "e").add(12, msg{}.str(1, "o"))
	branch := func(name string, g msg) msg { return msg{}.str(1, name).add(6, g).int(20, 5) }
	choose := function("Choose", []string{"c", "a", "b"}, []string{"o"}, body(
		step("", "If", "if", "o", "c", branch("then_branch", then), branch("else_branch", other))))
	for _, c := range []struct {
		name string
		m    msg
		want []string // lines that the graph has
	}{
		{"a default", calling([]msg{call("one", "Leaky", "y", "x")}, leaky), []string{`y: f32[2] = LeakyRelu(x) {alpha=0.5}`}},
		{"an argument", calling([]msg{call("one", "Leaky", "y", "x", floatAttr("slope", 0.25))}, leaky), []string{`{alpha=0.25}`}},
		{"an argument handed on, and none", calling([]msg{call("one", "Twice", "y", "x", floatAttr("s", 0.25))}, twice, leaky),
			[]string{`one/b = LeakyRelu(x) {alpha=0.25}`, `y: f32[2] = LeakyRelu(one/b) {alpha=0.5}`}},
		{"no argument to hand on", calling([]msg{call("one", "Twice", "y", "x")}, twice, leaky), []string{`one/b = LeakyRelu(x)`}},
		{"two calls", calling([]msg{call("one", "Twice", "m", "x"), call("two", "Twice", "y", "m")}, twice, leaky),
			[]string{`one/b = LeakyRelu(x)`, `two/b = LeakyRelu(m)`}},
		{"a name that is taken", calling([]msg{step("", "Neg", "n", "one/b", "x"), call("one", "Twice", "y", "one/b")}, twice, leaky),
			[]string{`one/b = Neg(x)`, `one_1/b = LeakyRelu(one/b)`}},
		{"values that its subgraphs read", calling([]msg{step("", "Cast", "k", "c", "x", msg{}.str(1, "to").int(3, 9).int(20, 2)),
			call("one", "Choose", "y", "c x x")}, choose), []string{`one/o = Neg(x)`, `one/o = Identity(x)`}},
		{"an input as an output", calling([]msg{call("one", "Pass", "y", "x")}, function("Pass", []string{"a"}, []string{"a"},
			body(step("", "Neg", "n", "unread", "a")))), []string{`y: f32[2] = Identity(x)`}},
		{"an absent input", calling([]msg{call("one", "Bound", "y", "x")}, function("Bound", []string{"a", "low", "high"}, []string{"b"},
			body(step("", "Clip", "clip", "b", "a low high")))), []string{`y: f32[2] = Clip(x)`}},
		{"one that comes before", calling([]msg{call("one", "Bound", "y", "x _ x")},
			function("Bound", []string{"a", "low", "high"}, []string{"b"},
				body(step("", "Clip", "clip", "b", "a low high")))), []string{`y: f32[2] = Clip(x, _, x)`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, warnings, err := read(c.m)
			require.NoError(t, err)
			require.Empty(t, warnings)
			require.NoError(t, m.Graph.Check())
			text := graph.Format(m.Graph)
			require.NotContains(t, text, "my::")
			for _, line := range c.want {
				require.Contains(t, text, line)
			}
			var same, changed bytes.Buffer
			require.NoError(t, m.Write(&same))
			require.Equal(t, []byte(c.m), same.Bytes(), "nothing was changed")
			m.Graph.Doc = "changed"
			require.NoError(t, m.Write(&changed))
			again, _, err := read(changed.Bytes())
			require.NoError(t, err)
			require.Empty(t, again.Functions, "what nobody calls is not written")
			require.True(t, sameGraph(m.Graph, again.Graph), "%s\n%s", graph.Format(m.Graph), graph.Format(again.Graph))
		})
	}
}

func TestFunctionsThatCannotBeInlined(t *testing.T) {
	self := function("F", []string{"a"}, []string{"b"}, body(call("", "G", "b", "a")))
	each := func(n int, width int) []msg { // F0 calls F1 width times, that calls F2, ...
		var list []msg
		for i := range n {
			var nodes []msg
			for k := range width {
				nodes = append(nodes, call("", fmt.Sprintf("F%d", i+1), fmt.Sprintf("v%d", k+1), fmt.Sprintf("v%d", k)))
			}
			list = append(list, function(fmt.Sprintf("F%d", i), []string{"v0"}, []string{fmt.Sprintf("v%d", width)}, body(nodes...)))
		}
		return append(list, function(fmt.Sprintf("F%d", n), []string{"v0"}, []string{"v1"}, body(step("", "Neg", "", "v1", "v0"))))
	}
	for _, c := range []struct {
		name string
		m    msg
		want string
	}{
		{"recursion", calling([]msg{call("one", "F", "y", "x")}, self,
			function("G", []string{"a"}, []string{"b"}, body(call("", "F", "b", "a")))), `calls itself`},
		{"too much", calling([]msg{call("one", "F0", "y", "x")}, each(40, 3)...), "more than 524288 nodes and values"},
		{"too deep", calling([]msg{call("one", "F0", "y", "x")}, each(100, 1)...), "more than 64 deep"},
		{"twice", calling([]msg{call("one", "F", "y", "x")}, self, self), `function "my::F" is defined twice`},
		{"many inputs", calling([]msg{call("one", "F", "y", "x x")},
			function("F", []string{"a"}, []string{"b"}, body(step("", "Neg", "", "b", "a")))),
			`node "one" (F, f32[2], f32[2]): function "my::F": 2 inputs and 1 outputs for a function of 1 and 1`},
		{"an argument of another type", calling([]msg{call("one", "F", "y", "x", msg{}.str(1, "s").int(3, 1).int(20, 2))},
			function("F", []string{"a"}, []string{"b"}, param("s", -1), body(step("", "LeakyRelu", "l", "b", "a", refAttr("alpha", "s"))))),
			`attribute "alpha": it refers to "s"`},
		{"an output nobody gives", calling([]msg{call("one", "F", "y", "x")}, function("F", []string{"a", "b"}, []string{"b"},
			body(step("", "Neg", "", "c", "a")))), "output 0 is an input that the call leaves out"},
	} {
		_, _, err := read(c.m)
		require.ErrorContains(t, err, c.want, c.name)
	}
}

// TestFunctionsOfOtherOperatorSets: a body may be written for another version, as long as it means the same.
func TestFunctionsOfOtherOperatorSets(t *testing.T) {
	f := func(op string, opset int64) msg {
		return msg{}.str(1, "F").str(10, "my").add(9, msg{}.int(2, opset)).str(4, "a").str(5, "b").add(7, step("", op, "n", "b", "a"))
	}
	for _, c := range []struct {
		op      string
		opset   int64
		inlined bool
	}{
		{"Neg", 6, true}, {"Neg", 21, true}, {"Softmax", 12, false}, {"Softmax", 17, true}, {"Softmax", 13, true},
		{"Clip", 10, false}, {"Shape", 11, true}, {"Shape", 15, false}, {"ReduceMean", 11, true}, {"ReduceMean", 18, false},
	} {
		b := calling([]msg{call("one", "F", "y", "x")}, f(c.op, c.opset))
		m, warnings, err := read(b)
		require.NoError(t, err)
		require.Equal(t, c.inlined, len(warnings) == 0, "%s of %d: %v", c.op, c.opset, warnings)
		require.Equal(t, c.inlined, !calls(m.Graph, m.Functions))
		m.Graph.Doc = "changed"
		var out bytes.Buffer
		require.NoError(t, m.Write(&out))
		again, _, err := read(out.Bytes())
		require.NoError(t, err)
		require.Equal(t, c.inlined, len(again.Functions) == 0, "a function that is called is kept")
	}
}
