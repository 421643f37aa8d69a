package onnx

import "qwb/graph"

// refersOutside reports whether a tensor somewhere in the attribute lies in another file.
func (s *attrScan) refersOutside() bool {
	for _, f := range s.values {
		switch s.kind {
		case graph.AttrTensor, graph.AttrTensors:
			if t, err := scanTensor(f.data); err == nil && t.isExtern {
				return true
			}
		case graph.AttrGraph, graph.AttrGraphs:
			if g, err := scanGraph(f.data); err == nil && g.refersOutside() {
				return true
			}
		}
	}
	return false
}

func (s *nodeScan) refersOutside() bool {
	for i := range s.attrs {
		if s.attrs[i].refersOutside() {
			return true
		}
	}
	return false
}

func (s *graphScan) refersOutside() bool {
	for _, t := range s.tensors {
		if t.isExtern {
			return true
		}
	}
	for _, t := range s.sparse {
		if t.refersOutside() {
			return true
		}
	}
	for _, n := range s.nodes {
		if n.refersOutside() {
			return true
		}
	}
	return false
}

func (s *sparseScan) refersOutside() bool { return s.values.isExtern || s.indices.isExtern }
