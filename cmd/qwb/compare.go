package main

import (
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/reports"
)

func newCompare(e *env) *cobra.Command {
	var f flags
	var o qwb.CompareOptions
	var all bool
	c := &cobra.Command{
		Use:   "compare A B ...",
		Short: "Compare plans, models and recorded outputs on the same samples, with paired tests",
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
			if err := f.check(); err != nil {
				return err
			}
			if o.Layers < 0 {
				return usagef("--layers %d: must be 0 or more", o.Layers)
			}
			if err := comparedModes(o); err != nil {
				return err
			}
			o.Runs, o.Data, o.Threads = args, f.dataOptions(), f.workers()
			o.Data.Budget = f.budget()
			r, _, err := e.project("", planOf(args[0])).Compare(c.Context(), o)
			if err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			return reports.ComparisonText(e.stdout, r.Comparison, all)
		},
	}
	f.addData(c)
	f.addRun(c)
	f.addBudget(c)
	f.addJSON(c)
	f.addMetric(c, false)
	f.addSlices(c)
	addCompared(c, &o)
	c.Flags().IntVar(&o.Layers, "layers", qwb.CompareLayers, "number of samples on which the error at every operator of plans is compared (0: none)")
	c.Flags().BoolVar(&all, "all", false, "print every operator (default: those that differ most)")
	return c
}

// addCompared adds the flags of commands that run candidates.
func addCompared(c *cobra.Command, o *qwb.CompareOptions) {
	c.Flags().StringVar(&o.Float, "float", "", "float `MODEL` to measure errors against (default: that of the first plan or float model)")
	c.Flags().StringVar(&o.Mode, "mode", "sim", "how plans run: sim (simulated INT8) or int8 (the integer program)")
	c.Flags().StringVar(&o.Backend, "backend", defaultBackend().Name, "backend of --mode int8: "+backends())
	c.Flags().StringVar(&o.Profile, "profile", "", "arithmetic profile of --mode int8 (default: the target's): "+profiles())
}

// comparedModes checks what plans are run by.
func comparedModes(o qwb.CompareOptions) error {
	if o.Mode != "sim" && o.Mode != "int8" {
		return usagef("unknown --mode %q: sim or int8", o.Mode)
	}
	if o.Mode != "int8" && o.Profile != "" {
		return usagef("--profile is for --mode int8 only")
	}
	_, err := knownBackend(o.Backend)
	return err
}

// planOf is a file that is a plan, whose log tells what was found; empty for others.
func planOf(file string) string {
	if strings.HasSuffix(file, qwb.PlanSuffix) {
		return file
	}
	return ""
}
