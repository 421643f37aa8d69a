package cpu

import (
	"context"
	"fmt"
	"sync"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/steps"
	"qwb/quantizer/sim"
)

// Backend executes programs by the integer kernels of this processor. 8-bit tensors are unsigned bytes, channels-last behind
// convolutions, in one arena; what has no fast kernel is computed by the reference.
var Backend = program.Backend{Name: "cpu", Own: kernelRows.Own(), New: func(p *lower.Program, threads int) (program.Engine, error) {
	return newEngine(p, threads, kernels.Select(cpu.Detect()))
}}

// With is Backend with the kernels of a table. Results do not depend on it.
func With(t *kernels.Table) program.Backend {
	b := Backend
	b.New = func(p *lower.Program, threads int) (program.Engine, error) { return newEngine(p, threads, t) }
	return b
}

// engine is the engine of the CPU backend.
type engine struct {
	program *lower.Program
	table   *kernels.Table
	par     kernels.Parallel
	threads int
	lasts   []bool // by tensor: it is wanted channels-last
	parts   parts
	steps   []*step
	consts  []*value // by tensor, nil for those that are computed
	memory  memory
	alone   memory // of RunStep
	scratch []uint8
	planes  steps.Planes
	spare   sync.Pool // of *scratch
	values  []*value  // by tensor, of the run
	odd     sim.Odd
}

// Infinite names what was met that is not finite: see program.Executor.
func (e *engine) Infinite() []string { return e.odd.Names() }

// Reuse is that of program.Executor.
func (e *engine) Reuse(outs []*tensor.Tensor) { e.memory.back = append(e.memory.back[:0], outs...) }

// step is a step with its kernel and the memory of its calls.
type step struct {
	*lower.Step
	engine *engine
	kernel kernel
	own    bool           // there is a row for the operation
	slow   program.Kernel // of the reference, made when it is first needed
	in     []*value
	out    []*value

	slowly   bool       // the reference computed it in the last run
	covered  bool       // a function behind it computes it too
	function *function  // computes it and the two steps before it; nil: it is computed as it is
	crossing *crossings // computes it and steps around it in place of kernel; may be nil
}

// make prepares the kernel.
func (s *step) make() (err error) {
	s.kernel, s.own, err = kernelRows.Make(s.engine, s.Step)
	return s.engine.fail(s, err)
}

// kernel computes one step. It fills s.out, or returns errSlow where these inputs are for the reference.
type kernel interface {
	run(ctx context.Context, s *step, m *memory) error
}

// slowly says that the reference is to compute a step.
type slowly struct{}

func (slowly) Error() string { return "no fast kernel for these inputs" }

var errSlow error = slowly{}

func newEngine(p *lower.Program, threads int, t *kernels.Table) (program.Engine, error) {
	e := &engine{program: p, table: t, threads: threads, par: exec.Parallel(threads), lasts: steps.WantedLast(p), parts: partsOfBatch(p),
		consts: make([]*value, len(p.Tensors)), values: make([]*value, len(p.Tensors)), steps: make([]*step, len(p.Steps))}
	for i := range p.Tensors {
		if c := p.Tensors[i].Const; c != nil {
			e.consts[i] = valueOf(c.ToRowMajor(), p.Tensors[i].Quantized())
		}
	}
	for i := range p.Steps {
		s := &step{Step: &p.Steps[i], engine: e, in: make([]*value, len(p.Steps[i].Inputs)), out: make([]*value, len(p.Steps[i].Outputs))}
		if !program.Streams(p, s.Step) {
			if err := s.make(); err != nil {
				return nil, err
			}
		}
		e.steps[i] = s
	}
	if err := e.joinFunctions(); err != nil {
		return nil, err
	}
	return e, e.joinCrossings()
}

// Run implements Engine.
func (e *engine) Run(ctx context.Context, feeds []*tensor.Tensor, hook program.Hook) ([]*tensor.Tensor, error) {
	if n := e.divide(feeds, hook); n > 1 {
		return e.runParts(ctx, feeds, n)
	}
	return e.run(ctx, feeds, hook)
}

