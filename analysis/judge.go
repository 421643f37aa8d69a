package analysis

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// Judge measures a quantized run of a graph against the float one by the centred NSR. An output that a Softmax computes (or a LogSoftmax,
// and something after it that only hands its elements on) is judged by the tensor that the Softmax reads, after the mean over the classes
// is taken off both: Softmax does not see it, and where it is large it would flatter. Any other float output is judged by its plain NSR, an
// integer output by its share of mismatches, and that only where no output is float. Parts of an output are judged beside it, see Slice. An
// output whose size depends on the numbers is judged by the last tensors in front of it whose size does not; where "output" stands below,
// it is those. A judge may be shared by goroutines.
type Judge struct {
	g       *graph.Graph // its outputs are what is judged
	logits  []logits     // by output
	masked  []logits     // by output: the Softmax that reads it, which shows which of its elements are masked
	slices  []Slice
	cuts    []slicing
	share   []bool            // by output: its values lie between 0 and 1
	instead [][]graph.ValueID // by output: outputs of the network that it stands for
	own     []graph.ValueID   // outputs of the network; nil where they are what is judged
	float   bool              // there is a float output
	padding padding
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
	j := &Judge{g: g}
	list, instead, counted := judgedBy(g)
	if j.instead = instead; counted {
		j.own, j.g = g.Outputs, g.Clone()
		j.g.Outputs = list
	}
	for _, v := range list {
		j.logits, j.masked = append(j.logits, findLogits(g, v)), append(j.masked, findReader(g, v))
		j.share = append(j.share, newSliceFinder(g).of(v, deepestPaths).share)
		j.float = j.float || g.Value(v).DType.IsFloat()
	}
	for _, s := range parts {
		if s.Output = slices.Index(list, g.Outputs[s.Output]); s.Output >= 0 {
			j.slices = append(j.slices, s)
		}
	}
	if len(parts) == 0 {
		j.slices = FindSlices(j.g)
	}
	j.cuts = slicings(j.slices)
	return j
}

// Mismatches says that no output is float: losses are shares of elements that differ.
func (j *Judge) Mismatches() bool { return !j.float }

// Runs returns the graph whose runs this judge is shown: that of the network, with the outputs that are judged in front of its own where
// those are others.
func (j *Judge) Runs() *graph.Graph {
	if j.own == nil {
		return j.g
	}
	g := j.g.Clone()
	g.Outputs = slices.Concat(g.Outputs, j.own)
	return g
}

func findLogits(g *graph.Graph, v graph.ValueID) logits {
	n := g.ScoresAt(v)
	if n == nil || n.Op == "ArgMax" { // which class it is counts, not by how much
		return logits{node: graph.NoNode}
	}
	l := logits{node: n.ID, value: n.Input(0)}
	l.axis, l.flatten = graph.SoftmaxAxis(n, g.Opset(""))
	return l
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
	outputs []*tensor.Tensor // that are judged
	own     []*tensor.Tensor // of the network
}

// showsAll is an error where what is judged are not the outputs, for what shows its outputs only.
func (j *Judge) showsAll() error {
	if j.own == nil {
		return nil
	}
	for i, list := range j.instead {
		if len(list) > 0 {
			return fmt.Errorf("output %q: how many elements it has depends on the numbers, so that two runs cannot be compared there; %q in front "+
				"of it can, in a simulation",
				j.g.Value(list[0]).Name, j.g.Value(j.g.Outputs[i]).Name)
		}
	}
	return nil
}

// standsFor names the outputs of the network that what is judged at k stands for beside itself; nil for none.
func (j *Judge) standsFor(k int) []string {
	if len(j.instead[k]) == 0 {
		return nil
	}
	return valueNames(j.g, j.instead[k])
}

// inPlace names the tensors that stand for outputs of the network.
func (j *Judge) inPlace() (names []string) {
	if !slices.ContainsFunc(j.instead, func(list []graph.ValueID) bool { return len(list) > 0 }) {
		return nil
	}
	for _, v := range j.g.Outputs {
		names = append(names, j.g.Value(v).Name)
	}
	return names
}

