package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/internal/options"
	"qwb/internal/plain"
)

func newSweep(e *env) *cobra.Command {
	var o options.Sweep
	return e.takes(&cobra.Command{
		Use:   "sweep MODEL --data D",
		Short: "Calibrate with many options, compare the plans on held-out samples, keep the best",
		Example: lines(
			"qwb sweep model.onnx --data images/ --preprocess imagenet-torch --platforms trt_int8",
			"qwb sweep model.onnx --data images/ --labels labels.tsv --observers mse,kl --platforms "+
				"trt_int8,onnxruntime --granularity channel,tensor",
			"qwb sweep model.onnx        # a hint from the statistics of an earlier calibration: no data"),
		Long: fmt.Sprintf(`Sweep calibrates a model with every combination of the options given: observers, platforms, granularities of
weights, dispatchers, formats. It prints one table, ranks the plans, and writes the best one as MODEL.plan.json,
or as MODEL.sweep.plan.json where the model has a plan already.

The samples are split in two halves by a bit of their hash. The scales of every plan come from the one half; the
other half (held-out samples) measures the error, so that no plan is judged on samples it was fitted on. The
error is the NSR of the outputs (noise-to-signal ratio; of a classifier that of the class scores at the input of
Softmax, without their mean). With labels the change of top-1 stands beside it.

Rank: plans that cannot be told apart from the best one share rank 1. The test is paired (same samples) and
corrected for the number of plans, at %.0f %%. With labels, top-1 decides first and the NSR among plans whose top-1
cannot be told apart. Of the plans of rank 1 the cheapest is written (least work, or least time with --device; of
equals the one with the least NSR), with scales from all samples: the numbers are those of qwb calibrate with
these options.

Without --data, sweep takes the statistics of an earlier calibration and measures on the few samples that these
keep. That takes seconds and is a hint only: nothing is written.

Exit code 3: fewer than %d held-out samples; nothing is written unless --force is given. See docs/sweep.md.`, 100*(1-analysis.ClaimRisk), analysis.MinHeldOut),
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := planPath(args[0], o.Out)
			if err != nil {
				return err
			}
			if err := o.Check(); err != nil {
				return err
			}
			o.Beside = o.Out == ""
			r, _, err := e.project(args[0], file).Sweep(c.Context(), o.SweepOptions)
			if r == nil {
				return err
			}
			return e.print(o.JSON, r, err, func() error { return sweepText(e.stdout, r) })
		},
	}, &o)
}

// sweepText prints the table of a sweep.
func sweepText(w io.Writer, r *qwb.SweepResult) error {
	var b strings.Builder
	labelled := r.FloatTop1 != nil
	measured := fmt.Sprintf("%d held-out samples of %d", r.HeldOut, r.Samples)
	if r.HeldOutKind == qwb.HeldOutKept {
		measured = fmt.Sprintf("%s that the statistics keep; a hint, since the scales were fitted on them too", plain.Count(r.HeldOut, "sample"))
	}
	fmt.Fprintf(&b, "%s, measured on %s", plain.Count(len(r.Rows), "plan"), measured)
	if labelled {
		fmt.Fprintf(&b, "; top-1 of the float model: %d (%.1f %%)", *r.FloatTop1, 100*float64(*r.FloatTop1)/float64(r.HeldOut))
	}
	b.WriteString("\n\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	head := []string{"rank", "platform", "observer", "weights", "dispatcher", "formats", "output " + analysis.ErrorName(r.Mismatches), "dB",
		"behind the best", "integer MACs", "constants"}
	for _, s := range r.Rows[0].Integers {
		head = append(head, s.Output+" "+analysis.ErrorName(true))
	}
	timed := r.Rows[0].Cost.Seconds != nil
	if timed {
		head = append(head, "predicted")
	}
	if labelled {
		head = append(head, "top-1", "drop in pp", "flips")
	}
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for i := range r.Rows {
		fmt.Fprintln(t, strings.Join(sweepCells(r, &r.Rows[i]), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteString("\n")
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "no plan for %s, %s, per %s, %s, %s: %s\n", s.Platform, s.Observer, s.Granularity, s.Dispatcher, s.Format, s.Why)
	}
	same := 0
	for _, row := range r.Rows {
		if row.Rank == 1 {
			same++
		}
	}
	if same > 1 {
		fmt.Fprintf(&b, "%d plans share rank 1: these samples cannot tell them apart\n", same)
	}
	fmt.Fprintf(&b, "%.2f s", r.Seconds)
	if r.Calibration > 0 {
		fmt.Fprintf(&b, " (%.1f calibrations on all samples)", r.Seconds/r.Calibration)
	}
	if r.Plan != "" {
		fmt.Fprintf(&b, "; %s is written", r.Plan)
	}
	fmt.Fprintf(&b, "\nthe best: %s\n", r.Command)
	_, err := io.WriteString(w, b.String())
	return err
}

// sweepCells are the cells of a plan's row.
func sweepCells(r *qwb.SweepResult, row *qwb.SweepRow) []string {
	observer := string(row.Observer)
	if row.Default {
		observer += " (default)"
	}
	behind := "-"
	if !row.Chosen {
		behind = qwb.WithError(row.Behind, row.BehindError)
	}
	decibels := "-"
	if row.SQNR != nil && !r.Mismatches {
		decibels = fmt.Sprintf("%.1f", *row.SQNR)
	}
	cells := []string{fmt.Sprint(row.Rank), row.Platform, observer, "per " + row.Granularity, row.Dispatcher, row.Format,
		qwb.WithError(row.NSR.NSR, row.NSRError), decibels, behind,
		fmt.Sprintf("%.1f %%", 100*row.MACs), fmt.Sprintf("%.3g MB", float64(row.Cost.TotalBytes())/1e6)}
	for _, s := range row.Integers {
		cells = append(cells, fmt.Sprintf("%.2f %%", 100*s.NSR))
	}
	if row.Cost.Seconds != nil {
		cells = append(cells, fmt.Sprintf("%.3g ms", 1e3**row.Cost.Seconds))
	}
	if r.FloatTop1 != nil {
		cells = append(cells, fmt.Sprintf("%.1f %%", 100*float64(row.Top1)/float64(r.HeldOut)),
			fmt.Sprintf("%.2f ± %.2f", row.Drop, row.DropError), fmt.Sprint(row.Flips))
	}
	return cells
}
