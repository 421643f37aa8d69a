package encodings

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/target"
)

// rules are what a reader of encodings relies on. What it does not find it fills with a calibration of its own, and what is there twice it
// takes as it comes: both silently.
var rules = []export.Rule{
	{Name: "version", Doc: "the version is one of 0.6.1, 1.0.0, 2.0.0, 2.1.0; a missing one is taken for 0.4", Fix: "name the version that the file has the form of"},
	{Name: "once", Doc: "a tensor has one entry", Fix: "take the second entry away"},
	{Name: "known", Doc: "every entry is of a tensor that an operator of the model reads or computes as data", Fix: "write the entry under the name that the tensor has in this model"},
	{Name: "complete", Doc: "every tensor has an entry; in 2.x, where what has none is float, every input and output of an operator with an encoded weight",
		Fix: "write an entry: the reader would calibrate the tensor by itself"},
	{Name: "place", Doc: "constants stand among param_encodings, all others among activation_encodings", Fix: "move the entry"},
	{Name: "type", Doc: "integers have 4 to 32 bits (2 to 32 from 1.0.0), floats 16; is_symmetric is text in 0.6.1 and true or false in 1.0.0",
		Fix: "write the type as the version has it"},
	{Name: "scale", Doc: "scales are positive and finite", Fix: "give a dead channel the scale of its neighbours"},
	{Name: "offset", Doc: "an offset is a whole number from -(2^bits - 1) to 0, a zero point one of its type: what is added to a code, not what is taken from it",
		Fix: "write minus the zero point of unsigned codes"},
	{Name: "range", Doc: "min is scale * offset and max scale * (offset + 2^bits - 1)", Fix: "compute min and max from scale and offset"},
	{Name: "symmetric", Doc: "an encoding that says that it is symmetric has the offset -2^(bits-1)", Fix: "write what the offset says"},
	{Name: "channels", Doc: "an activation has one scale, a weight one or one for each channel along its axis, or for each block", Fix: "write one scale per output channel"},
	{Name: "bias", Doc: "the scale of an integer bias is input scale * weight scale", Fix: "multiply the two scales"},
	{Name: "grid", Doc: "the numbers of an encoded weight lie on its grid, so that every rounding gives the same integers", Fix: "write the weight's integers times their scale into the model"},
}

// entry is an encoding of any version. Codes are unsigned, as in 0.6.1: they stand for scale*(code + offset).
type entry struct {
	name        string
	constant    bool // stands among params
	placed      bool // the version has two lists
	bits        int
	float       bool
	symmetric   *bool
	scale       []float64
	offset      []float64
	lo, hi      []float64 // 0.6.1
	axis, block int       // axis -1: not said
	fault       string    // what is wrong with its type
}

type examination struct {
	version string
	entries []entry
	found   []export.Finding
}

func (x *examination) report(rule, node, format string, args ...any) {
	x.found = append(x.found, export.Finding{Rule: rule, Node: node, Text: fmt.Sprintf(format, args...)})
}

func doctor(_ context.Context, in *export.DoctorInput) ([]export.Finding, error) {
	b, err := fs.ReadFile(in.FS, beside(in.Name))
	if err != nil {
		return nil, err
	}
	m, err := in.Model()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	graph.InferShapes(m.Graph)
	x := &examination{}
	if err := x.read(b); err != nil {
		return nil, fmt.Errorf("%s: %w", beside(in.Name), err)
	}
	if err := x.examine(m.Graph); err != nil {
		return nil, err
	}
	order := func(f export.Finding) int {
		return slices.IndexFunc(rules, func(r export.Rule) bool { return r.Name == f.Rule })
	}
	slices.SortStableFunc(x.found, func(a, b export.Finding) int { return order(a) - order(b) })
	return x.found, nil
}

