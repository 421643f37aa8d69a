package mnn

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// back reads the model and the parameters beside it. Integers of weights are made of the model's numbers by the scales of the parameters,
// as MNNConvert does.
func back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	text, err := fs.ReadFile(out.FS(), out.Name()+Suffix)
	if err != nil {
		return nil, err
	}
	var p pipeline
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", out.Name()+Suffix, err)
	}
	m, err := export.ReadModel(in, out)
	if err != nil {
		return nil, err
	}
	r := &export.Readback{Held: &export.Recovered{Wants: wants, Lacks: func(*export.Item) string { return "" }}, Close: m.Close}
	if err := export.OfNodes(m.Graph, func(it *export.Item) error { r.Held.Add(it); return nil }); err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, a := range p.Algo {
		for i := range a.Params.Layer {
			l := &a.Params.Layer[i]
			if err := ofLayer(r.Held, m, l); err != nil {
				m.Close()
				return nil, fmt.Errorf("layer %q: %w", l.Name, err)
			}
			own[l.Name] = true
		}
	}
	for _, id := range m.Graph.Nodes() {
		n := m.Graph.Node(id)
		for i, v := range n.Inputs {
			if t := constant(m.Graph, v); t != nil && !(own[n.Name] && i == graph.WeightInput) {
				r.Held.Add(&export.Item{At: export.SlotName(n.Name, i, 0), Kind: export.Numbers, Floats: t.F32()})
			}
		}
	}
	return r, nil
}

// constant is a constant of float32, nil where a value is none.
func constant(g *graph.Graph, v graph.ValueID) *tensor.Tensor {
	if v == graph.NoValue || g.Const(v) == nil || g.Const(v).DType != tensor.Float32 {
		return nil
	}
	return g.Const(v).ToRowMajor()
}

// places are those of a layer among items: input, weights, output.
func places(node string) [3]string {
	return [3]string{export.SlotName(node, 0, 0), export.SlotName(node, 1, 0), export.SlotName(node, 0, 0) + " result"}
}

// ofLayer adds what the parameters say of one convolution.
func ofLayer(held *export.Recovered, m *onnx.Model, l *layer) error {
	if len(l.Input) != 1 || len(l.Weight) != 1 || len(l.Output) != 1 {
		return fmt.Errorf("%d inputs, %d weights, %d outputs", len(l.Input), len(l.Weight), len(l.Output))
	}
	id, ok := m.Graph.LookupNode(l.Name)
	if !ok {
		return fmt.Errorf("the model has no such node")
	}
	w := constant(m.Graph, m.Graph.Node(id).Input(1))
	if w == nil {
		return fmt.Errorf("its weights are not constant")
	}
	for k, s := range []*scaled{&l.Input[0], &l.Weight[0], &l.Output[0]} {
		at, zero := places(l.Name)[k], int32(0)
		if s.ZeroPoint != nil {
			zero = int32(*s.ZeroPoint)
		}
		held.Add(&export.Item{At: at, Kind: export.Scales, Floats: s.Scales})
		held.Add(&export.Item{At: at, Kind: export.ZeroPoints, Ints: []int32{zero}})
		held.Add(&export.Item{At: at, Kind: export.Clamp, Ints: []int32{s.Min, s.Max}})
	}
	s := &l.Weight[0]
	c := tqc.Config{Policy: tqc.PerChannel, Format: qmath.Format{Bits: s.Bits, QMin: s.Min, QMax: s.Max}}
	codes, err := tqc.Quantize(w, &c, &tqc.Params{Scale: s.Scales, ZeroPoint: make([]int32, len(s.Scales))})
	if err != nil {
		return err
	}
	held.Add(&export.Item{At: places(l.Name)[1], Kind: export.Codes, Ints: codes})
	held.Add(&export.Item{At: places(l.Name)[1], Kind: export.Numbers, Floats: w.F32()})
	return nil
}

// wants is what the files hold of a set: scales, zero points and ends of codes at both sides of every convolution on integers, its weights
// with a scale for each channel, and all other constants as they are.
func wants(in *export.Input, yield func(*export.Item) error) error {
	g, set := in.Model.Graph, in.Set
	order, err := g.Order()
	if err == nil {
		err = export.OfNodes(g, yield)
	}
	if err != nil {
		return err
	}
	for _, id := range order {
		n := g.Node(id)
		whole := n.Op == "Conv" && set.Domains[id] == tqc.DomainInt
		for i, v := range n.Inputs {
			if t := constant(g, v); t != nil && !(whole && i == graph.WeightInput) {
				if err := yield(&export.Item{At: export.SlotName(n.Name, i, 0), Kind: export.Numbers, Floats: t.F32()}); err != nil {
					return err
				}
			}
		}
		if !whole {
			continue
		}
		nodes := set.Together(id, order)
		slots := [3]tqc.SlotID{set.Input(id, 0), set.Input(id, 1), set.Output(nodes[len(nodes)-1], 0)}
		for k, slot := range slots {
			if err := wanted(g, set, slot, places(n.Name)[k], k == 1, yield); err != nil {
				return err
			}
		}
	}
	return nil
}

func wanted(g *graph.Graph, set *tqc.Set, slot tqc.SlotID, at string, weights bool, yield func(*export.Item) error) error {
	c, p := set.Slot(slot).Config, set.Params(slot)
	list := []*export.Item{{At: at, Kind: export.ZeroPoints, Ints: p.ZeroPoint[:1]},
		{At: at, Kind: export.Clamp, Ints: []int32{c.QMin, c.QMax}}}
	scales := p.Scale
	if weights {
		w := g.Const(set.Slot(slot).Value)
		codes, err := tqc.Quantize(w, &c, p)
		if err != nil {
			return err
		}
		for len(scales) < w.Shape[0] { // one for all
			scales = append(scales[:len(scales):len(scales)], p.Scale[0])
		}
		stand := make([]float32, len(codes)) // for these numbers
		if err := tqc.Runs(w, &c, p, func(from, to int, codec qmath.Codec) bool {
			codec.DequantizeSlice(stand[from:to], codes[from:to])
			return true
		}); err != nil {
			return err
		}
		list = append(list, &export.Item{At: at, Kind: export.Codes, Ints: codes}, &export.Item{At: at, Kind: export.Numbers, Floats: stand})
	}
	for _, it := range append(list, &export.Item{At: at, Kind: export.Scales, Floats: scales}) {
		if err := yield(it); err != nil {
			return err
		}
	}
	return nil
}
