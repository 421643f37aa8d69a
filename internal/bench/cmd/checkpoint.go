package cmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/bench"
	"qwb/internal/file"
	"qwb/internal/options"
)

func newBenchCheckpoint(e *Host) *cobra.Command {
	var shape, out string
	var seed uint64
	var group int
	return e.Takes(&cobra.Command{
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
	}, options.Table{
		{Name: "shape", At: &shape, Default: "110M", Help: "shape of the model: 15M, 110M or 1.1B"},
		{Name: "group-size", At: &group, Default: 64, Signed: true,
			Help: "number of consecutive weights that share one scale; 0: float32 weights"},
		{Name: "seed", At: &seed, Help: "random seed for the weights"},
		{Name: "output", Short: "o", At: &out, Help: "file to write"},
	})
}
