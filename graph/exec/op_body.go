package exec

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// body runs the graph of a Loop or Scan again and again. Two sets of tensors take its outputs in turn, so that one iteration may
// read what the one before computed, however many there are.
type body struct {
	c     *call
	g     *graph.Graph
	run   *Runner
	feeds map[string]*tensor.Tensor
	outs  [2][]*tensor.Tensor
	count int // iterations done
}

func (c *call) body(g *graph.Graph) *body {
	b := &body{c: c, g: g, run: c.run.inner(c.step, g), feeds: make(map[string]*tensor.Tensor, len(g.Inputs))}
	for i := range b.outs {
		b.outs[i] = make([]*tensor.Tensor, len(g.Outputs))
	}
	return b
}

// feed gives the body's input i a value for the next iteration.
func (b *body) feed(i int, t *tensor.Tensor) { b.feeds[b.g.Value(b.g.Inputs[i]).Name] = t }

// iterate runs the body once. The outputs are valid until the next but one iteration.
func (b *body) iterate() ([]*tensor.Tensor, error) {
	ctx := b.c.run.ctx
	if err := ctx.Err(); err != nil { // a body without nodes does not ask
		return nil, err
	}
	outs := b.outs[b.count%2]
	if err := b.run.RunInto(ctx, b.feeds, nil, outs); err != nil {
		return nil, fmt.Errorf("iteration %d: %w", b.count, err)
	}
	b.count++
	return outs, nil
}

// bodyGraph returns the graph in attribute body, which must have the given number of inputs, and of outputs at least.
func bodyGraph(n *graph.Node, inputs, outputs int) (*graph.Graph, error) {
	a := n.Attr("body")
	switch {
	case a == nil || a.G == nil:
		return nil, fmt.Errorf("attribute body is missing")
	case len(a.G.Inputs) != inputs:
		return nil, fmt.Errorf("its body has %d inputs, not %d", len(a.G.Inputs), inputs)
	case len(a.G.Outputs) < outputs:
		return nil, fmt.Errorf("its body has %d outputs for %d", len(a.G.Outputs), outputs)
	}
	return a.G, nil
}

// stack joins tensors of one type and shape along a new first axis.
type stack struct {
	c     *call
	dtype tensor.DType
	shape []int // of one tensor
	size  int   // elements of one
	data  any
	room  int // how many there is space for
	used  int // how many the result holds
}

// newStack returns a stack of length tensors, whose elements are 0 until they are put. With 0 it grows as needed.
func newStack(c *call, length int) *stack { return &stack{c: c, used: length} }

// put makes t element i.
func (s *stack) put(i int, t *tensor.Tensor) error {
	if s.data == nil {
		if bits := t.DType.Bits(); bits > 0 && bits < 8 {
			return fmt.Errorf("elements of type %s are not joined", t.DType)
		}
		s.dtype, s.shape, s.size = t.DType, slices.Clone(t.Shape), t.Len()
	}
	if t.DType != s.dtype || !slices.Equal(t.Shape, s.shape) {
		return fmt.Errorf("%s cannot be joined with %s", t.Type(), tensor.TypeString(s.dtype, s.shape))
	}
	s.used = max(s.used, i+1)
	if err := s.grow(); err != nil {
		return err
	}
	copyElements(s.data, i*s.size, t.Data, 0, s.size)
	return nil
}

// grow makes space for used tensors, and for as many more if there was some already.
func (s *stack) grow() error {
	if s.used <= s.room && s.data != nil {
		return nil
	}
	if _, err := checkedLen([]int{s.used, s.size}); err != nil {
		return err
	}
	room := s.used
	if s.room > 0 && 2*s.room <= maxElements/max(s.size, 1) {
		room = max(room, 2*s.room)
	}
	if err := s.c.charge(s.dtype, []int{room, s.size}); err != nil {
		return err
	}
	data := tensor.MakeData(s.dtype, room*s.size)
	if data == nil {
		return fmt.Errorf("element type %s cannot be computed with", s.dtype)
	}
	if s.data != nil {
		copyElements(data, 0, s.data, 0, s.room*s.size)
	}
	s.data, s.room = data, room
	return nil
}

// tensor returns what was put. Where nothing was, v says the type of one: dimensions that it does not know are 0, and so is the
// only one if not even their number is known.
func (s *stack) tensor(v *graph.Value) (*tensor.Tensor, error) {
	if s.data != nil {
		return &tensor.Tensor{DType: s.dtype, Shape: append([]int{s.used}, s.shape...), Data: storageOf(s.data).part(nil, 0, s.used*s.size)}, nil
	}
	shape := []int{s.used}
	for _, d := range v.Shape {
		shape = append(shape, int(max(d.N, 0)))
	}
	if err := s.c.charge(v.DType, shape); err != nil {
		return nil, err
	}
	data := tensor.MakeData(v.DType, tensor.Count(shape))
	if data == nil {
		return nil, fmt.Errorf("nothing was computed, and the type of output %q is not known", v.Name)
	}
	return &tensor.Tensor{DType: v.DType, Shape: shape, Data: data}, nil
}
