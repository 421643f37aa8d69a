package tune

import (
	"context"
	"fmt"
	"math"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// Bias is sequential bias correction: operator by operator in graph order, with everything in front quantized and corrected, the mean
// error of each output channel over the fitting samples is taken off the bias (Nagel et al. 2019, "Data-Free Quantization Through Weight
// Equalization and Bias Correction", section 4.2; Finkelstein et al. 2019). The mean is that of the operator's own sum, before the
// activation fused to it.
var Bias = Method{Name: "bias", Doc: "takes the mean error of each channel off the bias, operator by operator behind a quantized prefix",
	Changes: []string{"biases"}, Needs: []string{"data"}, Run: sequential}

// sequential runs the method Bias.
func sequential(ctx context.Context, b *Bench) (*Report, error) {
	list, err := layers(b.Graph, b.Set)
	if err != nil {
		return nil, err
	}
	return b.correct(ctx, list, b.Fit, func(int) []float64 { return nil })
}

// correct tries a correction at every layer, in graph order: the one that correction names, or, where it is nil, the mean error over the
// samples to fit on, turned round.
func (b *Bench) correct(ctx context.Context, list []layer, fit []*exec.Sample, correction func(k int) []float64) (*Report, error) {
	r := &Report{Layers: []Layer{}}
	if len(list) == 0 {
		return r, nil
	}
	w, err := b.walk(list, fit)
	if err != nil {
		return nil, err
	}
	if err := w.float(ctx); err != nil {
		return nil, err
	}
	for k := range list {
		if err := w.measure(ctx, k); err != nil {
			return nil, err
		}
		l, delta := w.judge(k, correction(k))
		if l.Kept {
			b.addBias(list[k], delta)
		}
		r.Layers = append(r.Layers, l)
		if k+1 < len(list) {
			if err := w.advance(ctx, k); err != nil {
				return nil, err
			}
		}
		if b.Progress != nil {
			b.Progress(k+1, len(list))
		}
	}
	return r, nil
}

// addBias adds delta to the bias of a layer of the bench's graph.
func (b *Bench) addBias(l layer, delta []float64) {
	v := b.Graph.Node(l.node).Inputs[biasInput]
	t := b.Graph.Const(v).Clone()
	for c, x := range t.F32() {
		t.F32()[c] = float32(float64(x) + delta[c])
	}
	b.Graph.SetConst(v, t)
}

// walk goes through the layers in graph order with all samples side by side: of each sample it keeps the quantized values that nodes
// further on read, so that every node runs about twice, whatever the number of layers.
type walk struct {
	*Bench
	list    []layer
	session *exec.Session
	order   []graph.NodeID
	at      []int // position in order, by node
	states  []*state
	fitting int // the first so many states fit, the others are held out
}

// state is one sample on its way.
type state struct {
	sample *exec.Sample
	kept   []*tensor.Tensor // by value: the quantized run's
	done   []bool           // by node: its outputs have been kept
	float  []moment         // by layer, of the float run
	now    moment           // of the layer under way, quantized
	room   int64
}

func (b *Bench) walk(list []layer, fit []*exec.Sample) (*walk, error) {
	session, err := exec.New(b.Reference, exec.Options{})
	if err != nil {
		return nil, err
	}
	order, err := b.Reference.Order()
	if err != nil {
		return nil, err
	}
	w := &walk{Bench: b, list: list, session: session, order: order, at: make([]int, b.Reference.NumNodes()), fitting: len(fit)}
	for i, id := range order {
		w.at[id] = i
	}
	memory := b.Memory
	if memory == 0 {
		memory = 2 << 30
	}
	for _, samples := range [][]*exec.Sample{fit, b.Held} {
		for _, s := range samples {
			w.states = append(w.states, &state{sample: s, room: memory / int64(len(fit)+len(b.Held))})
		}
	}
	for _, s := range w.states {
		w.reset(s)
	}
	return w, nil
}

// reset forgets all values but the inputs.
func (w *walk) reset(s *state) {
	s.kept, s.done = make([]*tensor.Tensor, w.Reference.NumValues()), make([]bool, w.Reference.NumNodes())
	for _, v := range w.Reference.Inputs {
		s.kept[v] = s.sample.Feeds[w.Reference.Value(v).Name]
	}
}

// each calls f for every sample, Threads at a time, with a runner of the goroutine's own.
func (w *walk) each(ctx context.Context, f func(r *exec.Runner, s *state) error) error {
	errs := make([]error, len(w.states))
	next, done := make(chan int), make(chan struct{})
	threads := max(w.Threads, 1)
	for range threads {
		go func() {
			r := w.session.NewRunner()
			for i := range next {
				if errs[i] = f(r, w.states[i]); errs[i] != nil {
					errs[i] = fmt.Errorf("sample %s: %w", w.states[i].sample.Name, errs[i])
				}
			}
			done <- struct{}{}
		}()
	}
	for i := range w.states {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	for range threads {
		<-done
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// float runs the reference and keeps the moments of all layers.
func (w *walk) float(ctx context.Context) error {
	index := map[graph.ValueID]int{}
	for k, l := range w.list {
		index[l.output] = k
	}
	return w.each(ctx, func(r *exec.Runner, s *state) error {
		s.float = make([]moment, len(w.list))
		_, err := r.Run(ctx, s.sample.Feeds, &exec.Hooks{
			Wants: func(v graph.ValueID) bool { _, ok := index[v]; return ok },
			Output: func(n *graph.Node, i int, t *tensor.Tensor) error {
				if k, ok := index[n.Outputs[i]]; ok && n.ID == w.list[k].node {
					s.float[k] = momentOf(t)
				}
				return nil
			}})
		return err
	})
}

// hooks returns a source of hooks that quantize as the bench's graph is now; each is for one run at a time.
func (w *walk) hooks() (func() *exec.Hooks, error) {
	q, err := w.Simulate(w.Graph, w.Set, &w.shared)
	if err != nil {
		return nil, err
	}
	return func() *exec.Hooks { return q.NewHooks(sim.View{Islands: true}) }, nil
}

// measure runs layer k behind its quantized prefix and takes the moments of its sum.
func (w *walk) measure(ctx context.Context, k int) error {
	hooks, err := w.hooks()
	if err != nil {
		return err
	}
	l := w.list[k]
	return w.each(ctx, func(r *exec.Runner, s *state) error {
		h := *hooks()
		output, wants := h.Output, h.Wants
		h.Wants = func(v graph.ValueID) bool { return v == l.output || wants(v) }
		h.Output = func(n *graph.Node, i int, t *tensor.Tensor) error {
			if n.ID == l.node && n.Outputs[i] == l.output {
				s.now = momentOf(t) // before the layer's own output is quantized
			}
			if wants(n.Outputs[i]) {
				return output(n, i, t)
			}
			return nil
		}
		_, _, err := r.Resume(ctx, s.kept, l.node, &h, func(id graph.NodeID) bool { return id == l.node })
		return err
	})
}

// judge says what a correction of layer k is worth on the held-out samples, and whether it is kept. A nil delta is the mean error over
// the fitting samples, turned round.
func (w *walk) judge(k int, delta []float64) (Layer, []float64) {
	l := w.list[k]
	if delta == nil {
		delta = make([]float64, l.channels)
		count := 0
		for _, s := range w.states[:w.fitting] {
			for c := range delta {
				delta[c] -= s.now.sums[c] - s.float[k].sums[c]
			}
			count += s.now.count
		}
		for c := range delta {
			delta[c] /= float64(max(count, 1))
		}
	}
	w.limit(l, delta)
	// A constant added to channel c changes the sum of its squared errors e by 2 delta sum(e) + n delta^2.
	var change []float64
	for _, s := range w.states[w.fitting:] {
		var d float64
		for c, x := range delta {
			d += float64(2*x*(s.now.sums[c]-s.float[k].sums[c])) + float64(float64(s.now.count)*float64(x*x))
		}
		change = append(change, d/(s.float[k].squares+1e-7))
	}
	e := analysis.NewEstimate(change)
	out := Layer{Node: w.Graph.Node(l.node).Name, Change: e.Mean, ChangeError: analysis.NewSpread(e).NSRError}
	falls := e.Below(analysis.Trials(len(w.list)))
	switch {
	case len(change) < analysis.MinHeldOut && w.Force:
		out.Kept = true
	case len(change) < analysis.MinHeldOut:
		out.Kept = e.Mean < 0 // the whole is taken back or not; see Tune
	case falls:
		out.Kept = true
	default:
		out.Why = "the error at its output does not fall by more than its error bar"
	}
	return out, delta
}

// limit leaves channels alone whose corrected bias an integer bias could not hold.
func (w *walk) limit(l layer, delta []float64) {
	id := w.Set.Input(l.node, biasInput)
	if id == tqc.NoSlot || !w.Set.Slot(id).State().Quantizes() {
		return
	}
	bias := w.Graph.Const(w.Graph.Node(l.node).Inputs[biasInput]).F32()
	for c := range delta {
		grid := w.Set.Grid(id, c)
		if _, fits := qmath.QuantizeBias(float32(float64(bias[c])+delta[c]), grid.Scale); !fits || math.IsNaN(delta[c]) || math.IsInf(delta[c], 0) {
			delta[c] = 0
		}
	}
}

// advance runs from layer k, as it is corrected, up to the next one, and keeps what is read there or later.
func (w *walk) advance(ctx context.Context, k int) error {
	hooks, err := w.hooks()
	if err != nil {
		return err
	}
	end := w.at[w.list[k+1].node]
	return w.each(ctx, func(r *exec.Runner, s *state) error {
		h := *hooks()
		input, output, wants := h.Input, h.Output, h.Wants
		type value struct {
			id graph.ValueID
			t  *tensor.Tensor
		}
		var values []value
		var ran []graph.NodeID
		h.Wants = func(graph.ValueID) bool { return true }
		h.Input = func(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error) {
			if !wants(n.Inputs[i]) {
				return t, nil
			}
			return input(n, i, t)
		}
		h.Output = func(n *graph.Node, i int, t *tensor.Tensor) error {
			if wants(n.Outputs[i]) {
				if err := output(n, i, t); err != nil {
					return err
				}
			}
			if !w.own(n) {
				return nil
			}
			values = append(values, value{n.Outputs[i], t.Clone()})
			ran = append(ran, n.ID)
			return nil
		}
		if _, _, err := r.Resume(ctx, s.kept, w.list[k].node, &h, func(id graph.NodeID) bool { return w.at[id] < end }); err != nil {
			return err
		}
		for _, v := range values {
			s.kept[v.id] = v.t
		}
		for _, id := range ran {
			s.done[id] = true
		}
		w.drop(s)
		return nil
	})
}

// own reports whether a node is one of the graph's own, not of a subgraph.
func (w *walk) own(n *graph.Node) bool {
	return int(n.ID) < w.Reference.NumNodes() && w.Reference.Node(n.ID).Name == n.Name && w.Reference.Node(n.ID).Op == n.Op
}

// drop forgets values whose readers have all run, and everything where the rest takes more than the sample's share of the memory: then
// it is computed again when it is needed.
func (w *walk) drop(s *state) {
	var bytes int64
	for v, t := range s.kept {
		if t == nil || w.Reference.IsInput(graph.ValueID(v)) {
			continue
		}
		id := graph.ValueID(v)
		needed := w.Reference.Captured(id) || w.Reference.IsOutput(id)
		for _, u := range w.Reference.Uses(id) {
			needed = needed || !s.done[u.Node]
		}
		if !needed {
			s.kept[v] = nil
			continue
		}
		bytes += int64(t.DType.Bytes(t.Len()))
	}
	if bytes > s.room {
		w.reset(s)
	}
}
