package sidecar

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// byValue finds the tensors of a table by the values of the graph; copies of constants are left out.
func byValue(list []table.Tensor) map[graph.ValueID]*table.Tensor {
	at := map[graph.ValueID]*table.Tensor{}
	for i := range list {
		if list[i].Uses == nil {
			at[list[i].Value] = &list[i]
		}
	}
	return at
}

// OpenPPL on DSPs: a layer for each node, with the ranges of what it computes, of inputs of the model that it reads, and of its weights, as
// they stand in PPQ's prototxt. Constants of other operators have no place there.

// layers are Caffe's names of operators, and of the parameters that hold the ranges of weights.
var layers = map[string][3]string{"Conv": {"Convolution", "convolution_param", "filter"},
	"ConvTranspose": {"Deconvolution", "convolution_param", "filter"},
	"Gemm":          {"InnerProduct", "inner_product_param", "filter"}, "MatMul": {"InnerProduct", "inner_product_param", "filter"},
	"PRelu": {"PReLU", "prelu_param", "slope"}, "Relu": {"ReLU"}}

func quantizeParams(in *export.Input, list []table.Tensor) ([]byte, error) {
	g := in.Model.Graph
	at := byValue(list)
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	written := map[graph.ValueID]bool{}
	for _, id := range order {
		n := g.Node(id)
		layer := layers[n.Op]
		if layer[0] == "" {
			layer[0] = n.Op
		}
		var head, body strings.Builder
		put := func(to *strings.Builder, indent, block, kind string, t *table.Tensor) {
			for c := range t.Params.Scale {
				lo, hi := full(t, c)
				fmt.Fprintf(to, "%s%s {\n%s  type: %q\n%s  range_min: %s\n%s  range_max: %s\n%s}\n", indent, block, indent, kind, indent, decimal(lo),
					indent, decimal(hi), indent)
			}
		}
		for _, v := range n.Inputs {
			if t := at[v]; t != nil && t.Kind == table.Input && !written[v] {
				written[v] = true
				fmt.Fprintf(&head, "  bottom: %s\n", strconv.Quote(t.Name))
				put(&body, "  ", "quantize_param", "bottom", t)
			}
		}
		for _, v := range n.Outputs {
			if t := at[v]; t != nil {
				fmt.Fprintf(&head, "  top: %s\n", strconv.Quote(t.Name))
				put(&body, "  ", "quantize_param", "top", t)
			}
		}
		if t := at[n.Input(1)]; t != nil && t.Kind == table.Weight && layer[1] != "" {
			block := "quantize_param"
			if t.Config.Policy.Has(tqc.PerChannel) {
				block = "perchannel_quantize_param"
			}
			fmt.Fprintf(&body, "  %s {\n", layer[1])
			put(&body, "    ", block, layer[2], t)
			body.WriteString("  }\n")
		}
		if body.Len() > 0 {
			fmt.Fprintf(&b, "layer {\n  name: %s\n  type: %s\n%s%s}\n", strconv.Quote(n.Name), strconv.Quote(layer[0]), head.String(), body.String())
		}
	}
	return []byte(b.String()), nil
}

// decimal is the shortest text of a number that reads back as it.
func decimal(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// field is a line of the text.
var field = regexp.MustCompile(`^\s*(?:(name|type|bottom|top|range_min|range_max): (.+)|\w+ \{|\})$`)

func readQuantizeParams(b []byte, g *graph.Graph) (list []table.Entry, err error) {
	var node string
	var names map[string][]string // of bottoms and tops in order
	var kind, last string
	var lo float64
	for i, line := range strings.Split(strings.TrimRight(string(b), "\n"), "\n") {
		m := field.FindStringSubmatch(line)
		switch {
		case m == nil && line != "":
			return nil, fmt.Errorf("line %d: %q", i+1, line)
		case strings.HasPrefix(line, "layer "):
			names, last = map[string][]string{}, ""
			continue
		case m == nil || m[1] == "":
			continue
		case names == nil:
			return nil, fmt.Errorf("line %d: %s before a layer", i+1, m[1])
		}
		if strings.HasPrefix(m[1], "range") {
			x, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			if m[1] == "range_min" {
				lo = x
				continue
			}
			name, one := "", ranged("", []float64{lo}, []float64{x})
			switch {
			case kind == "filter" || kind == "slope":
				if id, ok := g.LookupNode(node); ok {
					name = g.Value(g.Node(id).Input(1)).Name
				}
			case len(names[kind]) > 0:
				name, names[kind] = names[kind][0], names[kind][1:]
			default:
				return nil, fmt.Errorf("line %d: a range of a %q that the layer does not name", i+1, kind)
			}
			if one.Name = name; last == name && len(list) > 0 && kind != "top" && kind != "bottom" { // the next channel
				e := &list[len(list)-1]
				e.Scale, e.Offset, e.Lo, e.Hi = append(e.Scale, one.Scale...), append(e.Offset, one.Offset...), append(e.Lo, lo), append(e.Hi, x)
			} else {
				list = append(list, one)
			}
			last = name
			continue
		}
		text, err := strconv.Unquote(m[2])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		switch m[1] {
		case "name":
			node = text
		case "type":
			kind = text
		default:
			names[m[1]] = append(names[m[1]], text)
		}
	}
	return list, nil
}
