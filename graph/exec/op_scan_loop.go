package exec

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// scan is a Scan: a body that is run on one slice after the other of some tensors and carries states along.
type scan struct {
	body            *graph.Graph
	states, inputs  int
	inAxes, outAxes []int
	// inBack and outBack say, by scan input and output, whether it is read or written from its end.
	inBack, outBack []bool
}

// buildScan: before opset 9 every input has a batch axis, whose entries are computed apart, and input 0 is the lengths of their
// sequences.
func buildScan(n *graph.Node, version int64) (evalFunc, error) {
	batched := version < 9
	given := len(n.Inputs)
	if batched {
		given--
	}
	s := &scan{inputs: int(n.AttrInt("num_scan_inputs", 0))}
	if s.states = given - s.inputs; s.inputs < 1 || s.states < 0 {
		return nil, fmt.Errorf("num_scan_inputs %d with %d inputs", s.inputs, given)
	}
	var err error
	if s.body, err = bodyGraph(n, given, len(n.Outputs)); err != nil {
		return nil, err
	}
	outputs := len(s.body.Outputs) - s.states
	if outputs < 0 {
		return nil, fmt.Errorf("its body has %d outputs for %d states", len(s.body.Outputs), s.states)
	}
	s.inAxes, s.outAxes = perScan(attrInts(n, "scan_input_axes"), s.inputs), perScan(attrInts(n, "scan_output_axes"), outputs)
	in := "scan_input_directions"
	if batched {
		in = "directions"
	}
	s.inBack, s.outBack = backwards(n, in, s.inputs), backwards(n, "scan_output_directions", outputs)
	if batched {
		return s.runBatched, nil
	}
	return s.run, nil
}

// perScan is a list of one entry for each scan input or output; those that are not given are 0.
func perScan(list []int, n int) []int {
	out := make([]int, n)
	copy(out, list)
	return out
}

func backwards(n *graph.Node, attr string, count int) []bool {
	out := make([]bool, count)
	for i, d := range perScan(attrInts(n, attr), count) {
		out[i] = d == 1
	}
	return out
}

// run is a Scan since opset 9.
func (s *scan) run(c *call) error {
	b := c.body(s.body)
	states, xs := make([]*tensor.Tensor, s.states), make([]*tensor.Tensor, s.inputs)
	for i := range states {
		if states[i] = c.in(i); states[i] == nil {
			return fmt.Errorf("input %d is missing", i)
		}
	}
	length := 0
	for i := range xs {
		x := c.in(s.states + i)
		if x == nil {
			return fmt.Errorf("input %d is missing", s.states+i)
		}
		axis, err := axisIn(s.inAxes[i], len(x.Shape))
		if err != nil {
			return fmt.Errorf("scan input %d: %w", i, err)
		}
		if xs[i], err = c.turned(x, axis, 0); err != nil {
			return err
		}
		if i > 0 && xs[i].Shape[0] != length {
			return fmt.Errorf("scan inputs have lengths %d and %d", length, xs[i].Shape[0])
		}
		length = xs[i].Shape[0]
	}
	states, stacks, err := s.over(b, states, xs, length, length)
	if err != nil {
		return err
	}
	for i := range c.outs {
		switch k := i - s.states; {
		case k >= 0:
			t, err := stacks[k].tensor(s.body.Value(s.body.Outputs[i]))
			if err != nil {
				return err
			}
			axis, err := axisIn(s.outAxes[k], len(t.Shape))
			if err != nil {
				return fmt.Errorf("scan output %d: %w", k, err)
			}
			if t, err = c.turned(t, 0, axis); err != nil {
				return err
			}
			c.own(i, t)
		case length == 0:
			if err := c.pass(i, i); err != nil {
				return err
			}
		default:
			c.own(i, states[i])
		}
	}
	return nil
}

// over runs the body on the first length slices of xs along their first axis. It returns the last states and, by scan output, what
// the iterations computed, with room for that many.
func (s *scan) over(b *body, states, xs []*tensor.Tensor, length, room int) ([]*tensor.Tensor, []*stack, error) {
	stacks := make([]*stack, len(s.body.Outputs)-s.states)
	for k := range stacks {
		stacks[k] = newStack(b.c, room)
	}
	for i, t := range states {
		b.feed(i, t)
	}
	cuts := make([]tensor.Tensor, len(xs))
	for at := range length {
		for i, x := range xs {
			from := at
			if s.inBack[i] {
				from = length - 1 - at
			}
			cuts[i] = slot(x, from)
			b.feed(s.states+i, &cuts[i])
		}
		outs, err := b.iterate()
		if err != nil {
			return nil, nil, err
		}
		states = outs[:s.states]
		for i, t := range states {
			b.feed(i, t)
		}
		for k, t := range outs[s.states:] {
			to := at
			if s.outBack[k] {
				to = length - 1 - at
			}
			if err := stacks[k].put(to, t); err != nil {
				return nil, nil, fmt.Errorf("scan output %d in iteration %d: %w", k, at, err)
			}
		}
	}
	b.c.chose(length)
	return states, stacks, nil
}

