package workbench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"qwb"
	"qwb/analysis"
	"qwb/internal/options"
	"qwb/quantizer/tqc"
)

type analyzeJob struct{ options.Analyze }

// Where nothing is asked for, which of weights and activations the error comes from is measured too.
func (o *analyzeJob) line(b *Bench, t options.Table) (string, error) {
	if !o.Graphwise && !o.Layerwise && !o.Statistical && !o.Sensitivity && !o.Explain {
		o.Split = true
	}
	return b.planLine("analyze", o.Check, t)
}

func (o *analyzeJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*analysis.Report, []tqc.Warning, error) {
	b.bounded(&o.Data, &o.Threads, &o.Memory)
	r, w, err := p.Analyze(ctx, o.AnalyzeOptions)
	if err == nil {
		if err := b.keepAnalysis(p.Plan, r); err != nil { // nothing is lost without it
			p.Events.Note(fmt.Sprintf("the analysis could not be kept beside the plan: %v", err))
		}
	}
	return r, w, err
}

type dispatchJob struct{ options.Dispatch }

func (o *dispatchJob) line(b *Bench, t options.Table) (string, error) {
	return b.planLine("dispatch", o.Check, t)
}

func (o *dispatchJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*qwb.DispatchResult, []tqc.Warning, error) {
	b.bounded(&o.Data, &o.Threads, &o.Memory)
	b.remember(&o.Data)
	return p.Dispatch(ctx, o.DispatchOptions)
}

type tuneJob struct{ options.Tune }

func (o *tuneJob) line(b *Bench, t options.Table) (string, error) {
	return b.planLine("tune", o.Check, t)
}

func (o *tuneJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*qwb.TuneResult, []tqc.Warning, error) {
	b.bounded(&o.Data, &o.Threads, &o.Memory)
	return p.Tune(ctx, o.TuneOptions)
}

type evalJob struct{ options.Eval }

// A page wants the plan, which by the command line is asked for by a mode.
func (o *evalJob) line(b *Bench, t options.Table) (string, error) {
	o.Mode = strings.TrimSpace(o.Mode)
	if o.Mode == "" {
		o.Mode = qwb.ModeSim
	}
	if !slices.Contains([]string{qwb.ModeFloat, qwb.ModeSim, qwb.ModeInt8}, o.Mode) {
		return "", qwb.Usagef("unknown mode %q: one of %s, %s, %s", o.Mode, qwb.ModeFloat, qwb.ModeSim, qwb.ModeInt8)
	}
	return b.planLine("eval", nil, t)
}

func (o *evalJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*analysis.Accuracy, []tqc.Warning, error) {
	b.bounded(&o.Data, &o.Threads, nil)
	b.remember(&o.Data)
	return p.Eval(ctx, o.EvalOptions)
}

type verifyJob struct{ options.Verify }

func (o *verifyJob) line(b *Bench, t options.Table) (string, error) {
	return b.planLine("verify", nil, t)
}

func (o *verifyJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*analysis.Verification, []tqc.Warning, error) {
	b.bounded(&o.Data, &o.Threads, nil)
	r, w, err := p.Verify(ctx, o.VerifyOptions)
	if err == nil && !r.Holds() {
		err = qwb.Diverged("verify", r, "")
	}
	return r, w, err
}

type compareJob struct{ options.Compare }

func (o *compareJob) Table(c *qwb.Catalog) options.Table {
	return append(o.Compare.Table(c), argument("runs", &o.Runs))
}

func (o *compareJob) line(b *Bench, t options.Table) (string, error) {
	if len(o.Runs) < 2 {
		return "", qwb.Usagef("compare takes two or more runs: plans, models or recorded outputs")
	}
	words := []string{"compare"}
	for _, name := range o.Runs {
		words = append(words, fileWord(name))
	}
	return command(append(words, t.Words()...)...), o.Check(&b.o.Project.Catalog)
}

func (o *compareJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*qwb.CompareResult, []tqc.Warning, error) {
	p.Plan = ""
	if isPlan(o.Runs[0]) {
		p.Plan = o.Runs[0]
	}
	b.bounded(&o.Data, &o.Threads, nil)
	b.remember(&o.Data)
	return p.Compare(ctx, o.CompareOptions)
}
