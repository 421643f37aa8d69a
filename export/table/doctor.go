package table

import (
	"fmt"
	"math"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/quantizer/target"
)

// rules are what readers of lists of encodings rely on. What it does not find it fills with a calibration of its own, and what is there
// twice it takes as it comes: both silently.
var rules = []export.Rule{
	{Name: "version", Doc: "the version is one of 0.6.1, 1.0.0, 2.0.0, 2.1.0; a missing one is taken for 0.4",
		Fix: "name the version that the file has the form of"},
	{Name: "once", Doc: "a tensor has one entry", Fix: "take the second entry away"},
	{Name: "known", Doc: "every entry is of a tensor that an operator of the model reads or computes as data",
		Fix: "write the entry under the name that the tensor has in this model"},
	{Name: "complete", Doc: "every tensor has an entry; in 2.x, where what has none is float, every input and output of an operator with an " +
		"encoded weight",
		Fix: "write an entry: the reader would calibrate the tensor by itself"},
	{Name: "place", Doc: "constants stand among param_encodings, all others among activation_encodings", Fix: "move the entry"},
	{Name: "type", Doc: "integers have 4 to 32 bits (2 to 32 from 1.0.0), floats 16; is_symmetric is text in 0.6.1 and true or false in 1.0.0",
		Fix: "write the type as the version has it"},
	{Name: "scale", Doc: "scales are positive and finite", Fix: "give a dead channel the scale of its neighbours"},
	{Name: "offset", Doc: "an offset is a whole number from -(2^bits - 1) to 0, a zero point one of its type: what is added to a code, not " +
		"what is taken from it",
		Fix: "write minus the zero point of unsigned codes"},
	{Name: "range", Doc: "min is scale * offset and max scale * (offset + 2^bits - 1)", Fix: "compute min and max from scale and offset"},
	{Name: "symmetric", Doc: "an encoding that says that it is symmetric has the offset -2^(bits-1)", Fix: "write what the offset says"},
	{Name: "channels", Doc: "an activation has one scale, a weight one or one for each channel along its axis, or for each block",
		Fix: "write one scale per output channel"},
	{Name: "bias", Doc: "the scale of an integer bias is input scale * weight scale", Fix: "multiply the two scales"},
	{Name: "grid", Doc: "the numbers of an encoded weight lie on its grid, so that every rounding gives the same integers",
		Fix: "write the weight's integers times their scale into the model"},
}

// Rules returns rules of Examination by name, in an order that is the same for all.
func Rules(names ...string) []export.Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r export.Rule) bool { return !slices.Contains(names, r.Name) })
}

// Entry is an encoding as a file has it. Codes are unsigned, 0 to 2^Bits-1: they stand for Scale*(code + Offset).
type Entry struct {
	Name        string
	Constant    bool // stands among constants
	Placed      bool // the file has a list of them
	Bits        int
	Float       bool
	Symmetric   *bool
	Scale       []float64
	Offset      []float64
	Lo, Hi      []float64 // nil: not said
	Axis, Block int       // Axis -1: not said
	Codes       []int32   // the lowest and the highest, of integers as the plan has them; nil: not said
	Fault       string    // what is wrong with its type
}

// Examination holds the encodings of a file to its model.
type Examination struct {
	Entries []Entry
	Whole   bool // every tensor has an entry
	Inputs  bool // results of operators have none
	Found   []export.Finding
}

// Report adds a finding.
func (x *Examination) Report(rule, node, format string, args ...any) {
	x.Found = append(x.Found, export.Finding{Rule: rule, Node: node, Text: fmt.Sprintf(format, args...)})
}

// Findings are those of some rules, in their order.
func (x *Examination) Findings(list []export.Rule) []export.Finding {
	at := func(f export.Finding) int {
		return slices.IndexFunc(list, func(r export.Rule) bool { return r.Name == f.Rule })
	}
	found := slices.DeleteFunc(x.Found, func(f export.Finding) bool { return at(f) < 0 })
	arrange.Stable(found, func(a, b export.Finding) int { return at(a) - at(b) })
	return found
}

// Examine holds entries to a graph.
func (x *Examination) Examine(g *graph.Graph) error {
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
	of := map[string]*Entry{}
	for i := range x.Entries {
		e := &x.Entries[i]
		t, known := tensors[e.Name]
		if of[e.Name] != nil {
			x.Report("once", e.Name, "it has another entry")
			continue
		}
		of[e.Name] = e
		if !known {
			x.Report("known", e.Name, "the model has no such tensor")
			continue
		}
		if e.Placed && e.Constant != (t != nil) {
			x.Report("place", e.Name, "it is a constant: %t, and stands among params: %t", t != nil, e.Constant)
		}
		x.numbers(e)
	}
	for _, name := range names {
		if of[name] == nil && x.Whole {
			x.Report("complete", name, "no entry")
		}
	}
	for _, id := range order {
		x.operator(g, id, of)
	}
	return nil
}

