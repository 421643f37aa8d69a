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
		Use:   "checkpoint --shape NAME -o FILE",
		Short: "Write a language model with random weights, to measure its speed",
		Long: `Checkpoint writes a file of llama2.c with random weights in the shape of a known model: 15M and 110M are the stories models of
llama2.c, 1.1B is TinyLlama. With --group-size 0 it is version 0, float32, else version 2, int8 in groups of so many. The same shape,
group size and seed give the same bytes. It needs little memory, whatever the shape.`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return qwb.Usagef("bench checkpoint: say where to with -o")
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
	c.Flags().StringVar(&shape, "shape", "110M", "15M, 110M or 1.1B")
	c.Flags().IntVar(&group, "group-size", 64, "neighbours that share a scale; 0: float32")
	c.Flags().Uint64Var(&seed, "seed", 0, "seed of the weights")
	c.Flags().StringVarP(&out, "output", "o", "", "file to write")
	return c
}
