package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
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
	var o options.Dispatch
	return e.takes(&cobra.Command{
		Use:   "dispatch [PLAN] --fp32 SELECTORS | --auto with a budget",
		Short: "Keep operators in FP32: by name, or as few as an error budget needs",
		Example: lines(
			"qwb dispatch --fp32 type:Softmax,head",
			"qwb dispatch --auto --max-drop 0.5 --data images/ --labels labels.tsv",
			"qwb dispatch --auto --formats fp16,int4 --minimize bytes --max-nsr 0.01 --data images/"),
		ValidArgsFunction: files("plan.json"),
		Long: fmt.Sprintf(`Dispatch keeps operators in FP32 and updates the plan (the old one becomes .bak).

  --fp32 SELECTORS   keep these in FP32: names, /regular expressions/ or type:Softmax, separated by commas. Earlier choices stay;
                     --reset drops them
  --auto             find the smallest set (least work in FP32, then fewest Q/DQ boundaries) that meets one budget: --max-nsr X or
                     --min-cosine X at the outputs, or --max-drop PP of top-1 or another --metric on --data; with --max-work P
                     at most P %% more work than the plan as it is
  --auto --formats F,...
                     find the cheapest choice of a format for each operator: --minimize macs, bytes or time (with --device FILE). With
                     --max-macs, --max-bytes or --max-time in place of a budget on the error, the one that loses least

An activation fused to an operator goes with it. Scales come from the statistics beside the plan. For an imported plan they come from the
quantized file, and operators in FP32 use its dequantized weights. A search measures on the plan's own data (at most %d samples unless
--samples says otherwise) or on --data. It fits on about half of them and writes the plan only where the other half confirms the budget (95 %%
confidence). Exit code 3: nothing is confirmed; the plan is unchanged, and the message says how many samples would do.`, qwb.SearchSamples),
		Args: atMost(1, "one plan"),
		RunE: onPlan(func(c *cobra.Command, plan string) error {
			if err := o.Check(); err != nil {
				return err
			}
			r, _, err := e.project("", plan).Dispatch(c.Context(), o.DispatchOptions)
			if r == nil {
				return err
			}
			if o.JSON {
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
		}),
	}, &o)
}
