package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
)

func newImport(e *env) *cobra.Command {
	var o options.Import
	return e.takes(&cobra.Command{
		Use:   "import MODEL [-o X.plan.json]",
		Short: "Make a plan from a model that is already quantized",
		Example: lines(
			"qwb import model.qdq.onnx",
			"qwb import model.qdq.onnx --float model.onnx",
			"qwb import trained.onnx --data images/ --preprocess imagenet-torch"),
		ValidArgsFunction: files("onnx"),
		Long: `Import reads an ONNX model that another tool, or qwb export, has quantized: with QuantizeLinear and
DequantizeLinear (Q/DQ) pairs, or with integer operators (QLinearConv, ...); or a .tflite file. It writes two files. The plan has
every scale, zero point and integer type of the file. The float model beside it is the same graph without the
pairs, with dequantized weights. Import checks that quantizing these weights again gives the integers of the
file.

The plan can then be analysed, verified, evaluated and exported like any other. It has no data of its own:
name some with --data.

Some tools leave activations to the quantizers, whose ranges clip. Import puts back what the ranges tell, with
a warning. --float takes weights and activations of the network that was quantized, once import has found it to
be the same: operator by operator, with weights that round to the integers of the file.

Models from quantization-aware training are read in the forms that exporters write: Q/DQ pairs, a Clip of
their integers, Quant of QONNX, and Div, Round, Clip, Mul. Their scales are kept. Import lists the trained
scales: those that differ from what calibration chooses. It always does so for weights. For activations it needs
samples (--data) to calibrate the float model.

By default the target is the first one that the file resembles and whose rules it follows. tflite (TensorFlow
Lite's 8-bit arithmetic) and onnx (no engine's rules) are for files of other tools only.`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := planPath(args[0], o.Out)
			if err != nil {
				return err
			}
			if err := o.Check(); err != nil {
				return err
			}
			r, _, err := e.project(args[0], file).Import(c.Context(), o.ImportOptions)
			if err != nil {
				return err
			}
			if o.JSON {
				return e.printJSON(r)
			}
			if _, err = fmt.Fprintf(e.stdout, "%s: plan for %s, profile %s: %d of %d operators on integers, %d pairs, %d constants\n%s: "+
				"the float model\n",
				r.Plan, r.Platform, r.Profile, r.Integer, r.Nodes, r.Pairs, r.Constants, r.Model); err != nil {
				return err
			}
			return e.printTrained(&r.Trained)
		},
	}, &o)
}

// shownTrained is how many trained tensors are printed.
const shownTrained = 12

// printTrained prints what was trained, the tensors farthest from calibration first.
func (e *env) printTrained(t *qwb.Trained) error {
	if _, err := fmt.Fprintln(e.stdout, t.Summary()); err != nil {
		return err
	}
	list := t.Farthest()
	if len(list) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(e.stdout, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nScales of the file that differ from what calibration chooses, the farthest first (of several of a tensor the farthest)")
	fmt.Fprintln(w, "  tensor\tat\tscales\tin the file\tcalibrated\tratio\t")
	for _, x := range list[:min(len(list), shownTrained)] {
		k := x.Farthest()
		fmt.Fprintf(w, "  %s\t%s:%s\t%d\t%.4g\t%.4g\t%.3f\t\n", x.Tensor, x.Node, x.At, len(x.Scale), x.Scale[k], x.Calibrated[k], *x.Ratio)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if n := len(list) - shownTrained; n > 0 {
		_, err := fmt.Fprintf(e.stdout, "and %d more; --json has them all\n", n)
		return err
	}
	return nil
}
