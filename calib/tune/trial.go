package tune

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/passes"
	"qwb/quantizer/tqc"
)

// trial is a proposal for the layer under way, and what it comes to.
type trial struct {
	by     string
	weight *tensor.Tensor // nil: as it is
	set    *tqc.Set       // nil: as it is
	delta  []float64      // added to the bias; nil for a layer without one
	after  []moment       // by sample
}

// try works out what proposals for the layer under way come to, on all samples.
func (w *walk) try(ctx context.Context, proposals []Proposal) ([]*trial, error) {
	l := w.list[w.at]
	var list, computed []*trial
	var sessions []*exec.Session
	for i := range proposals {
		p := &proposals[i]
		t := &trial{by: p.By, weight: p.Weight}
		list = append(list, t)
		if p.Bias != nil {
			if len(p.Bias) != l.channels {
				return nil, fmt.Errorf("%s proposes %d numbers for a bias of %d", p.By, len(p.Bias), l.channels)
			}
			t.delta = slices.Clone(p.Bias)
		}
		if p.Weight == nil && p.Params == nil {
			for _, s := range w.states {
				t.after = append(t.after, s.now)
			}
			continue
		}
		s, err := w.compute(l, t, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.By, err)
		}
		computed, sessions = append(computed, t), append(sessions, s)
		t.after = make([]moment, len(w.states))
	}
	if len(computed) > 0 {
		runners := make([]sync.Pool, len(sessions))
		err := w.each(ctx, w.states, func(r *exec.Runner, i int, s *state) error {
			seen, err := w.look(ctx, r, s)
			if err != nil {
				return err
			}
			x := w.open(s, seen.xq)
			defer w.shut(seen.xq, x)
			for k, session := range sessions {
				one, ok := runners[k].Get().(*exec.Runner)
				if !ok {
					one = session.NewRunner()
				}
				defer runners[k].Put(one)
				// The output is looked at where it lies: to copy it row-major takes longer than to compare it.
				look := &exec.Hooks{Wants: everything,
					Output: func(_ *graph.Node, _ int, y *tensor.Tensor) (err error) {
						computed[k].after[i], err = s.moment(l.output, y, seen.yf, l.axis)
						return err
					}}
				if _, err := one.RunAll(ctx, map[string]*tensor.Tensor{"x": x}, look, nothing); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, t := range list {
		if err := w.correct(l, t); err != nil {
			return nil, fmt.Errorf("%s: %w", t.by, err)
		}
	}
	return list, nil
}

func everything(graph.ValueID) bool { return true }

func nothing(graph.ValueID) bool { return false }

// correct gives a trial its bias correction: where the proposal names none, the mean error that is left over the fitting samples, or, where
// Gram statistics stand in their place, what these expect.
func (w *walk) correct(l layer, t *trial) (err error) {
	if l.channels == 0 {
		t.delta = nil
		return nil
	}
	switch {
	case t.delta != nil:
	case w.Grams == nil:
		t.delta = leftOver(t.after[:w.fitting])
	default:
		if t.delta, err = w.expected(l, t); err != nil {
			return err
		}
	}
	if t.delta == nil {
		t.delta = make([]float64, l.channels)
	}
	set := w.Set
	if t.set != nil {
		set = t.set
	}
	limit(w.Graph, set, l, t.delta)
	for i := range t.after {
		t.after[i] = t.after[i].shifted(t.delta)
	}
	return nil
}

// limit leaves channels alone whose corrected bias an integer bias could not hold.
func limit(g *graph.Graph, set *tqc.Set, l layer, delta []float64) {
	id := set.Input(l.node, graph.BiasInput)
	integer := id != tqc.NoSlot && set.Slot(id).State().Quantizes()
	bias := g.Const(g.Node(l.node).Inputs[graph.BiasInput]).F32()
	for c := range delta {
		fits := !math.IsNaN(delta[c]) && !math.IsInf(delta[c], 0)
		if fits && integer {
			_, fits = qmath.QuantizeBias(float32(float64(bias[c])+delta[c]), set.Grid(id, c).Scale)
		}
		if !fits {
			delta[c] = 0
		}
	}
}

// compute makes the set of a trial with another weight or other scales, and a session of the operator alone, with its constants quantized.
func (w *walk) compute(l layer, t *trial, p *Proposal) (*exec.Session, error) {
	if l.weight == tqc.NoSlot {
		return nil, fmt.Errorf("the weight cannot be tuned")
	}
	n := w.Graph.Node(l.node)
	weight := w.Graph.Const(n.Inputs[graph.WeightInput])
	if p.Weight != nil {
		if p.Weight.DType != tensor.Float32 || p.Weight.Layout != tensor.RowMajor || !slices.Equal(p.Weight.Shape, weight.Shape) {
			return nil, fmt.Errorf("a weight %s in place of %s", p.Weight.Type(), weight.Type())
		}
		for i, x := range p.Weight.F32() {
			if x-x != 0 {
				return nil, fmt.Errorf("element %d of the weight is %g", i, x)
			}
		}
		weight = p.Weight
	}
	t.set = w.Set
	if p.Params != nil {
		t.set = w.Set.Clone()
		if want, known := tqc.NumScales(graph.Static(weight.Shape...), &w.Set.Slot(l.weight).Config); known &&
			int64(len(p.Params.Scale)) != want {
			return nil, fmt.Errorf("%d scales for a weight of %d", len(p.Params.Scale), want)
		}
		if err := t.set.Render(l.weight, *p.Params); err != nil {
			return nil, err
		}
		if _, err := passes.SolveBiasOf(w.Graph, t.set, []graph.NodeID{l.node}); err != nil {
			return nil, err
		}
	}
	constants := map[int]*tensor.Tensor{graph.WeightInput: weight}
	if v := n.Input(graph.BiasInput); v != graph.NoValue {
		constants[graph.BiasInput] = w.Graph.Const(v)
	}
	for i, c := range constants {
		if id := t.set.Input(l.node, i); id != tqc.NoSlot && t.set.Slot(id).State().Quantizes() {
			q, err := quantized(t.set, id, c)
			if err != nil {
				return nil, err
			}
			constants[i] = q
		}
	}
	return alone(w.Graph, l.node, constants)
}

// alone is a session of one operator with constants for all inputs but the first, which is "x".
func alone(g *graph.Graph, id graph.NodeID, constants map[int]*tensor.Tensor) (*exec.Session, error) {
	n := *g.Node(id)
	one := graph.New("one", g.Opset(""))
	one.Opsets = slices.Clone(g.Opsets)
	x, err := one.AddValue(graph.Value{Name: "x", DType: tensor.Float32})
	if err != nil {
		return nil, err
	}
	y, err := one.AddValue(graph.Value{Name: "y", DType: tensor.Float32})
	if err != nil {
		return nil, err
	}
	one.Inputs, one.Outputs = []graph.ValueID{x}, []graph.ValueID{y}
	inputs := []graph.ValueID{x}
	for i := 1; i < len(n.Inputs); i++ {
		v := graph.NoValue
		if c := constants[i]; c != nil {
			v = one.AddConst(fmt.Sprintf("c%d", i), c)
		}
		inputs = append(inputs, v)
	}
	n.Inputs, n.Outputs = inputs, []graph.ValueID{y}
	if _, err := one.AddNode(n); err != nil {
		return nil, err
	}
	return exec.New(one, exec.Options{})
}

// set puts a trial into the bench's graph and set.
func (w *walk) set(l layer, t *trial) {
	n := w.Graph.Node(l.node)
	if t.weight != nil {
		w.Graph.SetConst(n.Inputs[graph.WeightInput], t.weight)
	}
	if t.set != nil {
		w.Set, w.Frozen[l.node] = t.set, true
	}
	if t.delta != nil {
		addToBias(w.Graph, l.node, t.delta)
	}
	for i, s := range w.states {
		s.now = t.after[i]
	}
}

// addToBias gives a node another bias: the one that it has, and delta added to each channel.
func addToBias(g *graph.Graph, id graph.NodeID, delta []float64) {
	v := g.Node(id).Inputs[graph.BiasInput]
	b := g.Const(v).Clone()
	for c, x := range b.F32() {
		b.F32()[c] = float32(float64(x) + delta[c])
	}
	g.SetConst(v, b)
}
