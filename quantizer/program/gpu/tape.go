package gpu

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// tape executes steps one at a time, each in memory of its own, and writes down what it did: a later run with inputs of the same
// shapes repeats it. The device is waited for behind every step, so that what fails there is the step's own.
type tape struct {
	e      *engine
	hooked bool
	call   int // number of the next call
	calls  []*call
	values []*value      // that have memory of their own on the device
	fixed  []cuda.Buffer // of fixed values, which stay
}

// call is one step, or one change of layout, of a run.
type call struct {
	step          *step     // whose it is
	what          *prepared // nil: the reference computes it on the host
	in, out, temp []*value
	inBuf, outBuf []cuda.Buffer // of the run at hand
	tempBuf       []cuda.Buffer
	tensors       []*tensor.Tensor // inputs on the host
}

// alloc gives a value memory of its own on the device.
func (t *tape) alloc(v *value) (err error) {
	if v.constant {
		v.buf, err = t.e.memory.alloc(v.size())
		return err
	}
	if v.fixed {
		v.buf, err = t.e.memory.alloc(v.size())
		t.fixed = append(t.fixed, v.buf)
		return err
	}
	v.birth, v.death = t.call, t.call
	t.values = append(t.values, v)
	v.buf, err = t.e.memory.alloc(v.size())
	return err
}

// upload puts a value that the host has on the device.
func (t *tape) upload(v *value) error {
	if v.held {
		return nil
	}
	raw := bytesOf(v.host)
	if raw == nil && v.len() > 0 {
		return fmt.Errorf("%s cannot be on the device", v.host.Type())
	}
	born := v.birth
	if err := t.alloc(v); err != nil {
		return err
	}
	if !v.fixed {
		v.birth = born // a run uploads it where the host has computed it
	}
	v.held = true
	return t.e.memory.stream.Upload(v.buf, raw)
}

// download returns a value as a tensor.
func (t *tape) download(v *value) (*tensor.Tensor, error) {
	if v == nil || v.host != nil {
		return hostOf(v), nil
	}
	out := tensor.New(v.dtype, v.shape...)
	raw := bytesOf(out)
	if v.last && v.moved() {
		raw = bytesOf(tensor.New(v.dtype, v.shape...))
	}
	s := t.e.memory.stream
	if err := s.Download(raw, v.owner().buf); err != nil {
		return nil, err
	}
	if err := s.Synchronize(); err != nil {
		return nil, err
	}
	if v.last && v.moved() {
		rearranged(bytesOf(out), raw, v.shape, v.dtype.Bytes(1), false)
	}
	v.host = out
	return out, nil
}

func hostOf(v *value) *tensor.Tensor {
	if v == nil {
		return nil
	}
	return v.host
}

// laid returns v on the device, in a layout.
func (t *tape) laid(s *step, v *value, want layout) (*value, error) {
	if !v.held {
		if v.fixed && want == lastLayout && v.moved() { // rearranged once, here
			if v.twin == nil {
				v.twin = newValue(v.dtype, v.shape, true)
				v.twin.fixed, v.twin.constant, v.twin.host = true, v.constant, v.host
				if err := t.alloc(v.twin); err != nil {
					return nil, err
				}
				raw := make([]byte, v.size())
				if v.size() > 0 {
					other := tensor.New(v.dtype, v.shape...)
					rearranged(bytesOf(other), bytesOf(v.host), v.shape, v.dtype.Bytes(1), true)
					copy(raw, bytesOf(other))
				}
				v.twin.held = true
				if err := t.e.memory.stream.Upload(v.twin.buf, raw); err != nil {
					return nil, err
				}
			}
			return v.twin, nil
		}
		if err := t.upload(v); err != nil {
			return nil, err
		}
	}
	last := want == lastLayout
	if want == anyLayout || v.last == last || len(v.shape) < 3 {
		return v, nil
	}
	if v.twin != nil && v.twin.held {
		return v.twin, nil
	}
	other := newValue(v.dtype, v.shape, last)
	other.fixed, other.constant, other.host = v.fixed, v.constant, v.host
	if !v.moved() {
		other.of, other.held, v.twin = v.owner(), true, other
		return other, nil
	}
	v.twin = other.hold()
	if err := t.alloc(other); err != nil {
		return nil, err
	}
	other.held = true
	return other, t.run(&call{step: s, what: rearrangement(v.dtype, v.shape, last), in: []*value{v}, out: []*value{other}})
}

// run executes a call and writes it down.
func (t *tape) run(c *call) error {
	for _, list := range [...][]*value{c.in, c.out, c.temp} {
		for _, v := range list {
			if v != nil {
				o := v.owner()
				o.death = max(o.death, t.call)
			}
		}
	}
	t.calls = append(t.calls, c)
	t.call++
	c.bind()
	if c.what == nil {
		return nil
	}
	if err := c.what.launch(t.e.memory.stream, c.inBuf, c.outBuf, c.tempBuf); err != nil {
		return err
	}
	if c.what.fault != nil {
		return c.what.fault(t.e.memory.stream)
	}
	if err := t.e.fetch(); err != nil {
		return err
	}
	if err := t.e.memory.stream.Synchronize(); err != nil {
		return err
	}
	_, err := t.e.failed()
	return err
}