// run is Run of what is no more divided.
func (e *engine) run(ctx context.Context, feeds []*tensor.Tensor, hook program.Hook) ([]*tensor.Tensor, error) {
	p, m := e.program, &e.memory
	m.begin(hook != nil)
	copy(e.values, e.consts)
	for i, id := range p.Inputs {
		e.values[id] = valueOf(feeds[i], false)
	}
	for i, s := range e.steps {
		m.step = i
		if hook == nil && s.covered {
			continue
		}
		if hook == nil && s.crossing != nil {
			if err := s.crossing.run(ctx, m); err != nil {
				return nil, err
			}
			continue
		}
		s.read()
		kernel := s.kernel
		if hook == nil && s.function != nil {
			kernel, s.in[0] = s.function, e.values[s.function.from]
		}
		if err := e.compute(ctx, s, kernel, m); err != nil {
			return nil, err
		}
		if hook != nil {
			if err := e.show(s, hook); err != nil {
				return nil, program.StepError(p, s.Step, err)
			}
		}
		s.write()
	}
	m.step = len(p.Steps)
	outs := make([]*tensor.Tensor, len(p.Outputs))
	for i, id := range p.Outputs {
		v := e.values[id]
		if v == nil {
			return nil, fmt.Errorf("run: output %q was not computed", p.Tensors[id].Name)
		}
		m.use(v)
		outs[i] = m.give(v, outs[:i])
	}
	m.end()
	return outs, nil
}

// read finds the step's inputs in the run.
func (s *step) read() {
	for k, id := range s.Inputs {
		s.in[k] = s.engine.values[id]
	}
}

// write makes the step's outputs those of the run.
func (s *step) write() {
	for k, id := range s.Outputs {
		if id != lower.NoTensor {
			s.engine.values[id] = s.out[k]
		}
	}
}

// whole computes a step as it is, within a run.
func (s *step) whole(ctx context.Context, m *memory) error {
	s.read()
	if err := s.engine.compute(ctx, s, s.kernel, m); err != nil {
		return err
	}
	s.write()
	return nil
}

func (e *engine) fail(s *step, err error) error { return program.StepError(e.program, s.Step, err) }

// compute runs a step by a kernel, nil for the reference: s.in to s.out.
func (e *engine) compute(ctx context.Context, s *step, kernel kernel, m *memory) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer func() {
		if bug := graph.Recovered(recover()); bug != nil {
			err = e.fail(s, bug)
		}
	}()
	for _, v := range s.in {
		m.use(v)
	}
	if program.Streams(e.program, s.Step) {
		if err := s.make(); err != nil {
			return err
		}
		kernel = s.kernel
		defer func() {
			s.kernel, s.slow = nil, nil
			program.Forget(e.program, s.Step)
		}()
	}
	clear(s.out)
	err = errSlow
	if kernel != nil {
		err = kernel.run(ctx, s, m)
	}
	if s.slowly = err == errSlow; s.slowly {
		err = e.slow(ctx, s)
	}
	return e.fail(s, err)
}

// Placement implements program.Placed: the steps that the reference computed, but for those that it simulates, which have no kernel on any
// backend.
func (e *engine) Placement() *program.Placement {
	p := &program.Placement{Steps: len(e.steps)}
	for _, s := range e.steps {
		if _, simulated := s.Op.(*lower.Simulated); s.slowly && !simulated {
			p.Host = append(p.Host, program.HostStep{Step: s.ID, Name: e.program.Name(s.ID), Op: s.Op.Name(),
				Reason: program.Slow(e.program, s.Step, s.own)})
		}
	}
	if p.Host == nil {
		return nil
	}
	return p
}

// slow runs a step by the reference.
func (e *engine) slow(ctx context.Context, s *step) error {
	if s.slow == nil {
		k, err := program.NewKernel(e.program, s.Step, e.threads)
		if err != nil {
			return err
		}
		s.slow = k
	}
	in := tensorsOf(s.in)
	if program.QuantizesInfinite(s.Step, in) {
		e.odd.Add(e.program.Tensors[s.Inputs[0]].Name)
	}
	out, err := s.slow(ctx, in)
	if err != nil {
		return err
	}
	for k, id := range s.Outputs {
		if id != lower.NoTensor {
			s.out[k] = valueOf(out[k], e.program.Tensors[id].Quantized())
		}
	}
	return nil
}

// show calls the hook of a run after a step.
func (e *engine) show(s *step, hook program.Hook) error {
	other, err := hook(s.Step, tensorsOf(s.in), tensorsOf(s.out))
	if err != nil || other == nil {
		return err
	}
	for k, id := range s.Outputs {
		if id != lower.NoTensor {
			s.out[k] = valueOf(other[k].ToRowMajor(), e.program.Tensors[id].Quantized())
		}
	}
	return nil
}

// RunStep implements Engine.
func (e *engine) RunStep(ctx context.Context, id lower.StepID, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	s, m := e.steps[id], &e.alone
	m.begin(true)
	for k, t := range in {
		s.in[k] = valueOf(t, e.program.Tensors[s.Inputs[k]].Quantized())
	}
	if err := e.compute(ctx, s, s.kernel, m); err != nil {
		return nil, err
	}
	out := tensorsOf(s.out)
	for k, t := range out {
		if t != nil && s.out[k].codes == nil {
			out[k] = t.Clone() // it may be an input or the kernel's own
		}
	}
	return out, nil
}
