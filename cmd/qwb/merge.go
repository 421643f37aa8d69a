package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/kind"
)

// addShard is the flag of commands that work on a part of the data.
func addShard(c *cobra.Command, to *string, what string) {
	c.Flags().StringVar(to, "shard", "", what)
}

func newMerge(e *env) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "merge PART ... -o OUT",
		Short: "Combine the parts of a run (--shard) into one file",
		Long: `Merge combines all parts that qwb calibrate --shard I/N or qwb tune --shard I/N wrote, in any order. The
result is, byte for byte, the same as of one run over all the data:

  statistics        MODEL.stats; qwb calibrate MODEL --platform P makes a plan from it
  Gram statistics   a file for qwb tune --gram

A part that is missing, given twice or from another run is an error.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("merge takes the parts of a run")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if f.out == "" {
				return usagef("merge needs -o: the file to write")
			}
			if err := replaces("merge", f.out, kind.Plan, kind.ONNX, kind.Overlay, kind.Shard); err != nil {
				return err
			}
			r, _, err := e.project("", "").Merge(c.Context(), args, f.out)
			if err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			_, err = fmt.Fprintf(e.stdout, "%s: %d parts, %d samples\n", r.File, r.Parts, r.Samples)
			return err
		},
	}
	f.addOut(c, "file to write")
	f.addJSON(c)
	return c
}

// replaces refuses to write over files of some kinds.
func replaces(command, out string, kinds ...kind.Kind) error {
	if slices.Contains(kinds, kind.Of(out)) {
		return fmt.Errorf("%s: %s would be replaced: name another file with -o", command, out)
	}
	return nil
}

// calibratePart writes the statistics of a part of the data.
func (e *env) calibratePart(ctx context.Context, model string, f *flags, merge []string, o qwb.CalibrateOptions) error {
	switch {
	case f.out == "":
		return usagef("--shard needs -o: the file to write")
	case len(f.data) == 0 || len(merge) > 0:
		return usagef("--shard needs --data and does not go with --merge")
	}
	if err := replaces("calibrate", f.out, kind.Plan, kind.ONNX, kind.Overlay); err != nil {
		return err
	}
	o.Memory, _ = f.memory()
	p := e.project(model, f.out)
	p.Stats = f.out
	r, _, err := p.CalibratePart(ctx, o)
	if err != nil {
		return err
	}
	if f.json {
		return e.printJSON(r)
	}
	_, err = fmt.Fprintf(e.stdout, "%s: part %s, %d of %d samples, %.2f s\n", r.Stats, r.Shard, r.Samples, r.Total, r.Seconds)
	return err
}

// tunePart writes the Gram statistics of a part of the data.
func (e *env) tunePart(ctx context.Context, plan string, f *flags, o qwb.TuneOptions) error {
	switch {
	case len(o.Methods) > 0 || o.Gram != "" || o.Budget != "" || o.Force:
		return usagef("--shard only writes Gram statistics and tunes nothing: remove --method, --gram, --budget and --force")
	case f.out == "":
		return usagef("--shard needs -o: the file to write")
	}
	if err := replaces("tune", f.out, kind.Plan, kind.ONNX, kind.Overlay, kind.Statistics, kind.Shard); err != nil {
		return err
	}
	o.Out = f.out
	r, _, err := e.project("", plan).Grams(ctx, o)
	if err != nil {
		return err
	}
	if f.json {
		return e.printJSON(r)
	}
	_, err = fmt.Fprintf(e.stdout, "%s: part %s, %d samples of which %d are held out, %d operators, passes over the data: %d, %.2f s\n", r.Grams, r.Shard, r.Samples, r.HeldOut,
		r.Operators, r.Passes, r.Seconds)
	return err
}
