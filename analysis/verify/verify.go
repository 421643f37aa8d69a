package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"qwb/analysis"
	"qwb/graph/exec"
	"qwb/internal/shard"
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
	Sums      *Sums          // gets hashes of what the reference computes, for Twin; may be nil
	Deal      shard.Deal     // of a run in parts, what of the samples they are
}

// Run verifies a program on samples. The data set must not be empty. Samples pass through the program together, step by step, so that what
// is prepared of a step's weights is made once and given back behind it; as many as a bounded memory holds (see next), one
// at least. Beside that, every thread needs what one step takes in float64. A cancelled ctx stops between steps. The result does not depend
// on the number of threads. A NaN that would become a code ends it: the verdict says so.
func Run(ctx context.Context, samples exec.Iterator, cfg Config) (*analysis.Verification, error) {
	c, err := check(cfg.Set, cfg.Program, cfg.Threads)
	if err != nil {
		return nil, err
	}
	r, err := newRunner(c, cfg)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if cfg.Deal.IsMerge() {
		return r.gather()
	}
	n := 0
	for {
		list, err := r.next(ctx, samples)
		if err == nil {
			err = r.inspect(ctx, list)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if nan := (*tqc.NaN)(nil); errors.As(err, &nan) && !cfg.Deal.IsPart() { // which has no code that could be compared
			v := r.result(n + len(list))
			v.Verdict, v.Suspect = analysis.VerdictNotFinite, true
			return v, nil
		}
		if err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
		if n += len(list); len(list) == 0 {
			break
		}
	}
	return r.verdict(n)
}

// verdict is what so many samples showed; nothing in a part of a run.
func (r *runner) verdict(samples int) (*analysis.Verification, error) {
	if samples == 0 && r.cfg.Deal.Len == 0 {
		return nil, errors.New("verify: the data set is empty")
	}
	run := r.cfg.Deal.Run
	placed, err := shard.Unit(run, "placement", run.Mine(0), func() (*analysis.Placed, error) {
		if r.backend == nil {
			return nil, nil
		}
		return Placed(r.backend.Placement()), nil
	})
	if err = cmp.Or(err, run.Done()); err != nil {
		return nil, err
	}
	v := r.result(samples)
	v.Suspect, v.Placed = r.suspect, placed
	return v, nil
}

// runner is the state of one Run.
type runner struct {
	*checked
	cfg     Config
	threads int
	backend *program.Executor // nil: the reference alone
	session *exec.Runner      // of the whole graph in float, for the simulation
	hooks   *exec.Hooks
	digest  *digester
	counted map[lower.StepID]int // the entry of the program's Safety whose pairs are counted
	tallies [][]*tally           // by step and output, nil where nothing is compared
	pairs   []pairCount          // by entry of the program's Safety
	drift   []driftMeter
	taken   float64 // how many times what samples were thought to take they took; 0: none has been seen
	room    int64   // what the tensors of samples may take that pass together; 0: none has been seen
	whole   int     // runs of the backend without a hook
	suspect bool    // an output of the program is not finite, or an infinite number was quantized
	mu      sync.Mutex
	done    int
	// concluded is how many samples of a part of a run are kept.
	concluded int
}

func newRunner(c *checked, cfg Config) (r *runner, err error) {
	p := cfg.Program
	r = &runner{checked: c, cfg: cfg, threads: max(cfg.Threads, 1), digest: newDigester(p), counted: map[lower.StepID]int{},
		tallies: c.newTallies(), pairs: make([]pairCount, len(p.Safety))}
	for i := range p.Safety {
		if p.Safety[i].Pairs > 0 {
			r.counted[p.Safety[i].Step] = i
		}
	}
	if r.compares() && !cfg.Deal.IsMerge() {
		if r.backend, err = program.New(p, cfg.Backend, r.threads); err != nil {
			return nil, err
		}
	}
	if cfg.Simulator != nil {
		session, err := exec.New(p.Graph, exec.Options{Threads: r.threads, Memory: cfg.Memory})
		if err != nil {
			return nil, err
		}
		r.session, r.hooks = session.NewRunner(), cfg.Simulator.Hooks(nil)
		r.drift = make([]driftMeter, len(p.Graph.Outputs))
	}
	return r, nil
}

// compares reports whether a backend is held against the reference.
func (r *runner) compares() bool {
	return r.cfg.Backend.Name != "" && r.cfg.Backend.Name != program.Reference.Name
}

// newTallies makes the counters of one sample, or of all.
func (c *checked) newTallies() [][]*tally {
	list := make([][]*tally, len(c.program.Steps))
	for i := range list {
		s := &c.program.Steps[i]
		for k, id := range s.Outputs {
			if id == lower.NoTensor || isSimulated(s) {
				list[i] = append(list[i], nil)
				continue
			}
			list[i] = append(list[i], &tally{layer: c.layers[i], output: k, by: "simulation"})
		}
	}
	return list
}

// close gives back what the backend holds; what fails in it would have failed in a run.
func (r *runner) close() {
	if r.backend != nil {
		_ = r.backend.Close()
	}
}

// tick counts a step of a sample.
func (r *runner) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done++; r.cfg.Progress != nil {
		r.cfg.Progress(r.done)
	}
}
