package qdq

import (
	"qwb/graph"
	"qwb/quantizer/target"
)

// Platforms lists the targets that the file may be meant for, the likeliest first, by the integers of its computed tensors (see
// target.Catalog.Likely). Whether a target would take the file is for its export rules to say; the last of the list takes any.
func (q *Quantized) Platforms() []*target.Target {
	unsigned, shifted := false, false
	see := func(chain []*grid) {
		for _, g := range chain {
			unsigned = unsigned || limits[g.dtype][0] >= 0
			for _, z := range g.zero {
				shifted = shifted || z != 0
			}
		}
	}
	for _, id := range q.Graph.Nodes() {
		for i, v := range q.Graph.Node(id).Inputs {
			if q.Graph.Const(v) == nil {
				see(q.reads[graph.Use{Node: id, Index: i}])
			}
		}
	}
	for _, chain := range q.outputs {
		see(chain)
	}
	return target.Builtin().Likely(unsigned, shifted)
}
