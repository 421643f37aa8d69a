package nxp

import (
	"context"
	"slices"
	"strings"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// back reads the model, and the ranges in it.
func back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	g := in.Model.Graph
	return table.Back(in, out, []table.File{{Narrow: true, Read: readRanges}}, func(e *table.Encoding, _ string, kind export.ItemKind) string {
		switch {
		case kind != table.Ranges:
			return "scales, zero points and bits beside ranges"
		case e.Kind.Constant() && in.Options.Text("ranges") != "all":
			return "ranges of constants"
		case e.Kind == table.Activation && within(in, g.Producer(e.Value), e.Value):
			return "ranges between an operator and the activation that is computed with it"
		}
		return ""
	})
}

// within reports whether a tensor stands between an operator and the activation that is computed with it.
func within(in *export.Input, id graph.NodeID, v graph.ValueID) bool {
	if id == graph.NoNode {
		return false
	}
	slot := in.Set.Output(id, slices.Index(in.Model.Graph.Node(id).Outputs, v))
	return slot != tqc.NoSlot && in.Set.Slot(slot).State() == tqc.Overlapped
}

// readRanges lists the ranges that a model has.
func readRanges(_ []byte, g *graph.Graph) (list []table.Entry, err error) {
	for _, v := range g.Inputs {
		name, ok := strings.CutSuffix(g.Value(v).Name, suffixes[0])
		other, both := g.Lookup(name + suffixes[1])
		if !ok || !both || g.Const(v) == nil || g.Const(other) == nil {
			continue // what is missing tells
		}
		e := table.Entry{Name: name, Axis: -1}
		for k, x := range g.Const(v).ToRowMajor().F32() {
			e.Lo = append(e.Lo, float64(x))
			if hi := g.Const(other).ToRowMajor().F32(); k < len(hi) {
				e.Hi = append(e.Hi, float64(hi[k]))
			}
		}
		list = append(list, e)
	}
	return list, nil
}
