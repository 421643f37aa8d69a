package calib

import (
	"qwb/graph"
	"qwb/observers"
)

// scores are the tensors of class scores: what a Softmax, LogSoftmax or ArgMax at an output reads, with what only moves it. Scores that are
// cut off at the top come out equal, and which class it is is lost, while a coarser step costs next to nothing. The largest scores of a
// few samples say little of those to come, so that robust ranges reach beyond them.
type scores map[graph.ValueID]bool

// findScores walks back from the outputs.
func findScores(g *graph.Graph) scores {
	s := scores{}
	for _, v := range g.Outputs {
		if n := g.ScoresAt(v); n != nil {
			for _, score := range g.HandedOn(n.Input(0)) {
				s[score] = true
			}
		}
	}
	return s
}

// upwards widens the range x of values, if one of them is a score: as far above the largest score of all samples as that lies above
// the mean of each sample's largest, about two standard deviations more where there are some twenty samples.
func (r *renderer) upwards(values []graph.ValueID, x *observers.Range) error {
	for _, v := range values {
		if !r.scores[v] {
			continue
		}
		st, err := r.seen(v)
		if err != nil {
			return err
		}
		if mean, known := st.SampleMean(); known && !st.Extent().Empty() {
			top := float64(st.Extent().Max)
			x.Hi = max(x.Hi, top+(top-mean.Hi))
		}
	}
	return nil
}

// probabilities reports whether v has what a Softmax gave, or a part of it, or that with zeros where a row is masked as a whole. The
// largest ones are few, and each decides its row, a token or a query of attention: none of them is a spike that counts as lost.
func (r *renderer) probabilities(v graph.ValueID) bool {
	if v == graph.NoValue || r.g.Producer(v) == graph.NoNode {
		return false
	}
	n := r.g.Node(r.g.Producer(v))
	switch {
	case !n.IsONNX():
		return false
	case n.Op == "Softmax":
		return true
	case n.Op == "Where" && r.g.Const(n.Input(1)) != nil:
		return r.probabilities(n.Input(2))
	case n.Op == "Where" && r.g.Const(n.Input(2)) != nil:
		return r.probabilities(n.Input(1))
	}
	return (n.HandsOn() || n.Op == "Slice" || n.Op == "Expand" || n.Op == "Cast") && r.probabilities(n.Input(0))
}
