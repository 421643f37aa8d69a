package analysis

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// Judge measures a quantized run of a graph against the float one by the centred NSR. An output that a Softmax computes (or a
// LogSoftmax, and something after it that only reshapes) is judged by the tensor that the Softmax reads, after the mean over the classes
// is taken off both: Softmax does not see it, and where it is large it would flatter. Any other float output is judged by its plain
// NSR, an integer output by its share of mismatches. A judge may be shared by goroutines.
type Judge struct {
	g      *graph.Graph
	logits []logits // by output
}

// logits is the tensor of class scores behind an output; node is NoNode where there is none.
type logits struct {
	node    graph.NodeID
	value   graph.ValueID
	axis    int
	flatten bool // Softmax before opset 13: the classes are all axes from axis on
}

// NewJudge finds the class scores behind the outputs of g.
func NewJudge(g *graph.Graph) *Judge {
	j := &Judge{g: g}
	for _, v := range g.Outputs {
		j.logits = append(j.logits, findLogits(g, v))
	}
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
			loss, err := centredNSR(q.scores[i], f.scores[i], l)
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", j.g.Value(j.g.Outputs[i]).Name, err)
			}
			out[i] = loss
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

// centredNSR is the NSR of class scores after each row's mean over its classes is taken off.
func centredNSR(q, f *tensor.Tensor, l logits) (float64, error) {
	x, y, err := aligned(q, f)
	if err != nil {
		return 0, err
	}
	axis, ok := graph.Axis(l.axis, len(f.Shape))
	if !ok && !(l.flatten && axis == len(f.Shape)) {
		return 0, fmt.Errorf("no axis %d in %s", l.axis, f.Type())
	}
	var outer, n, inner int
	if l.flatten {
		outer, n, inner = tensor.Count(f.Shape[:axis]), tensor.Count(f.Shape[axis:]), 1
	} else {
		outer, n, inner = f.Blocks(axis)
	}
	var noise, signal float64
	for o := range outer {
		for i := range inner {
			var mx, my float64
			for p := o*n*inner + i; p < (o+1)*n*inner; p += inner {
				mx, my = mx+float64(x[p]), my+float64(y[p])
			}
			mx, my = mx/float64(n), my/float64(n)
			for p := o*n*inner + i; p < (o+1)*n*inner; p += inner {
				a, b := float64(x[p])-mx, float64(y[p])-my
				noise += float64((a - b) * (a - b))
				signal += float64(b * b)
			}
		}
	}
	if !finite(noise + signal) {
		return 0, errNotFinite
	}
	return noise / (signal + nsrFloor), nil
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
