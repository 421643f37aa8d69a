package measure

import (
	"context"

	"qwb/analysis"
	"qwb/calib/data"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
)

// trio runs a plan's float network, its simulation and its integers on samples.
type trio struct {
	plan     *planning.Planned
	set      *data.Set
	judge    *analysis.Judge
	runner   *exec.Runner
	hooks    *exec.Hooks
	integers *forwarder
	profile  string // empty: no integers
}

func (x *trio) close() {
	x.integers.close()
	x.plan.Close()
}

// newTrio owns the plan, which is closed after an error too.
func newTrio(ctx context.Context, j *open.Job, p *planning.Planned, o AnswersOptions) (*trio, error) {
	x := &trio{plan: p, integers: &forwarder{graph: p.Reference}}
	if err := x.open(ctx, j, o); err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

func (x *trio) open(ctx context.Context, j *open.Job, o AnswersOptions) (err error) {
	p := x.plan
	if x.set, _, err = j.OpenData(p.Graph, p.Data(o.Data)); err != nil {
		return err
	}
	list, err := samples.Slices(j, o.Data.Slices, p.Reference)
	if err != nil {
		return err
	}
	x.judge = analysis.NewJudge(p.Reference, list...)
	session, err := exec.New(x.judge.Runs(), exec.Options{Context: ctx, Threads: o.Threads, Memory: o.Data.Budget})
	if err != nil {
		return samples.BudgetHint(p.Named("run", err))
	}
	x.runner = session.NewRunner()
	simulator, err := p.Simulator()
	if err != nil {
		return err
	}
	x.hooks = simulator.Hooks(nil)
	profile, err := p.ProfileNamed(o.Profile)
	if err == nil {
		err = x.integers.integers(p, RunOptions{Threads: o.Threads}, profile)
	}
	if err != nil {
		if o.Profile != "" {
			return err
		}
		j.Note("the integers are not run: %v", err)
		return nil
	}
	x.profile = profile.Name
	return nil
}

// run returns the outputs of each run, nil of integers that are not run, and what the judge reads of the first two.
func (x *trio) run(ctx context.Context, s *exec.Sample) (outs [inAll][]*tensor.Tensor, float, sim *analysis.Verdict, err error) {
	float, sim = &analysis.Verdict{}, &analysis.Verdict{}
	for k, v := range []*analysis.Verdict{float, sim} {
		out, err := x.runner.Run(ctx, s.Feeds, x.judge.Watch([]*exec.Hooks{nil, x.hooks}[k], v))
		if err != nil {
			return outs, float, sim, samples.BudgetHint(err)
		}
		for i := range out { // the next run writes over them
			out[i] = out[i].Clone()
		}
		v.Outputs(out)
		x.judge.Hide(v, s)
		outs[k] = v.Own()
	}
	if x.integers.run != nil {
		outs[inInt8], err = x.integers.run(ctx, s.Feeds)
	}
	return outs, float, sim, err
}
