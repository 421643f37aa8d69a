package main

import (
	"io"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
	"qwb/reports"
)

func newGate(e *env) *cobra.Command {
	var o options.Gate
	return e.takes(&cobra.Command{
		Use:   "gate A [B]",
		Short: "Hold a plan or certificate against limits, or against a baseline, in CI",
		Example: lines(
			"qwb gate certificate.json --max-drop 1 --max-nsr 0.01 --junit gate.xml --markdown gate.md",
			"qwb gate model.plan.json last-release.plan.json --data images/ --labels labels.tsv --max-drop 0.5"),
		ValidArgsFunction: files("plan.json", "json", "onnx"),
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

--junit, --markdown and --sarif write the outcome for CI systems; docs/gate.md has a GitHub Action. Exit code 3: a limit is
missed.`,
		Args: cobra.MatchAll(atLeast(1, "a plan or certificate, and a baseline"), atMost(2, "a plan or certificate, and a baseline")),
		RunE: func(c *cobra.Command, args []string) error {
			for _, out := range [][2]string{{"junit", o.JUnit}, {"markdown", o.Markdown}} {
				if err := spares(out[0], out[1]); err != nil {
					return err
				}
			}
			if err := o.Check(e.catalog()); err != nil {
				return err
			}
			if o.A = args[0]; len(args) == 2 {
				o.B = args[1]
			}
			r, _, err := e.project("", planOf(args[0])).Gate(c.Context(), o.GateOptions)
			if r == nil {
				return err
			}
			g := &reports.GateChecks{Subject: r.A, Baseline: r.B, Held: r.Held, Samples: r.Samples, Checks: r.Checks, Headlines: r.Headlines}
			for _, to := range []struct {
				file  string
				write func(io.Writer, *reports.GateChecks) error
			}{{o.JUnit, reports.GateJUnit}, {o.Markdown, reports.GateMarkdown}, {o.SARIF, func(w io.Writer, g *reports.GateChecks) error {
				return reports.SARIF(w, version, g.Remarks())
			}}} {
				if to.file == "" {
					continue
				}
				if _, werr := qwb.WriteFile(qwb.OS{}, to.file, func(w io.Writer) error { return to.write(w, g) }); werr != nil {
					return werr
				}
			}
			return e.print(o.JSON, r, err, func() error { return reports.GateText(e.stdout, g) })
		},
	}, &o)
}
