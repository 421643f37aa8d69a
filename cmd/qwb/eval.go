package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/internal/kind"
	"qwb/internal/options"
	"qwb/reports"
)

func newEval(e *env) *cobra.Command {
	var o options.Eval
	return e.takes(&cobra.Command{
		Use:   "eval [MODEL|PLAN] --data D --labels F | eval CHECKPOINT --text FILE",
		Short: "Measure accuracy: top-1 and top-5 of a classifier, other metrics of a task, or perplexity of a language model",
		Example: lines(
			"qwb eval model.onnx --data images/ --preprocess imagenet-torch --labels labels.tsv",
			"qwb eval model.plan.json --data images/ --labels labels.tsv --mode int8 --max-drop 1",
			"qwb eval stories15M.bin --text lines.txt --bits 4 --group-size 32"),
		Long: `Eval measures top-1 and top-5 accuracy of a classifier:

  --mode fp32  the float model
  --mode sim   simulated INT8, compared with the float model on the same samples: how many predictions changed, and the top-1 drop in
               percentage points with its standard error (paired samples)
  --mode int8  the integer program under the target's arithmetic profile, compared with both

With another --profile the integer program runs under that profile as well, and eval shows its top-1 drop. For
example, avx2-saturating computes as CPUs without VNNI do with 8-bit weights; eval compares it with the same
arithmetic with exact sums.

--metric scores other tasks: mean IoU, mean average precision, error rates of text and more; --metric-cmd runs a
program of your own for it. Without labels, eval of a plan says how far its outputs are from those of the float
model. docs/metrics.md lists the metrics and what their labels look like.

Labels are a TSV file (file<TAB>index, a header is allowed) or an MNIST label file; CIFAR-10 files contain
their labels. The class is the label plus --label-offset. Eval says if another offset would give a much higher
accuracy. With --data, all samples are used unless --samples is given. Without a model or plan, eval uses the
only plan in the current folder.

For a language model (a checkpoint) eval scores the lines of --text: mean negative log-likelihood and
perplexity. A quantized model is compared with the float model: divergence of the next-token distributions,
and how often the most likely token changed. --group-size, --bits or --method quantize a float checkpoint. See
docs/language-models.md.`,
		Args: atMost(1, "one model, plan or checkpoint"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := spares("answers", o.Answers); err != nil {
				return err
			}
			file, err := findPlan(args, "")
			if err != nil {
				return err
			}
			isPlan := strings.HasSuffix(file, qwb.PlanSuffix)
			_, missing := os.Stat(file)
			if !isPlan && (kind.Of(file) == kind.Checkpoint || missing != nil && o.Texts.Text != "") {
				return e.printText(c, file, &o)
			}
			if err := e.networksOnly(c); err != nil {
				return err
			}
			model, plan := file, ""
			if isPlan {
				model, plan = "", file
			}
			if err := o.Check(e.catalog(), model, c.Flags().Changed("batch")); err != nil {
				return err
			}
			if isPlan && !c.Flags().Changed("mode") {
				e.note("mode fp32: the float model; --mode sim or --mode int8 is what the plan makes of it")
			}
			r, _, check := e.project(model, plan).Eval(c.Context(), o.EvalOptions)
			if r == nil || !checked(check) {
				return check
			}
			if o.Answers != "" && r.Answers == nil {
				return usagef("--answers: no metric here asks for classes")
			}
			if o.Answers != "" {
				if err := writeAnswers(o.Answers, r.Answers); err != nil {
					return err
				}
			}
			err = e.print(o.JSON, r, check, func() error { return reports.AccuracyText(e.stdout, r) })
			if err == nil && o.MaxDrop != nil {
				err = dropsAtMost(r, *o.MaxDrop)
			}
			return err
		},
	}, &o)
}

// dropsAtMost is the check of --max-drop: the first metric, or top-1.
func dropsAtMost(r *analysis.Accuracy, limit float64) error {
	name, drop, format := "top-1", 0.0, "%.2f pp"
	switch {
	case len(r.Scores) > 0 && r.Scores[0].Drop == nil:
		return qwb.Checkf("the drop of %s is undefined on these samples", r.Scores[0].Name)
	case len(r.Scores) > 0:
		name, drop = r.Scores[0].Name, *r.Scores[0].Drop
		if !r.Scores[0].Percent {
			format = "%.4g"
		}
	case r.Change != nil:
		drop = r.Drop
	}
	if drop > limit {
		return qwb.Checkf("%s drops by "+format+", more than --max-drop %g", name, drop, limit)
	}
	return nil
}

func writeAnswers(path string, answers []analysis.Answer) error {
	_, err := qwb.WriteFile(qwb.OS{}, path, func(w io.Writer) error {
		for _, a := range answers {
			if _, err := fmt.Fprintf(w, "%s\t%d\t%d\n", a.Sample, a.Label, a.Class); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}
