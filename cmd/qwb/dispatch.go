package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/plain"
	"qwb/reports"
)

// searchText prints what a search found.
func searchText(e *env, r *qwb.DispatchResult) error {
	for _, line := range r.Found.Lines(r) {
		if _, err := fmt.Fprintln(e.stdout, line); err != nil {
			return err
		}
	}
	return reports.SearchText(e.stdout, r.Found.Budget.What(), r.Found.Ranking, r.Points)
}

func newDispatch(e *env) *cobra.Command {
	var f flags
	var o qwb.DispatchOptions
	var auto bool
	var maxNSR, minCosine, maxDrop float64
	var mix mixFlags
	c := &cobra.Command{
		Use:   "dispatch [PLAN] --fp32 SELECTORS | --auto with a budget",
		Short: "Keep operators in FP32: by name, or as few as an error budget needs",
		Long: fmt.Sprintf(`Dispatch keeps operators in FP32 and updates the plan (the old one becomes .bak).

  --fp32 SELECTORS   keep these in FP32: names, /regular expressions/ or type:Softmax, separated by commas. Earlier choices stay;
                     --reset drops them
  --auto             find the smallest set (least work in FP32, then fewest Q/DQ boundaries) that meets one budget: --max-nsr X or
                     --min-cosine X at the outputs, or --max-drop PP of top-1 or another --metric on --data
  --auto --formats F,...
                     find the cheapest choice of a format for each operator: --minimize macs, bytes or time (with --device FILE). With
                     --max-macs, --max-bytes or --max-time in place of a budget on the error, the one that loses least

An activation fused to an operator goes with it. Scales come from the statistics beside the plan. For an imported plan they come from the
quantized file, and operators in FP32 use its dequantized weights. A search measures on the plan's own data (at most %d samples unless
--samples says otherwise) or on --data. It fits on about half of them and writes the plan only where the other half confirms the budget (95 %%
confidence). Exit code 3: nothing is confirmed; the plan is unchanged, and the message says how many samples would do.`, qwb.SearchSamples),
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
			for _, b := range []struct {
				name, flag  string
				at, lo, top float64
				bounds      string
			}{
				{"nsr", "max-nsr", maxNSR, 0, math.Inf(1), "0 or more"},
				{"cosine", "min-cosine", minCosine, -1, 1, "from -1 to 1"},
				{"drop", "max-drop", maxDrop, -100, 100, "from -100 to 100"},
			} {
				switch {
				case !c.Flags().Changed(b.flag):
					continue
				case o.Budget != nil:
					return usagef("one budget at a time: --max-nsr, --min-cosine or --max-drop")
				case math.IsNaN(b.at):
					return usagef("--%s NaN: not a number", b.flag)
				case b.at < b.lo || b.at > b.top:
					return usagef("--%s %g: out of range; it must be %s", b.flag, b.at, b.bounds)
				}
				o.Budget = &qwb.Budget{Name: b.name, At: b.at}
			}
			if err := mix.read(c, auto, &o); err != nil {
				return err
			}
			switch {
			case auto && o.Budget == nil && o.MaxCost == nil:
				return usagef("--auto needs a budget: --max-nsr, --min-cosine or --max-drop; or --max-macs, --max-bytes or --max-time")
			case !auto && o.Budget != nil:
				return usagef("--max-nsr, --min-cosine and --max-drop need --auto")
			case !auto && len(o.Selectors) == 0 && !o.Reset:
				return usagef("dispatch needs --fp32 SELECTORS, --auto or --reset")
			case !auto && o.Force:
				return usagef("--force needs --auto")
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
			if r.Found != nil && r.Evaluations > 0 {
				if terr := searchText(e, r); terr != nil {
					return terr
				}
			}
			for _, d := range r.Decisions {
				if err == nil {
					_, err = fmt.Fprintf(e.stdout, "%s\n", d)
				}
			}
			if err == nil {
				_, err = fmt.Fprintf(e.stdout, "%s: %s kept in float by user or search\n", r.Plan, plain.Count(len(r.FP32), "operator"))
			}
			return err
		},
	}
	f.addData(c)
	f.addSlices(c)
	f.addMetric(c, false)
	f.addRun(c)
	f.addMemory(c)
	f.addJSON(c)
	c.Flags().StringArrayVar(&o.Selectors, "fp32", nil, "operators to keep in FP32: NAME, /regular expression/ or type:OP, separated by commas")
	c.Flags().BoolVar(&o.Reset, "reset", false, "drop earlier choices of --fp32 and --auto")
	c.Flags().BoolVar(&auto, "auto", false, "search the smallest set of FP32 operators that meets the budget")
	c.Flags().Float64Var(&maxNSR, "max-nsr", 0, "budget: largest plain noise-to-signal ratio (NSR) at the graph outputs, behind a Softmax too, for example 0.01")
	c.Flags().Float64Var(&minCosine, "min-cosine", 0, "budget: smallest cosine similarity at the graph outputs, for example 0.999")
	c.Flags().Float64Var(&maxDrop, "max-drop", 0, "budget: largest drop of top-1, or of --metric, on --data: in percentage points (pp) for metrics that are shares")
	c.Flags().BoolVar(&o.Force, "force", false, "write what --auto found though no held-out samples confirm it")
	mix.add(c)
	return c
}
