// Package measure runs networks and says what came out: outputs, right answers, the error of a simulation, what a decision would change.
package measure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/analysis/verify"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/shard"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/kernels/qmath"
	"qwb/quantizer/program"
	"qwb/quantizer/tqc"
)

// EvalOptions are the arguments of eval.
type EvalOptions struct {
	Mode    string // fp32, sim or int8
	Backend string // of mode int8
	Profile string // of mode int8; empty: the platform's
	Data    open.DataOptions
	Threads int
	Batch   int // samples in one run of the integers
}

func Eval(ctx context.Context, j *open.Job, o EvalOptions) (*analysis.Accuracy, error) {
	if j.Plan == "" {
		m, err := j.OpenModel(j.Model)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		set, pre, err := j.OpenData(m.Graph, o.Data.Of(m))
		if err != nil {
			return nil, err
		}
		doctor := data.NewDoctor(data.SpecOf(m.Graph), m.Loaded, &pre)
		r, err := accuracy(ctx, j, m, m.Graph, set, doctor.Observe, o, analysis.AccuracyConfig{Threads: o.Threads, Memory: o.Data.Budget})
		if !shard.In(ctx).IsMerge() { // which has seen no sample
			for _, w := range doctor.Warnings() {
				j.WarnAbout(w)
			}
		}
		checkOffset(j, r, o.Data.LabelOffset)
		checkBetter(j, r)
		return r, err
	}
	p, err := planning.OpenPlan(j, j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	set, _, err := j.OpenData(p.Graph, p.Data(o.Data))
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
		running, err = integerForwards(p, &cfg, o)
		for _, x := range running {
			defer x.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	if cfg.Parts, err = samples.Slices(j, o.Data.Slices, p.Reference); err != nil {
		return nil, err
	}
	var hashes [][32]byte
	r, err := accuracy(ctx, j, p.Model, p.Reference, set, func(s *exec.Sample) { hashes = append(hashes, s.Hash) }, o, cfg)
	if err != nil && !errors.Is(err, shard.ErrDone) {
		return nil, err
	}
	hashes, hashErr := shard.All(shard.In(ctx), "hashes", hashes)
	if hashErr != nil {
		return nil, hashErr
	}
	if stats, err := planning.PlanStats(j, p); err == nil {
		for _, w := range data.Overlap(planning.SampleHashes(stats), hashes) {
			j.WarnAbout(w)
		}
	}
	if placedErr := placed(ctx, r, running); err != nil || placedErr != nil {
		return nil, cmp.Or(placedErr, err)
	}
	checkOffset(j, r, o.Data.LabelOffset)
	checkBetter(j, r)
	return r, nil
}

// placed says where the steps of the integers ran. In a part of a run r is nil; the first one says it for all.
func placed(ctx context.Context, r *analysis.Accuracy, running []*program.Executor) (err error) {
	if len(running) == 0 {
		return nil
	}
	run := shard.In(ctx)
	p, err := shard.Unit(run, "placement", run.Mine(0), func() (*analysis.Placed, error) {
		return verify.Placed(running[0].Placement()), nil
	})
	if r != nil {
		r.Placed = p
	}
	return err
}

// integerForwards makes the program under the profile asked for and the one to hold it against: of a profile that saturates the same
// one without that, of another one that is not the platform's own the platform's. It returns what is to be closed at the end.
func integerForwards(p *planning.Planned, cfg *analysis.AccuracyConfig, o EvalOptions) (running []*program.Executor, err error) {
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
func accuracy(ctx context.Context, j *open.Job, m *open.Model, g *graph.Graph, set *data.Set, see func(*exec.Sample), o EvalOptions,
	cfg analysis.AccuracyConfig) (*analysis.Accuracy, error) {
	scorings, closing, err := j.Scorings(ctx, g, set, o.Data)
	defer closing()
	if err != nil {
		return nil, err
	}
	if cfg.Simulator == nil && len(scorings) == 0 {
		return nil, noLabels(set)
	}
	for _, s := range scorings {
		if s.Float && cfg.Simulator == nil {
			return nil, fmt.Errorf("%w, by which to judge the float network; without labels a plan can be compared with it by --mode sim or int8",
				noLabels(set))
		}
	}
	if named := len(o.Data.Metric.Names)+len(o.Data.Metric.Outputs) > 0; named || len(scorings) == 0 || scorings[0].Float ||
		scorings[0].Name != "top1" {
		cfg.Metrics = append([]task.Scoring{}, scorings...)
	}
	if set.Steps() && o.Batch > 1 {
		return nil, fault.Usagef("--batch %d: steps of a sequence run one after the other", o.Batch)
	}
	tick, finish := j.Progress("eval", set.Len())
	defer finish()
	cfg.Progress = tick
	elapsed := j.Stopwatch()
	it, deal := samples.Dealt(ctx, set, false)
	cfg.Deal = deal
	r, err := analysis.Eval(ctx, g, &samples.Watched{Iterator: it, See: see}, cfg)
	if err != nil {
		return nil, samples.BudgetHint(m.Named("eval", err))
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
func checkOffset(j *open.Job, r *analysis.Accuracy, offset int) {
	if r == nil || r.Counts == nil {
		return
	}
	if by, right, ok := r.Shift(); ok {
		j.WarnAbout(tqc.Warning{Node: "labels", Value: float64(offset + by),
			Text: fmt.Sprintf("only %d of %d predictions are correct; with --label-offset %d it would be %d", r.Top1, r.N, offset+by, right)})
	}
}

// beyondChance is how many standard errors a difference has to have before a command that was not asked for it speaks of it.
const beyondChance = 3

// checkBetter says if the quantized network is right more often than the float one by more than chance: then what is called float is not
// what was quantized. r may be nil, or without labels.
func checkBetter(j *open.Job, r *analysis.Accuracy) {
	if r == nil || r.Change == nil || r.DropError <= 0 || -r.Drop < beyondChance*r.DropError {
		return
	}
	j.WarnAbout(tqc.Warning{Node: "float", Value: -r.Drop,
		Text: fmt.Sprintf("the quantized network is right more often than the float one, by %.2f ± %.2f points, "+
			"which is no chance: the float model, or its preprocessing, is not the one that was quantized", -r.Drop, r.DropError)})
}

// EvalFigures are what is kept of an outcome: keys of its JSON, see journal.Picked.
var EvalFigures = func(r *analysis.Accuracy) json.RawMessage {
	b := journal.Picked[analysis.Accuracy]("mode backend profile n top1 top5 float_top1 drop drop_error flips nsr nsr_error " +
		"centred.nsr=centred_nsr centred.nsr_error=centred_nsr_error")(r)
	if r.Counts != nil && len(b) > 2 {
		if by, right, ok := r.Shift(); ok {
			return fmt.Appendf(b[:len(b)-1], `,"label_shift":%d,"label_shift_right":%d}`, by, right)
		}
	}
	if r.Counts != nil || len(r.Scores) == 0 || len(b) < 3 {
		return b
	}
	s := &r.Scores[0] // of what is no classifier: the first metric asked for
	more := journal.Object(struct {
		Metric    string   `json:"metric"`
		Percent   bool     `json:"percent"`
		Value     *float64 `json:"value"`
		Float     *float64 `json:"float"`
		Drop      *float64 `json:"drop"`
		DropError *float64 `json:"drop_error"`
	}{s.Name, s.Percent, s.Value, s.Float, s.Drop, s.DropError})
	return json.RawMessage(string(b[:len(b)-1]) + "," + string(more[1:]))
}
