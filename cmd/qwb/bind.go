package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"qwb"
)

func newBind(e *env) *cobra.Command {
	var f flags
	var o qwb.BindOptions
	c := &cobra.Command{
		Use:   "bind MODEL --input NAME=VALUE --shape NAME=SIZES --dim SYMBOL=SIZE -o FILE",
		Short: "Write a copy of a model with fixed inputs or fixed dimensions",
		Long: `Bind writes a copy of the model in which an input is a constant or a dynamic dimension has a fixed size. It
then simplifies the copy: it computes everything that depends only on constants and shapes, and replaces each
If whose condition is now known by its branch. The operators of that branch can be quantized like all others.

The value of an input is a number, or an npy file of the input's shape. The original model is not changed.`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			if o.Out == "" || len(o.Inputs)+len(o.Shapes)+len(o.Dims) == 0 {
				return usagef("bind needs --input NAME=VALUE, --shape NAME=SIZES or --dim SYMBOL=SIZE, and -o FILE")
			}
			r, _, err := e.project(args[0], "").Bind(c.Context(), o)
			if err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			fmt.Fprintf(e.stdout, "%s: %d nodes became %d, %d If decided\n", r.Model, r.Before, r.Nodes, r.Branches)
			return nil
		},
	}
	c.Flags().StringArrayVar(&o.Inputs, "input", nil, "`NAME=NUMBER` or NAME=FILE.npy: replace the input by this constant; may be repeated")
	c.Flags().StringArrayVar(&o.Shapes, "shape", nil, "`NAME=SIZE,SIZE...`: fix the shape of this input; may be repeated")
	c.Flags().StringArrayVar(&o.Dims, "dim", nil, "`SYMBOL=SIZE`: fix the size of this dynamic dimension; may be repeated")
	c.Flags().StringVarP(&o.Out, "output", "o", "", "file to write")
	f.addJSON(c)
	return c
}
