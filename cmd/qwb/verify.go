package main

import (
	"errors"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
	"qwb/reports"
)

func newVerify(e *env) *cobra.Command {
	var o options.Verify
	return e.takes(&cobra.Command{
		Use:   "verify [PLAN]",
		Short: "Run the plan on integers and check every integer",
		Example: lines(
			"qwb verify model.plan.json",
			"qwb verify --profile ort --samples 32 --html verification.html"),
		ValidArgsFunction: files("plan.json"),
		Long: `Verify turns the plan into an integer program under an arithmetic profile and checks the program in three ways:

  1. Every constant (weight codes, multipliers, shifts, zero points, biases, clamps, tables) is computed a second time by other code.
  2. Samples are run. The backend must give the same integers as the reference (rule a).
  3. Each step is computed again in exact real arithmetic and rounded. An integer may differ by one only where the exact value lies
     within a stated bound of a rounding boundary: this is a rounding tie (rule b).

The difference between the whole program and the simulation is reported too.

--backend cuda runs the program on an NVIDIA GPU and lists the steps without a GPU kernel. --backend ptx interprets the GPU kernels on
the CPU. --against FILE checks the integers of another engine, as ONNX Runtime, LiteRT, ncnn, polygraphy, trtexec or qwb run --all
recorded them for one input. If real arithmetic explains them but the profile does not, the engine is not bit-exact with the profile and
the verdict is other-profile.

Parts without an integer form (weights of more than 8 bits or in groups, float formats, operators without integer arithmetic) are
simulated and listed. The verdict is then partial, with the share of multiply-accumulates that was verified.

The outcome is written into the plan. Exit code 3: something differs, or nothing runs on integers.`,
		Args: atMost(1, "one plan"),
		RunE: onPlan(func(c *cobra.Command, plan string) error {
			if err := spares("html", o.HTML); err != nil {
				return err
			}
			v, _, unwritten := e.project("", plan).Verify(c.Context(), o.VerifyOptions)
			if v == nil {
				return unwritten
			}
			if o.HTML != "" {
				unwritten = errors.Join(unwritten, writeVerification(o.HTML, plan, v))
			}
			err := e.print(o.JSON, v, nil, func() error { return reports.VerificationText(e.stdout, v) })
			if err == nil && !v.Holds() {
				err = qwb.Diverged("verify", v, "")
			}
			return errors.Join(err, unwritten) // what was found out is printed in any case
		}),
	}, &o)
}
