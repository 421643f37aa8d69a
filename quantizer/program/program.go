package program

import (
	"context"
	"fmt"
	"io"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
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
}

// New prepares p for execution by a backend with up to threads goroutines; 0 means one. Results do not depend on the number.
func New(p *lower.Program, b Backend, threads int) (*Executor, error) {
	e, err := b.New(p, max(threads, 1))
	if err != nil {
		return nil, err
	}
	return &Executor{program: p, engine: e}, nil
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
	return e.engine.Run(ctx, list, hook)
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
