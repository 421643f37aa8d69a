package measure

import (
	"context"
	"maps"
	"slices"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/qdq"
)

// forwarder runs a model, or what a plan makes of it, in one mode.
type forwarder struct {
	graph *graph.Graph // whose inputs and outputs they are
	run   analysis.Forward
	// all is run that returns, by name, what was computed on the way as well: of an integer program its tensors, of a graph its values.
	all  func(ctx context.Context, feeds map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error)
	data func(open.DataOptions) open.DataOptions
	ends []func()
	// integer is what runs the integer program, nil in float.
	integer *program.Executor
}

func (f *forwarder) close() {
	for _, end := range slices.Backward(f.ends) {
		end()
	}
}

// forward prepares the project's plan, or its model where it has none, for runs.
func forward(j *open.Job, o RunOptions) (*forwarder, error) {
	if j.Plan == "" {
		m, err := j.OpenModel(j.Model)
		if err != nil {
			return nil, err
		}
		if m.Lite { // float data meet weights of integers as codes there, not as real numbers
			if err := qdq.CodesOfRows(m.Graph); err != nil {
				m.Close()
				return nil, &fault.FileError{Stage: "run", File: j.Model, Err: err}
			}
		}
		f := &forwarder{graph: m.Graph, data: func(d open.DataOptions) open.DataOptions { return d.Of(m) }, ends: []func(){func() { m.Close() }}}
		return f, f.float(j.Model, o, nil)
	}
	p, err := planning.OpenPlan(j, j.Plan)
	if err != nil {
		return nil, err
	}
	f := &forwarder{graph: p.Reference, data: p.Data, ends: []func(){func() { p.Close() }}}
	switch o.Mode {
	case "", "fp32":
		return f, f.float(j.Plan, o, nil)
	case "sim":
		s, err := p.Simulator()
		if err != nil {
			f.close()
			return nil, err
		}
		return f, f.float(j.Plan, o, s.Hooks(nil))
	}
	profile, err := p.ProfileNamed(o.Profile)
	if err == nil {
		err = f.integers(p, o, profile)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// float makes f run its graph in float, under hooks if there are some.
func (f *forwarder) float(file string, o RunOptions, hooks *exec.Hooks) error {
	s, err := exec.New(f.graph, exec.Options{Threads: o.Threads, Memory: o.Memory})
	if err != nil {
		f.close()
		return samples.BudgetHint(&fault.FileError{Stage: "run", File: file, Err: err})
	}
	r := s.NewRunner()
	f.run = func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
		out, err := r.Run(ctx, feeds, hooks)
		if err != nil {
			return nil, samples.BudgetHint(&fault.FileError{Stage: "run", File: file, Err: err})
		}
		return out, nil
	}
	f.all = func(ctx context.Context, feeds map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
		list, err := r.RunAll(ctx, feeds, hooks, nil)
		if err != nil {
			return nil, samples.BudgetHint(&fault.FileError{Stage: "run", File: file, Err: err})
		}
		arrays := map[string]*tensor.Tensor{}
		for v, t := range list {
			if t != nil {
				arrays[f.graph.Value(graph.ValueID(v)).Name] = t
			}
		}
		return arrays, nil
	}
	return nil
}

// integers makes f run the plan's integer program.
func (f *forwarder) integers(p *planning.Planned, o RunOptions, profile qmath.Profile) error {
	x, err := p.Executor(o.Backend, profile, 1, o.Threads)
	if err != nil {
		return err
	}
	f.ends, f.integer = append(f.ends, func() { x.Close() }), x
	f.run = func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
		return x.Run(ctx, feeds, nil)
	}
	f.all = func(ctx context.Context, feeds map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
		arrays := maps.Clone(feeds)
		_, err := x.Run(ctx, feeds, func(s *lower.Step, _, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
			for k, id := range s.Outputs {
				if id != lower.NoTensor {
					arrays[x.Program().Tensors[id].Name] = out[k].Clone()
				}
			}
			return nil, nil
		})
		return arrays, err
	}
	return nil
}
