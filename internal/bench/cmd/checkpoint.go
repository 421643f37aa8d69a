package cmd

import (
	"fmt"
	"io"

	"qwb"

	"github.com/spf13/cobra"

	"qwb/internal/bench"
	"qwb/internal/file"
)

func newBenchCheckpoint() *cobra.Command {
	var shape, out string
	var seed uint64
	var group int
	c := &cobra.Command{
		Use:     "checkpoint --shape NAME -o FILE",
		Short:   "Write a language model with random weights, for speed measurements",
		Example: "  qwb bench checkpoint --shape 15M -o made-up.bin",
		Long: `Checkpoint writes a llama2.c file with random weights and the shape of a known model: 15M and 110M are the
stories models of llama2.c, 1.1B is TinyLlama. With --group-size 0 the file has version 0 (float32), else
version 2 (int8 in groups of this size). The same shape, group size and seed give the same bytes. It needs
little memory for any shape.`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return qwb.Usagef("bench checkpoint needs -o: the file to write")
			}
			config, err := bench.CheckpointShape(shape)
			if err != nil {
				return qwb.Usagef("--shape: %w", err)
			}
			if err := file.Replace(out, func(w io.Writer) error { return bench.WriteCheckpoint(w, config, group, seed) }); err != nil {
				return fmt.Errorf("bench checkpoint: %w", err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&shape, "shape", "110M", "shape of the model: 15M, 110M or 1.1B")
	c.Flags().IntVar(&group, "group-size", 64, "number of consecutive weights that share one scale; 0: float32 weights")
	c.Flags().Uint64Var(&seed, "seed", 0, "random seed for the weights")
	c.Flags().StringVarP(&out, "output", "o", "", "file to write")
	return c
}
