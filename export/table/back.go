package table

import (
	"fmt"
	"io/fs"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Kinds of numbers that only lists of encodings have.
const (
	Ranges export.ItemKind = "ranges" // the lowest and the highest number of every channel, of all codes of so many bits, but see File
	Axis   export.ItemKind = "axis"   // along which scales vary, and how many elements share one, 0 for all of a channel
)

// File is a file beside the model that has encodings of tensors.
type File struct {
	Ext string // "": the model itself has them
	// Narrow: its ranges are those of the lowest and the highest code that the plan has, not of all codes of so many bits.
	Narrow bool
	Read   func(b []byte, g *graph.Graph) ([]Entry, error) // of the model that was read
}

// Encoding is what the plan says of a tensor that is computed, or of a constant where a node reads it.
type Encoding struct {
	At     string
	Value  graph.ValueID
	Kind   Kind
	Use    graph.Use // of a constant; of others one that reads it, or its own output
	Config *tqc.Config
	Params *tqc.Params
}

// Back reads the model and the files beside it. Entries are looked up by the names that tensors have in the model that was written. lacks
// says why the file beside it with the ending ext does not hold numbers of some kind of an encoding; "": it does.
func Back(in *export.Input, out *export.Output, files []File,
	lacks func(e *Encoding, ext string, kind export.ItemKind) string) (*export.Readback, error) {
	m, err := export.ReadModel(in, out)
	if err != nil {
		return nil, err
	}
	graph.InferShapes(m.Graph)
	var of *Encoding
	var ext string
	held := &export.Recovered{Lacks: func(it *export.Item) string {
		if of == nil {
			return ""
		}
		return lacks(of, ext, it.Kind)
	}}
	held.Wants = func(in *export.Input, yield func(*export.Item) error) error {
		of = nil
		if err := constants(in, yield); err != nil {
			return err
		}
		if err := export.OfNodes(in.Model.Graph, yield); err != nil {
			return err
		}
		list := encodings(in)
		for _, f := range files {
			for i := range list {
				of, ext = &list[i], f.Ext
				if err := list[i].items(in.Model.Graph, f, yield); err != nil {
					return err
				}
			}
		}
		return nil
	}
	NumbersOf(held, in.Model.Graph, m.Graph)
	if err := export.OfNodes(m.Graph, func(it *export.Item) error { held.Add(it); return nil }); err != nil {
		return nil, err
	}
	places := PlacesOf(in.Model.Graph, m.Graph)
	for _, f := range files {
		name := export.Beside(out.Name(), f.Ext)
		var b []byte
		if f.Ext != "" {
			if b, err = fs.ReadFile(out.FS(), name); err != nil {
				return nil, err
			}
		}
		entries, err := f.Read(b, m.Graph)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i := range entries {
			if e := &entries[i]; e.Fault != "" {
				return nil, fmt.Errorf("%s: %q: %s", name, e.Name, e.Fault)
			}
			entries[i].add(held, f.Ext, places)
		}
	}
	return &export.Readback{Held: held, Close: m.Close}, nil
}

// NumbersOf adds the float32 constants that the nodes of a model that was written read, by the names of the plan's nodes.
func NumbersOf(held *export.Recovered, of, written *graph.Graph) {
	for _, id := range of.Nodes() {
		n := of.Node(id)
		at, ok := written.LookupNode(n.Name)
		if !ok {
			continue // what is missing tells
		}
		for i := range n.Inputs {
			v := written.Node(at).Input(i)
			if v == graph.NoValue {
				continue
			}
			if x := written.Const(v); x != nil && x.DType == tensor.Float32 {
				held.Add(&export.Item{At: export.SlotName(n.Name, i, 0), Kind: export.Numbers, Floats: x.ToRowMajor().F32()})
			}
		}
	}
}

// PlacesOf says by the names of tensors in the model that was written where their encodings stand among items.
func PlacesOf(of, written *graph.Graph) map[string][]string {
	places := map[string][]string{}
	for _, id := range of.Nodes() {
		n := of.Node(id)
		at, ok := written.LookupNode(n.Name)
		if !ok {
			continue
		}
		for i := range n.Inputs {
			if v := written.Node(at).Input(i); v != graph.NoValue && written.Const(v) != nil {
				name := written.Value(v).Name
				places[name] = append(places[name], export.SlotName(n.Name, i, 0))
			}
		}
	}
	return places
}

// add adds what an entry says, wherever the tensor is read.
func (e *Entry) add(held *export.Recovered, ext string, places map[string][]string) {
	if e.Float && len(e.Scale) == 0 && e.Lo == nil {
		return // it stays float
	}
	list := places[e.Name]
	if list == nil {
		list = []string{export.TensorName(e.Name)}
	}
	for _, at := range list {
		put := func(it *export.Item) {
			it.At = ext + " " + at
			held.Add(it)
		}
		scales := &export.Item{Kind: export.Scales, Floats: []float32{}}
		for _, s := range e.Scale {
			scales.Floats = append(scales.Floats, float32(s))
		}
		zero := &export.Item{Kind: export.ZeroPoints, Ints: []int32{}}
		for _, o := range e.Offset {
			zero.Ints = append(zero.Ints, int32(o))
		}
		if e.Scale != nil {
			put(scales)
		}
		if e.Offset != nil && !e.Float {
			put(zero)
		}
		if e.Bits != 0 {
			put(&export.Item{Kind: export.Grid, Ints: []int32{int32(e.Bits)}})
		}
		if e.Axis >= 0 {
			put(&export.Item{Kind: Axis, Ints: []int32{int32(e.Axis), int32(e.Block)}})
		}
		if e.Codes != nil && !e.Float { // floats have no codes that limit them
			put(&export.Item{Kind: export.Clamp, Ints: e.Codes})
		}
		if len(e.Lo) > 0 && len(e.Lo) == len(e.Hi) {
			put(spans(e.Lo, e.Hi))
		}
	}
}

func spans(lo, hi []float64) *export.Item {
	it := &export.Item{Kind: Ranges}
	for i := range lo {
		it.Floats = append(it.Floats, float32(lo[i]), float32(hi[i]))
	}
	return it
}

// constants yields the numbers that every float32 constant has: those that its integers stand for, or its own.
func constants(in *export.Input, yield func(*export.Item) error) error {
	g := in.Model.Graph
	for _, id := range g.Nodes() {
		n := g.Node(id)
		for i, v := range n.Inputs {
			x := (*tensor.Tensor)(nil)
			if v != graph.NoValue {
				x = g.Const(v)
			}
			if x == nil || x.DType != tensor.Float32 {
				continue
			}
			x = x.ToRowMajor()
			it := &export.Item{At: export.SlotName(n.Name, i, 0), Kind: export.Numbers, Floats: x.F32()}
			if c, p := encoded(in.Set, in.Set.Input(id, i)); c != nil {
				codes, err := tqc.Quantize(x, c, p)
				if err != nil {
					return g.ErrorAt("export", id, fmt.Errorf("input %d: %w", i, err))
				}
				it.Floats = make([]float32, len(codes))
				err = tqc.Runs(x, c, p, func(from, to int, codec qmath.Codec) bool {
					codec.DequantizeSlice(it.Floats[from:to], codes[from:to])
					return true
				})
				if err != nil {
					return g.ErrorAt("export", id, fmt.Errorf("input %d: %w", i, err))
				}
			}
			if err := yield(it); err != nil {
				return err
			}
		}
	}
	return nil
}

// encoded is the encoding of a slot; nil: it is float.
func encoded(set *tqc.Set, slot tqc.SlotID) (*tqc.Config, *tqc.Params) {
	if slot == tqc.NoSlot {
		return nil, nil
	}
	s, root := set.Slot(slot), set.Root(slot)
	c, p := &s.Config, set.Params(root)
	switch s.State() {
	case tqc.FP32, tqc.Initial, tqc.PassiveInit:
		return nil, nil
	case tqc.Overlapped:
		c = &set.Slot(root).Config
	}
	if c.RunTime() || !p.Ready() {
		return nil, nil
	}
	return c, p
}

// encodings lists what the plan encodes: every tensor that is computed once, every constant wherever it is read.
func encodings(in *export.Input) []Encoding {
	g := in.Model.Graph
	var list []Encoding
	seen := map[graph.ValueID]bool{}
	add := func(id graph.NodeID, i int, v graph.ValueID, slot tqc.SlotID, kind Kind, at string) {
		if c, p := encoded(in.Set, slot); c != nil && !seen[v] {
			seen[v] = !kind.Constant()
			list = append(list, Encoding{at, v, kind, graph.Use{Node: id, Index: i}, c, p})
		}
	}
	order, err := g.Order()
	if err != nil {
		order = g.Nodes() // the writer has asked for it before
	}
	for _, id := range order {
		n := g.Node(id)
		for i, v := range n.Inputs {
			switch {
			case v == graph.NoValue:
			case g.Const(v) != nil:
				kind := Weight
				if spec := n.Spec(); i == 2 && spec != nil && spec.Kind == graph.KindComputing {
					kind = Bias
				}
				add(id, i, v, in.Set.Input(id, i), kind, export.SlotName(n.Name, i, 0))
			default:
				kind := Activation
				if slices.Contains(g.Inputs, v) {
					kind = Input
				}
				add(id, i, v, in.Set.Input(id, i), kind, export.TensorName(g.Value(v).Name))
			}
		}
		for i, v := range n.Outputs {
			if v != graph.NoValue {
				add(id, i, v, in.Set.Output(id, i), Activation, export.TensorName(g.Value(v).Name))
			}
		}
	}
	return list
}

// items yields scales, what is added to codes that count from 0, bits, axis, ranges, and the lowest and the highest code of an encoding.
func (e *Encoding) items(g *graph.Graph, f File, yield func(*export.Item) error) error {
	c, at := e.Config, f.Ext+" "+e.At
	var list []*export.Item
	list = append(list, &export.Item{At: at, Kind: export.Scales, Floats: e.Params.Scale},
		&export.Item{At: at, Kind: export.Grid, Ints: []int32{int32(c.Bits)}})
	if c.Integer() {
		list = append(list, &export.Item{At: at, Kind: export.Clamp, Ints: []int32{c.QMin, c.QMax}})
		var first int32
		if c.Signed() {
			first = -1 << (c.Bits - 1)
		}
		zero := &export.Item{At: at, Kind: export.ZeroPoints}
		var lo, hi []float64
		for k, z := range e.Params.ZeroPoint {
			zero.Ints = append(zero.Ints, first-z)
			low, high := float64(first), float64(first)+float64(uint64(1)<<c.Bits-1)
			if f.Narrow {
				low, high = float64(c.QMin), float64(c.QMax)
			}
			s := float64(e.Params.Scale[k])
			lo, hi = append(lo, s*(low-float64(z))), append(hi, s*(high-float64(z)))
		}
		ranges := spans(lo, hi)
		ranges.At = at
		list = append(list, zero, ranges)
	}
	if !c.Policy.Has(tqc.PerTensor) {
		axis, _ := graph.Axis(c.Axis, len(g.Value(e.Value).Shape))
		block := 0
		if c.Policy.Has(tqc.PerGroup) {
			block = c.GroupSize
		}
		list = append(list, &export.Item{At: at, Kind: Axis, Ints: []int32{int32(axis), int32(block)}})
	}
	for _, it := range list {
		if err := yield(it); err != nil {
			return err
		}
	}
	return nil
}

// ScalesOf are the scales of tensors that the plan encodes with one, constants left out.
func ScalesOf(in *export.Input) map[graph.ValueID]float32 {
	of := map[graph.ValueID]float32{}
	for _, e := range encodings(in) {
		if !e.Kind.Constant() && len(e.Params.Scale) == 1 {
			of[e.Value] = e.Params.Scale[0]
		}
	}
	return of
}
