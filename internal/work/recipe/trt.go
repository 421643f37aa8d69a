package recipe

import (
	"qwb/export/trt"
	"qwb/graph"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/kernels/qmath"
	"qwb/quantizer"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// readTRT reads a calibration cache of TensorRT, or a file of ranges: a scale for each tensor that integer operators read. TensorRT
// calibrates the network as it is after its own fusions; tensors that only that network has are left out, and so are those that no integer
// operator reads here.
func readTRT(j *open.Job, name string) (Source, error) {
	src, err := store.ReadFile(j.Files(), name, maxRecipe)
	if err != nil {
		return Source{}, err
	}
	list, err := trt.Parse(src)
	if err != nil {
		return Source{}, &fault.FileError{File: name, Err: err}
	}
	return Source{forms: func(m *open.Model, t *target.Target) (*decision.Recipe, error) {
		f, err := readForeign(j, name, m, t)
		if err != nil {
			return nil, err
		}
		if own, err := tqc.SchemeOf(t.Activation); err != nil || own != (tqc.Scheme{Bits: 8}) {
			return nil, f.fail("TensorRT's ranges are of symmetric int8 tensors, those of %s are %s", t.Name, own)
		}
		set, _, err := quantizer.Configure(m.Graph, f.a, t, quantizer.Options{})
		if err != nil {
			return nil, err
		}
		roots := map[graph.ValueID]decision.Select{} // the slots of a tensor that others take their scale from
		for id := range tqc.SlotID(set.NumSlots()) {
			if s := set.Slot(id); !s.Weight && s.State() == tqc.Initial && set.Root(id) == id {
				roots[s.Value] = append(roots[s.Value], planning.SlotSelector(m.Graph, set, id))
			}
		}
		var unread []string
		for _, e := range list {
			v, ok := m.Graph.Lookup(e.Name)
			switch {
			case !qmath.Representable(e.Scale):
				return nil, f.fail("%s: scale %g", e.Name, e.Scale)
			case !ok || roots[v] == nil:
				unread = append(unread, e.Name)
			default:
				f.decide("tensorrt range", roots[v], decision.Properties{Scale: decision.Scales{e.Scale}})
			}
		}
		if len(unread) > 0 {
			f.Note("%s: %s are read by no operator that runs on integers here, first %q: nothing is decided about them", f.file,
				plain.Count(len(unread), "tensor"), unread[0])
		}
		if len(f.r.Steps) == 0 {
			return nil, f.fail("none of its %s is read by an operator that runs on integers", plain.Count(len(list), "tensor"))
		}
		return f.r, nil
	}}, nil
}
