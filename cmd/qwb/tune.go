package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/calib/tune"
)

func newTune(e *env) *cobra.Command {
	var f flags
	var o qwb.TuneOptions
	var methods []string
	var list strings.Builder
	for _, m := range tune.Methods {
		fmt.Fprintf(&list, "  %-14s %s\n", m.Name, m.Doc)
	}
	c := &cobra.Command{
		Use:   "tune [PLAN] --method auto|NAME[,NAME...]",
		Short: "Change constants of the quantized graph so that it computes more nearly what the float graph does",
		Long: fmt.Sprintf(`Tune fits on one part of the samples and keeps only what lowers the error on the others, by more than its error bar. What it
changes goes to a file beside the plan, PLAN.tuned.HASH.safetensors; the model stays as it is.

%s
About half of the samples, by a bit of their hashes, are held out. With fewer than %d of them nothing is kept but with --force. At most %d
samples of the plan's own data are read unless --samples says otherwise; with --data all of that is. The error is the centred NSR of the
outputs; see docs/tuning.md.`, list.String(), analysis.MinHeldOut, qwb.TuneSamples),
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
			r, _, err := e.project("", plan).Tune(c.Context(), o)
			if r == nil || err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			return tuneText(e.stdout, r)
		},
	}
	f.addData(c)
	f.addRun(c)
	f.addMemory(c)
	f.addJSON(c)
	c.Flags().StringSliceVar(&methods, "method", nil, "auto, or names separated by commas")
	c.Flags().BoolVar(&o.Force, "force", false, "keep what could not be confirmed on held-out samples")
	return c
}

// tuneText writes the outcome of tune for people.
func tuneText(w io.Writer, r *qwb.TuneResult) error {
	var b strings.Builder
	for _, m := range r.Methods {
		fmt.Fprintf(&b, "%s: kept at %d of %d operators", m.Name, m.Kept, len(m.Layers))
		if m.Note != "" {
			fmt.Fprintf(&b, " (%s)", m.Note)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "error on %d held-out samples (%s) of %d: NSR %s before, %s after; change %s\n", r.HeldOut, r.HeldOutKind, r.Samples,
		withError(r.Before.NSR, r.Before.NSRError), withError(r.After.NSR, r.After.NSRError), withError(r.Change, r.ChangeError))
	if r.Overlay == "" {
		fmt.Fprintf(&b, "nothing was kept, %s is unchanged\n", r.Plan)
	} else {
		fmt.Fprintf(&b, "%s: with tuned values in %s\n", r.Plan, r.Overlay)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func withError(x float64, err *float64) string {
	if err == nil {
		return fmt.Sprintf("%.3g", x)
	}
	return fmt.Sprintf("%.3g ± %.2g", x, *err)
}
