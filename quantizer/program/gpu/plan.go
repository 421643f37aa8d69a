package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/quantizer/program"
)

// plan repeats what a tape has written down, for inputs of the same shapes: all values in one arena, steps that follow each other
// on the device as one captured graph.
type plan struct {
	e        *engine
	inputs   []*value
	outputs  []*value
	segments []*segment
	calls    []*call
	hosts    []*value      // whose tensor is of one run
	faults   []*call       // that are asked behind a run what went wrong
	fixed    []cuda.Buffer // of values that are the same in every run
	arena    cuda.Buffer
	pinned   *cuda.Pinned
}

// segment is a part of a run: calls on the device, or one on the host.
type segment struct {
	calls []*call
	host  *call
	graph *cuda.Graph // of calls, captured when the plan is first used
}

// errReplan says that a step on the host gave other shapes than the plan has.
var errReplan = errors.New("the shapes of a run depend on more than the shapes of its inputs")

// newPlan makes a plan of a tape whose run is over.
func newPlan(t *tape, inputs, outputs []*value) (*plan, error) {
	e := t.e
	p := &plan{e: e, inputs: inputs, outputs: outputs, calls: t.calls, fixed: t.fixed}
	for _, v := range outputs {
		v.owner().death = len(t.calls)
	}
	var own []*value
	for _, v := range t.values {
		if v.size() > 0 {
			own = append(own, v)
		}
	}
	total := placeValues(own)
	var err error
	if p.arena, err = e.memory.alloc(total); err != nil {
		return nil, err
	}
	t.values, t.fixed = nil, nil
	for _, v := range own {
		v.buf = p.arena.Slice(v.offset, v.size())
	}
	for _, c := range p.calls {
		c.bind()
		if c.what == nil {
			p.segments = append(p.segments, &segment{host: c})
			continue
		}
		c.what.refs++
		if c.what.fault != nil {
			p.faults = append(p.faults, c)
		}
		if n := len(p.segments); n == 0 || p.segments[n-1].host != nil {
			p.segments = append(p.segments, &segment{})
		}
		s := p.segments[len(p.segments)-1]
		s.calls = append(s.calls, c)
	}
	if err := p.stage(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// stage gives everything that is copied between host and device a place in pinned memory.
func (p *plan) stage() error {
	total := 0
	place := func(v *value) {
		if v != nil && v.held && !v.fixed && v.staged < 0 {
			v.staged = total
			total += (v.size() + arenaLine - 1) &^ (arenaLine - 1)
		}
	}
	local := func(v *value) {
		if v != nil && !v.fixed && !slices.Contains(p.hosts, v) {
			v.host = nil
			p.hosts = append(p.hosts, v)
		}
	}
	for _, v := range p.inputs {
		place(v)
		local(v)
	}
	for _, s := range p.segments {
		if s.host == nil {
			continue
		}
		for k, v := range s.host.in {
			if !s.host.step.shapeOnly[k] {
				place(v)
				local(v)
			}
		}
		for _, v := range s.host.out {
			place(v)
			local(v)
		}
	}
	for _, v := range p.outputs {
		place(v)
		local(v)
	}
	if total == 0 {
		return nil
	}
	var err error
	p.pinned, err = p.e.memory.hostAlloc(total)
	return err
}

// staging is the pinned memory of a value.
func (p *plan) staging(v *value) []byte { return p.pinned.Bytes()[v.staged:][:v.size()] }

// send puts the tensor of a value on the device.
func (p *plan) send(v *value) error {
	if !v.held || v.fixed || v.size() == 0 {
		return nil
	}
	raw := p.staging(v)
	copy(raw, bytesOf(v.host))
	return p.e.memory.stream.Upload(v.owner().buf, raw)
}

// run repeats the run for other elements. events, where they are given, are recorded in front of the first step and behind the last.
func (p *plan) run(ctx context.Context, feeds []*tensor.Tensor, events []*cuda.Event) ([]*tensor.Tensor, error) {
	stream := p.e.memory.stream
	for _, v := range p.hosts {
		v.host = nil
	}
	for i, v := range p.inputs {
		v.host = feeds[i]
		if err := p.send(v); err != nil {
			return nil, fmt.Errorf("run: input %q: %w", p.e.program.Tensors[p.e.program.Inputs[i]].Name, err)
		}
	}
	if events != nil {
		if err := events[0].Record(stream); err != nil {
			return nil, err
		}
	}
	for _, s := range p.segments {
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, stream.Synchronize())
		}
		if err := p.segment(ctx, s); err != nil {
			return nil, err
		}
	}
	if events != nil {
		if err := events[1].Record(stream); err != nil {
			return nil, err
		}
	}
	return p.results()
}

