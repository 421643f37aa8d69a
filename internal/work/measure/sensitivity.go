package measure

import (
	"context"
	"errors"
	"slices"

	"qwb/analysis"
	"qwb/calib/data"
	"qwb/graph/exec"
	"qwb/internal/shard"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/quantizer/sim"
)

// InFormat is a plan with every operator that can in one format.
type InFormat struct {
	Format    string
	Nodes     []string // that have it
	Simulator *sim.Simulator
}

// sensitivities estimates the rows of layerwise analysis from gradients.
type sensitivities struct {
	*open.Job
	planned *planning.Planned
	set     *data.Set
	o       AnalyzeOptions
}

// run estimates for the plan, whose simulator is q, and in formats, all from the same backward pass of each sample. In a part of a run the
// error is shard.ErrDone.
func (s *sensitivities) run(ctx context.Context, q *sim.Simulator, more More) (*analysis.SensitivityTable, error) {
	var formats []InFormat
	var err error
	if len(s.o.Formats) > 0 && more.Formats != nil {
		if formats, err = more.Formats(ctx, s.planned, q, s.o); err != nil {
			return nil, err
		}
	}
	elapsed := s.Stopwatch()
	list := []*sim.Simulator{q}
	for _, f := range formats {
		list = append(list, f.Simulator)
	}
	var rows [][]analysis.Sensitivity
	err = s.pass(ctx, "sensitivity", false, func(it exec.Iterator, cfg analysis.Config) (err error) {
		rows, err = analysis.Sensitivities(ctx, s.planned.Reference, list, it, cfg)
		return err
	})
	if err != nil {
		return nil, err
	}
	t := &analysis.SensitivityTable{Seconds: elapsed()}
	for k, f := range formats {
		in := analysis.SensitivityInFormat{Format: f.Format}
		if s.o.Layerwise {
			if in.Layerwise, err = s.layerwise(ctx, f); err != nil {
				return nil, err
			}
		}
		if rows != nil {
			in.Rows = slices.DeleteFunc(rows[k+1], func(r analysis.Sensitivity) bool { return !slices.Contains(f.Nodes, r.Node) })
		}
		t.Formats = append(t.Formats, in)
	}
	if rows != nil {
		t.Rows = rows[0]
	}
	return t, shard.In(ctx).Done()
}

// layerwise measures each operator alone in a format.
func (s *sensitivities) layerwise(ctx context.Context, f InFormat) (rows []analysis.LayerError, err error) {
	err = s.pass(ctx, "layerwise, "+f.Format, true, func(it exec.Iterator, cfg analysis.Config) error {
		cfg.Layerwise, cfg.Own = true, func() exec.Iterator { return it }
		r, err := analysis.Analyze(ctx, s.planned.Reference, f.Simulator, s.set.Iterator(), cfg)
		if err == nil {
			rows = r.Layerwise
		}
		return err
	})
	return rows, err
}

// pass does what goes through the samples, of which a part of a run has some: what it needs of the others is no error yet.
func (s *sensitivities) pass(ctx context.Context, stage string, ranges bool, do func(exec.Iterator, analysis.Config) error) error {
	cfg := analysis.Config{Stage: stage, Threads: s.o.Threads, Memory: s.o.Memory, Parts: s.o.Parts}
	var finish func()
	cfg.Progress, finish = s.Progress(stage, s.set.Len())
	defer finish()
	it, deal := samples.Dealt(ctx, s.set, ranges)
	cfg.Deal = deal
	if err := do(it, cfg); !errors.Is(err, shard.ErrDone) {
		return err
	}
	return nil
}
