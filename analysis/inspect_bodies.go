package analysis

import "qwb/graph"

// BodyInfo is a graph inside a node: a branch of If, the body of Loop or Scan. Targets leave bodies in float.
type BodyInfo struct {
	Node      string `json:"node"`
	Op        string `json:"op"`
	Attribute string `json:"attribute"` // then_branch, else_branch or body
	content
}

// content is what a graph holds, the graphs inside its nodes included.
type content struct {
	Nodes      int   `json:"nodes"`
	Parameters int64 `json:"parameters"` // constant elements, those that Constant nodes hold included
	Bytes      int64 `json:"parameter_bytes"`
	// MACs are those of one run as far as shapes are known: of If the branch with the most, of Loop and Scan one iteration.
	MACs int64 `json:"macs"`
	Open int   `json:"open,omitempty"` // nodes whose MACs depend on sizes that are not known, which count as 0
}

// measure sums up a graph.
func measure(g *graph.Graph) content {
	var c content
	for _, v := range g.Values() {
		if t := g.Const(v); t != nil {
			c.Parameters += int64(t.Len())
			c.Bytes += int64(t.DType.Bytes(t.Len()))
		}
	}
	for _, id := range g.Nodes() {
		n := g.Node(id)
		if a := n.Attr("value"); n.Op == "Constant" && a != nil && a.T != nil {
			c.Parameters += int64(a.T.Len())
			c.Bytes += int64(a.T.DType.Bytes(a.T.Len()))
		}
		macs, known := g.MACs(id)
		if !known {
			c.Open++
		}
		for _, b := range bodies(g, id) {
			c.Nodes += b.Nodes
			c.Parameters += b.Parameters
			c.Bytes += b.Bytes
			c.Open += b.Open
			macs = max(macs, b.MACs)
		}
		c.Nodes++
		c.MACs += macs
	}
	return c
}

// bodies measures the graphs inside node id.
func bodies(g *graph.Graph, id graph.NodeID) []BodyInfo {
	n := g.Node(id)
	var list []BodyInfo
	for _, a := range n.Attrs {
		if a.G != nil {
			list = append(list, BodyInfo{n.Name, n.Op, a.Name, measure(a.G)})
		}
		for _, sub := range a.Graphs {
			list = append(list, BodyInfo{n.Name, n.Op, a.Name, measure(sub)})
		}
	}
	return list
}
