package sidecar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// object is a JSON object whose members stand in the order in which they were put in. Names must be different.
type object struct{ bytes.Buffer }

func (o *object) put(name string, v any) error {
	key, err := json.Marshal(name)
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if o.Len() > 0 {
		o.WriteByte(',')
	}
	o.Write(key)
	o.WriteByte(':')
	o.Write(b)
	return nil
}

// MarshalJSON gives the object.
func (o *object) MarshalJSON() ([]byte, error) {
	return append(append([]byte{'{'}, o.Bytes()...), '}'), nil
}

func indented(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "    ")
	return append(b, '\n'), err
}

// figure is one number for a tensor with one scale, and a list for one with a scale per channel, as PPQ's convert_value gives them.
func figure[T any](t *table.Tensor, f func(c int) T) any {
	if t.Config.Policy.Has(tqc.PerTensor) {
		return f(0)
	}
	list := make([]T, len(t.Params.Scale))
	for c := range list {
		list[c] = f(c)
	}
	return list
}

func scaleOf(t *table.Tensor) func(c int) float64 {
	return func(c int) float64 { return float64(t.Grid(c).Scale) }
}
func zeroOf(t *table.Tensor) func(c int) int32 {
	return func(c int) int32 { return t.Grid(c).ZeroPoint }
}
func lowOf(t *table.Tensor) func(c int) float64 {
	return func(c int) float64 { lo, _ := full(t, c); return lo }
}
func highOf(t *table.Tensor) func(c int) float64 {
	return func(c int) float64 { _, hi := full(t, c); return hi }
}

// full is the range of all 256 codes: a reader that makes a scale of a range divides by 255. A narrower range of integers stays one of the
// plan.
func full(t *table.Tensor, c int) (lo, hi float64) {
	g := t.Grid(c)
	first := 0.0
	if t.Config.Signed() {
		first = -128
	}
	z := float64(g.ZeroPoint)
	return float64(g.Scale) * (first - z), float64(g.Scale) * (first + 255 - z)
}

// numbers reads a number or a list of them.
func numbers(b json.RawMessage) ([]float64, error) {
	var one float64
	if json.Unmarshal(b, &one) == nil {
		return []float64{one}, nil
	}
	var list []float64
	err := json.Unmarshal(b, &list)
	return list, err
}

// SNPE: {tensor: {tensor_min, tensor_max}}.

func ranges(_ *export.Input, list []table.Tensor) ([]byte, error) {
	var o object
	for i := range list {
		t := &list[i]
		if err := o.put(t.Name, map[string]any{"tensor_min": figure(t, lowOf(t)), "tensor_max": figure(t, highOf(t))}); err != nil {
			return nil, err
		}
	}
	return indented(&o)
}

func readRanges(b []byte, _ *graph.Graph) (list []table.Entry, err error) {
	err = table.Members(b, func(name string, v json.RawMessage) error {
		var r struct {
			Lo json.RawMessage `json:"tensor_min"`
			Hi json.RawMessage `json:"tensor_max"`
		}
		if err := json.Unmarshal(v, &r); err != nil {
			return err
		}
		lo, err := numbers(r.Lo)
		if err != nil {
			return err
		}
		hi, err := numbers(r.Hi)
		list = append(list, ranged(name, lo, hi))
		return err
	})
	return list, err
}

// OpenPPL on CUDA: {quant_info: {tensor: {...}}, op_info: {node: {data_type: INT8}}}.

type pplTensor struct {
	Bits       int             `json:"bit_width"`
	PerChannel bool            `json:"per_channel"`
	Quantized  bool            `json:"quant_flag"`
	Symmetric  bool            `json:"sym"`
	Scale      json.RawMessage `json:"scale"`
	Zero       json.RawMessage `json:"zero_point"`
	Lo         json.RawMessage `json:"tensor_min"`
	Hi         json.RawMessage `json:"tensor_max"`
	QMin       int32           `json:"q_min"`
	QMax       int32           `json:"q_max"`
	Hash       int             `json:"hash"`
	Dominator  int             `json:"dominator"`
}

