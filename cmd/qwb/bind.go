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
		Short: "Write a copy of a model in which inputs and open dimensions have fixed values",
		Long: `Bind writes a copy in which an input is a constant, or an open dimension of the inputs has a size. What that decides is resolved:
computations on constants and shapes, and every If whose condition is known then, whose branch becomes part of the network and can be
quantized like the rest of it.

The value of an input is a number, or an npy file of its shape. The model itself stays as it is.`,
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
	c.Flags().StringArrayVar(&o.Inputs, "input", nil, "NAME=NUMBER or NAME=FILE.npy: the input becomes this constant; may be repeated")
	c.Flags().StringArrayVar(&o.Shapes, "shape", nil, "NAME=SIZE,SIZE...: the input has this shape; may be repeated")
	c.Flags().StringArrayVar(&o.Dims, "dim", nil, "SYMBOL=SIZE: the open dimension gets this size; may be repeated")
	c.Flags().StringVarP(&o.Out, "output", "o", "", "file to write")
	f.addJSON(c)
	return c
}