// numbers looks at one entry by itself.
func (x *Examination) numbers(e *Entry) {
	if e.Fault != "" {
		x.Report("type", e.Name, "%s", e.Fault)
		return
	}
	top := math.Ldexp(1, e.Bits) - 1
	for i, s := range e.Scale {
		switch {
		case !(s > 0) || math.IsInf(s, 0):
			x.Report("scale", e.Name, "scale %g", s)
			return
		case e.Float:
			continue
		case i >= len(e.Offset):
			x.Report("channels", e.Name, "%d scales and %d offsets", len(e.Scale), len(e.Offset))
			return
		}
		o := e.Offset[i]
		if o > 0 || o < -top || o != math.Trunc(o) {
			x.Report("offset", e.Name, "%g with %d bits", o, e.Bits)
			return
		}
		if middle := -math.Ldexp(1, e.Bits-1); e.Symmetric != nil && *e.Symmetric && o != middle {
			x.Report("symmetric", e.Name, "is_symmetric %t with offset %g", *e.Symmetric, o)
			return
		}
		if e.Lo != nil && (!near(e.Lo[i], s*o, s) || !near(e.Hi[i], s*(o+top), s)) {
			x.Report("range", e.Name, "[%g, %g] with scale %g and offset %g, which are [%g, %g]", e.Lo[i], e.Hi[i], s, o, s*o, s*(o+top))
			return
		}
	}
	if !e.Float && (len(e.Scale) == 0 || len(e.Offset) > len(e.Scale)) {
		x.Report("channels", e.Name, "%d scales and %d offsets", len(e.Scale), len(e.Offset))
	}
}

// near reports whether two bounds are a thousandth of a step apart at most, or as close as float32 can say.
func near(a, b, step float64) bool { return math.Abs(a-b) <= max(step/1000, math.Abs(b)*1e-6) }

// operator looks at the entries of what a weighted operator reads and computes.
func (x *Examination) operator(g *graph.Graph, id graph.NodeID, of map[string]*Entry) {
	n := g.Node(id)
	entryOf := func(v graph.ValueID) *Entry {
		if v == graph.NoValue {
			return nil
		}
		return of[g.Value(v).Name]
	}
	for _, i := range target.DataInputs(g, id) {
		if e := entryOf(n.Inputs[i]); e != nil && !e.Float && g.Const(n.Inputs[i]) == nil && len(e.Scale) > 1 {
			x.Report("channels", e.Name, "an activation with %d scales", len(e.Scale))
		}
	}
	spec := n.Spec()
	if spec == nil || spec.Kind != graph.KindComputing {
		return
	}
	w := entryOf(n.Input(graph.WeightInput))
	c := g.Const(n.Input(graph.WeightInput))
	if w == nil || w.Float || w.Fault != "" || c == nil || len(w.Offset) != len(w.Scale) {
		return
	}
	axis, ok := target.OutputAxis(g, n, graph.WeightInput)
	if w.Axis >= 0 && w.Block == 0 {
		axis = w.Axis
	}
	switch {
	case w.Block > 0:
		// one per block, in an order that the version fixes: not looked into
	case len(w.Scale) > 1 && (!ok || axis >= len(c.Shape) || len(w.Scale) != c.Shape[axis]):
		x.Report("channels", w.Name, "%d scales for %v with output channels along axis %d", len(w.Scale), c.Shape, axis)
	default:
		x.grid(w, c, axis)
	}
	in, b := entryOf(n.Input(0)), entryOf(n.Input(2))
	if !x.Whole {
		if in == nil {
			x.Report("complete", g.Value(n.Input(0)).Name, "no entry, and the weight of %s has one", n.Name)
		}
		if entryOf(n.Outputs[0]) == nil && !x.Inputs {
			x.Report("complete", g.Value(n.Outputs[0]).Name, "no entry, and the weight of %s has one", n.Name)
		}
	}
	if in == nil || b == nil || b.Float || in.Float || len(in.Scale) != 1 || w.Block > 0 {
		return
	}
	for i, s := range b.Scale {
		want := in.Scale[0] * w.Scale[min(i, len(w.Scale)-1)]
		if math.Abs(s-want) > 1e-6*want {
			x.Report("bias", b.Name, "scale %g of channel %d, %g * %g are %g", s, i, in.Scale[0], w.Scale[min(i, len(w.Scale)-1)], want)
			return
		}
	}
}

// grid holds the numbers of a weight to its grid.
func (x *Examination) grid(e *Entry, c *tensor.Tensor, axis int) {
	if c.DType != tensor.Float32 || len(e.Scale) == 0 {
		return
	}
	c = c.ToRowMajor()
	inner, n := 1, 1
	if len(e.Scale) > 1 {
		n = c.Shape[axis]
		for _, d := range c.Shape[axis+1:] {
			inner *= d
		}
	}
	for i, v := range c.F32() {
		k := i / inner % n
		code := float64(v)/e.Scale[k] - e.Offset[k]
		whole := float64(int64(code + 0.5))
		if math.Abs(code-whole) > 1e-3 || whole < 0 || whole > math.Ldexp(1, e.Bits)-1 {
			x.Report("grid", e.Name, "element %d is %g, which is code %g", i, v, code)
			return
		}
	}
}
