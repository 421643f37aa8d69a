package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
)

func newOperators(e *env) *cobra.Command {
	var asJSON bool
	return e.takes(&cobra.Command{
		Use:     "operators",
		Short:   "List the operators that run on integers, and which backends and formats have them",
		Example: lines("qwb operators"),
		Long: `Operators lists every step of an integer program with the operators of ONNX that become one, and what each backend and each
format of programs has for it.

  own   a kernel of its own; tensors that it is not for are left to the definition (16 bits on the processor)
  def   its definition, which all backends run where they have nothing else: the same integers, slower
  yes   the format has it
  -     the format does not; to export such a plan is an error that names the operator

docs/adding-an-integer-operator.md says how an operator is added.`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, args []string) error {
			list := e.project("", "").Catalog.ListOperators()
			return e.print(asJSON, list, nil, func() error { return operatorsText(e.stdout, list) })
		},
	}, options.JSON(&asJSON))
}

// operatorsText prints a line for all operators of a step of which the same is to be said.
func operatorsText(w io.Writer, list []qwb.OperatorInfo) error {
	columns := slices.Concat(list[0].Backends, list[0].ByDefinition, list[0].Formats, list[0].Without)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "step\t%s\tverify\toperators of ONNX\n", strings.Join(columns, "\t"))
	line := func(o *qwb.OperatorInfo) string {
		cells := []string{o.Step}
		for _, name := range columns {
			cells = append(cells, has(o, name))
		}
		return strings.Join(append(cells, map[bool]string{true: "yes", false: "-"}[o.Verified]), "\t")
	}
	var heads []string
	ops := map[string][]string{}
	for i := range list {
		head := line(&list[i])
		if ops[head] == nil {
			heads = append(heads, head)
		}
		ops[head] = append(ops[head], list[i].Op)
	}
	for _, head := range heads {
		fmt.Fprintf(t, "%s\t%s\n", head, strings.Join(ops[head], " "))
	}
	return t.Flush()
}

// has is what a backend or format has for an operator, in a word.
func has(o *qwb.OperatorInfo, name string) string {
	switch {
	case slices.Contains(o.Backends, name):
		return "own"
	case slices.Contains(o.ByDefinition, name):
		return "def"
	case slices.Contains(o.Formats, name):
		return "yes"
	}
	return "-"
}
