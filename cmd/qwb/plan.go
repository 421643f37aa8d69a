package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/kind"
	"qwb/internal/options"
	"qwb/internal/plain"
	"qwb/quantizer/tqc"
)

func newPlanLog(e *env) *cobra.Command {
	var asJSON bool
	var mlflow string
	return e.takes(&cobra.Command{
		Use:               "log [PLAN]",
		Short:             "List the decisions of a plan",
		Example:           lines("qwb plan log", "qwb plan log --mlflow mlruns"),
		ValidArgsFunction: files("plan.json"),
		Long: `Log lists all decisions that were ever made about a plan, with their numbers. The mark - means that a decision
was taken back or replaced. "outdated" means that its evidence was measured under other decisions or inputs.

Below a decision stands what commands found about the plan as the decision left it (-> eval: ...). These
outcomes are kept in PLAN.runs.jsonl. Undo and redo lead back to plans whose outcomes are still known.`,
		Args: atMost(1, "one plan"),
		RunE: onPlan(func(c *cobra.Command, file string) error {
			r, _, err := e.project("", file).Log(c.Context())
			if err == nil && mlflow != "" {
				err = writeMLflow(mlflow, r)
			}
			if err != nil {
				return err
			}
			return e.print(asJSON, r, nil, func() error { return logText(e.stdout, r) })
		}),
	}, append(options.JSON(&asJSON), options.Option{Name: "mlflow", See: "plan-file.md", At: &mlflow,
		Help: "also write the outcomes to this `FOLDER` in the file layout of MLflow (mlruns), a run for each decision"}))
}

// maxChoices is how many choices of an automatic observer log shows of each step; --json has all.
const maxChoices = 3

