package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/calib/tune"
	"qwb/reports"
)

func newTune(e *env) *cobra.Command {
	var f flags
	var o qwb.TuneOptions
	var methods []string
	var shard string
	var list strings.Builder
	for _, m := range tune.Methods {
		fmt.Fprintf(&list, "  %-14s %s\n", m.Name, m.Doc)
	}
	c := &cobra.Command{
		Use:   "tune [PLAN] --method auto|NAME[,NAME...]",
		Short: "Repair accuracy: correct biases, round weights better, equalize channels",
		Long: fmt.Sprintf(`Tune changes weights, biases and scales to reduce the quantization error. It fits on one part of the samples.
It keeps a change only if the error on the other samples (held-out samples) falls by more than its standard
error. The result is a file beside the plan, PLAN.tuned.HASH.safetensors; the model is not changed.

%s
Samples: about half of them are held out, selected by a bit of their hash. With fewer than %d held-out samples
nothing is kept unless --force is given. Without --data tune uses the data of the plan, at most %d samples
unless --samples is given. With --data it uses all samples.

Error: the NSR (noise-to-signal ratio) of the outputs. For a classifier it is that of the class scores at the input
of Softmax, without their mean.

A time in --budget is converted into work once, and the plan records the work: the same work gives the same
bytes. If tune is interrupted, repeat the same command and it continues from PLAN.tuning. -v lists every
operator. See docs/tuning.md.`, list.String(), analysis.MinHeldOut, qwb.TuneSamples),
		Args: atMost(1, "one plan"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			plan, err := findPlan(args)
			if err != nil {
				return err
			}
			o.Methods, o.Data, o.Threads = methods, f.dataOptions(), f.workers()
			o.Memory, _ = f.memory()
			if o.Shard, err = qwb.ParseShard(shard); err != nil {
				return err
			}
			if shard != "" {
				return e.tunePart(c.Context(), plan, &f, o)
			}
			if f.out != "" {
				return usagef("-o needs --shard; without it tune writes its file beside the plan")
			}
			r, _, err := e.project("", plan).Tune(c.Context(), o)
			if r == nil || err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			return tuneText(e.stdout, r, e.verbose)
		},
	}
	f.addData(c)
	f.addSlices(c)
	f.addRun(c)
	f.addMemory(c)
	f.addJSON(c)
	c.Flags().StringSliceVar(&methods, "method", nil, "auto, or method names separated by commas")
	c.Flags().StringVar(&o.Budget, "budget", "", "limit: a time (10m) or an amount of work (5000forwards: forward passes of one sample)")
	c.Flags().StringVar(&o.Gram, "gram", "", "`FILE` of Gram statistics (sums of products of inputs) to fit on instead of data; --shard or qwb merge writes it; held-out samples still come from data")
	addShard(c, &shard, "part of the data, `I/N`: write the Gram statistics of part I of N to -o PART and tune nothing; 1/1 is all data")
	f.addOut(c, "file for the Gram statistics of --shard")
	c.Flags().StringVar(&o.Backend, "backend", qwb.FloatCPU, "what makes the Gram statistics of --shard: "+floatBackends)
	c.Flags().BoolVar(&o.Force, "force", false, "also keep changes that held-out samples do not confirm")
	c.Flags().BoolVar(&o.AllowFP32, "allow-fp32", false, "also try rewriting steps after which more of the network runs in FP32 than before")
	c.Flags().StringVar(&o.Profile, "profile", "", "arithmetic profile to reduce the error for (default: the target's, if its integers differ from the simulation): "+profiles())
	return c
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
	judged := ""
	if r.Judged != qwb.Simulated {
		judged = ", by the integers of profile " + r.Judged
	}
	fmt.Fprintf(&b, "%s of the outputs: %s before, %s after, change %s (%d held-out samples of %d, %s%s)\n", analysis.ErrorName(r.Mismatches), qwb.WithError(r.Before.NSR, r.Before.NSRError),
		qwb.WithError(r.After.NSR, r.After.NSRError), qwb.WithError(r.Change, r.ChangeError), r.HeldOut, r.Samples, r.HeldOutKind, judged)
	if r.FloatNSR != nil {
		fmt.Fprintf(&b, "%d rewriting steps; the float network stays the same (NSR %.2g)\n", r.Steps, *r.FloatNSR)
	}
	for _, line := range r.OnIntegers.Words {
		fmt.Fprintln(&b, line)
	}
	if r.Overlay == "" {
		fmt.Fprintf(&b, "nothing helped: %s is unchanged\n", r.Plan)
	} else {
		fmt.Fprintf(&b, "%s: tuned values are in %s\n", r.Plan, r.Overlay)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
