package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"qwb"
)

// sourceFlags are the flags that only C takes.
var sourceFlags = []string{"profile", "batch", "size"}

// addSource adds the flags of --format c.
func addSource(c *cobra.Command, o *qwb.SourceOptions) {
	c.Flags().StringVar(&o.Profile, "profile", "", "with --format c: arithmetic profile (default: the platform's): "+profiles())
	c.Flags().Int64Var(&o.Batch, "batch", 1, "with --format c: samples per run where the model leaves it open")
	c.Flags().StringToInt64Var(&o.Sizes, "size", nil, "with --format c: sizes of other dimensions that the model leaves open, as H=96,W=96")
}

// printSource exports C and prints what was written.
func (e *env) printSource(ctx context.Context, plan string, o qwb.SourceOptions, json bool) error {
	r, _, err := e.project("", plan).ExportC(ctx, o)
	return e.printExport(r, err, json, func() string {
		return fmt.Sprintf("%s: profile %s, %d bytes of constants, %d bytes of arena, SHA-256 %s", r.File, r.Profile, r.ConstantBytes, r.ArenaBytes, r.SHA256)
	})
}
