package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"qwb"
)

func newImport(e *env) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "import MODEL [-o X.plan.json]",
		Short: "Make a plan of a model that is quantized already",
		Long: `Import takes apart an ONNX model that another tool, or qwb export, has quantized: with QuantizeLinear and DequantizeLinear, or with
operators on integers (QLinearConv, ...). It writes a plan that says what the file says (every scale, zero point and integer type) and,
beside it, the float model behind it: the graph without the pairs, its weights dequantized. Quantizing them again gives the file's
integers; that is checked. The plan can then be analysed, verified, evaluated and exported like any other. It has no data of its own:
name some with --data.

The platform is the first of those the file looks like whose rules it keeps; tflite (TensorFlow Lite's 8-bit arithmetic) and onnx (no
engine's rules) are for files of other tools only.`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := planPath(args[0], f.out)
			if err != nil {
				return err
			}
			r, _, err := e.project(args[0], file).Import(c.Context(), qwb.ImportOptions{Platform: f.platform, Preprocess: f.preprocess})
			if err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			_, err = fmt.Fprintf(e.stdout, "%s: plan for %s, profile %s: %d of %d operators on integers, %d pairs, %d constants\n%s: the float model\n",
				r.Plan, r.Platform, r.Profile, r.Integer, r.Nodes, r.Pairs, r.Constants, r.Model)
			return err
		},
	}
	f.addPlatform(c, "platform of the plan: "+platforms()+", tflite, onnx (default: found)")
	f.addOut(c, "plan to write (default: MODEL.plan.json in the current folder)")
	f.addJSON(c)
	c.Flags().StringVar(&f.preprocess, "preprocess", "", "preprocessing that the plan records: imagenet-torch, imagenet-inception, imagenet-caffe, none, or a YAML file")
	return c
}
