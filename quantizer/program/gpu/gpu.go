package gpu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/steps"
)

// CUDA executes programs on an NVIDIA GPU: the whole program stays there, and a run is one captured graph. What has no kernel is
// computed by the reference on the host.
var CUDA = With("cuda", cuda.Open, func() error {
	_, err := cuda.Find()
	return err
})

// With is CUDA under another name, on devices that each engine opens for itself. missing says what this machine lacks for them; nil
// where nothing can be lacking.
func With(name string, open func() (*cuda.Device, error), missing func() error) program.Backend {
	return program.Backend{Name: name, Own: rows.Own(), Missing: missing, New: func(p *lower.Program, threads int) (program.Engine, error) {
		dev, err := open()
		if err != nil {
			return nil, err
		}
		return newEngine(p, threads, dev, true)
	}}
}

// On is CUDA on a device that is open, and stays so.
func On(dev *cuda.Device) program.Backend {
	return program.Backend{Name: CUDA.Name, Own: CUDA.Own, New: func(p *lower.Program, threads int) (program.Engine, error) {
		return newEngine(p, threads, dev, false)
	}}
}

// engine is the engine of the CUDA backend.
type engine struct {
	program *lower.Program
	threads int
	memory  *memory
	lasts   []bool // by tensor: it is wanted channels-last
	steps   []*step
	consts  []*value     // by tensor, nil for those that are computed
	lastUse []int        // by tensor: the last step that reads it, with functions in place of the steps that they cover
	plans   []cachedPlan // latest first
	replans int
	met     met
}

// cachedPlan is a plan with the shapes of its inputs.
type cachedPlan struct {
	shapes [][]int
	plan   *plan
}

// keptPlans is for how many sets of input shapes an engine keeps a plan; patience is how often a plan may turn out wrong before
// none is made.
const (
	keptPlans = 4
	patience  = 3
)

// errClosedEngine is what a closed engine says.
var errClosedEngine = errors.New("run: the executor is closed")

func newEngine(p *lower.Program, threads int, dev *cuda.Device, own bool) (_ program.Engine, err error) {
	m, err := newMemory(dev, own)
	if err != nil {
		return nil, err
	}
	e := &engine{program: p, threads: threads, memory: m, lasts: steps.WantedLast(p), steps: make([]*step, len(p.Steps)),
		consts: make([]*value, len(p.Tensors)), lastUse: make([]int, len(p.Tensors))}
	runtime.AddCleanup(e, func(m *memory) { _ = m.close() }, m)
	defer func() {
		if err != nil {
			_ = m.close()
		}
	}()
	for i := range p.Tensors {
		if c := p.Tensors[i].Const; c != nil {
			e.consts[i] = hostValue(c.ToRowMajor(), true)
			e.consts[i].constant = true
		}
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		k, why, err := newKernel(e, s)
		if err != nil {
			return nil, program.StepError(p, s, err)
		}
		e.steps[i] = &step{Step: s, e: e, kernel: k, why: why, shapeOnly: readsShapes(s)}
		for _, id := range s.Inputs {
			e.lastUse[id] = i
		}
	}
	for _, id := range p.Outputs {
		e.lastUse[id] = len(p.Steps)
	}
	if err := e.met.begin(m, len(p.Steps)); err != nil {
		return nil, err
	}
	return e, e.joinFunctions()
}

// Close gives back everything that the engine has on the device.
func (e *engine) Close() error { return e.memory.close() }

// Run implements Engine.
func (e *engine) Run(ctx context.Context, feeds []*tensor.Tensor, hook program.Hook) ([]*tensor.Tensor, error) {
	outs, _, err := e.run(ctx, feeds, hook, false)
	return outs, err
}

