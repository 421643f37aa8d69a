package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

const selectorHelp = `Selectors: the name of an operator (name:NAME where it could be something else), /regular expression/, type:Softmax,
pattern:attention (an idiom), first, last (operators with weights), depthwise, *. A trailing :in0, :out0 (any number), :weight or :bias
means that input or output of the operators; input:NAME and output:NAME are wherever a tensor is read and where it is computed. ! excludes,
commas join. They are about the model in its normal form (qwb plan show names its operators), not about anything derived.`

// planAndRest splits arguments: the first may be a plan, known by its suffix.
func planAndRest(args []string) (plan string, rest []string, err error) {
	if len(args) > 0 && strings.HasSuffix(args[0], qwb.PlanSuffix) {
		return args[0], args[1:], nil
	}
	plan, err = findPlan(nil)
	return plan, args, err
}

func properties() string {
	var b strings.Builder
	for _, p := range decision.All() {
		fmt.Fprintf(&b, "  %-12s %s\n", p.Name, p.Doc)
	}
	return b.String()
}

func newSet(e *env) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "set [PLAN] SELECTOR KEY=VALUE ...",
		Short: "Decide schemes, scales, observers or domains of operators and tensors",
		Long: `Set appends a decision to the plan and derives the plan anew from the statistics beside it. A later decision wins over an earlier one
about the same property; calibrating again, dispatch and searches keep it. Exit code 1 leaves the plan as it was: nothing matches, the
target cannot do it, or nothing would follow from it.

` + selectorHelp + `

Properties:
` + properties(),
		Args: atLeast(1, "a selector and key=value"),
		RunE: func(c *cobra.Command, args []string) error {
			plan, rest, err := planAndRest(args)
			if err != nil {
				return err
			}
			if len(rest) < 2 {
				return usagef("set takes a selector and at least one key=value: qwb set fc activations=int16-sym-tensor")
			}
			return e.decided(c.Context(), plan, &f, func(ctx context.Context, p *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error) {
				return p.Set(ctx, rest[0], rest[1:], f.workers())
			})
		},
	}
	f.addRun(c)
	f.addJSON(c)
	return c
}

func newUnset(e *env) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "unset [PLAN] SELECTOR | '#3'",
		Short: "Take decisions back by number or selector",
		Long: `Unset takes back one decision by its number in qwb plan log, or all decisions with a selector. The plan is then computed again.
Taking back is a decision too: the log keeps both, and unset of its number brings the first one back.`,
		Args: atLeast(1, "a selector or the number of a decision"),
		RunE: func(c *cobra.Command, args []string) error {
			plan, rest, err := planAndRest(args)
			if err != nil {
				return err
			}
			if len(rest) != 1 {
				return usagef("unset takes one selector or the number of a decision: qwb unset '#3'")
			}
			return e.decided(c.Context(), plan, &f, func(ctx context.Context, p *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error) {
				return p.Unset(ctx, rest[0], f.workers())
			})
		},
	}
	f.addRun(c)
	f.addJSON(c)
	return c
}

// decided runs what changes the decisions of a plan and prints the result.
func (e *env) decided(ctx context.Context, plan string, f *flags, run func(context.Context, *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error)) error {
	if err := f.check(); err != nil {
		return err
	}
	r, _, err := run(ctx, e.project("", plan))
	if err != nil {
		return err
	}
	if f.json {
		return e.printJSON(r)
	}
	for i := range r.Decisions {
		if _, err := fmt.Fprintf(e.stdout, "%s\n", &r.Decisions[i]); err != nil {
			return err
		}
	}
	for _, g := range r.Governed {
		if _, err := fmt.Fprintf(e.stdout, "  %s shares the scale of %s, so the decision applies to that tensor\n", g.Slot, g.By); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(e.stdout, "%s: updated\n", r.Plan)
	return err
}

func newPlan(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "plan show|log|undo|redo|rederive|explain|recipe|gc",
		Short: "Show, undo and redo the decisions of a plan",
		Long:  "A plan is a list of decisions; scales and domains follow from it. These commands show the list, step back and forth in it, and explain it.",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q of plan; qwb plan --help lists them", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return c.Help() },
	}
	c.AddCommand(newPlanShow(e), newPlanLog(e), newPlanExplain(e), newPlanRecipe(e), newPlanGC(e),
		newPlanStep(e, "undo", "Take back the decisions of the last command", `Undo removes the decisions of the last command and computes the plan again. qwb plan redo brings them back, until another decision is
made. The first step, made by calibrate or import, cannot be undone. Calibrating with other data or for another platform starts a new list.`, (*qwb.Project).Undo),
		newPlanStep(e, "redo", "Bring back what was undone", "Redo brings back what qwb plan undo took back last.", (*qwb.Project).Redo),
		newPlanStep(e, "rederive", "Compute the plan's numbers again with this version", `Another version of qwb, or another machine, may compute slightly different scales from the same decisions. The scales stored in a plan stay
in force until a decision changes them. Rederive replaces all of them with the ones that this version computes.`, (*qwb.Project).Rederive))
	return c
}

func newPlanStep(e *env, name, short, long string, run func(*qwb.Project, context.Context, int) (*qwb.DecideResult, []tqc.Warning, error)) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use: name + " [PLAN]", Short: short, Long: long, Args: atMost(1, "one plan"),
		RunE: func(c *cobra.Command, args []string) error {
			plan, err := findPlan(args)
			if err != nil {
				return err
			}
			return e.decided(c.Context(), plan, &f, func(ctx context.Context, p *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error) {
				return run(p, ctx, f.workers())
			})
		},
	}
	f.addRun(c)
	f.addJSON(c)
	return c
}
