package analysis

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// Judge measures a quantized run of a graph against the float one by the centred NSR. An output that a Softmax computes (or a
// LogSoftmax, and something after it that only reshapes) is judged by the tensor that the Softmax reads, after the mean over the classes
// is taken off both: Softmax does not see it, and where it is large it would flatter. Any other float output is judged by its plain
// NSR, an integer output by its share of mismatches. Parts of an output are judged beside it, see Slice. A judge may be shared by goroutines.
type Judge struct {
	g      *graph.Graph
	logits []logits // by output
	slices []Slice
	cuts   []slicing
	share  []bool // by output: its values lie between 0 and 1
}

// logits is the tensor of class scores behind an output; node is NoNode where there is none.
type logits struct {
	node    graph.NodeID
	value   graph.ValueID
	axis    int
	flatten bool // Softmax before opset 13: the classes are all axes from axis on
}

// NewJudge finds the class scores behind the outputs of g, and their parts: those given, else those of FindSlices.
func NewJudge(g *graph.Graph, parts ...Slice) *Judge {
	j := &Judge{g: g, slices: parts}
	for _, v := range g.Outputs {
		j.logits = append(j.logits, findLogits(g, v))
		j.share = append(j.share, sliceFinder{g}.of(v, deepestPaths).share)
	}
	if len(parts) == 0 {
		j.slices = FindSlices(g)
	}
	j.cuts = slicings(j.slices)
	return j
}

func findLogits(g *graph.Graph, v graph.ValueID) logits {
	for p := g.Producer(v); p != graph.NoNode; p = g.Producer(v) {
		n := g.Node(p)
		if n.Domain != "" && n.Domain != "ai.onnx" {
			break
		}
		switch n.Op {
		case "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze":
			v = n.Inputs[0]
			continue
		case "Softmax", "LogSoftmax":
			if g.Const(n.Inputs[0]) != nil {
				break
			}
			l := logits{node: p, value: n.Inputs[0]}
			l.axis, l.flatten = graph.SoftmaxAxis(n, g.Opset(""))
			return l
		}
		break
	}
	return logits{node: graph.NoNode}
}

// Classes reports whether any output is judged by class scores.
func (j *Judge) Classes() bool {
	for _, l := range j.logits {
		if l.node != graph.NoNode {
			return true
		}
	}
	return false
}

// Verdict is what a judge keeps of one run.
type Verdict struct {
	scores  []*tensor.Tensor // by output: class scores as the Softmax read them; nil where there are none
	outputs []*tensor.Tensor
}

// Watch returns hooks that do what h does (nil: nothing) and leave in v what Softmax reads. The hooks are for one run.
func (j *Judge) Watch(h *exec.Hooks, v *Verdict) *exec.Hooks {
	v.scores = make([]*tensor.Tensor, len(j.logits))
	if h == nil {
		h = &exec.Hooks{}
	}
	if !j.Classes() {
		return h
	}
	all := *h
	all.Input = func(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error) {
		var err error
		if h.Input != nil && (h.Wants == nil || h.Wants(n.Inputs[i])) {
			if t, err = h.Input(n, i, t); err != nil {
				return nil, err
			}
		}
		for k, l := range j.logits {
			if i == 0 && n.ID == l.node && n.Inputs[0] == l.value && n.Name == j.g.Node(l.node).Name {
				v.scores[k] = t.ToRowMajor().Clone()
			}
		}
		return t, nil
	}
	if h.Output != nil {
		all.Output = func(n *graph.Node, i int, t *tensor.Tensor) error {
			if h.Wants != nil && !h.Wants(n.Outputs[i]) {
				return nil
			}
			return h.Output(n, i, t)
		}
	}
	all.Wants = func(id graph.ValueID) bool {
		for _, l := range j.logits {
			if l.node != graph.NoNode && l.value == id {
				return true
			}
		}
		return (h.Input != nil || h.Output != nil) && (h.Wants == nil || h.Wants(id))
	}
	return &all
}

// Outputs gives a verdict the graph outputs of its run.
func (v *Verdict) Outputs(outputs []*tensor.Tensor) { v.outputs = outputs }

// Plain returns how far the run q is from the run f, by output, as any output without classes is judged.
func (j *Judge) Plain(q, f *Verdict) ([]float64, error) {
	return j.Losses(&Verdict{scores: make([]*tensor.Tensor, len(j.logits)), outputs: q.outputs}, f)
}

// Losses returns how far the run q is from the run f, by output: see Judge. Values that are not finite are an error.
func (j *Judge) Losses(q, f *Verdict) ([]float64, error) {
	out := make([]float64, len(j.logits))
	for i, l := range j.logits {
		a, b := q.outputs[i], f.outputs[i]
		switch {
		case l.node != graph.NoNode && q.scores[i] != nil && f.scores[i] != nil:
			s, err := j.classes(i, q, f)
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", j.g.Value(j.g.Outputs[i]).Name, err)
			}
			out[i] = s.nsr
		case b.DType != tensor.Float32:
			out[i] = Mismatch(a, b)
		default:
			e, err := Compare(a, b)
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", j.g.Value(j.g.Outputs[i]).Name, err)
			}
			out[i] = e.NSR
		}
	}
	return out, nil
}