// run is Run; timed says to measure the device's time where there is a plan.
func (e *engine) run(ctx context.Context, feeds []*tensor.Tensor, hook program.Hook, timed bool) (outs []*tensor.Tensor, d time.Duration,
	err error) {
	if e.memory.closed {
		return nil, 0, errClosedEngine
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	if hook == nil {
		if p := e.planFor(feeds); p != nil {
			if timed {
				outs, d, err = p.timed(ctx, feeds)
			} else {
				outs, err = p.run(ctx, feeds, nil)
			}
			if !errors.Is(err, errReplan) {
				return outs, d, err
			}
			e.replans++
			if err := e.dropPlan(0); err != nil {
				return nil, 0, err
			}
		}
	}
	outs, err = e.record(ctx, feeds, hook)
	return outs, 0, err
}

// planFor returns the plan of inputs of these shapes, nil if there is none.
func (e *engine) planFor(feeds []*tensor.Tensor) *plan {
	for i, c := range e.plans {
		same := true
		for k, t := range feeds {
			same = same && slices.Equal(c.shapes[k], t.Shape)
		}
		if same {
			copy(e.plans[1:i+1], e.plans[:i])
			e.plans[0] = c
			return c.plan
		}
	}
	return nil
}

func (e *engine) dropPlan(i int) error {
	if err := e.memory.stream.Synchronize(); err != nil {
		return err
	}
	p := e.plans[i].plan
	e.plans = slices.Delete(e.plans, i, i+1)
	return p.close()
}

// record runs step by step and, if there is no hook, makes a plan of it.
func (e *engine) record(ctx context.Context, feeds []*tensor.Tensor, hook program.Hook) (outs []*tensor.Tensor, err error) {
	p := e.program
	t := &tape{e: e, hooked: hook != nil}
	defer func() {
		t.end()
		t.dropFixed()
	}()
	values := make([]*value, len(p.Tensors))
	copy(values, e.consts)
	inputs := make([]*value, len(feeds))
	for i, id := range p.Inputs {
		inputs[i] = hostValue(feeds[i], false)
		values[id] = inputs[i].hold()
	}
	for i, s := range e.steps {
		if hook == nil && s.covered {
			s.place(onDevice, "")
			continue
		}
		kernel, from := s.kernel, s.Inputs
		if hook == nil && s.function != nil {
			kernel, from = s.function, []lower.TensorID{s.function.from}
		}
		in := make([]*value, len(from))
		for k, id := range from {
			in[k] = values[id]
		}
		out, err := t.do(ctx, s, kernel, in)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, s.fail(in, err)
		}
		if hook != nil {
			if out, err = t.show(s, hook, in, out); err != nil {
				return nil, program.StepError(p, s.Step, err)
			}
		}
		for k, id := range s.Outputs {
			if id != lower.NoTensor {
				values[id] = out[k].hold()
			}
		}
		for _, list := range [][]lower.TensorID{from, s.Outputs} {
			for _, id := range list {
				if id != lower.NoTensor && e.lastUse[id] <= i && e.consts[id] == nil && values[id] != nil {
					t.leave(values[id])
					values[id] = nil
				}
			}
		}
	}
	return e.finish(t, feeds, inputs, values)
}

// finish copies the outputs of a tape's run to the host and makes a plan of it.
func (e *engine) finish(t *tape, feeds []*tensor.Tensor, inputs, values []*value) ([]*tensor.Tensor, error) {
	p := e.program
	results, outs := make([]*value, len(p.Outputs)), make([]*tensor.Tensor, len(p.Outputs))
	for i, id := range p.Outputs {
		v := values[id]
		if v == nil {
			return nil, fmt.Errorf("run: output %q was not computed", p.Tensors[id].Name)
		}
		if v.held && v.host == nil && len(e.steps) > 0 { // rearranged there
			var err error
			if v, err = t.laid(e.steps[len(e.steps)-1], v, rowLayout); err != nil {
				return nil, fmt.Errorf("run: %w", err)
			}
		}
		host, err := t.download(v)
		if err != nil {
			return nil, fmt.Errorf("run: %w", err)
		}
		results[i], outs[i] = v, host.Clone()
	}
	if t.hooked || e.replans > patience {
		return outs, nil
	}
	t.end() // the arena may need the room
	plan, err := newPlan(t, inputs, results)
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	shapes := make([][]int, len(feeds))
	for i, f := range feeds {
		shapes[i] = slices.Clone(f.Shape)
	}
	e.plans = slices.Insert(e.plans, 0, cachedPlan{shapes, plan})
	for len(e.plans) > keptPlans {
		if err := e.dropPlan(len(e.plans) - 1); err != nil {
			return nil, err
		}
	}
	return outs, nil
}

// show calls the hook of a run after a step.
func (t *tape) show(s *step, hook program.Hook, in, out []*value) ([]*value, error) {
	shown := make([][]*tensor.Tensor, 2)
	for i, list := range [][]*value{in, out} {
		for _, v := range list {
			x, err := t.download(v)
			if err != nil {
				return nil, err
			}
			shown[i] = append(shown[i], x)
		}
	}
	other, err := hook(s.Step, shown[0], shown[1])
	if err != nil || other == nil {
		return out, err
	}
	replaced := make([]*value, len(out))
	for k, id := range s.Outputs {
		if id != lower.NoTensor {
			replaced[k] = hostValue(other[k].ToRowMajor(), out[k].fixed && tensor.Equal(other[k], shown[1][k]))
		}
	}
	for _, v := range out {
		if v != nil {
			t.leave(v.hold())
		}
	}
	return replaced, nil
}

// RunStep implements Engine.
func (e *engine) RunStep(ctx context.Context, id lower.StepID, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if e.memory.closed {
		return nil, errClosedEngine
	}
	s := e.steps[id]
	t := &tape{e: e, hooked: true}
	defer func() {
		t.end()
		t.dropFixed()
	}()
	values := make([]*value, len(in))
	for k, x := range in {
		values[k] = hostValue(x, s.reads(k))
	}
	out, err := t.do(ctx, s, s.kernel, values)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, s.fail(values, err)
	}
	tensors := make([]*tensor.Tensor, len(out))
	for k, v := range out {
		if tensors[k], err = t.download(v); err != nil {
			return nil, s.fail(values, err)
		}
		if tensors[k] != nil && slices.Contains(in, tensors[k]) {
			tensors[k] = tensors[k].Clone()
		}
	}
	return tensors, nil
}
