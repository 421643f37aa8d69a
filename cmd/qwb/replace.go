package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"qwb/graph/passes"
	"qwb/internal/options"
	"qwb/internal/plain"
	"qwb/reports"
)

func newReplace(e *env) *cobra.Command {
	var o options.Replace
	return e.takes(&cobra.Command{
		Use:   "replace MODEL FROM=TO ... [--data D [--platform P]] [-o FILE]",
		Short: "Replace activations by others and measure what that costs, in float and quantized",
		Example: lines(
			"qwb replace model.onnx SiLU=HardSwish --data images/ --labels labels.tsv --platform onnxruntime",
			"qwb replace model.onnx HardSwish=Relu6 --nodes 'blocks.0.*' -o relu6.onnx"),
		Long: `Replace puts another activation in the place of every FROM, in whatever form the model has it (SiLU as x *
sigmoid(x), for example). The network computes another function then. How much that matters is measured on --data: the
changed model against the original in float, and with --platform both of them quantized. Their scales come from one half of
the samples; the other half judges, with paired tests as in qwb compare. -o writes the changed model, without training.

FROM: ` + strings.Join(passes.ReplaceableActivations(), ", ") + `
TO:   SiLU, ` + strings.Join(passes.SubstituteActivations(), ", "),
		Args: atLeast(2, "a model, and FROM=TO"),
		RunE: func(c *cobra.Command, args []string) error {
			o.Activations, o.Data.Budget = args[1:], o.Memory
			r, _, err := e.project(args[0], "").Replace(c.Context(), o.ReplaceOptions)
			if err != nil {
				return err
			}
			if o.JSON {
				return e.printJSON(r)
			}
			for _, x := range r.Replaced {
				fmt.Fprintf(e.stdout, "%s became %s at %s\n", x.From, x.To, plain.Count(len(x.Nodes), "node"))
			}
			if r.Comparison != nil {
				fmt.Fprintf(e.stdout, "%d of %s judge\n\n", r.HeldOut, plain.Count(r.Samples, "sample"))
				if err := reports.ComparisonText(e.stdout, r.Comparison, false); err != nil {
					return err
				}
			}
			if r.Model != "" {
				fmt.Fprintln(e.stdout, r.Model)
			}
			return nil
		},
	}, &o)
}