func openPPL(in *export.Input, list []table.Tensor) ([]byte, error) {
	var tensors, nodes object
	for i := range list {
		t := &list[i]
		hash := int(t.Root) + 1 // PPQ's are drawn at random
		e := pplTensor{Bits: t.Config.Bits, PerChannel: t.Config.Policy.Has(tqc.PerChannel), Quantized: true, Symmetric: t.Config.Policy.Has(tqc.Symmetric),
			QMin: t.Config.QMin, QMax: t.Config.QMax, Hash: hash, Dominator: hash}
		for _, f := range []struct {
			to *json.RawMessage
			v  any
		}{{&e.Scale, figure(t, scaleOf(t))}, {&e.Zero, figure(t, zeroOf(t))},
			{&e.Lo, figure(t, func(c int) float64 { lo, _ := t.Range(c); return lo })}, {&e.Hi, figure(t, func(c int) float64 { _, hi := t.Range(c); return hi })}} {
			b, err := json.Marshal(f.v)
			if err != nil {
				return nil, err
			}
			*f.to = b
		}
		if err := tensors.put(t.Name, &e); err != nil {
			return nil, err
		}
	}
	g := in.Model.Graph
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	for _, id := range order {
		if in.Set.Domains[id] == tqc.DomainInt {
			if err := nodes.put(g.Node(id).Name, map[string]string{"data_type": "INT8"}); err != nil {
				return nil, err
			}
		}
	}
	var o object
	if err := o.put("quant_info", &tensors); err != nil {
		return nil, err
	}
	if err := o.put("op_info", &nodes); err != nil {
		return nil, err
	}
	return indented(&o)
}