// segment runs one part.
func (p *plan) segment(ctx context.Context, s *segment) (err error) {
	if s.host != nil {
		return s.host.step.fail(s.host.in, p.host(ctx, s.host))
	}
	if s.graph == nil {
		s.graph, err = p.e.memory.capture(func() error { return p.put(s) })
		if err != nil {
			return err
		}
	}
	if err := s.graph.Launch(p.e.memory.stream); err != nil {
		return fmt.Errorf("run: steps %d to %d: %w", s.calls[0].step.ID, s.calls[len(s.calls)-1].step.ID, err)
	}
	return nil
}

// put puts the calls of a segment on the stream.
func (p *plan) put(s *segment) error {
	for _, c := range s.calls {
		if err := c.what.launch(p.e.memory.stream, c.inBuf, c.outBuf, c.tempBuf); err != nil {
			return c.step.fail(c.in, err)
		}
	}
	return nil
}

// host computes a call by the reference.
func (p *plan) host(ctx context.Context, c *call) error {
	stream := p.e.memory.stream
	waits := false
	for k, v := range c.in {
		if v.host == nil && !c.step.shapeOnly[k] && v.size() > 0 {
			waits = true
			if err := stream.Download(p.staging(v), v.owner().buf); err != nil {
				return err
			}
		}
	}
	if waits {
		if err := stream.Synchronize(); err != nil {
			return err
		}
	}
	for k, v := range c.in {
		if v.host == nil && !c.step.shapeOnly[k] {
			v.host = p.tensor(v)
		}
		if v.host != nil {
			c.tensors[k] = v.host
		}
	}
	if program.QuantizesInfinite(c.step.Step, c.tensors) {
		p.e.met.odd.Add(p.e.program.Tensors[c.step.Inputs[0]].Name)
	}
	out, err := c.step.reference(ctx, c.tensors)
	if err != nil {
		return err
	}
	if !sameShapes(c.out, out) {
		return errReplan
	}
	for k, v := range c.out {
		if v == nil {
			continue
		}
		v.host = out[k].ToRowMajor()
		if err := p.send(v); err != nil {
			return err
		}
	}
	return nil
}

// tensor returns a value that was copied into pinned memory.
func (p *plan) tensor(v *value) *tensor.Tensor {
	out := tensor.New(v.dtype, v.shape...)
	switch raw := bytesOf(out); {
	case v.size() == 0:
	case v.last && v.moved():
		rearranged(raw, p.staging(v), v.shape, v.dtype.Bytes(1), false)
	default:
		copy(raw, p.staging(v))
	}
	return out
}

// results copies the outputs to the host.
func (p *plan) results() ([]*tensor.Tensor, error) {
	stream := p.e.memory.stream
	for _, v := range p.outputs {
		if v.host == nil && v.size() > 0 {
			if err := stream.Download(p.staging(v), v.owner().buf); err != nil {
				return nil, fmt.Errorf("run: %w", err)
			}
		}
	}
	if err := p.e.fetch(); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	if err := stream.Synchronize(); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	if s, err := p.e.failed(); err != nil {
		return nil, program.StepError(p.e.program, s.Step, err)
	}
	for _, c := range p.faults {
		if err := c.what.fault(stream); err != nil {
			return nil, c.step.fail(c.in, err)
		}
	}
	outs := make([]*tensor.Tensor, len(p.outputs))
	for i, v := range p.outputs {
		if v.host != nil {
			outs[i] = v.host.Clone()
		} else {
			outs[i] = p.tensor(v)
		}
	}
	return outs, nil
}

// timed is run with the time from the first step to the last, as the device measures it: without the inputs' way to it and the
// outputs' way back.
func (p *plan) timed(ctx context.Context, feeds []*tensor.Tensor) ([]*tensor.Tensor, time.Duration, error) {
	var events []*cuda.Event
	for range 2 {
		e, err := p.e.memory.dev.NewEvent(true)
		if err != nil {
			return nil, 0, err
		}
		defer e.Close()
		events = append(events, e)
	}
	outs, err := p.run(ctx, feeds, events)
	if err != nil {
		return nil, 0, err
	}
	d, err := events[0].Elapsed(events[1])
	return outs, d, err
}

// close gives back what the plan holds. The stream must be idle.
func (p *plan) close() error {
	m := p.e.memory
	var errs []error
	for _, s := range p.segments {
		if s.graph != nil {
			errs = append(errs, m.drop(s.graph))
		}
	}
	for _, c := range p.calls {
		if c.what != nil {
			m.release(c.what)
		}
	}
	for _, b := range p.fixed {
		m.free(b)
	}
	m.free(p.arena)
	if p.pinned != nil {
		errs = append(errs, m.hostFree(p.pinned))
	}
	return errors.Join(errs...)
}
