package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"qwb/internal/bench"
	"qwb/internal/file"
)

func newBenchCheckpoint(e *env) *cobra.Command {
	var f flags
	var shape string
	var group int
	c := &cobra.Command{
		Use:   "checkpoint --shape NAME -o FILE",
		Short: "Write a language model with random weights, to measure its speed",
		Long: `Checkpoint writes a file of llama2.c with random weights in the shape of a known model: 15M and 110M are the stories models of
llama2.c, 1.1B is TinyLlama. With --group-size 0 it is version 0, float32, else version 2, int8 in groups of so many. The same shape,
group size and seed give the same bytes. It needs little memory, whatever the shape.`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, args []string) error {
			if f.out == "" {
				return usagef("bench checkpoint: say where to with -o")
			}
			config, err := bench.CheckpointShape(shape)
			if err != nil {
				return usagef("--shape: %w", err)
			}
			if err := file.Replace(f.out, func(w io.Writer) error { return bench.WriteCheckpoint(w, config, group, f.seed) }); err != nil {
				return fmt.Errorf("bench checkpoint: %w", err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&shape, "shape", "110M", "15M, 110M or 1.1B")
	c.Flags().IntVar(&group, "group-size", 64, "neighbours that share a scale; 0: float32")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "seed of the weights")
	f.addOut(c, "file to write")
	return c
}