// runBatched is a Scan of opset 8. Scan outputs are 0 beyond the length of a sequence.
func (s *scan) runBatched(c *call) error {
	ins := make([]*tensor.Tensor, len(c.ins)-1)
	batch, length := -1, -1
	for i := range ins {
		x := c.in(1 + i)
		if x == nil || len(x.Shape) == 0 || i >= s.states && len(x.Shape) < 2 {
			return fmt.Errorf("input %d has no batch or sequence axis", 1+i)
		}
		if batch >= 0 && x.Shape[0] != batch {
			return fmt.Errorf("inputs have batches of %d and %d", batch, x.Shape[0])
		}
		if i >= s.states && length >= 0 && x.Shape[1] != length {
			return fmt.Errorf("scan inputs have lengths %d and %d", length, x.Shape[1])
		}
		if ins[i], batch = x, x.Shape[0]; i >= s.states {
			length = x.Shape[1]
		}
	}
	lengths, err := c.lengths(batch, length)
	if err != nil {
		return err
	}
	joined := make([]*stack, len(s.body.Outputs))
	for i := range joined {
		joined[i] = newStack(c, batch)
	}
	for entry, n := range lengths {
		parts := make([]*tensor.Tensor, len(ins))
		for i, x := range ins {
			part := slot(x, entry)
			parts[i] = &part
		}
		b := c.body(s.body)
		states, stacks, err := s.over(b, parts[:s.states], parts[s.states:], n, length)
		if err != nil {
			return fmt.Errorf("batch entry %d: %w", entry, err)
		}
		for i := range joined {
			t := (*tensor.Tensor)(nil)
			if k := i - s.states; k < 0 {
				t = states[i]
			} else if t, err = stacks[k].tensor(s.body.Value(s.body.Outputs[i])); err != nil {
				return err
			}
			if err := joined[i].put(entry, t); err != nil {
				return fmt.Errorf("output %d of batch entry %d: %w", i, entry, err)
			}
		}
	}
	for i := range c.outs {
		t, err := joined[i].tensor(s.body.Value(s.body.Outputs[i]))
		if err != nil {
			return err
		}
		c.own(i, t)
	}
	return nil
}

// lengths returns how long the sequence of each batch entry is: input 0, or all of it.
func (c *call) lengths(batch, length int) ([]int, error) {
	if !c.has(0) {
		return slices.Repeat([]int{length}, batch), nil
	}
	lengths, err := ints(c.in(0))
	if err != nil {
		return nil, fmt.Errorf("sequence_lens: %w", err)
	}
	if len(lengths) != batch {
		return nil, fmt.Errorf("%d sequence_lens for a batch of %d", len(lengths), batch)
	}
	for _, n := range lengths {
		if n < 1 || n > length {
			return nil, fmt.Errorf("sequence_lens has %d, outside of 1 to %d", n, length)
		}
	}
	return lengths, nil
}

// slot is the view of entry i of a row-major tensor along its first axis.
func slot(t *tensor.Tensor, i int) tensor.Tensor {
	shape := t.Shape[1:]
	n := tensor.Count(shape)
	return tensor.Tensor{DType: t.DType, Shape: shape, Data: storageOf(t.Data).part(nil, i*n, n)}
}

// turned returns a row-major tensor with axis from moved to place to; t itself if that is where it is.
func (c *call) turned(t *tensor.Tensor, from, to int) (*tensor.Tensor, error) {
	if from == to {
		return t, nil
	}
	shape, step := slices.Clone(t.Shape), rowStrides(t.Shape)
	n, by := shape[from], step[from]
	shape, step = slices.Delete(shape, from, from+1), slices.Delete(step, from, from+1)
	shape, step = slices.Insert(shape, to, n), slices.Insert(step, to, by)
	if err := c.charge(t.DType, shape); err != nil {
		return nil, err
	}
	data := tensor.MakeData(t.DType, tensor.Count(shape))
	if bits := t.DType.Bits(); data == nil || bits > 0 && bits < 8 {
		return nil, fmt.Errorf("element type %s cannot be computed with", t.DType)
	}
	move{shape: shape, dst: rowStrides(shape), src: step}.run(c.parallel, data, t.Data)
	return &tensor.Tensor{DType: t.DType, Shape: shape, Data: data}, nil
}
