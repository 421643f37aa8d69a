package graph

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"qwb/graph/tensor"
)

// Format writes g in the text form that Parse reads:
//
//	graph = [ "graph" name ] { statement }
//	statement, one per line or separated by ";" ("#" starts a comment):
//	  "opset" [ domain ] version                        opset 17; without any, ai.onnx 17 is imported
//	  "input" name [ ":" type ] [ "=" data ] { "," ... } with data: a constant that is an input as well
//	  "const" name ":" type "=" data
//	  "output" name [ ":" type ] { "," ... }
//	  out { "," out } "=" op "(" [ in { "," in } ] ")" [ "{" attr { "," attr } "}" ] [ node name in quotes ]
//	out  = "_" | name [ ":" type ]                      _ is an absent output
//	in   = "_" | name                                   _ is an absent input; names may be used before they are defined
//	op   = [ domain "::" ] op_type [ "@" overload ]
//	type = element type "[" dims "]"                    f32[1,3,H,?]; f32[...] has unknown rank; undefined[2] no element type
//	data = value | "[" values "]"                       row-major, as many as the type has elements (complex: two each)
//	     | "fill" "(" value ")"
//	     | "normal" "(" [ "seed=" n ] [ ",std=" x ] [ ",mean=" x ] ")"      seed 0, std 1, mean 0
//	     | "uniform" "(" [ "seed=" n ] [ ",low=" x ] [ ",high=" x ] ")"     seed 0, low -1, high 1; high excluded
//	     | "iota" "(" [ "start=" x ] [ ",step=" x ] ")"                     start 0, step 1
//	attr = name "=" ( 1 | 1.0 | "s" | [1, 2] | [1.0, 2.0] | ["s", "t"]      int, float, string and lists of them
//	     | floats[] | strings[] | tensors[] | graphs[]                      empty lists other than of ints
//	     | type data | "[" type data { "," type data } "]"                  tensor, tensors
//	     | "graph" [ name ] "{" statements "}" | "[" graph { "," graph } "]" subgraph, subgraphs
//	     | "ref" "(" kind "," name ")" | "raw" "(" bytes ")" )              function attribute, opaque attribute
//
// A name is a run of letters, digits and _ . / - that starts with a letter, _ or /; any other is quoted as in Go. A number
// with point, exponent, inf or nan is a float attribute, else an int. In tensors of floating type 0x... is a bit pattern,
// the only form of float16 and narrower types; NaNs other than the default one are written so. A node without a name is called
// like its first output. A subgraph reads undefined names from the graphs around it and imports their opsets.
//
// The text is canonical: nodes in the order of Order, constants by first use, so graphs that differ only in storage order
// have the same text. Documentation strings, values that nobody computes or reads and the layout of constants are left out.
func Format(g *Graph) string { return FormatShort(g, math.MaxInt) }

// FormatShort is Format with the data of constants of more than n elements written as "...", which Parse refuses.
func FormatShort(g *Graph, n int) string {
	f := formatter{limit: n}
	f.graph(g, nil)
	return f.b.String()
}

// FormatNode writes one node as a statement of the text form, with tensors of more than 8 elements shortened.
func FormatNode(g *Graph, id NodeID) string {
	f := formatter{limit: 8}
	f.node(g, &g.nodes[id])
	return strings.TrimSuffix(f.b.String(), "\n")
}

// FormatType writes an element type and a shape as the text form does, f32[batch,3].
func FormatType(d tensor.DType, s Shape) string {
	dims := make([]string, len(s))
	for i, dim := range s {
		switch {
		case dim.Known():
			dims[i] = strconv.FormatInt(dim.N, 10)
		case dim.Symbol != "":
			dims[i] = quoteName(dim.Symbol)
		default:
			dims[i] = "?"
		}
	}
	if s == nil {
		dims = []string{"..."}
	}
	return d.String() + "[" + strings.Join(dims, ",") + "]"
}

type formatter struct {
	b      strings.Builder
	indent string
	limit  int
}

func (f *formatter) line(parts ...string) {
	f.b.WriteString(f.indent)
	for _, p := range parts {
		f.b.WriteString(p)
	}
	f.b.WriteByte('\n')
}

