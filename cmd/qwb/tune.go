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
		Long: fmt.Sprintf(`Tune fits on one part of the samples and keeps only what lowers the error on the others, by more than its error bar. What it
changes goes to a file beside the plan, PLAN.tuned.HASH.safetensors; the model stays as it is.

%s
About half of the samples, by a bit of their hashes, are held out. With fewer than %d of them nothing is kept but with --force. At most %d
samples of the plan's own data are read unless --samples says otherwise; with --data all of that is. The error is the centred NSR of the
outputs: for classes the noise-to-signal ratio of what Softmax reads, the mean over the classes taken off. A time as --budget is turned into work
once, and the plan records the work: the same work gives the same bytes. What was interrupted goes on from PLAN.tuning when the same command runs
again. With -v every operator is listed. See docs/tuning.md.`, list.String(), analysis.MinHeldOut, qwb.TuneSamples),
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
				return usagef("-o is where --shard writes")
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
	f.addRun(c)
	f.addMemory(c)
	f.addJSON(c)
	c.Flags().StringSliceVar(&methods, "method", nil, "auto, or names separated by commas")
	c.Flags().StringVar(&o.Budget, "budget", "", "how much to do: a time (10m) or work (5000forwards: so many samples through the whole graph)")
	c.Flags().StringVar(&o.Gram, "gram", "", "fit on these Gram statistics instead of data (--shard 1/1 or qwb merge writes them); held-out samples come from data")
	addShard(c, &shard, "write the Gram statistics of part I of N of the data to -o PART and tune nothing; 1/1 is all of it")
	f.addOut(c, "file of Gram statistics to write, with --shard")
	c.Flags().BoolVar(&o.Force, "force", false, "keep what could not be confirmed on held-out samples")
	c.Flags().StringVar(&o.Profile, "profile", "", "arithmetic profile whose integers are to get better (default: the platform's where its integers differ from the simulation): "+profiles())
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
	fmt.Fprintf(&b, "centred output NSR: %s before, %s after, change %s (%d held-out samples of %d, %s%s)\n", qwb.WithError(r.Before.NSR, r.Before.NSRError),
		qwb.WithError(r.After.NSR, r.After.NSRError), qwb.WithError(r.Change, r.ChangeError), r.HeldOut, r.Samples, r.HeldOutKind, judged)
	if r.FloatNSR != nil {
		fmt.Fprintf(&b, "%d rewriting steps; the float network stays the same (NSR %.2g)\n", r.Steps, *r.FloatNSR)
	}
	if r.Overlay == "" {
		fmt.Fprintf(&b, "nothing helped: %s is unchanged\n", r.Plan)
	} else {
		fmt.Fprintf(&b, "%s: tuned values are in %s\n", r.Plan, r.Overlay)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
