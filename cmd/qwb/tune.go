package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/calib/tune"
	"qwb/internal/options"
	"qwb/internal/plain"
	"qwb/reports"
)

// worthSearching is an NSR above which operators in FP32 are worth a thought.
const worthSearching = 0.01

func newTune(e *env) *cobra.Command {
	var o options.Tune
	var list strings.Builder
	for _, m := range tune.Methods {
		fmt.Fprintf(&list, "  %-14s %s\n", m.Name, m.Doc)
	}
	return e.takes(&cobra.Command{
		Use:   "tune [PLAN] [--method auto|NAME[,NAME...]]",
		Short: "Repair accuracy: correct biases, round weights better, equalize channels",
		Example: lines(
			"qwb tune",
			"qwb tune model.plan.json --method bias,gptq --data images/ --budget 10m"),
		ValidArgsFunction: files("plan.json"),
		Long: fmt.Sprintf(`Tune changes weights, biases and scales to reduce the quantization error. It fits on one part of the samples.
It keeps a change only if the error on the other samples (held-out samples) falls by more than its standard
error. The result is a file beside the plan, PLAN.tuned.HASH.safetensors; the model is not changed.

%s
Samples: half of them are held out, by rank of their hashes. With fewer than %d samples the halves take turns, and
with fewer than %d nothing can be confirmed: exit code 3, unless --force is given. Without --data tune uses the data of the plan, at most %d samples
unless --samples is given. With --data it uses all samples.

Error: the NSR (noise-to-signal ratio) of the outputs. For a classifier it is that of the class scores at the input
of Softmax, without their mean.

A time in --budget is converted into work once, and the plan records the work: the same work gives the same
bytes. If tune is interrupted, repeat the same command and it continues from PLAN.tuning. -v lists every
operator. See docs/tuning.md.`, list.String(), analysis.CrossedBelow, analysis.MinHeldOut, qwb.TuneSamples),
		Args: atMost(1, "one plan"),
		RunE: onPlan(func(c *cobra.Command, plan string) error {
			if err := o.Check(); err != nil {
				return err
			}
			if o.Shard != (qwb.Shard{}) {
				return e.tunePart(c.Context(), plan, &o)
			}
			r, _, err := e.project("", plan).Tune(c.Context(), o.TuneOptions)
			if r == nil || err != nil {
				return err
			}
			return e.print(o.JSON, r, nil, func() error { return tuneText(e.stdout, r, e.verbose) })
		}),
	}, &o)
}

// layersText says of each operator what was tried there, what was kept, and why the rest was not; changes are of the NSR at its own output.
func layersText(b *strings.Builder, m *tune.Report) {
	for _, l := range m.Layers {
		if len(l.Tried) == 0 {
			fmt.Fprintf(b, "  %s: %s\n", reports.Shorten(l.Node, 60), l.Why)
		}
		for _, s := range l.Tried {
			fmt.Fprintf(b, "  %s: %s", reports.Shorten(l.Node, 60), s.By)
			if s.Trials > 1 {
				fmt.Fprintf(b, " (best of %d)", s.Trials)
			}
			word := "kept"
			if !s.Kept {
				word = "not kept: " + s.Why
			}
			fmt.Fprintf(b, " %s, %s\n", qwb.WithError(s.Change, s.ChangeError), word)
		}
	}
}

// tuneText writes the outcome of tune for people.
func tuneText(w io.Writer, r *qwb.TuneResult, verbose bool) error {
	var b strings.Builder
	for i, line := range r.Lines() {
		fmt.Fprintln(&b, line)
		if verbose {
			layersText(&b, r.Methods[i])
		}
	}
	if r.Budget > 0 {
		fmt.Fprintf(&b, "work: %.0f forward passes of a budget of %.0f\n", r.Work, r.Budget)
	}
	judges := fmt.Sprintf("%d held-out samples of %d", r.HeldOut, r.Samples)
	if r.Crossed {
		judges = fmt.Sprintf("%d samples in halves that take turns", r.Samples)
	}
	judged := ""
	if r.Judged != qwb.Simulated {
		judged = ", by the integers of profile " + r.Judged
	}
	fmt.Fprintf(&b, "%s of the outputs: %s before, %s after, change %s (%s, %s%s)\n", analysis.ErrorName(r.Mismatches),
		qwb.WithError(r.Before.NSR, r.Before.NSRError),
		qwb.WithError(r.After.NSR, r.After.NSRError), qwb.WithError(r.Change, r.ChangeError), judges, r.HeldOutKind, judged)
	if r.FloatNSR != nil {
		fmt.Fprintf(&b, "%d rewriting steps; the float network stays the same (NSR %.2g)\n", r.Steps, *r.FloatNSR)
	}
	if r.Costs != "" {
		fmt.Fprintf(&b, "it costs %s\n", r.Costs)
	}
	for _, line := range r.OnIntegers.Words {
		fmt.Fprintln(&b, line)
	}
	if r.Overlay == "" {
		fmt.Fprintf(&b, "nothing helped: %s is unchanged\n", r.Plan)
		if r.Before.NSR > worthSearching && !r.Mismatches {
			fmt.Fprintf(&b, "qwb dispatch %s --auto --max-nsr %.2g finds which operators to keep in FP32 for half of the error\n",
				plain.Shell(r.Plan), r.Before.NSR/2)
		}
	} else {
		fmt.Fprintf(&b, "%s: tuned values are in %s\n", r.Plan, r.Overlay)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
