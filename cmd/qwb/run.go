package main

import (
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
	"qwb/reports"
)

func newRun(e *env) *cobra.Command {
	var o options.Run
	return e.takes(&cobra.Command{
		Use:   "run MODEL --input name=x.npy --output DIR | run MODEL|PLAN --data D --output DIR",
		Short: "Run a model or a plan and write its outputs as npy files",
		Example: lines(
			"qwb run model.onnx --input x=x.npy --output out/",
			"qwb run model.plan.json --data images/ --mode int8 --output out/"),
		ValidArgsFunction: files("onnx", "plan.json"),
		Long: `Run executes a model as it is (float, or with Q/DQ pairs), or a plan in one of the modes fp32, sim (simulated
INT8) and int8 (the integer program).

With --input it runs once, on npy files or on one npz file with all inputs by name. It writes each output to
DIR; the file has the name of the output. With --data it runs on every sample and writes one file per sample,
with the names that qwb preprocess uses: npy for a model with one output, npz for several outputs. Without
both, a plan uses its own data.

--all writes every tensor that is computed, in an npz for each run: of a plan in --mode int8 the tensors of the
integer program, otherwise the values of the graph. qwb verify --against takes such a file.`,
		Args: exactly(1, "one model or plan"),
		RunE: func(c *cobra.Command, args []string) error {
			model, plan := args[0], ""
			if strings.HasSuffix(args[0], qwb.PlanSuffix) {
				model, plan = "", args[0]
			}
			if err := o.Check(e.catalog(), model); err != nil {
				return err
			}
			r, _, err := e.project(model, plan).Run(c.Context(), o.RunOptions)
			if r == nil || !checked(err) {
				return err
			}
			return e.print(o.JSON, r, err, func() error { return reports.PlacedText(e.stdout, r.Placed) })
		},
	}, &o)
}
