package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/quantizer/tqc"
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

Fake quantization of a network that was trained with it is read in the forms that exporters write: pairs, a Clip of their integers,
Quant of QONNX, and Div, Round, Clip, Mul. Its scales are kept. Import says which of them were trained, that is, are not what calibrating
would have chosen: of weights always, of activations where --data names samples to calibrate the float model on.

The platform is the first of those the file looks like whose rules it keeps; tflite (TensorFlow Lite's 8-bit arithmetic) and onnx (no
engine's rules) are for files of other tools only.`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := planPath(args[0], f.out)
			if err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			if len(f.data) == 0 && (f.observer != "" || f.samples > 0) {
				return usagef("--observer and --samples are about calibrating: they need --data")
			}
			o := qwb.ImportOptions{Platform: f.platform, Data: f.dataOptions(), Observer: tqc.Observer(f.observer), Threads: f.workers()}
			o.Memory, _ = f.memory()
			r, _, err := e.project(args[0], file).Import(c.Context(), o)
			if err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			if _, err = fmt.Fprintf(e.stdout, "%s: plan for %s, profile %s: %d of %d operators on integers, %d pairs, %d constants\n%s: the float model\n",
				r.Plan, r.Platform, r.Profile, r.Integer, r.Nodes, r.Pairs, r.Constants, r.Model); err != nil {
				return err
			}
			return e.printTrained(&r.Trained)
		},
	}
	f.addPlatform(c, "platform of the plan: "+platforms()+", tflite, onnx (default: found)")
	f.addOut(c, "plan to write (default: MODEL.plan.json in the current folder)")
	f.addJSON(c)
	f.addData(c)
	f.addRun(c)
	f.addMemory(c)
	c.Flags().Lookup("data").Usage = "samples to calibrate the float model on, for the comparison with the file's scales: as of qwb calibrate; may be repeated"
	c.Flags().Lookup("preprocess").Usage = "preprocessing that the plan records: imagenet-torch, imagenet-inception, imagenet-caffe, none, or a YAML file"
	c.Flags().StringVar(&f.observer, "observer", "", "calibration method of activations to compare with: auto, "+observerNames()+", or percentile(0.999) (default: the platform's)")
	return c
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
	fmt.Fprintln(w, "\nScales that calibration would not have chosen, the farthest first (of several of a tensor the farthest)")
	fmt.Fprintln(w, "  tensor\tat\tscales\ttrained\tcalibrated\tratio\t")
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