func readOpenPPL(b []byte, _ *graph.Graph) (list []table.Entry, err error) {
	var file struct {
		Tensors json.RawMessage `json:"quant_info"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, err
	}
	err = table.Members(file.Tensors, func(name string, v json.RawMessage) error {
		var t pplTensor
		if err := json.Unmarshal(v, &t); err != nil {
			return err
		}
		var cells [4][]float64
		for i, raw := range []json.RawMessage{t.Scale, t.Zero, t.Lo, t.Hi} {
			var err error
			if cells[i], err = numbers(raw); err != nil {
				return err
			}
		}
		first := 0.0
		if t.QMin < 0 {
			first = -128
		}
		e := entry(name, first, cells[0], cells[1])
		if t.Bits != 8 {
			e.Fault = fmt.Sprintf("%d bits", t.Bits)
		}
		for c := range e.Offset { // ranges are those of q_min to q_max
			if c < len(e.Scale) && c < len(cells[2]) && c < len(cells[3]) {
				s := e.Scale[c]
				e.Lo = append(e.Lo, cells[2][c]-s*(float64(t.QMin)-first))
				e.Hi = append(e.Hi, cells[3][c]+s*(first+255-float64(t.QMax)))
			}
		}
		if len(e.Lo) != len(e.Scale) {
			e.Lo, e.Hi = nil, nil
		}
		list = append(list, e)
		return nil
	})
	return list, err
}

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

// OpenPPL on DSPs: a layer for each node, with the ranges of what it computes, of inputs of the model that it reads, and of its weights, as they
// stand in PPQ's prototxt. Constants of other operators have no place there.

// layers are Caffe's names of operators, and of the parameters that hold the ranges of weights.
var layers = map[string][3]string{"Conv": {"Convolution", "convolution_param", "filter"}, "ConvTranspose": {"Deconvolution", "convolution_param", "filter"},
	"Gemm": {"InnerProduct", "inner_product_param", "filter"}, "MatMul": {"InnerProduct", "inner_product_param", "filter"},
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
				fmt.Fprintf(to, "%s%s {\n%s  type: %q\n%s  range_min: %s\n%s  range_max: %s\n%s}\n", indent, block, indent, kind, indent, decimal(lo), indent, decimal(hi), indent)
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

// Tengine: a line NAME SCALE ZERO for each tensor.

func lines(in *export.Input, list []table.Tensor) ([]byte, error) {
	var b strings.Builder
	for i := range list {
		t := &list[i]
		if strings.ContainsAny(t.Name, " \t\n\r") {
			return nil, in.Model.Graph.ErrorAt("export tengine", t.Node, fmt.Errorf("the name %q has a blank, which ends names in the file", t.Name))
		}
		fmt.Fprintf(&b, "%s %s %d\n", t.Name, decimal(float64(t.Grid(0).Scale)), t.Grid(0).ZeroPoint)
	}
	return []byte(b.String()), nil
}

func readLines(b []byte, _ *graph.Graph) (list []table.Entry, err error) {
	for i, line := range strings.Split(strings.TrimRight(string(b), "\n"), "\n") {
		f := strings.Fields(line)
		if len(f) < 3 {
			return nil, fmt.Errorf("line %d: %q", i+1, line)
		}
		scale, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		var zeros []float64
		for _, z := range f[2:] {
			zero, err := strconv.ParseFloat(z, 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			zeros = append(zeros, zero)
		}
		e := entry(f[0], 0, []float64{scale}, zeros)
		if len(zeros) > 1 {
			e.Fault = fmt.Sprintf("%d zero points", len(zeros))
		}
		list = append(list, e)
	}
	return list, nil
}

// Ascend: a record for each weighted operator and average pool. Zero points are those of int8.

func records(in *export.Input, list []table.Tensor) ([]byte, error) {
	g := in.Model.Graph
	at := byValue(list)
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, id := range order {
		n := g.Node(id)
		if in.Set.Domains[id] != tqc.DomainInt || !slices.Contains([]string{"Conv", "ConvTranspose", "Gemm", "AveragePool"}, n.Op) {
			continue
		}
		x, w := at[n.Input(0)], at[n.Input(1)]
		if x == nil || n.Op != "AveragePool" && w == nil {
			return nil, g.ErrorAt("export ascend", id, fmt.Errorf("its input or its weight is not quantized"))
		}
		shape := g.Value(n.Inputs[0]).Shape
		size := [3]int64{0, 1, 1}
		for i := range size {
			if i+1 < len(shape) && shape[i+1].Known() {
				size[i] = shape[i+1].N
			}
		}
		if len(shape) != 2 && len(shape) != 4 || size[0] == 0 {
			return nil, g.ErrorAt("export ascend", id, fmt.Errorf("an input of shape %s: a record has channels, height and width", shape))
		}
		fmt.Fprintf(&b, "record {\n  key: %s\n  value {\n    scale_d: %s\n    offset_d: %d\n", strconv.Quote(n.Name), decimal(float64(x.Grid(0).Scale)), x.Grid(0).ZeroPoint-128)
		if w != nil && n.Op != "AveragePool" {
			for c := range w.Params.Scale {
				fmt.Fprintf(&b, "    scale_w: %s\n", decimal(float64(w.Grid(c).Scale)))
			}
			for c := range w.Params.Scale {
				fmt.Fprintf(&b, "    offset_w: %d\n", w.Grid(c).ZeroPoint)
			}
		}
		fmt.Fprintf(&b, "    channels: %d\n    height: %d\n    width: %d\n  }\n}\n", size[0], size[1], size[2])
	}
	return []byte(b.String()), nil
}

func readRecords(b []byte, g *graph.Graph) (list []table.Entry, err error) {
	var node *graph.Node
	var data, weight map[string][]float64
	seen := map[string]bool{}
	finish := func() error {
		if node == nil {
			return nil
		}
		x := entry(g.Value(node.Input(0)).Name, -128, data["scale_d"], data["offset_d"])
		if !seen[x.Name] { // several operators may read a tensor
			list = append(list, x)
		}
		seen[x.Name] = true
		if len(weight) > 0 {
			w := entry(g.Value(node.Input(1)).Name, -128, weight["scale_w"], weight["offset_w"])
			list = append(list, w)
		}
		return nil
	}
	for i, line := range strings.Split(string(b), "\n") {
		key, value, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found {
			continue
		}
		if key == "key" {
			if err := finish(); err != nil {
				return nil, err
			}
			name, err := strconv.Unquote(value)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			data, weight, node = map[string][]float64{}, map[string][]float64{}, nil
			if id, ok := g.LookupNode(name); ok {
				node = g.Node(id)
			} else {
				list = append(list, table.Entry{Name: name, Axis: -1})
			}
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if data == nil {
			return nil, fmt.Errorf("line %d: %s before a key", i+1, key)
		}
		if strings.HasSuffix(key, "_w") {
			weight[key] = append(weight[key], v)
		} else {
			data[key] = append(data[key], v)
		}
	}
	return list, finish()
}

// RKNN: YAML with the layers that are not int8, by the tensor that they compute, and the parameters of every tensor, of int8 codes.

func hybrid(in *export.Input, list []table.Tensor) ([]byte, error) {
	g := in.Model.Graph
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("custom_quantize_layers:")
	none := true
	for _, id := range order {
		if !in.Set.Domains[id].Float() {
			continue
		}
		for i, v := range g.Node(id).Outputs {
			if v != graph.NoValue && target.DataOutput(g, id, i) {
				fmt.Fprintf(&b, "\n    %s: float16", scalar(g.Value(v).Name))
				none = false
			}
		}
	}
	if none {
		b.WriteString(" {}")
	}
	b.WriteString("\nquantize_parameters:\n")
	for i := range list {
		t := &list[i]
		method, qtype := "layer", "asymmetric_quantized"
		if t.Config.Policy.Has(tqc.PerChannel) {
			method = "channel"
		}
		if t.Config.Policy.Has(tqc.Symmetric) {
			qtype = "symmetric_quantized"
		}
		var scale, zero, lo, hi []string
		for c := range t.Params.Scale {
			l, h := full(t, c)
			z := int(t.Grid(c).ZeroPoint)
			if !t.Config.Signed() {
				z -= 128
			}
			scale, zero, lo, hi = append(scale, decimal(float64(t.Grid(c).Scale))), append(zero, strconv.Itoa(z)), append(lo, decimal(l)), append(hi, decimal(h))
		}
		one := func(l []string) string { return "[" + strings.Join(l, ", ") + "]" }
		fmt.Fprintf(&b, "    %s:\n        qtype: %s\n        qmethod: %s\n        dtype: int8\n        min: %s\n        max: %s\n        scale: %s\n        zero_point: %s\n        ori_min: %s\n        ori_max: %s\n",
			scalar(t.Name), qtype, method, one(lo), one(hi), one(scale), one(zero), one(lo), one(hi))
	}
	return []byte(b.String()), nil
}

// scalar is a name in YAML.
func scalar(name string) string {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' {
			return strconv.Quote(name)
		}
	}
	return name
}

func readHybrid(b []byte, _ *graph.Graph) (list []table.Entry, err error) {
	var file struct {
		Custom     map[string]string `yaml:"custom_quantize_layers"`
		Parameters yaml.MapSlice     `yaml:"quantize_parameters"`
	}
	if err := yaml.UnmarshalWithOptions(b, &file, yaml.AllowDuplicateMapKey()); err != nil {
		return nil, err
	}
	for _, item := range file.Parameters {
		text, err := yaml.Marshal(item.Value)
		if err != nil {
			return nil, err
		}
		var p struct {
			QType string    `yaml:"qtype"`
			DType string    `yaml:"dtype"`
			Scale []float64 `yaml:"scale"`
			Zero  []float64 `yaml:"zero_point"`
			Lo    []float64 `yaml:"min"`
			Hi    []float64 `yaml:"max"`
		}
		if err := yaml.Unmarshal(text, &p); err != nil {
			return nil, fmt.Errorf("%v: %w", item.Key, err)
		}
		e := entry(fmt.Sprint(item.Key), -128, p.Scale, p.Zero)
		if p.DType != "int8" || !slices.Contains([]string{"asymmetric_quantized", "symmetric_quantized"}, p.QType) {
			e.Fault = fmt.Sprintf("dtype %q, qtype %q", p.DType, p.QType)
		}
		if e.Lo, e.Hi = p.Lo, p.Hi; len(p.Lo) != len(p.Scale) || len(p.Hi) != len(p.Scale) {
			e.Fault = "not as many ends of ranges as scales"
		}
		list = append(list, e)
	}
	return list, nil
}
