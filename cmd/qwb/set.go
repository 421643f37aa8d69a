package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

const selectorHelp = `Selectors name operators or tensors:

  NAME                     the operator NAME; name:NAME if NAME could be another selector
  /regular expression/     operators whose name matches
  type:Softmax             operators of this type
  pattern:attention        operators of this pattern: attention, layernorm, rmsnorm, gelu, hardswish, mish, swish
  first, last              the first or last operator with weights
  depthwise, *             depthwise convolutions, all operators
  SELECTOR:in0, :out0      an input or output of these operators (any number), their :weight or :bias
  input:NAME, output:NAME  the tensor NAME wherever an operator reads it, or where it is computed; * for all inputs or outputs
                           of the graph
  A,B   !A                 A and B; all but A

Selectors see the normalized model: qwb plan show lists its operators. They do not match operators that a plan
adds.`

// planAndRest splits arguments: the first may be a plan, known by its suffix.
func planAndRest(args []string) (plan string, rest []string, err error) {
	if len(args) > 0 && strings.HasSuffix(args[0], qwb.PlanSuffix) {
		return args[0], args[1:], nil
	}
	plan, err = findPlan(nil, "")
	return plan, args, err
}

func properties() string {
	var b strings.Builder
	for _, p := range decision.All() {
		fmt.Fprintf(&b, "  %-13s %s\n", p.Name, p.Doc)
	}
	return b.String()
}

func newSet(e *env) *cobra.Command {
	var o decideOptions
	return e.takes(&cobra.Command{
		Use:   "set [PLAN] SELECTOR KEY=VALUE ...",
		Short: "Set scheme, scale, observer or precision of operators and tensors",
		Example: lines(
			"qwb set fc activations=int16-sym-tensor",
			"qwb set /attn/ weights=int4-sym-g32 observer='percentile(0.999)'",
			"qwb set conv1:in0 scale=0.02 zero_point=0",
			"qwb set 'type:Softmax,!head' domain=fp32"),
		Long: `Set adds a decision to the plan and computes the plan again from the statistics beside it. A later decision
replaces an earlier one about the same property. The decision stays in force when qwb calibrate, dispatch or a
search runs again.

If no operator matches, the target does not support the value, or no tensor that is selected could have it, the
plan is unchanged and the exit code is 1. A decision that stands in the plan already is not added again. Where an analysis of
the plan as it is tells it (qwb analyze --layerwise), the error that is expected of the outputs is printed.

` + selectorHelp + `

Properties:
` + properties(),
		ValidArgsFunction: deciding,
		Args:              atLeast(1, "a selector and key=value"),
		RunE: func(c *cobra.Command, args []string) error {
			plan, rest, err := planAndRest(args)
			if err != nil {
				return err
			}
			if len(rest) < 2 {
				return usagef("set takes a selector and at least one key=value: qwb set fc activations=int16-sym-tensor")
			}
			return e.decided(c.Context(), plan, &o, func(ctx context.Context, p *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error) {
				return set(ctx, p, rest[0], rest[1:], o.threads)
			})
		},
	}, &o)
}

// set decides, and adds to what changes the error of the outputs that is estimated before and after, where an analysis tells it.
func set(ctx context.Context, p *qwb.Project, selector string, words []string, threads int) (*qwb.DecideResult, []tqc.Warning, error) {
	w := qwb.WhatIfOptions{Select: selector, Properties: words}
	w.Threads = threads
	expected, _, unknown := p.WhatIf(ctx, w) // what is wrong with the decision is said by Set
	r, warnings, err := p.Set(ctx, selector, words, threads)
	if err == nil && unknown == nil && !r.Unchanged && r.Changes != "" {
		if est := expected.Estimate; est.Before != nil && est.After != nil && !est.Stale {
			r.Changes += fmt.Sprintf("; NSR of the outputs, estimated: %s to %s", nsrText(est.Before), nsrText(est.After))
		}
	}
	return r, warnings, err
}

func newUnset(e *env) *cobra.Command {
	var o decideOptions
	return e.takes(&cobra.Command{
		Use:   "unset [PLAN] SELECTOR | '#3'",
		Short: "Take back decisions, by number or by selector",
		Example: lines(
			"qwb unset conv1",
			"qwb unset '#3'"),
		ValidArgsFunction: selecting,
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
			return e.decided(c.Context(), plan, &o, func(ctx context.Context, p *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error) {
				return p.Unset(ctx, rest[0], o.threads)
			})
		},
	}, &o)
}

// decideOptions are those of commands that change the decisions of a plan.
type decideOptions struct {
	threads int
	json    bool
}

func (o *decideOptions) Table(*qwb.Catalog) options.Table {
	return append(options.Threads(&o.threads), options.JSON(&o.json)...)
}

// decided runs what changes the decisions of a plan and prints the result.
func (e *env) decided(ctx context.Context, plan string, o *decideOptions,
	run func(context.Context, *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error)) error {
	r, _, err := run(ctx, e.project("", plan))
	if err != nil {
		return err
	}
	if o.json {
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
	if r.Changes != "" {
		if _, err := fmt.Fprintf(e.stdout, "  %s\n", r.Changes); err != nil {
			return err
		}
	}
	done := "updated"
	if r.Unchanged {
		done = "unchanged"
	}
	if _, err = fmt.Fprintf(e.stdout, "%s: %s\n", r.Plan, done); err == nil {
		runsText(e.stdout, r.Runs)
	}
	return err
}

func newPlan(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "plan show|log|undo|redo|rederive|explain|recipe|schema|gc",
		Short: "Show, undo and redo the decisions of a plan",
		Long: "A plan is a list of decisions. Scales, zero points and precision of operators are computed from it.\nThese commands show the " +
			"list, undo and redo its steps, and explain the result.",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q of plan; qwb plan --help lists them", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return c.Help() },
	}
	c.AddCommand(newPlanShow(e), newPlanLog(e), newPlanExplain(e), newPlanRecipe(e), newPlanSchema(e), newPlanGC(e),
		newPlanStep(e, "undo", "Take back the decisions of the last command", `Undo removes the decisions of the last command and computes the plan again. qwb plan redo brings them back, until another decision is
made. The first step, made by calibrate or import, cannot be undone. Calibrating with other data or for another platform starts a new list.`, (*qwb.Project).Undo),
		newPlanStep(e, "redo", "Bring back what was undone", "Redo brings back what qwb plan undo took back last.", (*qwb.Project).Redo),
		newPlanStep(e, "rederive", "Compute the plan's numbers again with this version", `Another version of qwb, or another machine, may compute slightly different scales from the same decisions. The scales stored in a plan stay
in force until a decision changes them. Rederive replaces all of them with the ones that this version computes.`, (*qwb.Project).Rederive))
	return c
}

func newPlanStep(e *env, name, short, long string,
	run func(*qwb.Project, context.Context, int) (*qwb.DecideResult, []tqc.Warning, error)) *cobra.Command {
	var o decideOptions
	return e.takes(&cobra.Command{
		Use: name + " [PLAN]", Short: short, Long: long, Example: lines("qwb plan " + name), ValidArgsFunction: files("plan.json"),
		Args: atMost(1, "one plan"),
		RunE: onPlan(func(c *cobra.Command, plan string) error {
			return e.decided(c.Context(), plan, &o, func(ctx context.Context, p *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error) {
				return run(p, ctx, o.threads)
			})
		}),
	}, &o)
}
