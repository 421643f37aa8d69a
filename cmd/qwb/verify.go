package main

import (
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/kernels/qmath"
	"qwb/reports"
)

func newVerify(e *env) *cobra.Command {
	var f flags
	var o qwb.VerifyOptions
	var page string
	c := &cobra.Command{
		Use:   "verify [PLAN]",
		Short: "Run the plan as integers and hold them against plan, simulation and recorded tensors",
		Long: `Verify lowers the plan to an integer program under an arithmetic profile and checks it in three ways.

Every number of the program (weight codes, multipliers, shifts, zero points, biases, clamps, table bytes) is derived a second time from
model and plan. Then samples are run: the backend must give the integers of the reference (rule a), and every step's integers must be
the exact values rounded, computed from the integers that the step read; where an exact value lies within a stated bound of a rounding
boundary the other neighbour is allowed and counted as a tie (rule b). How far the whole program drifts from the whole simulation is
reported.

With --backend cuda the backend is an NVIDIA GPU, and steps without a kernel are listed; ptx interprets the GPU's kernels where there is
none. Where all steps agree, whole runs are compared too.
With --against, the integers are those of another engine: DIR holds K.npy and names.json as a runtime's or a board's dump, and every
step is computed again from the tensors recorded there. An engine that real arithmetic explains but the profile does not is called
other-profile (exit code 3).

What the plan quantizes and no integer program can express (weights of more than 8 bits or in groups, operators without integer
arithmetic) is simulated and listed: the verdict is partial, with the share of the multiply-accumulates that was verified.

The outcome is written into the plan. Exit code 3 says that something differs, or that nothing runs on integers.`,
		Args: atMost(1, "one plan"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if err := spares("html", page); err != nil {
				return err
			}
			plan, err := findPlan(args)
			if err != nil {
				return err
			}
			o.Data, o.Threads = f.dataOptions(), f.workers()
			o.Data.Budget = f.budget()
			v, _, err := e.project("", plan).Verify(c.Context(), o)
			if err != nil {
				return err
			}
			if page != "" {
				if err := writeVerification(page, plan, v); err != nil {
					return err
				}
			}
			if f.json {
				err = e.printJSON(v)
			} else {
				err = reports.VerificationText(e.stdout, v)
			}
			if err == nil && !v.Holds() {
				err = qwb.Checkf("verify: %s", qwb.Divergence(v))
			}
			return err
		},
	}
	f.addData(c)
	f.addRun(c)
	f.addBudget(c)
	f.addJSON(c)
	c.Flags().StringVar(&o.Backend, "backend", defaultBackend().Name, "what runs the integers: "+backends())
	c.Flags().StringVar(&o.Profile, "profile", "", "arithmetic profile (default: the platform's): "+profiles())
	c.Flags().StringVar(&o.Against, "against", "", "folder with the tensors of another engine: K.npy and names.json")
	c.Flags().StringVar(&o.Dump, "dump", "", "write test vectors of the first sample into this folder: every step's numbers as npy and hex, program.json")
	c.Flags().StringVar(&o.Patterns, "patterns", "", "write what repeats in the program into this folder, each pattern as a program with its test vectors")
	c.Flags().StringVar(&page, "html", "", "write the report as one HTML file")
	return c
}

func profiles() string {
	var names []string
	for _, p := range qmath.Profiles() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}
