package graph

import (
	"strconv"
	"strings"

	"qwb/graph/tensor"
)

// attrKinds are the names of attribute kinds in the text form, by AttrKind.
var attrKinds = [...]string{AttrFloat: "float", AttrInt: "int", AttrString: "string", AttrTensor: "tensor", AttrGraph: "graph",
	AttrFloats: "floats", AttrInts: "ints", AttrStrings: "strings", AttrTensors: "tensors", AttrGraphs: "graphs"}

func (f *formatter) attr(g *Graph, a *Attr) {
	if a.RefAttr != "" && int(a.Kind) < len(attrKinds) {
		f.b.WriteString("ref(" + attrKinds[a.Kind] + ", " + quoteName(a.RefAttr) + ")")
		return
	}
	if a.Kind == AttrTensor && a.T == nil || a.Kind == AttrGraph && a.G == nil {
		f.b.WriteString(`raw("")`)
		return
	}
	switch a.Kind {
	case AttrFloat:
		f.b.WriteString(floatLiteral(a.F))
	case AttrInt:
		f.b.WriteString(strconv.FormatInt(a.I, 10))
	case AttrString:
		f.b.WriteString(strconv.Quote(a.S))
	case AttrTensor:
		f.tensor(a.T)
	case AttrGraph:
		f.subgraph(a.G, g)
	case AttrInts:
		list(f, "[]", a.Ints, func(v int64) { f.b.WriteString(strconv.FormatInt(v, 10)) })
	case AttrFloats:
		list(f, "floats[]", a.Floats, func(v float32) { f.b.WriteString(floatLiteral(v)) })
	case AttrStrings:
		list(f, "strings[]", a.Strings, func(v string) { f.b.WriteString(strconv.Quote(v)) })
	case AttrTensors:
		list(f, "tensors[]", a.Tensors, f.tensor)
	case AttrGraphs:
		list(f, "graphs[]", a.Graphs, func(sub *Graph) { f.subgraph(sub, g) })
	default:
		f.b.WriteString("raw(" + strconv.Quote(string(a.Raw)) + ")")
	}
}

// list writes [a, b], or empty where there are none.
func list[T any](f *formatter, empty string, items []T, one func(T)) {
	if len(items) == 0 {
		f.b.WriteString(empty)
		return
	}
	for i, v := range items {
		if i == 0 {
			f.b.WriteByte('[')
		} else {
			f.b.WriteString(", ")
		}
		one(v)
	}
	f.b.WriteByte(']')
}

func (f *formatter) tensor(t *tensor.Tensor) {
	f.b.WriteString(t.Type() + " ")
	formatData(&f.b, t, f.limit)
}

func (f *formatter) subgraph(sub, g *Graph) {
	f.b.WriteString("graph " + quoteName(sub.Name) + " {\n")
	indent := f.indent
	f.indent += "  "
	opsets := g.Opsets
	if opsets == nil {
		opsets = []Opset{}
	}
	f.graph(sub, opsets)
	f.indent = indent
	f.b.WriteString(indent + "}")
}

// floatLiteral is the shortest text that parses to v and is not taken for an integer. All NaNs give nan.
func floatLiteral(v float32) string {
	s := strconv.FormatFloat(float64(v), 'g', -1, 32)
	switch {
	case s == "NaN":
		return "nan"
	case s == "+Inf":
		return "inf"
	case s == "-Inf":
		return "-inf"
	case strings.ContainsAny(s, ".e"):
		return s
	}
	return s + ".0"
}

// quoteName quotes s unless it is a plain name.
func quoteName(s string) string {
	if s == "" || s == "_" || !nameStart(s[0]) {
		return strconv.Quote(s)
	}
	for i := 1; i < len(s); i++ {
		if !namePart(s[i]) {
			return strconv.Quote(s)
		}
	}
	return s
}

func nameStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '/'
}

func namePart(c byte) bool { return nameStart(c) || c >= '0' && c <= '9' || c == '.' || c == '-' }
