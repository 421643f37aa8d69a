package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"qwb/internal/options"
)

func newBind(e *env) *cobra.Command {
	var o options.Bind
	return e.takes(&cobra.Command{
		Use:   "bind MODEL --input NAME=VALUE --shape NAME=SIZES --dim SYMBOL=SIZE -o FILE",
		Short: "Write a copy of a model with fixed inputs or fixed dimensions",
		Example: lines(
			"qwb bind silero_vad.onnx --input sr=16000 --shape input=1,576 --shape state=2,1,128 -o silero_16k.onnx"),
		ValidArgsFunction: files("onnx"),
		Long: `Bind writes a copy of the model in which an input is a constant or a dynamic dimension has a fixed size. It
then simplifies the copy: it computes everything that depends only on constants and shapes, and replaces each
If whose condition is now known by its branch. The operators of that branch can be quantized like all others.

Networks in float16, bfloat16 and float64 are read as they are. For formats whose files are fed with float32 only
(TensorFlow Lite, ncnn, C), --float32 writes them with inputs and outputs of float32.

The value of an input is a number, or an npy file of the input's shape. The original model is not changed.`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			r, _, err := e.project(args[0], "").Bind(c.Context(), o.BindOptions)
			if err != nil {
				return err
			}
			return e.print(o.JSON, r, nil, func() error {
				_, err := fmt.Fprintf(e.stdout, "%s: %d nodes became %d, %d If decided\n", r.Model, r.Before, r.Nodes, r.Branches)
				return err
			})
		},
	}, &o)
}