func (j *Judge) verdict() *Verdict { return &Verdict{scores: make([]*tensor.Tensor, len(j.logits))} }

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

// Outputs gives a verdict the outputs of its run of Runs, or those of the network where that has others.
// Floats of all types become float32.
func (v *Verdict) Outputs(outputs []*tensor.Tensor) {
	v.own = make([]*tensor.Tensor, len(outputs))
	for i, t := range outputs {
		if v.own[i] = exec.Floats(t); v.own[i] == nil {
			v.own[i] = t
		}
	}
	v.outputs = v.own
	if n := len(v.scores); n > 0 && len(v.own) > n {
		v.outputs, v.own = v.own[:n], v.own[n:]
	}
}

// Own are the outputs of the network, with floats of all types as float32.
func (v *Verdict) Own() []*tensor.Tensor { return v.own }

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
		case !b.DType.IsFloat():
			if !j.float {
				out[i] = Mismatch(a, b)
			}
		default:
			e, err := Compare(j.unmasked(i, a, b))
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

// blocks is how many rows of class scores there are around the classes, how many classes, and how many elements lie between two of them.
func (l logits) blocks(t *tensor.Tensor) (outer, n, inner int, ok bool) {
	axis, ok := graph.Axis(l.axis, len(t.Shape))
	switch {
	case l.flatten && (ok || axis == len(t.Shape)):
		return tensor.Count(t.Shape[:axis]), tensor.Count(t.Shape[axis:]), 1, true
	case !ok:
		return 0, 0, 0, false
	}
	outer, n, inner = t.Blocks(axis)
	return outer, n, inner, true
}

// scores is how class scores differ: their centred NSR, and in how many of the rows another class has the highest.
type scores struct {
	nsr           float64
	rows, changed int
}

// centredNSR is the NSR of class scores after each row's mean over its classes is taken off. Scores that neither Softmax can see, masked
// ones for instance, count neither as signal nor as error, and those that one of them can see as if they lay where they begin to matter.
func centredNSR(q, f *tensor.Tensor, l logits) (scores, error) {
	x, y, err := aligned(q, f)
	if err != nil {
		return scores{}, err
	}
	outer, n, inner, ok := l.blocks(f)
	if !ok {
		return scores{}, fmt.Errorf("no axis %d in %s", l.axis, f.Type())
	}
	s := scores{rows: outer * inner}
	r := newScoreRow(n)
	for o := range outer {
		for i := range inner {
			r.fill(x, y, o*n*inner+i, inner)
			if n > 0 && best(r.q) != best(r.f) {
				s.changed++
			}
			r.mask()
			r.add()
		}
	}
	if !finite(r.noise + r.signal) {
		return s, ErrNotFinite
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

func newScoreRow(n int) scoreRow {
	return scoreRow{q: make([]float64, n), f: make([]float64, n), skip: make([]bool, n), mute: make([]bool, n)}
}

// fill takes the row that begins at an element and goes on at every step.
func (r *scoreRow) fill(q, f []float32, from, step int) {
	for c := range r.f {
		r.q[c], r.f[c] = float64(q[from+c*step]), float64(f[from+c*step])
	}
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
func (l Losses) Estimate() Estimate { return l.EstimateBy(nil) }

// EstimateBy is Estimate of samples in blocks.
func (l Losses) EstimateBy(b Blocks) Estimate {
	var worst Estimate
	for k := range l.outputs() {
		if e := b.Estimate(l.of(k)); k == 0 || e.Mean > worst.Mean {
			worst = e
		}
	}
	return worst
}

// Means are the losses by output, and part, on average over the samples.
func (l Losses) Means() []float64 {
	out := make([]float64, l.outputs())
	for k := range out {
		out[k] = NewEstimate(l.of(k)).Mean
	}
	return out
}

// ByOutput are the losses of all samples by output, and part.
func (l Losses) ByOutput() [][]float64 {
	out := make([][]float64, l.outputs())
	for k := range out {
		out[k] = l.of(k)
	}
	return out
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
