package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/reports"
)

func newDispatch(e *env) *cobra.Command {
	var f flags
	var o qwb.DispatchOptions
	var auto bool
	var maxNSR, minCosine, maxDrop float64
	var labels string
	var offset int
	c := &cobra.Command{
		Use:   "dispatch [PLAN] --fp32 SELECTORS | --auto with a budget",
		Short: "Send operators back to float, by hand or until a budget on the error is met",
		Long: fmt.Sprintf(`Dispatch updates the plan (the old one is kept as .bak).

  --fp32 SELECTORS   names, /regular expressions/ or type:Softmax, separated by commas; added to what was sent to float before
                     (--reset forgets that)
  --auto             look for the smallest set of operators (least work in float, then fewest borders) that meets one budget:
                     --max-nsr X, --min-cosine X at the graph outputs, or --max-drop POINTS of top-1 on --data with --labels

What belongs together stays together: an activation goes with the operator it is fused to. The scales come from the statistics beside
the plan; those of an imported plan from the quantized file, whose weights, dequantized, are what float operators have then. A search
measures on the plan's own data (at most %d samples unless --samples says otherwise) or on --data. Exit code 3: not even the whole
graph in float meets the budget.`, qwb.SearchSamples),
		Args: atMost(1, "one plan"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			plan, err := findPlan(args)
			if err != nil {
				return err
			}
			o.Data, o.Threads = f.dataOptions(), f.workers()
			o.Memory, _ = f.memory()
			o.Data.Labels, o.Data.LabelOffset = labels, offset
			for name, at := range map[string]float64{"nsr": maxNSR, "cosine": minCosine, "drop": maxDrop} {
				flag := map[string]string{"nsr": "max-nsr", "cosine": "min-cosine", "drop": "max-drop"}[name]
				if c.Flags().Changed(flag) {
					if o.Budget != nil {
						return usagef("one budget at a time: --max-nsr, --min-cosine or --max-drop")
					}
					if math.IsNaN(at) {
						return usagef("--%s NaN: not a number", flag)
					}
					if name == "nsr" && at < 0 || name == "cosine" && (at < -1 || at > 1) || name == "drop" && (at < -100 || at > 100) {
						return usagef("--%s %g: no network reaches that", flag, at)
					}
					o.Budget = &qwb.Budget{Name: name, At: at}
				}
			}
			switch {
			case auto && o.Budget == nil:
				return usagef("--auto needs a budget: --max-nsr, --min-cosine or --max-drop")
			case !auto && o.Budget != nil:
				return usagef("a budget needs --auto")
			case !auto && len(o.Selectors) == 0 && !o.Reset:
				return usagef("dispatch needs --fp32 SELECTORS, --auto or --reset")
			case o.Budget != nil && o.Budget.Name == "drop" && len(o.Data.Paths) == 0:
				return usagef("--max-drop needs --data and labels")
			}
			r, _, err := e.project("", plan).Dispatch(c.Context(), o)
			if r == nil {
				return err
			}
			if f.json {
				if jerr := e.printJSON(r); jerr != nil {
					return jerr
				}
				return err
			}
			if r.Search != nil {
				if terr := reports.SearchText(e.stdout, r.Units, r.Search); terr != nil {
					return terr
				}
			}
			if err == nil {
				_, err = fmt.Fprintf(e.stdout, "%s: %d operators in float by user or search\n", r.Plan, len(r.FP32))
			}
			return err
		},
	}
	f.addData(c)
	f.addRun(c)
	f.addMemory(c)
	f.addJSON(c)
	c.Flags().StringArrayVar(&o.Selectors, "fp32", nil, "operators to send to float: name, /regex/, type:Op; separated by commas")
	c.Flags().BoolVar(&o.Reset, "reset", false, "forget what was sent to float before")
	c.Flags().BoolVar(&auto, "auto", false, "search for the smallest set that meets a budget")
	c.Flags().Float64Var(&maxNSR, "max-nsr", 0, "budget: noise-to-signal ratio at the graph outputs")
	c.Flags().Float64Var(&minCosine, "min-cosine", 0, "budget: cosine at the graph outputs")
	c.Flags().Float64Var(&maxDrop, "max-drop", 0, "budget: percentage points of top-1 on --data")
	c.Flags().StringVar(&labels, "labels", "", "labels for --max-drop")
	c.Flags().IntVar(&offset, "label-offset", 0, "class = label + offset")
	return c
}
