package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
)

// checkpointFlags are the flags that only checkpoints take.
var checkpointFlags = []string{"group-size", "scales", "weights", "tokenizer"}

// addCheckpoint adds the flags of exports of checkpoints.
func addCheckpoint(c *cobra.Command, o *qwb.CheckpointOptions) {
	c.Flags().IntVar(&o.Group, "group-size", 0, "of a checkpoint: how many weights in a row share a scale (0: 64, halved until it divides every row)")
	c.Flags().StringVar(&o.Scales, "scales", qwb.ScalesNearest, "of a checkpoint: "+qwb.ScalesNearest+", the scale of the largest weight of a group, or "+qwb.ScalesSearch+", the one with the smallest squared error")
	c.Flags().StringVar(&o.Matrices, "weights", "", "of a checkpoint: how matrices are written where the format leaves that open: "+matrixForms())
	c.Flags().StringVar(&o.Tokenizer, "tokenizer", "", "of a checkpoint: tokenizer.json or tokenizer.bin for formats that hold one (default: the one beside it)")
}

// matrixForms lists the choices of --weights by format.
func matrixForms() string {
	parts := []string{qwb.FormatONNX + ": " + strings.Join(qwb.NBitsForms, ", ")}
	for _, f := range qwb.CheckpointFormats() {
		if len(f.Matrices) > 1 {
			parts = append(parts, f.Name+": "+strings.Join(f.Matrices, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// formatLines lists the formats of checkpoints with what their engines want to be known.
func formatLines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %-11s ONNX with MatMulNBits, for ONNX Runtime", qwb.FormatONNX)
	for _, f := range qwb.CheckpointFormats() {
		fmt.Fprintf(&b, "\n  %-11s %s", f.Name, f.Title)
		if f.Note != "" {
			fmt.Fprintf(&b, " (%s)", f.Note)
		}
	}
	return b.String()
}

// printCheckpoint exports a checkpoint and prints what was written.
func (e *env) printCheckpoint(ctx context.Context, file string, o qwb.CheckpointOptions, json bool) error {
	r, _, err := e.project(file, "").ExportCheckpoint(ctx, o)
	return e.printExport(r, err, json, func() string { return fmt.Sprintf("%s: %s, SHA-256 %s", r.File, r.Format, r.SHA256) })
}
