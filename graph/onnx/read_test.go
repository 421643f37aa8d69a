package onnx

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReadRefuses lists broken models and what is said about each.
func TestReadRefuses(t *testing.T) {
	x, y := info("x", 1), info("y", 1)
	relu := node("Relu", "r", []string{"y"}, []string{"x"})
	w := floats("w", []int64{1}, "\x00\x00\x80\x3f")
	good := msg{}.add(1, relu).add(11, x).add(12, y)
	with := func(n msg) msg { return model(msg{}.add(1, n).add(11, x).add(12, y)) }
	attr := func(a msg) msg { return with(append(append(msg{}, relu...), msg{}.add(5, a)...)) }
	cases := []struct {
		what string
		b    msg
		says []string
	}{
		{"nothing", nil, []string{"not an ONNX model", "empty"}},
		{"text", msg("hello, world"), []string{"not an ONNX model"}},
		{"zeros", make(msg, 64), []string{"not an ONNX model"}},
		{"no graph", msg{}.int(1, 8), []string{"not an ONNX model", "no graph"}},
		{"an empty graph", model(nil), []string{"neither nodes nor outputs"}},
		{"two graphs", append(model(good), model(good)...), []string{"two graphs"}},
		{"cut off", model(good)[:20], []string{"not an ONNX model", "truncated"}},
		{"a graph that is a number", msg{}.int(7, 1), []string{"wire type 0"}},
		{"a node without operator", with(msg{}.str(2, "y")), []string{"operator is empty"}},
		{"a name that is not UTF-8", with(node("Relu", "", []string{"\xff"}, []string{"x"})), []string{"UTF-8"}},
		{"an input without name", model(append(good, msg{}.add(11, info(""))...)), []string{"empty or not UTF-8"}},
		{"an undefined value", with(node("Add", "sum", []string{"y"}, []string{"x", "z"})),
			[]string{`node "sum" (Add`, `input 1`, `"z" is read but never defined`}},
		{"an undefined output", model(append(good, msg{}.add(12, info("z", 1))...)), []string{"graph output", `"z" is read but never defined`}},
		{"a value computed twice", model(append(good, msg{}.add(1, relu)...)), []string{`"y" is computed twice`}},
		{"a value computed twice by one node", with(node("Split", "s", []string{"y", "y"}, []string{"x"})), []string{`"y" is computed twice`}},
		{"an input that is computed", model(append(good, msg{}.add(11, y)...)), []string{`graph input "y" is defined twice`}},
		{"an input given twice", model(append(good, msg{}.add(11, x)...)), []string{`graph input "x" is defined twice`}},
		{"an initializer that is computed", model(append(good, msg{}.add(5, floats("y", []int64{1}, "1234"))...)),
			[]string{`initializer "y" is defined twice`}},
		{"an initializer given twice", model(append(good, msg{}.add(5, w).add(5, w)...)), []string{`initializer "w" is defined twice`}},
		{"an initializer without name", model(append(good, msg{}.add(5, floats("", nil, "1234"))...)), []string{"initializer has no name"}},
		{"an initializer of the wrong size", model(append(good, msg{}.add(5, floats("w", []int64{2}, "1234"))...)),
			[]string{`initializer "w"`, "4 bytes present"}},
		{"a cycle", model(msg{}.add(1, node("Add", "a", []string{"y"}, []string{"x", "z"})).add(1,
			node("Relu", "b", []string{"z"}, []string{"y"})).
			add(11, x).add(12, y)), []string{"cycle"}},
		{"a node that reads itself", with(node("Add", "a", []string{"y"}, []string{"y"})), []string{"cycle"}},
		{"an attribute without name", attr(msg{}.int(3, 1).int(20, 2)), []string{`node "r" (Relu`, "name is empty"}},
		{"an attribute given twice",
			with(append(append(msg{}, relu...), msg{}.add(5, msg{}.str(1, "a").int(3, 1)).add(5, msg{}.str(1, "a").int(3, 2))...)),
			[]string{`"a" is given twice`}},
		{"an attribute of another wire type", attr(msg{}.str(1, "a").str(3, "1").int(20, 2)), []string{`attribute "a"`, "wire type"}},
		{"a tensor attribute without tensor", attr(msg{}.str(1, "a").int(20, 4)), []string{`attribute "a"`, "no value"}},
		{"a tensor attribute that is broken", attr(msg{}.str(1, "a").add(5, floats("v", []int64{9}, "1234")).int(20, 4)),
			[]string{`node "r"`, `attribute "a"`, `tensor "v"`}},
		{"a nested graph with an undefined value",
			attr(msg{}.str(1, "a").add(6, msg{}.add(1, node("Neg", "inner", []string{"q"}, []string{"nowhere"})).add(12, info("q", 1))).int(20, 5)),
			[]string{`node "r"`, `attribute "a"`, `node "inner"`, `"nowhere" is read but never defined`}},
		{"a function that is broken", append(model(good),
			msg{}.add(25, msg{}.str(1, "F").add(7, node("Neg", "n", []string{"q"}, []string{"p"})))...),
			[]string{`function "F"`, `"p" is read but never defined`}},
		{"a sparse index out of range", model(append(good, msg{}.add(15, msg{}.add(1, floats("s", []int64{1}, "1234")).
			add(2, msg{}.int(1, 1).int(2, 7).str(9, "\x04\x00\x00\x00\x00\x00\x00\x00")).int(3, 4))...)),
			[]string{`initializer "s"`, "out of range"}},
		{"a sparse tensor that would be huge", model(append(good, msg{}.add(15, msg{}.add(1, floats("s", []int64{0}, "")).
			add(2, msg{}.int(1, 0).int(2, 7)).int(3, 1<<40))...)), []string{`initializer "s"`, "elements"}},
	}
	for _, c := range cases {
		_, _, err := read(c.b)
		if assert.Error(t, err, c.what) {
			for _, says := range c.says {
				assert.Contains(t, err.Error(), says, c.what)
			}
			assert.NotContains(t, err.Error(), "\n", c.what)
		}
	}
	_, _, err := read(model(good))
	require.NoError(t, err)
}