// classes compares the class scores behind an output; nothing where there are none.
func (j *Judge) classes(i int, q, f *Verdict) (scores, error) {
	if l := j.logits[i]; l.node != graph.NoNode && q.scores[i] != nil && f.scores[i] != nil {
		return centredNSR(q.scores[i], f.scores[i], l)
	}
	return scores{}, nil
}

// unseen is how far below the largest score of its row one has to lie for Softmax to give it a probability of 0: exp underflows in float32.
// faint is how far one has to lie below for the probabilities of others not to change.
const (
	unseen = 104
	faint  = 16
)

// scores is how class scores differ: their centred NSR, and in how many of the rows another class has the highest.
type scores struct {
	nsr           float64
	rows, changed int
}

// centredNSR is the NSR of class scores after each row's mean over its classes is taken off. Scores that neither Softmax can see, masked ones for
// instance, count neither as signal nor as error, and those that one of them can see as if they lay where they begin to matter.
func centredNSR(q, f *tensor.Tensor, l logits) (scores, error) {
	x, y, err := aligned(q, f)
	if err != nil {
		return scores{}, err
	}
	axis, ok := graph.Axis(l.axis, len(f.Shape))
	if !ok && !(l.flatten && axis == len(f.Shape)) {
		return scores{}, fmt.Errorf("no axis %d in %s", l.axis, f.Type())
	}
	var outer, n, inner int
	if l.flatten {
		outer, n, inner = tensor.Count(f.Shape[:axis]), tensor.Count(f.Shape[axis:]), 1
	} else {
		outer, n, inner = f.Blocks(axis)
	}
	s := scores{rows: outer * inner}
	r := scoreRow{q: make([]float64, n), f: make([]float64, n), skip: make([]bool, n), mute: make([]bool, n)}
	for o := range outer {
		for i := range inner {
			for c := range n {
				r.q[c], r.f[c] = float64(x[(o*n+c)*inner+i]), float64(y[(o*n+c)*inner+i])
			}
			if n > 0 && best(r.q) != best(r.f) {
				s.changed++
			}
			r.mask()
			r.add()
		}
	}
	if !finite(r.noise + r.signal) {
		return s, errNotFinite
	}
	s.nsr = r.noise / (r.signal + nsrFloor)
	return s, nil
}

// best is the place of the highest score, the first of those that tie.
func best(row []float64) (at int) {
	for c, x := range row {
		if x > row[at] {
			at = c
		}
	}
	return at
}

// scoreRow is one row of class scores, and what all rows sum up to.
type scoreRow struct {
	q, f          []float64
	skip, mute    []bool // by class: it does not count, or not as signal
	noise, signal float64
}

// mask finds what no Softmax sees. What one of both rows hides is brought up to where it begins to matter.
func (r *scoreRow) mask() {
	if len(r.f) == 0 {
		return
	}
	topQ, topF := r.q[best(r.q)], r.f[best(r.f)]
	for c := range r.f {
		same := r.q[c] == r.f[c] && math.IsInf(r.q[c], 0)
		hideQ, hideF := r.q[c] < topQ-unseen, r.f[c] < topF-unseen
		r.skip[c], r.mute[c] = same || hideQ && hideF, hideF
		if hideQ != hideF && !same {
			r.q[c], r.f[c] = max(r.q[c], topQ-faint), max(r.f[c], topF-faint)
		}
	}
}

// add adds up the row without the mean of each side.
func (r *scoreRow) add() {
	var mq, mf float64
	n := 0
	for c := range r.f {
		if !r.skip[c] {
			mq, mf, n = mq+r.q[c], mf+r.f[c], n+1
		}
	}
	mq, mf = mq/float64(n), mf/float64(n)
	for c := range r.f {
		if r.skip[c] {
			continue
		}
		a, b := r.q[c]-mq, r.f[c]-mf
		r.noise += float64((a - b) * (a - b))
		if !r.mute[c] {
			r.signal += float64(b * b)
		}
	}
}

// Losses are what a judge found, by sample and output.
type Losses [][]float64

// Estimate is the loss of the output that loses most on average over the samples.
func (l Losses) Estimate() Estimate {
	var worst Estimate
	for k := range l.outputs() {
		if e := NewEstimate(l.of(k)); k == 0 || e.Mean > worst.Mean {
			worst = e
		}
	}
	return worst
}

// PerSample is the largest loss over the outputs, by sample: what paired differences are taken of.
func (l Losses) PerSample() []float64 {
	out := make([]float64, len(l))
	for i, s := range l {
		for _, x := range s {
			out[i] = max(out[i], x)
		}
	}
	return out
}

func (l Losses) outputs() int {
	if len(l) == 0 {
		return 0
	}
	return len(l[0])
}

func (l Losses) of(output int) []float64 {
	out := make([]float64, len(l))
	for i, s := range l {
		out[i] = s[output]
	}
	return out
}
