package tune

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
)

// walk goes through the layers in graph order with all samples side by side, in two lanes: the float reference, and the quantized graph as
// it is tuned so far. Of each sample and lane it keeps the values that nodes further on read, so that every node runs about once or
// twice, whatever the number of layers; in the quantized lane the codes of those that are on a grid of 8 bits. A sample whose values take
// more than its share of the memory forgets them and computes them again when they are needed.
type walk struct {
	*Bench
	list    []layer
	session *exec.Session
	serves  []bool // by node: a layer depends on it
	states  []*state
	fitting int // the first so many states fit, the others are held out
	room    int64
	spares  spares

	// Of the layer under way:
	at    int
	ahead []bool     // by node: the layer does not depend on it, so that it runs later
	hooks *sync.Pool // *exec.Hooks of the quantized lane, each for one run at a time
	input bool       // what it reads is looked at
}

// state is one sample on its way.
type state struct {
	sample    *exec.Sample
	padded    *graph.Padded // nil: no position is left out
	quantized lane
	float     lane
	seen      *sight                   // of the layer under way; nil where there was no room
	now       moment                   // of the layer under way, as it is tuned so far
	coded     map[*tensor.Tensor]grid8 // of the quantized lane, and of what was seen of it
}

// sight is what a layer reads and computes on one sample.
type sight struct {
	xq, xf *tensor.Tensor // nil unless the walk looks at inputs
	yf     *tensor.Tensor // float
	yq     *tensor.Tensor // as the next operators read it, of the graph as it was when it was run; nil where there was no room
	first  moment         // of the graph as it was when it was run
}

// usualRoom is how many bytes of activations are kept where Bench.Memory is 0: 128 and 128 samples of ResNet-50 have room.
const usualRoom = 5 << 28

func (b *Bench) walk(list []layer, fit []*exec.Sample) (*walk, error) {
	session, err := exec.New(b.Reference, exec.Options{})
	if err != nil {
		return nil, err
	}
	w := &walk{Bench: b, list: list, session: session, fitting: len(fit), serves: make([]bool, b.Reference.NumNodes())}
	order, err := b.Reference.Order()
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		w.serves[l.node] = true
	}
	for i := len(order) - 1; i >= 0; i-- {
		for _, v := range b.Reference.Node(order[i]).Outputs {
			if v == graph.NoValue {
				continue
			}
			w.serves[order[i]] = w.serves[order[i]] || b.Reference.Captured(v)
			for _, u := range b.Reference.Uses(v) {
				w.serves[order[i]] = w.serves[order[i]] || w.serves[u.Node]
			}
		}
	}
	memory := cmp.Or(b.Memory+b.Memory/4, usualRoom) // what is beside it is of the size of the model, and Bench.Memory half of all
	w.room = memory / int64(max(len(fit)+len(b.Held), 1))
	w.spares.limit = memory / 16
	for _, samples := range [][]*exec.Sample{fit, b.Held} {
		for _, s := range samples {
			st := &state{sample: s, padded: b.padding(s.Mask).Of(b.Reference, s.Feeds), coded: map[*tensor.Tensor]grid8{}}
			w.reset(st)
			w.states = append(w.states, st)
		}
	}
	return w, nil
}

// reset forgets all values but the inputs.
func (w *walk) reset(s *state) {
	for _, l := range []*lane{&s.quantized, &s.float} {
		l.kept, l.done = make([]*tensor.Tensor, w.Reference.NumValues()), make([]bool, w.Reference.NumNodes())
		for _, v := range w.Reference.Inputs {
			l.kept[v] = s.sample.Feeds[w.Reference.Value(v).Name]
		}
	}
	s.seen = nil
	clear(s.coded)
}

// each calls f for a list of samples, Threads at a time, with a runner of the goroutine's own.
func (w *walk) each(ctx context.Context, list []*state, f func(r *exec.Runner, i int, s *state) error) error {
	return each(ctx, w.session, w.Threads, len(list), func(r *exec.Runner, i int) error {
		if err := f(r, i, list[i]); err != nil {
			return fmt.Errorf("sample %s: %w", list[i].sample.Name, err)
		}
		return nil
	})
}

