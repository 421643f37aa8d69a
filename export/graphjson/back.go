package graphjson

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// back reads the file and compares it with graph and set: tensors with type and shape, slots with state, root and all numbers.
func back(_ context.Context, _ *export.Input, out *export.Output) (*export.Readback, error) {
	b, err := fs.ReadFile(out.FS(), out.Name())
	if err != nil {
		return nil, err
	}
	var d Document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, err
	}
	held := &export.Recovered{Wants: wants}
	for _, t := range d.Tensors {
		held.Add(tensorItem(t.Name, t.DType, t.Constant, t.Shape))
	}
	for _, n := range d.Nodes {
		for _, s := range n.Slots {
			at := slotAt(n.Name, s.At, s.Tensor, s.State, s.Root)
			held.Add(&export.Item{At: at, Kind: export.Grid, Ints: grid(&s.Config)})
			if len(s.Scale) == 0 && len(s.Zero) == 0 {
				continue
			}
			scales := &export.Item{At: at, Kind: export.Scales}
			for _, x := range s.Scale {
				scales.Floats = append(scales.Floats, float32(x))
			}
			held.Add(scales)
			held.Add(&export.Item{At: at, Kind: export.ZeroPoints, Ints: s.Zero})
		}
	}
	return &export.Readback{Held: held}, nil
}

func tensorItem(name, dtype string, constant bool, shape []int64) *export.Item {
	return &export.Item{At: fmt.Sprintf("%s: %s, a constant: %t", export.TensorName(name), dtype, constant), Kind: "shape",
		Wide: slices.Clone(shape)}
}

// slotAt says all of a slot that is no number.
func slotAt(node, at, tensor, state, root string) string {
	return fmt.Sprintf("%q %s of %q, %s, root %q", node, at, tensor, state, root)
}

// grid is all of a configuration but the names of what found its scale.
func grid(c *tqc.Config) []int32 {
	return []int32{int32(c.Type), int32(c.Bits), c.QMin, c.QMax, int32(c.Axis), int32(c.GroupSize), int32(c.Policy), int32(c.Rounding)}
}

func wants(in *export.Input, yield func(*export.Item) error) error {
	g, set := in.Model.Graph, in.Set
	seen := map[graph.ValueID]bool{graph.NoValue: true}
	value := func(v graph.ValueID) error {
		if seen[v] {
			return nil
		}
		seen[v] = true
		val, shape := g.Value(v), []int64{}
		for _, n := range val.Shape {
			if !n.Known() {
				n.N = -1
			}
			shape = append(shape, n.N)
		}
		return yield(tensorItem(val.Name, val.DType.String(), g.Const(v) != nil, shape))
	}
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		if slices.Contains(g.Inputs, v) && g.Const(v) != nil {
			continue // unless a node reads it
		}
		if err := value(v); err != nil {
			return err
		}
	}
	for _, id := range g.Nodes() {
		n := g.Node(id)
		for _, v := range slices.Concat(n.Inputs, n.Outputs) {
			if err := value(v); err != nil {
				return err
			}
		}
		for _, s := range slices.Concat(set.Inputs(id), set.Outputs(id)) {
			if s == tqc.NoSlot || set.Slot(s).State() == tqc.FP32 {
				continue
			}
			if err := slot(in, s, yield); err != nil {
				return err
			}
		}
	}
	return nil
}

func slot(in *export.Input, id tqc.SlotID, yield func(*export.Item) error) error {
	set, g := in.Set, in.Model.Graph
	s, root := set.Slot(id), set.Root(id)
	place := func(s *tqc.Slot) string { return fmt.Sprintf("%s%d", s.Kind, s.Index) }
	r := set.Slot(root)
	at := slotAt(g.Node(s.Node).Name, place(s), g.Value(s.Value).Name, s.State().String(), g.Node(r.Node).Name+"."+place(r))
	if err := yield(&export.Item{At: at, Kind: export.Grid, Ints: grid(&s.Config)}); err != nil {
		return err
	}
	p := set.Params(id)
	if root != id || p == nil || len(p.Scale) == 0 && len(p.ZeroPoint) == 0 {
		return nil
	}
	if err := yield(&export.Item{At: at, Kind: export.Scales, Floats: p.Scale}); err != nil {
		return err
	}
	return yield(&export.Item{At: at, Kind: export.ZeroPoints, Ints: p.ZeroPoint})
}
