package qdq

import (
	"qwb/graph"
	"qwb/quantizer/target"
)

// Wide reports whether a computed tensor has integers of more than 8 bits.
func (q *Quantized) Wide() bool {
	wide := false
	q.activations(func(g *grid) { wide = wide || g.dtype.Bits() > 8 })
	return wide
}

// RunTime reports whether data become codes by scales of run time.
func (q *Quantized) RunTime() bool {
	some := false
	q.activations(func(g *grid) { some = some || g.runTime })
	return some
}

// activations calls see with every grid of a computed tensor.
func (q *Quantized) activations(see func(g *grid)) {
	for _, id := range q.Graph.Nodes() {
		for i, v := range q.Graph.Node(id).Inputs {
			if q.Graph.Const(v) == nil {
				for _, g := range q.reads[graph.Use{Node: id, Index: i}] {
					see(g)
				}
			}
		}
	}
	for _, chain := range q.outputs {
		for _, g := range chain {
			see(g)
		}
	}
}

// Platforms lists the targets of a catalog that the file may be meant for, the likeliest first, by the integers of its computed tensors
// (see target.Catalog.Likely). Whether a target would take the file is for its export rules to say; the last of the list takes any.
func (q *Quantized) Platforms(c target.Catalog) []*target.Target {
	unsigned, shifted := false, false
	q.activations(func(g *grid) {
		unsigned = unsigned || limits[g.dtype][0] >= 0
		for _, z := range g.zero {
			shifted = shifted || z != 0
		}
	})
	return c.Likely(unsigned, shifted)
}
