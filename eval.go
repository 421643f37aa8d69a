package qwb

import (
	"context"
	"errors"
	"fmt"

	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/analysis/verify"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/program"
	"qwb/quantizer/tqc"
)

// EvalOptions are the arguments of eval.
type EvalOptions struct {
	Mode    string // fp32, sim or int8
	Backend string // of mode int8
	Profile string // of mode int8; empty: the platform's
	Data    DataOptions
	Threads int
	Batch   int // samples in one run of the integers
}

func (j *job) eval(ctx context.Context, o EvalOptions) (*analysis.Accuracy, error) {
	if j.Plan == "" {
		m, err := j.openModel(j.Model)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		set, pre, err := j.openData(m.Graph, o.Data.Of(m))
		if err != nil {
			return nil, err
		}
		doctor := data.NewDoctor(data.SpecOf(m.Graph), m.Loaded, &pre)
		r, err := j.accuracy(ctx, m, m.Graph, set, doctor.Observe, o, analysis.AccuracyConfig{Threads: o.Threads, Memory: o.Data.Budget})
		for _, w := range doctor.Warnings() {
			j.warnAbout(w)
		}
		j.checkOffset(r, o.Data.LabelOffset)
		j.checkBetter(r)
		return r, err
	}
	p, err := j.openPlan(j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	set, _, err := j.openData(p.Graph, p.Data(o.Data))
	if err != nil {
		return nil, err
	}
	cfg := analysis.AccuracyConfig{Threads: o.Threads, Memory: o.Data.Budget}
	if o.Mode != "fp32" {
		if cfg.Simulator, err = p.Simulator(); err != nil {
			return nil, err
		}
	}
	var running []*program.Executor // that of the profile asked for first
	if o.Mode == "int8" {
		running, err = p.integerForwards(&cfg, o)
		for _, x := range running {
			defer x.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	if cfg.Parts, err = j.parts(o.Data.Slices, p.Reference); err != nil {
		return nil, err
	}
	var hashes [][32]byte
	r, err := j.accuracy(ctx, p.Model, p.Reference, set, func(s *exec.Sample) { hashes = append(hashes, s.Hash) }, o, cfg)
	if err != nil {
		return nil, err
	}
	if len(running) > 0 {
		r.Placed = verify.Placed(running[0].Placement())
	}
	j.checkOffset(r, o.Data.LabelOffset)
	j.checkBetter(r)
	if stats, err := j.planStats(p); err == nil {
		for _, w := range data.Overlap(sampleHashes(stats), hashes) {
			j.warnAbout(w)
		}
	}
	return r, nil
}

// integerForwards makes the program under the profile asked for and the one to hold it against: of a profile that saturates the same
// one without that, of another one that is not the platform's own the platform's. It returns what is to be closed at the end.
func (p *Planned) integerForwards(cfg *analysis.AccuracyConfig, o EvalOptions) (running []*program.Executor, err error) {
	forward := func(profile qmath.Profile) (analysis.Forward, error) {
		x, err := p.Executor(o.Backend, profile, o.Batch, o.Threads)
		if err != nil {
			return nil, err
		}
		running = append(running, x)
		return func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
			return x.Run(ctx, feeds, nil)
		}, nil
	}
	own, err := p.ProfileNamed("")
	if err != nil {
		return nil, err
	}
	asked, err := p.ProfileNamed(o.Profile)
	if err != nil {
		return nil, err
	}
	cfg.Backend, cfg.Profile, cfg.Batch = o.Backend, asked.Name, o.Batch
	if cfg.Integer, err = forward(asked); err != nil {
		return running, err
	}
	if asked.Saturates {
		own = asked.Unsaturated()
	}
	if own.Name != asked.Name {
		cfg.BaseProfile = own.Name
		cfg.Base, err = forward(own)
	}
	return running, err
}

// accuracy evaluates a data set on a graph of the model, in float or by it. see is shown every sample.
func (j *job) accuracy(ctx context.Context, m *Model, g *graph.Graph, set *data.Set, see func(*exec.Sample), o EvalOptions, cfg analysis.AccuracyConfig) (*analysis.Accuracy, error) {
	scorings, closing, err := j.scorings(ctx, g, set, o.Data)
	defer closing()
	if err != nil {
		return nil, err
	}
	if cfg.Simulator == nil && len(scorings) == 0 {
		return nil, noLabels(set)
	}
	for _, s := range scorings {
		if s.Float && cfg.Simulator == nil {
			return nil, fmt.Errorf("%w, by which to judge the float network; without labels a plan can be compared with it by --mode sim or int8", noLabels(set))
		}
	}
	if named := len(o.Data.Metric.Names)+len(o.Data.Metric.Outputs) > 0; named || len(scorings) == 0 || scorings[0].Float || scorings[0].Name != "top1" {
		cfg.Metrics = append([]task.Scoring{}, scorings...)
	}
	tick, finish := j.progress("eval", set.Len())
	defer finish()
	cfg.Progress = tick
	elapsed := j.stopwatch()
	r, err := analysis.Eval(ctx, g, &watched{set.Iterator(), see}, cfg)
	if err != nil {
		return nil, budgetHint(m.Named("eval", err))
	}
	r.Seconds = elapsed()
	return r, nil
}

// noLabels is the error of data without labels.
func noLabels(set *data.Set) error {
	if err := set.RequireLabels(); err != nil {
		return err
	}
	return errors.New("there is no file of labels")
}

// checkOffset says if another offset between labels and classes would make far more answers right; r may be nil, or of no classifier.
func (j *job) checkOffset(r *analysis.Accuracy, offset int) {
	if r == nil || r.Counts == nil {
		return
	}
	if by, right, ok := r.Shift(); ok {
		j.warnAbout(tqc.Warning{Node: "labels", Value: float64(offset + by), Text: fmt.Sprintf("only %d of %d predictions are correct; with --label-offset %d it would be %d", r.Top1, r.N, offset+by, right)})
	}
}

// beyondChance is how many standard errors a difference has to have before a command that was not asked for it speaks of it.
const beyondChance = 3

// checkBetter says if the quantized network is right more often than the float one by more than chance: then what is called float is not
// what was quantized. r may be nil, or without labels.
func (j *job) checkBetter(r *analysis.Accuracy) {
	if r == nil || r.Change == nil || r.DropError <= 0 || -r.Drop < beyondChance*r.DropError {
		return
	}
	j.warnAbout(tqc.Warning{Node: "float", Value: -r.Drop, Text: fmt.Sprintf("the quantized network is right more often than the float one, by %.2f ± %.2f points, "+
		"which is no chance: the float model, or its preprocessing, is not the one that was quantized", -r.Drop, r.DropError)})
}
