package onnx

import (
	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
	"qwb/graph/tensor"
)

// infos writes inputs, outputs and value_info. Descriptions of the file stay where what they say did not change.
func (w *graphWriter) infos(r *rope) {
	var scans [3][]infoScan
	if w.old != nil {
		scans = [3][]infoScan{w.old.scan.inputs, w.old.scan.outputs, w.old.scan.infos}
	}
	w.list(r, graphInputs, w.g.Inputs, scans[0])
	w.list(r, graphOutputs, w.g.Outputs, scans[1])
	said := map[graph.ValueID]bool{}
	for i := range scans[2] {
		s := &scans[2][i]
		v, ok := w.g.Lookup(s.name)
		ok = ok && w.defined(v)
		_, known := w.old.graph.Lookup(s.name)
		switch {
		case !ok && !known, ok && w.typeKept(v): // a name that nothing defines stays as well
			r.bytes(graphInfos, s.raw)
		case ok && !said[v]:
			r.message(graphInfos, encodeInfo(w.g.Value(v)))
		}
		if ok {
			said[v] = true
		}
	}
	fresh := w.byName()
	for _, v := range fresh {
		val := w.g.Value(v)
		if said[v] || val.Outer || val.Const != nil || w.border[v] > 0 || !w.defined(v) ||
			val.DType == tensor.Undefined && val.Doc == "" {
			continue
		}
		r.message(graphInfos, encodeInfo(val))
	}
}

func (w *graphWriter) list(r *rope, num protowire.Number, values []graph.ValueID, scans []infoScan) {
	byName := make(map[string]*infoScan, len(scans))
	for i := range scans {
		byName[scans[i].name] = &scans[i]
	}
	for _, v := range values {
		if s := byName[w.g.Value(v).Name]; s != nil && w.typeKept(v) {
			r.bytes(num, s.raw)
		} else {
			r.message(num, encodeInfo(w.g.Value(v)))
		}
	}
}

// typeKept reports whether the file says the same about v.
func (w *graphWriter) typeKept(v graph.ValueID) bool {
	if w.old == nil {
		return false
	}
	before, ok := w.old.graph.Lookup(w.g.Value(v).Name)
	return ok && sameValue(w.g.Value(v), w.old.graph.Value(before))
}
