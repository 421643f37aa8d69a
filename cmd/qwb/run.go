package main

import (
	"github.com/spf13/cobra"

	"qwb"
)

func newRun(e *env) *cobra.Command {
	var f flags
	var inputs []string
	var output string
	c := &cobra.Command{
		Use:   "run MODEL --input name=x.npy --output DIR",
		Short: "Run a model once and write each output as npy",
		Long: `Run executes a model as it is (float, or with QuantizeLinear and DequantizeLinear) on inputs from npy files, or from one
npz file that holds all inputs by name, and writes each output to DIR, named after the output.`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if output == "" {
				return usagef("run needs --output DIR")
			}
			_, _, err := e.project(args[0], "").Run(c.Context(), qwb.RunOptions{Inputs: inputs, Output: output, Threads: f.workers(), Memory: f.budget()})
			return err
		},
	}
	c.Flags().StringArrayVar(&inputs, "input", nil, "name=file.npy, once per input; or file.npz with all inputs")
	c.Flags().StringVarP(&output, "output", "o", "", "folder for the outputs")
	f.addRun(c)
	f.addBudget(c)
	return c
}
