package main

import (
	"github.com/spf13/cobra"

	"qwb"
)

func newPreprocess(e *env) *cobra.Command {
	var f flags
	var dump string
	c := &cobra.Command{
		Use:   "preprocess MODEL --data D --preprocess P --dump DIR",
		Short: "Write the exact model inputs, one npy file per sample",
		Long: `Preprocess writes the inputs that calibrate and eval give to the model: one npy file per sample, or one npz
file if the model has several inputs. Give these files to another runtime to run it on exactly the same
numbers.`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if dump == "" || len(f.data) == 0 {
				return usagef("preprocess needs --data and --dump DIR")
			}
			r, _, err := e.project(args[0], "").Preprocess(c.Context(), qwb.PreprocessOptions{Data: f.dataOptions(), Dump: dump})
			if err == nil && f.json {
				err = e.printJSON(r)
			}
			return err
		},
	}
	f.addData(c)
	f.addTokenizer(c)
	f.addRun(c)
	f.addJSON(c)
	c.Flags().StringVar(&dump, "dump", "", "folder for the npy or npz files")
	return c
}
