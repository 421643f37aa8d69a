package sidecar

import (
	"context"
	"slices"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// back reads the model and all files beside it.
func (k *kind) back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	files := []table.File{{Ext: k.ext, Read: k.read}}
	if k.whole != nil {
		files[0].Read = k.whole
	}
	if k.more != nil {
		files = append(files, table.File{Ext: k.moreExt, Read: readSlots})
	}
	return table.Back(in, out, files, func(e *table.Encoding, ext string, kind export.ItemKind) string {
		n := in.Model.Graph.Node(e.Use.Node)
		native := k.anything || ext == k.moreExt
		switch {
		case kind == table.Axis:
			return "axes of scales"
		case native && kind == table.Ranges:
			return "ranges beside scales"
		case native:
			return ""
		case kind == export.Clamp && !k.codes:
			return "the lowest and the highest code"
		case e.Config.Bits > 8:
			return "encodings of biases, whose numbers stand in the model"
		case k.places != nil && !k.places(in, n, e):
			return "encodings of tensors for which the file has no place"
		case kind == table.Ranges && k.bare:
			return "ranges beside scales"
		}
		return ""
	})
}

// inLayers reports whether PPQ's prototxt has a place for an encoding: constants are weights of its layers.
func inLayers(_ *export.Input, n *graph.Node, e *table.Encoding) bool {
	return !e.Kind.Constant() || e.Kind == table.Weight && e.Use.Index == 1 && layers[n.Op][1] != ""
}

// inRecords reports whether AMCT's records have a place for an encoding: the data and the weights of some operators.
func inRecords(in *export.Input, n *graph.Node, e *table.Encoding) bool {
	recorded := func(id graph.NodeID) bool {
		return in.Set.Domains[id] == tqc.DomainInt && slices.Contains(recordedOps, in.Model.Graph.Node(id).Op)
	}
	if e.Kind.Constant() {
		return e.Kind == table.Weight && e.Use.Index == 1 && recorded(n.ID)
	}
	return slices.ContainsFunc(in.Model.Graph.Uses(e.Value), func(u graph.Use) bool { return u.Index == 0 && recorded(u.Node) })
}
