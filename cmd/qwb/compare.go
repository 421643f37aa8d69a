package main

import (
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
	"qwb/reports"
)

func newCompare(e *env) *cobra.Command {
	var o options.Compare
	return e.takes(&cobra.Command{
		Use:   "compare A B ...",
		Short: "Compare plans, models and recorded outputs on the same samples, with paired tests",
		Example: lines(
			"qwb compare a.plan.json b.plan.json --data images/ --labels labels.tsv",
			"qwb compare model.plan.json engine-outputs/ --data images/"),
		ValidArgsFunction: files("onnx", "plan.json", "npy", "npz"),
		Long: `Compare runs two or more candidates on the same samples and tests every pair of them. A candidate is a plan
(simulated, or on integers with --mode int8), a model, a model that a tool has quantized (Q/DQ), or recorded
outputs of another engine: a folder as qwb run writes it, with one npy (several outputs: npz) per sample, or one
npy or npz file with one row per sample.

The first lines say which of each pair is worse and how sure that is. The samples are paired: what is hard for
both drops out. p-values are adjusted for the number of pairs. With labels the score decides; without them a
classifier is scored by how often it agrees with the float model, and other networks by their NSR
(noise-to-signal ratio against the float model).

Of two plans compare also lists the operators up to which their errors differ most, and counts what differs in
their settings. Differences are a result: the exit code is 0. qwb gate has limits and exit code 3.`,
		Args: atLeast(2, "two or more plans, models or recorded outputs"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.Check(e.catalog()); err != nil {
				return err
			}
			o.Runs = args
			r, _, err := e.project("", planOf(args[0])).Compare(c.Context(), o.CompareOptions)
			if r == nil || !checked(err) {
				return err
			}
			return e.print(o.JSON, r, err, func() error { return reports.ComparisonText(e.stdout, r.Comparison, o.All) })
		},
	}, &o)
}

// planOf is a file that is a plan, whose log tells what was found; empty for others.
func planOf(file string) string {
	if strings.HasSuffix(file, qwb.PlanSuffix) {
		return file
	}
	return ""
}