func logText(w io.Writer, r *qwb.LogResult) error {
	var b strings.Builder
	choices := 0
	flush := func() {
		if choices > maxChoices {
			fmt.Fprintf(&b, "      and %d more choices of auto (--json lists them)\n", choices-maxChoices)
		}
		choices = 0
	}
	for i := range r.Decisions {
		l := &r.Decisions[i]
		if l.By == "calibrate" && len(l.Select) > 0 {
			if choices++; choices > maxChoices {
				if len(l.Runs) > 0 {
					flush()
					runsText(&b, l.Runs)
				}
				continue
			}
		} else {
			flush()
		}
		mark := " "
		if !l.InForce {
			mark = "-"
		}
		fmt.Fprintf(&b, "%s #%-3d %s", mark, l.Number, l.Text())
		if l.Stale {
			b.WriteString("  (outdated: its evidence was measured under other decisions or inputs)")
		}
		b.WriteByte('\n')
		for _, line := range l.Story() {
			fmt.Fprintf(&b, "       %s\n", line)
		}
		for _, g := range l.Governed {
			fmt.Fprintf(&b, "       %s takes the scale of %s\n", g.Slot, g.By)
		}
		if len(l.Runs) > 0 {
			flush()
		}
		runsText(&b, l.Runs)
	}
	flush()
	for i := range r.Undone {
		for k := range r.Undone[i].Decisions {
			fmt.Fprintf(&b, "undone   %s\n", &r.Undone[i].Decisions[k])
		}
		runsText(&b, r.Undone[i].Runs)
	}
	if r.Elsewhere > 0 {
		fmt.Fprintf(&b, "%s of other plans that had this name (qwb plan gc removes them)\n", plain.Count(r.Elsewhere, "outcome"))
	}
	if r.Redo > 0 {
		fmt.Fprintf(&b, "%d undone; qwb plan redo does the last of them again\n", r.Redo)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// runsText lists the outcomes of commands under the decision that they were about.
func runsText(w io.Writer, runs []qwb.Outcome) {
	for i := range runs {
		fmt.Fprintf(w, "       -> %s\n", &runs[i])
	}
}

func newPlanShow(e *env) *cobra.Command {
	var asJSON bool
	return e.takes(&cobra.Command{
		Use:               "show [PLAN]",
		Short:             "Summarize a plan: model, target, decisions, precision of operators",
		Example:           lines("qwb plan show model.plan.json"),
		ValidArgsFunction: files("plan.json"),
		Args:              atMost(1, "one plan"),
		RunE: onPlan(func(c *cobra.Command, file string) error {
			r, _, err := e.project("", file).Show()
			if err != nil {
				return err
			}
			return e.print(asJSON, r, nil, func() error { return showText(e.stdout, r) })
		}),
	}, options.JSON(&asJSON))
}

func showText(w io.Writer, r *qwb.ShowResult) error {
	var b strings.Builder
	line := func(what, format string, a ...any) { fmt.Fprintf(&b, "%-10s %s\n", what, fmt.Sprintf(format, a...)) }
	line("plan", "%s, version %d, SHA-256 %.12s...", r.Plan, r.Version, r.Hash)
	line("model", "%s, SHA-256 %.12s...", r.Model.Path, r.Model.SHA256)
	if r.Imported != nil {
		line("imported", "%s", r.Imported.Path)
	} else {
		line("data", "%d samples of %s", r.Samples, strings.Join(r.Data.Paths, ", "))
	}
	line("platform", "%s, computed here as %s (%s)", r.Platform, r.Profile, r.Arithmetic)
	line("operators", "%s", counts(r.Domains))
	line("scales", "%s", counts(r.Schemes))
	line("cost", "%s", qwb.CostWords(r.Cost))
	if v := r.Verified; v != nil {
		on := plain.Count(v.Samples, "sample")
		if v.Data != "" {
			on += " of " + v.Data + " data"
		}
		line("verified", "%s on %s, %s: %s", v.Profile, v.Backend, on, v.Verdict)
	}
	if r.Version == 1 {
		b.WriteString("decisions  none: the file is of version 1; the first command that changes it brings it over\n")
	}
	auto := 0
	for i := range r.InForce {
		l := &r.InForce[i]
		if l.By == "calibrate" && len(l.Select) > 0 {
			auto++
			continue
		}
		what := ""
		if i == 0 {
			what = "decisions"
		}
		line(what, "#%d %s", l.Number, l.Text())
	}
	if auto > 0 {
		line("", "and what auto chose for %d tensors", auto)
	}
	shown, _ := tqc.Folded(r.Warnings)
	for _, w := range shown {
		line("warning", "%s", strings.TrimPrefix(w.Node+": "+w.Text, ": "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// counts writes a table of counts on one line, the largest first.
func counts(m map[string]int) string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("%d %s", m[n], n)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func newPlanExplain(e *env) *cobra.Command {
	var asJSON bool
	return e.takes(&cobra.Command{
		Use:               "explain NODE [PLAN]",
		Short:             "Show the precision, scales and zero points of an operator, and the decisions behind them",
		Example:           lines("qwb plan explain conv1"),
		ValidArgsFunction: selecting,
		Args:              atLeast(1, "an operator and a plan"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 2 {
				return usagef("explain takes an operator and a plan, not %d arguments", len(args))
			}
			file, err := findPlan(args[1:], "")
			if err != nil {
				return err
			}
			r, _, err := e.project("", file).Explain(c.Context(), args[0])
			if err != nil {
				return err
			}
			return e.print(asJSON, r, nil, func() error {
				_, err := io.WriteString(e.stdout, r.Text())
				return err
			})
		},
	}, options.JSON(&asJSON))
}

func newPlanRecipe(e *env) *cobra.Command {
	var out string
	return e.takes(&cobra.Command{
		Use:   "recipe [PLAN]",
		Short: "Write the decisions of a plan as a recipe for other models",
		Example: lines(
			"qwb plan recipe -o recipe.yaml",
			"qwb calibrate other.onnx --data images/ --platform trt_int8 --recipe recipe.yaml"),
		ValidArgsFunction: files("plan.json"),
		Long: `Recipe prints the decisions in force as YAML, for qwb calibrate --recipe. It leaves out what belongs to the
data of one model: evidence, and the results of automatic choices.`,
		Args: atMost(1, "one plan"),
		RunE: onPlan(func(c *cobra.Command, file string) error {
			b, _, err := e.project("", file).Recipe(c.Context())
			if err != nil {
				return err
			}
			return e.writeText(out, b)
		}),
	}, options.Output(&out, "file to write (default: standard output)"))
}

// writeText writes text to a file, or to standard output where out names none.
func (e *env) writeText(out string, b []byte) error {
	if out == "" {
		_, err := e.stdout.Write(b)
		return err
	}
	if k := kind.Of(out); k == kind.Plan || k == kind.ONNX || k == kind.Statistics || k == kind.Overlay {
		return fmt.Errorf("%s would be replaced: name another file with -o", out)
	}
	_, err := qwb.WriteFile(qwb.OS{}, out, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
	return err
}

func newPlanGC(e *env) *cobra.Command {
	var asJSON bool
	return e.takes(&cobra.Command{
		Use:               "gc [PLAN]",
		Short:             "Remove files of tuned values, and outcomes in the log, that no decision uses any more",
		Example:           lines("qwb plan gc"),
		ValidArgsFunction: files("plan.json"),
		Args:              atMost(1, "one plan"),
		RunE: onPlan(func(c *cobra.Command, file string) error {
			r, _, err := e.project("", file).GC()
			if err != nil {
				return err
			}
			if asJSON {
				return e.printJSON(r)
			}
			for _, folder := range r.LeftoversKept {
				e.warn("%s is of a run that was killed while files got their names: it holds what they were before", folder)
			}
			if n := len(r.Leftovers); n > 0 {
				e.note("%s of runs that were killed: removed", plain.Count(n, "folder"))
			}
			_, err = fmt.Fprintf(e.stdout, "%s: %d removed, %d kept; outcomes of runs: %d removed, %d kept\n", r.Plan, len(r.Removed), len(r.Kept),
				r.RunsRemoved, r.RunsKept)
			return err
		}),
	}, options.JSON(&asJSON))
}