// graph writes the statements of g; outer is the enclosing graph's opsets, nil for the outermost graph.
func (f *formatter) graph(g *Graph, outer []Opset) {
	if outer == nil {
		f.line("graph ", quoteName(g.Name))
	}
	if outer == nil || len(g.Opsets) > 0 && !slices.Equal(g.Opsets, outer) {
		for _, o := range g.Opsets {
			domain := ""
			if o.Domain != "" {
				domain = quoteName(o.Domain) + " "
			}
			f.line("opset ", domain, strconv.FormatInt(o.Version, 10))
		}
	}
	order, err := g.Order()
	if err != nil {
		order = g.Nodes()
	}
	for _, id := range g.Inputs {
		f.b.WriteString(f.indent + "input ")
		f.define(&g.values[id])
		f.b.WriteByte('\n')
	}
	for _, id := range g.constants(order) {
		f.b.WriteString(f.indent + "const ")
		f.define(&g.values[id])
		f.b.WriteByte('\n')
	}
	for _, id := range order {
		f.b.WriteString(f.indent)
		f.node(g, &g.nodes[id])
	}
	for _, id := range g.Outputs {
		v := &g.values[id]
		if v.producer == NoNode && v.Const == nil && !g.IsInput(id) {
			f.line("output ", typed(v)) // an outer value handed out, or one that is not defined at all
			continue
		}
		f.line("output ", quoteName(v.Name))
	}
}

// constants lists the constants that are not inputs: by first use in order, then by name.
func (g *Graph) constants(order []NodeID) []ValueID {
	var list []ValueID
	seen := make([]bool, len(g.values))
	add := func(id ValueID) {
		if id != NoValue && !seen[id] && g.values[id].Const != nil && !g.values[id].dead {
			seen[id] = true
			list = append(list, id)
		}
	}
	for _, id := range g.Inputs {
		seen[id] = true
	}
	for _, id := range order {
		for _, v := range g.nodes[id].Inputs {
			add(v)
		}
	}
	used := len(list)
	for i := range g.values {
		add(ValueID(i))
	}
	slices.SortFunc(list[used:], func(a, b ValueID) int { return strings.Compare(g.values[a].Name, g.values[b].Name) })
	return list
}

func typed(v *Value) string {
	if v.DType == tensor.Undefined && v.Shape == nil {
		return quoteName(v.Name)
	}
	return quoteName(v.Name) + ": " + FormatType(v.DType, v.Shape)
}

// define writes `name: type`, and `= data` for a constant.
func (f *formatter) define(v *Value) {
	if v.Const == nil {
		f.b.WriteString(typed(v))
		return
	}
	f.b.WriteString(quoteName(v.Name) + ": " + v.Const.Type() + " = ")
	formatData(&f.b, v.Const, f.limit)
}

func (f *formatter) node(g *Graph, n *Node) {
	for i, v := range n.Outputs {
		if i > 0 {
			f.b.WriteString(", ")
		}
		if v == NoValue {
			f.b.WriteByte('_')
			continue
		}
		f.b.WriteString(typed(&g.values[v]))
	}
	f.b.WriteString(" = ")
	if n.Domain != "" {
		f.b.WriteString(quoteName(n.Domain) + "::")
	}
	f.b.WriteString(quoteName(n.Op))
	if n.Overload != "" {
		f.b.WriteString("@" + quoteName(n.Overload))
	}
	f.b.WriteByte('(')
	for i, v := range n.Inputs {
		if i > 0 {
			f.b.WriteString(", ")
		}
		if v == NoValue {
			f.b.WriteByte('_')
		} else {
			f.b.WriteString(quoteName(g.values[v].Name))
		}
	}
	f.b.WriteByte(')')
	for i := range n.Attrs {
		f.b.WriteString([]string{", ", " {"}[min(1, max(0, 1-i))])
		f.b.WriteString(quoteName(n.Attrs[i].Name) + "=")
		f.attr(g, &n.Attrs[i])
	}
	if len(n.Attrs) > 0 {
		f.b.WriteByte('}')
	}
	if n.Name != defaultNodeName(g, n) {
		f.b.WriteString(" " + strconv.Quote(n.Name))
	}
	f.b.WriteByte('\n')
}

// defaultNodeName is the name of a node whose text states none: that of its first present output, "" if it has none.
func defaultNodeName(g *Graph, n *Node) string {
	for _, v := range n.Outputs {
		if v != NoValue {
			return g.values[v].Name
		}
	}
	return ""
}