// TestOddButValid lists models that are unusual and must load, unchanged by writing.
func TestOddButValid(t *testing.T) {
	x, y := info("x", 1), info("y", 1)
	cases := map[string]msg{
		"a graph that passes its input through": msg{}.add(11, x).add(12, x),
		"a graph that is a constant":            msg{}.add(5, floats("y", []int64{1}, "1234")).add(12, y),
		"no outputs":                            msg{}.add(1, node("Relu", "", []string{"y"}, []string{"x"})).add(11, x),
		"an operator without inputs":            msg{}.add(1, node("Source", "", []string{"y"}, nil)).add(12, y),
		"the first output absent": msg{}.add(1, node("LSTM", "", []string{"", "y"}, []string{"x", "", "x"})).
			add(1, node("LSTM", "", []string{"", "z"}, []string{"", "x"})).add(11, x).add(12, y),
		"an attribute without type": msg{}.add(1, node("Relu", "", []string{"y"}, []string{"x"}).add(5, msg{}.str(1, "axis").int(3, 5))).add(11,
			x).add(12, y),
		"nodes in the wrong order": msg{}.add(1, node("Relu", "", []string{"y"}, []string{"z"})).
			add(1, node("Neg", "", []string{"z"}, []string{"x"})).add(11, x).add(12, y),
		"fields of the future": msg{}.add(1, node("Relu", "", []string{"y"}, []string{"x"}).str(99, "node")).add(11, x).add(12,
			y).str(98, "graph"),
	}
	for what, g := range cases {
		b := model(g)
		m, _, err := read(b)
		if !assert.NoError(t, err, what) {
			continue
		}
		assert.Equal(t, []byte(b), written(t, m), what)
		m.Graph.Doc = "changed"
		assert.True(t, sameGraph(m.Graph, mustRead(t, written(t, m)).Graph), what)
	}
	m := mustRead(t, model(cases["the first output absent"]))
	assert.Equal(t, []string{"x", "", "x"}, names(m.Graph, m.Graph.Node(0).Inputs))
	assert.Equal(t, []string{"", "x"}, names(m.Graph, m.Graph.Node(1).Inputs))
	assert.Equal(t, []string{"", "z"}, names(m.Graph, m.Graph.Node(1).Outputs))
	m = mustRead(t, model(cases["an operator without inputs"]))
	assert.Empty(t, m.Graph.Node(0).Inputs)
	m = mustRead(t, model(cases["an attribute without type"]))
	assert.EqualValues(t, 5, m.Graph.Node(0).AttrInt("axis", 0))
}

// TestPrefixes cuts a model at every byte: it loads or is refused, and what loads is written as it was.
func TestPrefixes(t *testing.T) {
	b := sample()
	for n := range b {
		m, _, err := read(b[:n])
		if err == nil {
			assert.Equal(t, b[:n], written(t, m))
		}
	}
}

func TestReadSizes(t *testing.T) {
	b := string(sample())
	for _, size := range []int64{-1, int64(len(b)) + 1, 1 << 60} {
		_, _, err := Read(strings.NewReader(b), size, nil)
		assert.Error(t, err, size)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.onnx")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	for path, says := range map[string]string{
		filepath.Join(dir, "none.onnx"): "no such file",
		dir:                             "not a regular file",
		empty:                           "not an ONNX model: the file is empty",
	} {
		_, _, err := Open(path)
		if assert.ErrorContains(t, err, says) {
			assert.True(t, strings.HasPrefix(err.Error(), "load: "+path+": "), err)
		}
	}
}