// bind reads where the values of a call lie.
func (c *call) bind() {
	c.inBuf, c.outBuf, c.tempBuf = buffersOf(c.inBuf[:0], c.in), buffersOf(c.outBuf[:0], c.out), buffersOf(c.tempBuf[:0], c.temp)
}

func buffersOf(list []cuda.Buffer, values []*value) []cuda.Buffer {
	for _, v := range values {
		b := cuda.Buffer{}
		if v != nil {
			b = v.owner().buf
			b.Bytes = v.size()
		}
		list = append(list, b)
	}
	return list
}

// do executes a step on values.
func (t *tape) do(ctx context.Context, s *step, kernel kernel, in []*value) ([]*value, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.shapesOnly(in) {
		return t.known(ctx, s, in)
	}
	what, why, err := s.prepare(ctx, kernel, in)
	if err != nil {
		return nil, err
	}
	if what == nil {
		s.place(onHost, why)
		return t.slow(ctx, s, in)
	}
	s.place(onDevice, "")
	return t.fast(s, what, in)
}

// fast executes a step on the device.
func (t *tape) fast(s *step, what *prepared, in []*value) ([]*value, error) {
	c := &call{step: s, what: what, in: make([]*value, len(in))}
	for k, v := range in {
		if want := what.in[k]; want != noLayout {
			var err error
			if c.in[k], err = t.laid(s, v, want); err != nil {
				return nil, err
			}
		}
	}
	c.out = make([]*value, len(what.out))
	for k, o := range what.out {
		if o == nil {
			continue
		}
		if o.known != nil {
			c.out[k] = hostValue(o.known, true)
			continue
		}
		v := newValue(o.dtype, o.shape, o.last)
		v.held = true
		if o.alias >= 0 {
			v.of = c.in[o.alias].owner().hold()
			v.fixed = v.of.fixed
		} else if err := t.alloc(v); err != nil {
			return nil, err
		}
		c.out[k] = v
	}
	for _, n := range what.temp {
		v := newValue(tensor.Uint8, []int{n}, false)
		if err := t.alloc(v); err != nil {
			return nil, err
		}
		c.temp = append(c.temp, v)
	}
	if what.launch == nil {
		return c.out, nil // all of it is memory that is there
	}
	err := t.run(c)
	t.free(c.temp...)
	return c.out, err
}

// slow computes a step on the host by the reference.
func (t *tape) slow(ctx context.Context, s *step, in []*value) ([]*value, error) {
	c := &call{step: s, in: in, tensors: make([]*tensor.Tensor, len(in))}
	for k, v := range in {
		var err error
		if s.shapeOnly[k] && v.host == nil {
			c.tensors[k] = tensor.New(v.dtype, v.shape...)
		} else if c.tensors[k], err = t.download(v); err != nil {
			return nil, err
		}
	}
	if program.QuantizesInfinite(s.Step, c.tensors) {
		t.e.met.odd.Add(t.e.program.Tensors[s.Inputs[0]].Name)
	}
	out, err := s.reference(ctx, c.tensors)
	if err != nil {
		return nil, err
	}
	c.out = make([]*value, len(s.Outputs))
	for k, id := range s.Outputs {
		if id != lower.NoTensor {
			c.out[k] = hostValue(out[k].ToRowMajor(), false)
			c.out[k].birth, c.out[k].death = t.call, t.call
		}
	}
	return c.out, t.run(c)
}

// known computes a step whose result depends on shapes alone. It is no part of later runs.
func (t *tape) known(ctx context.Context, s *step, in []*value) ([]*value, error) {
	s.place(onShapes, "")
	tensors := make([]*tensor.Tensor, len(in))
	for k, v := range in {
		if tensors[k] = v.host; tensors[k] == nil {
			tensors[k] = tensor.New(v.dtype, v.shape...)
		}
	}
	out, err := s.reference(ctx, tensors)
	if err != nil {
		return nil, err
	}
	values := make([]*value, len(out))
	for k, id := range s.Outputs {
		if id != lower.NoTensor {
			values[k] = hostValue(out[k].ToRowMajor().Clone(), true)
		}
	}
	return values, nil
}

// leave says that a reader of v is gone. With the last one goes the memory.
func (t *tape) leave(v *value) {
	if v.refs--; v.refs > 0 {
		return
	}
	if v.of != nil {
		t.leave(v.of)
	} else {
		t.free(v)
	}
	if w := v.twin; w != nil && w.of == nil {
		t.leave(w)
	}
}

// free gives back the memory of values.
func (t *tape) free(values ...*value) {
	for _, v := range values {
		if !v.fixed && v.buf.Ptr != 0 {
			t.e.memory.free(v.buf)
			v.buf = cuda.Buffer{}
		}
	}
}

// end gives back the memory of all values.
func (t *tape) end() { t.free(t.values...) }

// dropFixed gives back what stays with a plan.
func (t *tape) dropFixed() {
	for _, b := range t.fixed {
		t.e.memory.free(b)
	}
	t.fixed = nil
}

// sameShapes reports whether values have the shapes of tensors.
func sameShapes(values []*value, list []*tensor.Tensor) bool {
	for k, v := range values {
		if v != nil && (k >= len(list) || list[k] == nil || !slices.Equal(v.shape, list[k].Shape)) {
			return false
		}
	}
	return true
}
