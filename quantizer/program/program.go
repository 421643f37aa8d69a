package program

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/quantizer/lower"
	"qwb/quantizer/sim"
)

// Backend is one way of executing programs.
type Backend struct {
	Name string
	// New prepares an engine for p; threads is how many goroutines may share the work of a step, at least 1.
	New func(p *lower.Program, threads int) (Engine, error)
	// Own says for which operations it has rows of its own; all others, and tensors that a row is not for, are left to NewKernel.
	Own []lower.Own
	// Missing says what this machine lacks to run it; nil where nothing can be lacking.
	Missing func() error
}

// Engine executes one program, one run at a time.
type Engine interface {
	// Run executes all steps. feeds are the program's inputs, in order, checked; the result is its outputs, row-major, which belong
	// to the caller. hook may be nil.
	Run(ctx context.Context, feeds []*tensor.Tensor, hook Hook) ([]*tensor.Tensor, error)
	// RunStep executes one step on given inputs, row-major, which it does not keep or change; the outputs are row-major and belong
	// to the caller. Outputs that nobody reads are nil.
	RunStep(ctx context.Context, id lower.StepID, in []*tensor.Tensor) ([]*tensor.Tensor, error)
}

// Hook sees every step after it has run, in order: what it read and what it computed, row-major, in the types that the program
// declares. The tensors are valid during the call and must not be changed. Outputs that are returned take the place of the step's
// own for all that follows; nil keeps them.
type Hook func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error)

// Executor runs one program on one backend. It is used by one goroutine at a time.
type Executor struct {
	program *lower.Program
	engine  Engine
	meter   *kernels.Meter
	finite  []bool // by output: nobody need look
	odd     sim.Odd
	see     func(id lower.TensorID, t *tensor.Tensor) error // nil: nobody looks, see Show
}

// looking is an engine that looks at what it makes integers of.
type looking interface {
	// Infinite names the tensors of which a run so far has made an integer of an infinite number.
	Infinite() []string
}

// New prepares p for execution by a backend with up to threads goroutines; 0 means one. Results do not depend on the number.
func New(p *lower.Program, b Backend, threads int) (*Executor, error) {
	e, err := b.New(p, max(threads, 1))
	if err != nil {
		return nil, err
	}
	return &Executor{program: p, engine: e, meter: kernels.Select(cpu.Detect()).NewMeter(), finite: finite(p)}, nil
}

// Close gives back what the executor holds outside of Go's memory. An executor that is garbage is closed by itself.
func (e *Executor) Close() error {
	if c, ok := e.engine.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Program returns the program given to New.
func (e *Executor) Program() *lower.Program { return e.program }

// Run executes the program. feeds are the graph's inputs by name, as for exec.Runner; the outputs are those of the graph, in its
// order and types, row-major, and belong to the caller. hook may be nil. A cancelled ctx stops between steps.
func (e *Executor) Run(ctx context.Context, feeds map[string]*tensor.Tensor, hook Hook) ([]*tensor.Tensor, error) {
	list, err := Feeds(e.program, feeds)
	if err != nil {
		return nil, err
	}
	if e.see != nil {
		hook = showing(e.see, hook)
	}
	outs, err := e.engine.Run(ctx, list, hook)
	for i, t := range outs {
		if x := exec.Floats(t); x != nil && !e.finite[i] {
			if _, _, finite := e.meter.MinMax(x.F32()); !finite {
				e.odd.Add(e.program.Tensors[e.program.Outputs[i]].Name)
			}
		}
	}
	return outs, err
}

// Reuse takes outputs of a run that nobody reads any more: later runs may write theirs there. Large outputs take less time so.
func (e *Executor) Reuse(outs []*tensor.Tensor) {
	if r, ok := e.engine.(interface{ Reuse(outs []*tensor.Tensor) }); ok {
		r.Reuse(outs)
	}
}

// Infinite names the tensors of which runs so far have made an integer of an infinite number, the outputs that held NaN or an infinite
// number, and what tables make that have an entry for one, whether a run has met it or not. The float network may have it there too (a
// mask). NaN that would become an integer ends a run: its error wraps *tqc.NaN.
func (e *Executor) Infinite() []string {
	names := e.odd.Names()
	for i := range e.program.Steps {
		if op, ok := e.program.Steps[i].Op.(*lower.Table); ok && op.Odd {
			names = append(names, e.program.Tensors[e.program.Steps[i].Outputs[0]].Name)
		}
	}
	if l, ok := e.engine.(looking); ok {
		names = append(names, l.Infinite()...)
	}
	return names
}

// QuantizesInfinite reports whether a step is about to make integers of inputs of which some are infinite: for engines,
// where the reference computes it.
func QuantizesInfinite(s *lower.Step, in []*tensor.Tensor) bool {
	if _, ok := s.Op.(*lower.Quantize); !ok || in[0].DType != tensor.Float32 {
		return false
	}
	return slices.ContainsFunc(in[0].F32(), func(v float32) bool { return math.IsInf(float64(v), 0) })
}

// Feeds lists the inputs of a program, in order and row-major, of those of its graph by name. An input that is missing or of another type
// is an error.
func Feeds(p *lower.Program, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
	list := make([]*tensor.Tensor, len(p.Inputs))
	for i, id := range p.Inputs {
		t, err := feedFor(p, id, feeds)
		if err != nil {
			return nil, err
		}
		list[i] = t
	}
	return list, nil
}

// RunStep executes one step on given inputs, in the order and types of the step's; constant operands may be nil. Outputs that
// nobody reads are nil.
func (e *Executor) RunStep(ctx context.Context, id lower.StepID, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	s := &e.program.Steps[id]
	if len(in) != len(s.Inputs) {
		return nil, e.fail(s, fmt.Errorf("%d inputs given, it has %d", len(in), len(s.Inputs)))
	}
	in = slices.Clone(in)
	for i, id := range s.Inputs {
		want := &e.program.Tensors[id]
		if in[i] == nil {
			in[i] = want.Const
		}
		if in[i] == nil || in[i].DType != want.DType {
			return nil, e.fail(s, fmt.Errorf("input %d is not %s", i, graph.FormatType(want.DType, want.Shape)))
		}
		in[i] = in[i].ToRowMajor()
	}
	return e.engine.RunStep(ctx, id, in)
}

func (e *Executor) fail(s *lower.Step, err error) error { return StepError(e.program, s, err) }

// StepError says in which step something failed.
func StepError(p *lower.Program, s *lower.Step, err error) error {
	if err == nil {
		return nil
	}
	if s.Node != graph.NoNode {
		return p.Graph.ErrorAt("run", s.Node, err)
	}
	return fmt.Errorf("run: %s of %q: %w", s.Op.Name(), p.Name(s.ID), err)
}

// feedFor finds and checks the tensor of a program input.
func feedFor(p *lower.Program, id lower.TensorID, feeds map[string]*tensor.Tensor) (*tensor.Tensor, error) {
	want := &p.Tensors[id]
	t := feeds[want.Name]
	if t == nil {
		return nil, fmt.Errorf("run: input %q is missing", want.Name)
	}
	ok := t.DType == want.DType && (want.Shape == nil || len(want.Shape) == len(t.Shape))
	for i := 0; ok && i < len(want.Shape); i++ {
		ok = want.Shape[i].N <= 0 || int(want.Shape[i].N) == t.Shape[i]
	}
	if !ok {
		return nil, fmt.Errorf("run: input %q is %s, got %s", want.Name, graph.FormatType(want.DType, want.Shape), t.Type())
	}
	return t.ToRowMajor(), nil
}
