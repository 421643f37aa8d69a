package main

import (
	"io"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/reports"
)

func newGate(e *env) *cobra.Command {
	var f flags
	var o qwb.GateOptions
	var drop, nsr, flips float64
	var junit, markdown string
	c := &cobra.Command{
		Use:   "gate A [B]",
		Short: "Hold a plan or certificate against limits, or against a baseline, in CI",
		Long: `Gate measures A and compares it with limits. A is a certificate, which needs no data, or what qwb compare takes: a
plan, a model, recorded outputs. B is the baseline, another one of these; without it the baseline is float. Two
runs, and two certificates of the same samples, are paired.

  --max-drop X   A may score at most this much worse than the baseline (percentage points of a share)
  --max-nsr X    largest NSR (noise-to-signal ratio) of A's outputs against float, that of the worst part of an output where it
                 has parts; of a classifier that of the class scores. A part that has no signal left fails
  --max-flips X  at most this many percent of the samples may get another class than by the baseline

A value above its limit fails, unless the excess lies within the noise of the samples (at least 16): then it passes
with a note. --strict lets nothing above a limit pass. A value below its limit has a note where the samples do not
show that the limit holds, with the number of samples that would. What a plan or certificate says about its
integers is checked too.

--junit and --markdown write the outcome for CI systems; docs/gate.md has a GitHub Action. Exit code 3: a limit is
missed.`,
		Args: cobra.MatchAll(atLeast(1, "a plan or certificate, and a baseline"), atMost(2, "a plan or certificate, and a baseline")),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			for _, out := range [][2]string{{"junit", junit}, {"markdown", markdown}} {
				if err := spares(out[0], out[1]); err != nil {
					return err
				}
			}
			if err := comparedModes(o.Run); err != nil {
				return err
			}
			for name, to := range map[string]struct {
				value *float64
				limit **float64
			}{"max-drop": {&drop, &o.MaxDrop}, "max-nsr": {&nsr, &o.MaxNSR}, "max-flips": {&flips, &o.MaxFlips}} {
				if c.Flags().Changed(name) {
					*to.limit = to.value
				}
			}
			if o.A = args[0]; len(args) == 2 {
				o.B = args[1]
			}
			o.Run.Data, o.Run.Threads = f.dataOptions(), f.workers()
			o.Run.Data.Budget = f.budget()
			r, _, err := e.project("", planOf(args[0])).Gate(c.Context(), o)
			if r == nil {
				return err
			}
			g := &reports.GateChecks{Subject: r.A, Baseline: r.B, Held: r.Held, Samples: r.Samples, Checks: r.Checks}
			for _, to := range []struct {
				file  string
				write func(io.Writer, *reports.GateChecks) error
			}{{junit, reports.GateJUnit}, {markdown, reports.GateMarkdown}} {
				if to.file == "" {
					continue
				}
				if _, werr := qwb.WriteFile(qwb.OS{}, to.file, func(w io.Writer) error { return to.write(w, g) }); werr != nil {
					return werr
				}
			}
			if f.json {
				if jerr := e.printJSON(r); jerr != nil {
					return jerr
				}
				return err
			}
			if terr := reports.GateText(e.stdout, g); terr != nil {
				return terr
			}
			return err
		},
	}
	f.addData(c)
	f.addMetric(c, false)
	f.addSlices(c)
	f.addRun(c)
	f.addBudget(c)
	f.addJSON(c)
	addCompared(c, &o.Run)
	c.Flags().Float64Var(&drop, "max-drop", 0, "largest drop of the score: percentage points (pp) of metrics that are shares")
	c.Flags().Float64Var(&nsr, "max-nsr", 0, "largest NSR against float, for example 0.01")
	c.Flags().StringVar(&o.Slice, "slice", "", "with --max-nsr: the limit is on this part of an output: an input of its last Concat, or one of --slices (default: the worst part)")
	c.Flags().Float64Var(&flips, "max-flips", 0, "largest percentage of samples whose class changed")
	c.Flags().BoolVar(&o.Strict, "strict", false, "nothing above a limit passes, be it within noise or not")
	c.Flags().StringVar(&junit, "junit", "", "write the outcome as JUnit XML to this `FILE`")
	c.Flags().StringVar(&markdown, "markdown", "", "write the outcome as Markdown to this `FILE`")
	return c
}