// each calls f(r, 0) ... f(r, n-1), so many at a time as threads says, r being a runner of the goroutine's own, and returns the first error
// by number, or why ctx ended.
func each(ctx context.Context, session *exec.Session, threads, n int, f func(r *exec.Runner, i int) error) error {
	errs := make([]error, n)
	next, done := make(chan int), make(chan struct{})
	threads = max(min(threads, n), 1)
	for range threads {
		go func() {
			r := session.NewRunner()
			for i := range next {
				errs[i] = graph.Try(func() error { return f(r, i) })
			}
			done <- struct{}{}
		}()
	}
	for i := range n {
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

// enter runs both lanes up to layer k and takes its moments. input says that what the layer reads will be looked at.
func (w *walk) enter(ctx context.Context, k int, input bool) error {
	q, err := w.Simulate(w.Graph, w.Set, w.shared)
	if err != nil {
		return err
	}
	w.ahead = w.behind(w.list[k].node)
	w.at, w.input, w.hooks = k, input, &sync.Pool{New: func() any { return q.NewHooks(sim.View{Islands: true, Early: true}) }}
	return w.each(ctx, w.states, func(r *exec.Runner, _ int, s *state) error {
		t, err := w.look(ctx, r, s)
		if err == nil {
			s.now = t.first
		}
		return err
	})
}

// behind marks the nodes that a layer does not depend on, itself included.
func (w *walk) behind(layer graph.NodeID) []bool {
	list := make([]bool, w.Reference.NumNodes())
	for i := range list {
		list[i] = true
	}
	todo := []graph.NodeID{layer}
	for len(todo) > 0 {
		n := w.Reference.Node(todo[len(todo)-1])
		todo = todo[:len(todo)-1]
		for _, v := range n.Inputs {
			if v == graph.NoValue {
				continue
			}
			if p := w.Reference.Producer(v); p != graph.NoNode && list[p] {
				list[p], todo = false, append(todo, p)
			}
		}
	}
	return list
}

// look returns what the layer under way reads and computes on a sample, from memory where it is there.
func (w *walk) look(ctx context.Context, r *exec.Runner, s *state) (*sight, error) {
	if s.seen != nil {
		return s.seen, nil
	}
	l := w.list[w.at]
	t := &sight{}
	if err := w.float(ctx, r, s, l, t); err != nil {
		return nil, err
	}
	if err := w.quantize(ctx, r, s, l, t); err != nil {
		return nil, err
	}
	s.seen = t
	w.drop(s)
	return t, nil
}

// float runs the float lane of a sample up to and including a layer.
func (w *walk) float(ctx context.Context, r *exec.Runner, s *state, l layer, t *sight) error {
	rec := recorder{walk: w, lane: &s.float}
	h := &exec.Hooks{Wants: everything,
		Input: func(n *graph.Node, i int, x *tensor.Tensor) (*tensor.Tensor, error) {
			if w.input && n.ID == l.node && i == 0 && w.own(n) {
				t.xf = w.lasting(x, s.float.kept[l.input])
			}
			return x, nil
		},
		Output: func(n *graph.Node, i int, y *tensor.Tensor) error {
			if n.ID == l.node && w.own(n) {
				t.yf = w.spares.copy(y)
				return nil
			}
			rec.record(n, i, y)
			return nil
		}}
	_, _, err := r.Resume(ctx, s.float.kept, l.node, h, func(id graph.NodeID) bool { return id == l.node })
	rec.keep()
	if err == nil && t.yf == nil {
		err = fmt.Errorf("%s was not computed", w.Reference.Node(l.node).Name)
	}
	return err
}

// quantize runs the quantized lane of a sample up to and including a layer.
func (w *walk) quantize(ctx context.Context, r *exec.Runner, s *state, l layer, t *sight) error {
	rec := recorder{walk: w, lane: &s.quantized, state: s}
	read := map[*tensor.Tensor]*tensor.Tensor{} // what codes were opened to
	simulate := w.hooks.Get().(*exec.Hooks)
	defer w.hooks.Put(simulate)
	h := *simulate
	input, output, wants := h.Input, h.Output, h.Wants
	h.Wants = everything
	h.Kept = func(_ graph.ValueID, t *tensor.Tensor) *tensor.Tensor {
		opened := w.open(s, t)
		if opened != t {
			read[opened] = t
		}
		return opened
	}
	h.Input = func(n *graph.Node, i int, x *tensor.Tensor) (*tensor.Tensor, error) {
		var err error
		if wants(n.Inputs[i]) {
			if x, err = input(n, i, x); err != nil {
				return nil, err
			}
		}
		if w.input && n.ID == l.node && i == 0 && w.own(n) {
			if t.xq = read[x]; t.xq == nil || t.xq != s.quantized.kept[l.input] {
				t.xq = w.lasting(x, s.quantized.kept[l.input])
			}
		}
		return x, nil
	}
	h.Output = func(n *graph.Node, i int, y *tensor.Tensor) (err error) {
		here := n.ID == l.node && w.own(n)
		if here { // before the layer's own output is quantized
			if t.first, err = s.moment(l.output, y, t.yf, l.axis); err != nil {
				return err
			}
		}
		if wants(n.Outputs[i]) {
			if err := output(n, i, y); err != nil {
				return err
			}
		}
		if here {
			t.yq = w.code(s, l.output, y)
			return nil
		}
		rec.record(n, i, y)
		return nil
	}
	_, _, err := r.Resume(ctx, s.quantized.kept, l.node, &h, func(id graph.NodeID) bool { return id == l.node })
	rec.keep()
	for opened := range read {
		w.spares.give(opened)
	}
	return err
}

// lasting is a copy of a tensor of a run, in its layout, or the tensor itself where it is kept anyway.
func (w *walk) lasting(t, kept *tensor.Tensor) *tensor.Tensor {
	if t == kept {
		return t
	}
	return w.spares.copy(t)
}

// leave ends the layer under way. Where nothing was changed what it computed need not be computed again.
func (w *walk) leave(changed bool) {
	l := w.list[w.at]
	for _, s := range w.states {
		if s.seen == nil {
			maps.DeleteFunc(s.coded, func(t *tensor.Tensor, _ grid8) bool { return !slices.Contains(s.quantized.kept, t) })
			continue
		}
		seen := s.seen
		s.seen = nil
		s.float.kept[l.output], s.float.done[l.node] = seen.yf, true
		if !changed && seen.yq != nil {
			s.quantized.kept[l.output], s.quantized.done[l.node] = seen.yq, true
		}
		w.forget(s, seen)
		w.drop(s)
	}
}
