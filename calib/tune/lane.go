package tune

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// lane is one run of a sample, as far as it has come.
type lane struct {
	kept []*tensor.Tensor // by value
	done []bool           // by node: its outputs have been kept
}

// recorder collects what the nodes on the way compute.
type recorder struct {
	*walk
	lane   *lane
	state  *state // whose values may be kept as codes; nil: none
	values []graph.ValueID
	copies []*tensor.Tensor
	ran    []graph.NodeID
}

func (r *recorder) record(n *graph.Node, i int, t *tensor.Tensor) {
	if !r.own(n) {
		return
	}
	r.ran = append(r.ran, n.ID)
	if r.needed(n.Outputs[i], r.lane, r.ahead) { // nodes that are not ahead run now
		v := n.Outputs[i]
		r.values, r.copies = append(r.values, v), append(r.copies, r.copy(v, t))
	}
}

func (r *recorder) copy(v graph.ValueID, t *tensor.Tensor) *tensor.Tensor {
	if r.state == nil {
		return r.spares.copy(t)
	}
	return r.code(r.state, v, t)
}

// keep puts what was collected into the lane: not before a run has ended, which reads what is kept.
func (r *recorder) keep() {
	for i, v := range r.values {
		r.lane.kept[v] = r.copies[i]
	}
	for _, id := range r.ran {
		r.lane.done[id] = true
	}
}

// own reports whether a node is one of the graph's own, not of a subgraph.
func (b *Bench) own(n *graph.Node) bool {
	return int(n.ID) < b.Reference.NumNodes() && b.Reference.Node(n.ID).Name == n.Name && b.Reference.Node(n.ID).Op == n.Op
}

// needed reports whether a node reads a value that has not run yet and that some layer depends on, of those that among marks, nil for all.
func (w *walk) needed(v graph.ValueID, l *lane, among []bool) bool {
	if w.Reference.Captured(v) {
		return true
	}
	for _, u := range w.Reference.Uses(v) {
		if w.serves[u.Node] && !l.done[u.Node] && (among == nil || among[u.Node]) {
			return true
		}
	}
	return false
}

// drop forgets values whose readers have all run. Where the rest takes more than the sample's share of the memory it forgets what the layer
// under way computed in the quantized lane, where that is not enough all that was seen of it, and then everything.
func (w *walk) drop(s *state) {
	var bytes int64
	for _, l := range []*lane{&s.quantized, &s.float} {
		for v, t := range l.kept {
			if t == nil || w.Reference.IsInput(graph.ValueID(v)) {
				continue
			}
			if !w.needed(graph.ValueID(v), l, nil) { // what the layer under way reads is needed
				l.kept[v] = nil
				w.release(s, t)
				continue
			}
			bytes += size(t)
		}
	}
	if t := s.seen; t != nil {
		seen := bytes
		for _, x := range []*tensor.Tensor{t.xq, t.xf, t.yf} {
			if !s.keeps(x) {
				seen += size(x)
			}
		}
		if seen+size(t.yq) > w.room { // nobody looks at yq until the layer is left
			delete(s.coded, t.yq)
			t.yq = nil
		}
		if seen > w.room { // the rest may be looked at until then
			s.seen = nil
		}
	}
	if bytes > w.room {
		w.reset(s)
	}
}

// size is how many bytes a tensor takes; nil takes none.
func size(t *tensor.Tensor) int64 {
	if t == nil {
		return 0
	}
	return int64(t.DType.Bytes(t.Len()))
}