// read fills entries. The form follows from what the file has, not from what it says of itself.
func (x *examination) read(b []byte) error {
	var file struct {
		Version     string          `json:"version"`
		Activations json.RawMessage `json:"activation_encodings"`
		Params      json.RawMessage `json:"param_encodings"`
		Encodings   []struct {
			linear
			Scale json.RawMessage `json:"y_scale"`
			Zero  json.RawMessage `json:"y_zero_point"`
		} `json:"encodings"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return err
	}
	x.version = file.Version
	if !slices.Contains([]string{v061, v100, v200, v210}, x.version) {
		x.report("version", "", "version %q", x.version)
	}
	for _, e := range file.Encodings {
		n := entry{name: e.Name, axis: -1, block: e.Block}
		if e.Axis != nil {
			n.axis = *e.Axis
		}
		signed := !strings.HasPrefix(e.DType, "uint")
		if _, err := fmt.Sscanf(strings.TrimPrefix(e.DType, "u"), "int%d", &n.bits); err != nil || n.bits < 2 || n.bits > 32 {
			n.float, n.fault = true, fmt.Sprintf("output_dtype %q", e.DType)
			if strings.HasPrefix(e.DType, "float8") {
				n.fault = ""
			}
		}
		var zeros []float64
		if err := flatten(e.Scale, &n.scale); err != nil {
			return fmt.Errorf("%s: y_scale: %w", e.Name, err)
		}
		if err := flatten(e.Zero, &zeros); err != nil {
			return fmt.Errorf("%s: y_zero_point: %w", e.Name, err)
		}
		for i := range n.scale {
			z := 0.0
			if i < len(zeros) {
				z = zeros[i]
			}
			if signed && !n.float {
				z += math.Ldexp(1, n.bits-1)
			}
			n.offset = append(n.offset, -z)
		}
		x.entries = append(x.entries, n)
	}
	for i, list := range []json.RawMessage{file.Activations, file.Params} {
		if err := x.readList(list, i == 1); err != nil {
			return err
		}
	}
	return nil
}

func (x *examination) readList(b json.RawMessage, constant bool) error {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return nil
	}
	if b[0] == '[' {
		var list []struct {
			listed
			Symmetric any       `json:"is_sym"`
			Offset    []float64 `json:"offset"`
		}
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
		for _, e := range list {
			n := entry{name: e.Name, constant: constant, placed: true, bits: e.BW, float: e.DType == "FLOAT", scale: e.Scale, offset: e.Offset, axis: -1, block: e.Block}
			n.spelled(e.DType, []string{"INT", "FLOAT"}, e.Symmetric, 2)
			x.entries = append(x.entries, n)
		}
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b)) // a map would hide what stands twice
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var channels []struct {
			affine
			Symmetric any     `json:"is_symmetric"`
			Offset    float64 `json:"offset"`
		}
		if err := d.Decode(&channels); err != nil {
			return fmt.Errorf("%v: %w", name, err)
		}
		n := entry{name: fmt.Sprint(name), constant: constant, placed: true, axis: -1}
		for i, c := range channels {
			if i == 0 {
				n.bits, n.float = c.Bitwidth, c.DType == "float"
				if text, ok := c.Symmetric.(string); ok && (text == "True" || text == "False") {
					n.spelled(c.DType, []string{"int", "float"}, text == "True", 4)
				} else if n.spelled(c.DType, []string{"int", "float"}, false, 4); !n.float && n.fault == "" {
					n.fault, n.symmetric = fmt.Sprintf("is_symmetric %v", c.Symmetric), nil
				}
			}
			if !n.float {
				n.scale, n.offset, n.lo, n.hi = append(n.scale, c.Scale), append(n.offset, c.Offset), append(n.lo, c.Min), append(n.hi, c.Max)
			}
		}
		if len(channels) == 0 {
			n.fault = "no encoding"
		}
		x.entries = append(x.entries, n)
	}
	return nil
}

// spelled notes what is wrong with the type of an entry.
func (e *entry) spelled(dtype string, known []string, symmetric any, least int) {
	is, ok := symmetric.(bool)
	switch {
	case !slices.Contains(known, dtype):
		e.fault = fmt.Sprintf("dtype %q", dtype)
	case e.float && e.bits != float16:
		e.fault = fmt.Sprintf("float of %d bits", e.bits)
	case !e.float && (e.bits < least || e.bits > 32):
		e.fault = fmt.Sprintf("%d bits", e.bits)
	case !e.float && !ok:
		e.fault = fmt.Sprintf("is_sym %v", symmetric)
	case !e.float:
		e.symmetric = &is
	}
}

// flatten reads a number, a list, or a list of lists.
func flatten(b json.RawMessage, to *[]float64) error {
	if len(b) == 0 {
		return nil
	}
	var one float64
	if json.Unmarshal(b, &one) == nil {
		*to = append(*to, one)
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	for _, e := range list {
		if err := flatten(e, to); err != nil {
			return err
		}
	}
	return nil
}

// examine holds entries to a graph.
func (x *examination) examine(g *graph.Graph) error {
	order, err := g.Order()
	if err != nil {
		return err
	}
	tensors, names := map[string]*tensor.Tensor{}, []string{} // nil: an activation
	note := func(v graph.ValueID) {
		name := g.Value(v).Name
		if _, ok := tensors[name]; !ok {
			tensors[name] = g.Const(v)
			names = append(names, name)
		}
	}
	for _, v := range g.Inputs {
		if target.IsFloat(g, v) {
			note(v)
		}
	}
	for _, id := range order {
		for _, i := range target.DataInputs(g, id) {
			note(g.Node(id).Inputs[i])
		}
		for i, v := range g.Node(id).Outputs {
			if v != graph.NoValue && target.DataOutput(g, id, i) {
				note(v)
			}
		}
	}
	of := map[string]*entry{}
	for i := range x.entries {
		e := &x.entries[i]
		t, known := tensors[e.name]
		if of[e.name] != nil {
			x.report("once", e.name, "it has another entry")
			continue
		}
		of[e.name] = e
		if !known {
			x.report("known", e.name, "the model has no such tensor")
			continue
		}
		if e.placed && e.constant != (t != nil) {
			x.report("place", e.name, "it is a constant: %t, and stands among params: %t", t != nil, e.constant)
		}
		x.numbers(e)
	}
	whole := len(x.entries) > 0 && x.entries[0].placed || x.version == v061 || x.version == v100
	for _, name := range names {
		if of[name] == nil && whole {
			x.report("complete", name, "no entry")
		}
	}
	for _, id := range order {
		x.operator(g, id, of, whole)
	}
	return nil
}

// numbers looks at one entry by itself.
func (x *examination) numbers(e *entry) {
	if e.fault != "" {
		x.report("type", e.name, "%s", e.fault)
		return
	}
	top := math.Ldexp(1, e.bits) - 1
	for i, s := range e.scale {
		switch {
		case !(s > 0) || math.IsInf(s, 0):
			x.report("scale", e.name, "scale %g", s)
			return
		case e.float:
			continue
		case i >= len(e.offset):
			x.report("channels", e.name, "%d scales and %d offsets", len(e.scale), len(e.offset))
			return
		}
		o := e.offset[i]
		if o > 0 || o < -top || o != math.Trunc(o) {
			x.report("offset", e.name, "%g with %d bits", o, e.bits)
			return
		}
		if middle := -math.Ldexp(1, e.bits-1); e.symmetric != nil && *e.symmetric && o != middle {
			x.report("symmetric", e.name, "is_symmetric %t with offset %g", *e.symmetric, o)
			return
		}
		if e.lo != nil && (!near(e.lo[i], s*o, s) || !near(e.hi[i], s*(o+top), s)) {
			x.report("range", e.name, "[%g, %g] with scale %g and offset %g, which are [%g, %g]", e.lo[i], e.hi[i], s, o, s*o, s*(o+top))
			return
		}
	}
	if !e.float && len(e.scale) == 0 {
		x.report("channels", e.name, "no scale")
	}
}

// near reports whether two bounds are a thousandth of a step apart at most, or as close as float32 can say.
func near(a, b, step float64) bool { return math.Abs(a-b) <= max(step/1000, math.Abs(b)*1e-6) }

// operator looks at the entries of what a weighted operator reads and computes.
func (x *examination) operator(g *graph.Graph, id graph.NodeID, of map[string]*entry, whole bool) {
	n := g.Node(id)
	entryOf := func(v graph.ValueID) *entry {
		if v == graph.NoValue {
			return nil
		}
		return of[g.Value(v).Name]
	}
	for _, i := range target.DataInputs(g, id) {
		if e := entryOf(n.Inputs[i]); e != nil && !e.float && g.Const(n.Inputs[i]) == nil && len(e.scale) > 1 {
			x.report("channels", e.name, "an activation with %d scales", len(e.scale))
		}
	}
	spec := n.Spec()
	if spec == nil || spec.Kind != graph.KindComputing {
		return
	}
	w := entryOf(n.Input(graph.WeightInput))
	c := g.Const(n.Input(graph.WeightInput))
	if w == nil || w.float || w.fault != "" || c == nil || len(w.offset) != len(w.scale) {
		return
	}
	axis, ok := target.OutputAxis(g, n, graph.WeightInput)
	if w.axis >= 0 && w.block == 0 {
		axis = w.axis
	}
	switch {
	case w.block > 0:
		// one per block, in an order that the version fixes: not looked into
	case len(w.scale) > 1 && (!ok || axis >= len(c.Shape) || len(w.scale) != c.Shape[axis]):
		x.report("channels", w.name, "%d scales for %v with output channels along axis %d", len(w.scale), c.Shape, axis)
	default:
		x.grid(w, c, axis)
	}
	in, b := entryOf(n.Input(0)), entryOf(n.Input(2))
	if !whole {
		if in == nil {
			x.report("complete", g.Value(n.Input(0)).Name, "no entry, and the weight of %s has one", n.Name)
		}
		if entryOf(n.Outputs[0]) == nil {
			x.report("complete", g.Value(n.Outputs[0]).Name, "no entry, and the weight of %s has one", n.Name)
		}
	}
	if in == nil || b == nil || b.float || in.float || len(in.scale) != 1 || w.block > 0 {
		return
	}
	for i, s := range b.scale {
		want := in.scale[0] * w.scale[min(i, len(w.scale)-1)]
		if math.Abs(s-want) > 1e-6*want {
			x.report("bias", b.name, "scale %g of channel %d, %g * %g are %g", s, i, in.scale[0], w.scale[min(i, len(w.scale)-1)], want)
			return
		}
	}
}

// grid holds the numbers of a weight to its grid.
func (x *examination) grid(e *entry, c *tensor.Tensor, axis int) {
	if c.DType != tensor.Float32 || len(e.scale) == 0 {
		return
	}
	c = c.ToRowMajor()
	inner, n := 1, 1
	if len(e.scale) > 1 {
		n = c.Shape[axis]
		for _, d := range c.Shape[axis+1:] {
			inner *= d
		}
	}
	for i, v := range c.F32() {
		k := i / inner % n
		code := float64(v)/e.scale[k] - e.offset[k]
		whole := float64(int64(code + 0.5))
		if math.Abs(code-whole) > 1e-3 || whole < 0 || whole > math.Ldexp(1, e.bits)-1 {
			x.report("grid", e.name, "element %d is %g, which is code %g", i, v, code)
			return
		}
	}
}
