package bench

import (
	"cmp"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
)

// Step is one step of the executor: a node and what is computed with it.
type Step struct {
	Node  graph.NodeID
	Fused []graph.NodeID
}

// Node is what one step of a forward takes, next to the least it could take.
type Node struct {
	Name    string   `json:"node"`
	Op      string   `json:"op"`
	Fused   []string `json:"fused,omitempty"` // operators computed with it
	Seconds float64  `json:"seconds"`
	Share   float64  `json:"share"` // of the time of all steps
	MACs    int64    `json:"macs"`
	Bytes   int64    `json:"bytes"` // inputs, parameters and outputs, each once
	GOPS    float64  `json:"gops"`
	GBps    float64  `json:"gbps"`
	Bound   string   `json:"bound"` // compute or memory
	// Roofline is the least time, ShareOfRoofline that over Seconds.
	Roofline        float64 `json:"roofline_seconds"`
	ShareOfRoofline float64 `json:"share_of_roofline"`
}

// Bytes is what a step has to move: every value that it reads from outside or writes for others, once. size is the number of
// bytes of a value.
func (s Step) Bytes(g *graph.Graph, size func(graph.ValueID) int64) (total int64) {
	inside := map[graph.ValueID]bool{}
	nodes := append([]graph.NodeID{s.Node}, s.Fused...)
	for _, id := range nodes {
		for _, v := range g.Node(id).Outputs {
			inside[v] = v != graph.NoValue
		}
	}
	seen := map[graph.ValueID]bool{graph.NoValue: true}
	count := func(v graph.ValueID) {
		if !seen[v] {
			seen[v] = true
			total += size(v)
		}
	}
	for _, id := range nodes {
		for _, v := range g.Node(id).Inputs {
			if !inside[v] {
				count(v)
			}
		}
		for _, v := range g.Node(id).Outputs {
			if v != graph.NoValue && (g.IsOutput(v) ||
				slices.ContainsFunc(g.Uses(v), func(u graph.Use) bool { return !slices.Contains(nodes, u.Node) })) {
				count(v)
			}
		}
	}
	return total
}

// Rate fills in what follows from Seconds, MACs and Bytes.
func (n *Node) Rate(r Roof) {
	var memory bool
	n.Roofline, memory = r.Bound(2*float64(n.MACs), float64(n.Bytes))
	n.Bound = "compute"
	if memory {
		n.Bound = "memory"
	}
	if n.Seconds > 0 {
		n.GOPS, n.GBps = 2*float64(n.MACs)/n.Seconds/1e9, float64(n.Bytes)/n.Seconds/1e9
		n.ShareOfRoofline = n.Roofline / n.Seconds
	}
}

// SortNodes puts the slowest first and fills in the shares.
func SortNodes(nodes []Node) {
	var total float64
	for _, n := range nodes {
		total += n.Seconds
	}
	for i := range nodes {
		if total > 0 {
			nodes[i].Share = nodes[i].Seconds / total
		}
	}
	arrange.Stable(nodes, func(a, b Node) int { return cmp.Compare(b.Seconds, a.Seconds) })
}

// TensorBytes is the size of a tensor, 0 for nil.
func TensorBytes(t *tensor.Tensor) int64 {
	if t == nil {
		return 0
	}
	return int64(t.DType.Bytes(t.Len()))
}
