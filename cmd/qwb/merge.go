package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"qwb/internal/kind"
	"qwb/internal/options"
)

func newMerge(e *env) *cobra.Command {
	var out string
	var asJSON bool
	return e.takes(&cobra.Command{
		Use:   "merge PART ... [-o OUT] [-- OPTIONS]",
		Short: "Combine the parts of a run (--shard) into one file",
		Example: lines(
			"qwb calibrate model.onnx --data images/ --shard 1/2 -o 1.part     # on one machine; 2/2 on another",
			"qwb merge 1.part 2.part -o model.stats",
			"qwb merge eval.*.part --json"),
		Long: `Merge combines all parts that a command wrote with --shard I/N, in any order. The result is, byte for byte, the
same as of one run over all the data:

  calibrate   MODEL.stats, named by -o; qwb calibrate MODEL --platform P makes a plan from it
  tune        a file for qwb tune --gram, named by -o
  others      what the command prints and writes without --shard; it takes model, plan and data from where they
              were, by the same paths. Options for the result stand behind --: -- --max-drop 1

A part that is missing, given twice or from another run is an error.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || c.ArgsLenAtDash() == 0 {
				return usagef("merge takes the parts of a run")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if n := c.ArgsLenAtDash(); kind.Of(args[0]) == kind.Run {
				parts, more := args, []string(nil)
				if n >= 0 {
					parts, more = args[:n], slices.Clone(args[n:])
				}
				if asJSON {
					more = append(more, "--json")
				}
				return e.mergeRun(c, parts, out, more)
			} else if n >= 0 {
				return usagef("-- OPTIONS: parts of statistics have none")
			}
			if out == "" {
				return usagef("merge needs -o: the file to write")
			}
			if err := replaces("merge", out, kind.Plan, kind.ONNX, kind.Overlay, kind.Shard, kind.Run); err != nil {
				return err
			}
			r, _, err := e.project("", "").Merge(c.Context(), args, out)
			if err != nil {
				return err
			}
			return e.print(asJSON, r, nil, func() error {
				_, err := fmt.Fprintf(e.stdout, "%s: %d parts, %d samples\n", r.File, r.Parts, r.Samples)
				return err
			})
		},
	}, append(options.Output(&out, "file to write"), options.JSON(&asJSON)...))
}

// replaces refuses to write over files of some kinds.
func replaces(command, out string, kinds ...kind.Kind) error {
	if slices.Contains(kinds, kind.Of(out)) {
		return fmt.Errorf("%s: %s would be replaced: name another file with -o", command, out)
	}
	return nil
}

// calibratePart writes the statistics of a part of the data.
func (e *env) calibratePart(ctx context.Context, model string, o *options.Calibrate) error {
	if err := replaces("calibrate", o.Out, kind.Plan, kind.ONNX, kind.Overlay); err != nil {
		return err
	}
	p := e.project(model, o.Out)
	p.Stats = o.Out
	r, _, err := p.CalibratePart(ctx, o.CalibrateOptions)
	if err != nil {
		return err
	}
	return e.print(o.JSON, r, nil, func() error {
		_, err := fmt.Fprintf(e.stdout, "%s: part %s, %d of %d samples, %.2f s\n", r.Stats, r.Shard, r.Samples, r.Total, r.Seconds)
		return err
	})
}

// tunePart writes the Gram statistics of a part of the data.
func (e *env) tunePart(ctx context.Context, plan string, o *options.Tune) error {
	if err := replaces("tune", o.Out, kind.Plan, kind.ONNX, kind.Overlay, kind.Statistics, kind.Shard, kind.Run); err != nil {
		return err
	}
	r, _, err := e.project("", plan).Grams(ctx, o.TuneOptions)
	if err != nil {
		return err
	}
	return e.print(o.JSON, r, nil, func() error {
		_, err := fmt.Fprintf(e.stdout, "%s: part %s, %d samples of which %d are held out, %d operators, passes over the data: %d, %.2f s\n",
			r.Grams, r.Shard, r.Samples, r.HeldOut, r.Operators, r.Passes, r.Seconds)
		return err
	})
}
