package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
	"qwb/reports"
)

func newCalibrate(e *env) *cobra.Command {
	var o options.Calibrate
	return e.takes(&cobra.Command{
		Use:   "calibrate MODEL --data D --platform P",
		Short: "Run the model on data, choose scales, write plan and statistics",
		Example: lines(
			"qwb calibrate model.onnx --data images/ --preprocess imagenet-torch --platform trt_int8",
			"qwb calibrate model.onnx --platform onnxruntime --observer kl        # the statistics are there: no data"),
		Long: `Calibrate runs the float model on real data and records the range of every tensor. From these statistics it
chooses all scales and zero points for a target (--platform). It writes MODEL.plan.json and MODEL.stats to the
current folder; -o X.plan.json changes both names.

Once the statistics exist, another target or another --observer needs no data. An interrupted run keeps its
statistics: repeat the command and it continues. --merge A.stats B.stats merges the statistics of parts of a
data set. Plan and statistics are then, byte for byte, the same as from one run over all the data.

If the plan exists already, its decisions (qwb set, qwb dispatch) are kept; --fresh drops them. Of other data
or for another target, a plan with such decisions stays as it is, and the new one gets a name of its own,
MODEL.TARGET.plan.json, unless -o names one. --recipe applies the decisions of a file.

--backend cuda runs and observes the model on a GPU. If the GPU computes exactly as the CPU does, the
statistics are the same bytes. The first sample runs on both, and differences are reported.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("calibrate takes a model")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var models []string
			for _, a := range args { // statistics after the first of --merge arrive as arguments
				if len(o.Merge) > 0 && strings.HasSuffix(a, ".stats") {
					o.Merge = append(o.Merge, a)
				} else {
					models = append(models, a)
				}
			}
			if len(models) != 1 {
				return usagef("calibrate takes one model, not %d (%s)", len(models), strings.Join(models, ", "))
			}
			if err := o.Check(); err != nil {
				return err
			}
			if o.Shard != (qwb.Shard{}) {
				return e.calibratePart(c.Context(), models[0], &o)
			}
			file, err := planPath(models[0], o.Out)
			if err != nil {
				return err
			}
			o.Beside = o.Out == ""
			r, _, err := e.project(models[0], file).Calibrate(c.Context(), o.CalibrateOptions)
			if r == nil {
				return err
			}
			if o.JSON {
				return errors.Join(e.printJSON(r), err)
			}
			for _, g := range r.Gates {
				_, werr := fmt.Fprintln(e.stdout, g)
				err = errors.Join(err, werr)
			}
			for _, t := range r.Tuned {
				err = errors.Join(err, tuneText(e.stdout, t, false))
			}
			if err != nil {
				return err
			}
			share := ""
			if r.IntegerShare != nil {
				share = ", " + reports.IntegerShare(r.IntegerShare)
			}
			_, err = fmt.Fprintf(e.stdout, "%s and %s: %d samples, %.2f s%s\n", r.Plan, r.Stats, r.Samples, r.Seconds, share)
			return err
		},
	}, &o)
}
