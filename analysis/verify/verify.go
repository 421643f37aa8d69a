package verify

import (
	"context"
	"errors"
	"fmt"
	"io"

	"qwb/analysis"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// Config says what Run compares with what.
type Config struct {
	Set     *tqc.Set
	Program *lower.Program
	// Backend is compared with the reference; the reference itself runs alone.
	Backend program.Backend
	// Simulator is compared with the whole program; nil leaves that out.
	Simulator *sim.Simulator
	Threads   int            // that share the work of a step, 0 for one
	Memory    int64          // that the values of the simulation may take, as exec.Options has it
	Progress  func(done int) // steps done, of all samples; may be nil
}

// Run verifies a program on samples. The data set must not be empty. Memory is bounded by the integers of one sample, and what one
// step needs in float64. A cancelled ctx stops between steps.
func Run(ctx context.Context, samples exec.Iterator, cfg Config) (*analysis.Verification, error) {
	c, err := check(cfg.Set, cfg.Program)
	if err != nil {
		return nil, err
	}
	r, err := newRunner(c, cfg)
	if err != nil {
		return nil, err
	}
	defer r.close()
	n := 0
	for ; ; n++ {
		s, err := samples.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = r.sample(ctx, s.Feeds)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
	}
	if n == 0 {
		return nil, errors.New("verify: the data set is empty")
	}
	return r.result(n), nil
}

// runner is the state of one Run.
type runner struct {
	*checked
	cfg       Config
	reference *program.Executor
	backend   *program.Executor // nil: the reference alone
	session   *exec.Runner      // of the whole graph in float, for the simulation
	hooks     *exec.Hooks
	computer  *computer
	digest    *digester
	tallies   [][]*tally                  // by step and output, nil where nothing is compared
	pairs     []pairCount                 // by entry of the program's Safety
	risky     map[lower.StepID][][]pair16 // of steps that were seen
	drift     []driftMeter
	kept      map[lower.StepID][]*tensor.Tensor // of one sample: what the reference computed
	same      bool                              // all steps of the backend gave the bits of the reference in the run at hand
	whole     int                               // runs of the backend without a hook
	done      int
}

func newRunner(c *checked, cfg Config) (r *runner, err error) {
	p := cfg.Program
	r = &runner{checked: c, cfg: cfg, tallies: make([][]*tally, len(p.Steps)), pairs: make([]pairCount, len(p.Safety)),
		risky: map[lower.StepID][][]pair16{}, digest: newDigester(p)}
	if r.reference, err = program.New(p, program.Reference, max(cfg.Threads, 1)); err != nil {
		return nil, err
	}
	if cfg.Backend.Name != "" && cfg.Backend.Name != program.Reference.Name {
		if r.backend, err = program.New(p, cfg.Backend, max(cfg.Threads, 1)); err != nil {
			return nil, err
		}
	}
	if cfg.Simulator != nil {
		session, err := exec.New(p.Graph, exec.Options{Threads: max(cfg.Threads, 1), Memory: cfg.Memory})
		if err != nil {
			return nil, err
		}
		r.session, r.hooks = session.NewRunner(), cfg.Simulator.Hooks(nil)
		r.drift = make([]driftMeter, len(p.Graph.Outputs))
	}
	for i := range p.Steps {
		for k, id := range p.Steps[i].Outputs {
			if id == lower.NoTensor || isSimulated(&p.Steps[i]) {
				r.tallies[i] = append(r.tallies[i], nil)
				continue
			}
			r.tallies[i] = append(r.tallies[i], &tally{layer: c.layers[i], output: k, by: "simulation"})
		}
	}
	return r, nil
}

// close gives back what the backend holds; what fails in it would have failed in a run.
func (r *runner) close() {
	if r.backend != nil {
		_ = r.backend.Close()
	}
}

// sample runs one sample through everything.
func (r *runner) sample(ctx context.Context, feeds map[string]*tensor.Tensor) error {
	r.computer = &computer{ctx: ctx, threads: max(r.cfg.Threads, 1)}
	r.kept = map[lower.StepID][]*tensor.Tensor{}
	outs, err := r.reference.Run(ctx, feeds, r.step)
	if err != nil {
		return err
	}
	if r.backend != nil {
		if err := r.sameBackend(ctx, feeds, outs); err != nil {
			return err
		}
	}
	if r.session == nil {
		return nil
	}
	simulated, err := r.session.Run(ctx, feeds, r.hooks)
	if err != nil {
		return err
	}
	for k := range r.drift {
		r.drift[k].add(simulated[k], outs[k])
	}
	return nil
}

// step is the hook of the reference's run: rule (b), and what is kept for rule (a).
func (r *runner) step(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if err := r.computer.ctx.Err(); err != nil {
		return nil, err
	}
	if op := r.operations[s.ID]; op != nil {
		expected, err := op.exact(r.computer, in)
		if err != nil {
			return nil, err
		}
		for k, e := range expected {
			if e != nil && r.tallies[s.ID][k] != nil {
				r.tallies[s.ID][k].compare(e, out[k])
			}
		}
	}
	r.digest.see(s, out)
	if err := r.countPairs(s, in); err != nil {
		return nil, err
	}
	if r.backend != nil {
		kept := make([]*tensor.Tensor, len(out))
		for k, t := range out {
			if s.Outputs[k] != lower.NoTensor {
				kept[k] = t.Clone()
			}
		}
		r.kept[s.ID] = kept
	}
	if r.done++; r.cfg.Progress != nil {
		r.cfg.Progress(r.done)
	}
	return nil, nil
}
