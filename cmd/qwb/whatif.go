package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/analysis/tensors"
	"qwb/internal/arrange"
	"qwb/internal/options"
	"qwb/reports"
)

// whatIfOptions are those of whatif.
type whatIfOptions struct {
	qwb.WhatIfOptions
	all, json bool
}

func (o *whatIfOptions) Table(*qwb.Catalog) options.Table {
	return slices.Concat(
		options.Table{
			{Name: "measure", At: &o.Measure, Help: "run the plan as it is and as it would be, and print the error of the outputs of both"},
			{Name: "histograms", At: &o.Histograms, Help: "with --json: histogram, grid and observers of each tensor that changes"},
			{Name: "all", At: &o.all, Help: "print all tensors that change (default: the ten that change most)"},
		},
		options.Data(&o.Data), options.Threads(&o.Threads, &o.Data.Threads), options.JSON(&o.json))
}

func newWhatIf(e *env) *cobra.Command {
	var o whatIfOptions
	return e.takes(&cobra.Command{
		Use:   "whatif [PLAN] SELECTOR KEY=VALUE ... | lo=X hi=Y",
		Short: "Say what a decision would do, without deciding it",
		Example: lines(
			"qwb whatif type:Softmax domain=fp32",
			"qwb whatif conv1:in0 lo=-1 hi=4",
			"qwb whatif model.plan.json /attn/ weights=int4-sym-g32 --measure --samples 64"),
		Long: `Whatif takes what qwb set takes, and leaves the plan as it is. It prints at once what the decision is expected to do to the error of the
outputs, which tensors change and what clipping and rounding cost in each before and after, and the command that decides it. The estimate rests on
the last qwb analyze --layerwise of the plan. --measure runs both plans instead.

lo=X hi=Y is the range of one activation, such as conv1:in0: the scale and the zero point are those of the range.

` + selectorHelp + `

Properties:
` + properties(),
		ValidArgsFunction: deciding,
		Args:              atLeast(2, "a selector and at least one key=value"),
		RunE: func(c *cobra.Command, args []string) error {
			plan, rest, err := planAndRest(args)
			switch {
			case err != nil:
				return err
			case len(rest) < 2:
				return usagef("whatif takes a selector and at least one key=value: qwb whatif fc activations=int16-sym-tensor")
			case !o.Measure && (len(o.Data.Paths) > 0 || o.Data.Samples > 0):
				return usagef("--data and --samples need --measure: an estimate runs nothing")
			case o.Histograms && !o.json:
				return usagef("--histograms needs --json")
			}
			o.Select, o.Properties = rest[0], rest[1:]
			r, _, err := e.project("", plan).WhatIf(c.Context(), o.WhatIfOptions)
			if err != nil {
				return err
			}
			return e.print(o.json, r, nil, func() error { return whatIfText(e.stdout, r, o.all) })
		},
	}, &o)
}

// most is how many names and tensors are printed unless all are asked for.
const most = 10

// whatIfText prints what a decision would do.
func whatIfText(w io.Writer, r *tensors.WhatIf, all bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	est := r.Estimate
	fmt.Fprintln(t, "\tbefore\tafter")
	if m := r.Measured; m != nil {
		fmt.Fprintf(t, "%s of the outputs, measured on %d samples\t%s\t%s\n", analysis.ErrorName(m.Mismatches), m.Samples, nsrText(&m.Before),
			nsrText(&m.After))
	}
	fmt.Fprintf(t, "NSR of the outputs, estimated\t%s\t%s\n", nsrText(est.Before), nsrText(est.After))
	fmt.Fprintf(t, "multiply-accumulates on integers\t%.1f %%\t%.1f %%\n", 100*est.MACs.Before, 100*est.MACs.After)
	fmt.Fprintf(t, "bytes of constants\t%.0f\t%.0f\n", est.Bytes.Before, est.Bytes.After)
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nthe estimate: %s\n", est.Basis)
	if est.Stale {
		fmt.Fprintln(w, "the analysis is of other decisions: analyze again")
	}
	if n := len(est.Along); n > 0 {
		names := est.Along
		if n > most && !all {
			names = append(slices.Clone(names[:most]), fmt.Sprintf("and %d more (--all lists them)", n-most))
		}
		fmt.Fprintf(w, "not selected, but in another precision then: %s\n", strings.Join(names, ", "))
	}
	if err := tensorsText(w, r.Tensors, all); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nto decide it: %s\n", est.Command)
	return err
}

func nsrText(n *analysis.NSR) string {
	if n == nil {
		return "not known"
	}
	return reports.WithError(n.NSR, n.NSRError)
}

// tensorsText lists tensors, those that change most first.
func tensorsText(w io.Writer, list []tensors.Change, all bool) error {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	arrange.Stable(list, tensors.ByChange)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\ntensor\tscheme\tclip\tround\tscheme then\tclip\tround")
	for i, c := range list {
		if i == most && !all {
			fmt.Fprintf(t, "and %d more; --all lists them\n", len(list)-most)
			break
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.Slot, figuresText(c.Before), figuresText(c.After))
	}
	return t.Flush()
}

// figuresText is scheme, clip and round.
func figuresText(f *tensors.Figures) string {
	if f == nil {
		return "float\t-\t-"
	}
	return fmt.Sprintf("%s\t%s\t%s", f.Scheme, reports.Number(f.Clip), reports.Number(f.Round))
}
