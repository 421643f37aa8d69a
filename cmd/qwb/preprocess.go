package main

import (
	"github.com/spf13/cobra"

	"qwb/internal/options"
)

func newPreprocess(e *env) *cobra.Command {
	var o options.Preprocess
	return e.takes(&cobra.Command{
		Use:     "preprocess MODEL --data D --preprocess P --dump DIR",
		Short:   "Write the exact model inputs, one npy file per sample",
		Example: lines("qwb preprocess model.onnx --data images/ --preprocess imagenet-torch --dump inputs/"),
		Long: `Preprocess writes the inputs that calibrate and eval give to the model: one npy file per sample, or one npz
file if the model has several inputs. Give these files to another runtime to run it on exactly the same
numbers.`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			if o.Dump == "" || len(o.Data.Paths) == 0 {
				return usagef("preprocess needs --data and --dump DIR")
			}
			r, _, err := e.project(args[0], "").Preprocess(c.Context(), o.PreprocessOptions)
			if err == nil && o.JSON {
				err = e.printJSON(r)
			}
			return err
		},
	}, &o)
}
