package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/internal/kind"
	"qwb/reports"
)

func newEval(e *env) *cobra.Command {
	var f flags
	var texts qwb.TextOptions
	var answers, backend, profile string
	var maxDrop float64
	c := &cobra.Command{
		Use:   "eval [MODEL|PLAN] --data D --labels F | eval CHECKPOINT --text FILE",
		Short: "Measure accuracy: top-1 and top-5 of a classifier, other metrics of a task, or perplexity of a language model",
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
			if err := f.check(); err != nil {
				return err
			}
			if err := spares("answers", answers); err != nil {
				return err
			}
			file, err := findPlan(args)
			if err != nil {
				return err
			}
			o := qwb.EvalOptions{Mode: f.mode, Data: f.dataOptions(), Threads: f.workers(), Batch: f.batch}
			o.Data.Budget = f.budget()
			o.Backend, o.Profile = backend, profile
			gate := c.Flags().Changed("max-drop")
			isPlan := strings.HasSuffix(file, qwb.PlanSuffix)
			_, missing := os.Stat(file)
			if !isPlan && (kind.Of(file) == kind.Checkpoint || missing != nil && texts.Text != "") {
				texts.Threads, texts.Samples, texts.Seed, texts.Answers = f.workers(), f.samples, f.seed, answers
				texts.Backend = backend
				if c.Flags().Changed("mode") {
					texts.Mode = f.mode
				}
				return e.printText(c, file, texts, f.json)
			}
			if err := textsOnly(c); err != nil {
				return err
			}
			if err := modeOf(o.Mode, isPlan, file, o.Backend, o.Profile); err != nil {
				return err
			}
			switch {
			case !isPlan && len(o.Data.Paths) == 0:
				return usagef("eval of a model needs --data")
			case c.Flags().Changed("batch") && o.Mode != "int8":
				return usagef("--batch is for --mode int8 only")
			case gate && o.Mode == "fp32":
				return usagef("--max-drop needs --mode sim or --mode int8")
			case math.IsNaN(maxDrop):
				return usagef("--max-drop NaN: not a number")
			}
			if isPlan && !c.Flags().Changed("mode") {
				e.note("mode fp32: the float model; --mode sim or --mode int8 is what the plan makes of it")
			}
			model, plan := file, ""
			if isPlan {
				model, plan = "", file
			}
			r, _, err := e.project(model, plan).Eval(c.Context(), o)
			if err != nil {
				return err
			}
			if answers != "" && r.Answers == nil {
				return usagef("--answers: no metric here asks for classes")
			}
			if answers != "" {
				if err := writeAnswers(answers, r.Answers); err != nil {
					return err
				}
			}
			if f.json {
				err = e.printJSON(r)
			} else {
				err = reports.AccuracyText(e.stdout, r)
			}
			if err == nil && gate {
				err = dropsAtMost(r, maxDrop)
			}
			return err
		},
	}
	f.addData(c)
	f.addMetric(c, true)
	f.addSlices(c)
	f.addRun(c)
	f.addBudget(c)
	f.addJSON(c)
	c.Flags().StringVar(&f.mode, "mode", "fp32", "fp32; with a plan also sim (simulated INT8) or int8 (the integer program); for a checkpoint fp32, sim (quantized weights) or int8 (quantized weights and activations)")
	c.Flags().StringVar(&backend, "backend", defaultBackend().Name, "backend of --mode int8: "+backends()+"; for a checkpoint: cpu, cuda or ptx")
	c.Flags().IntVar(&f.batch, "batch", 1, "samples per forward pass of --mode int8, if the model takes batches; on a GPU a large batch is faster")
	c.Flags().StringVar(&profile, "profile", "", "arithmetic profile of --mode int8 (default: the target's): "+profiles())
	c.Flags().StringVar(&answers, "answers", "", "write the prediction for every sample, or the score of every line of text, to this TSV `FILE`")
	addTexts(c, &texts)
	c.Flags().StringVar(&texts.Against, "against", "", "`CHECKPOINT` to compare with (default: the same weights as floats)")
	underHeading(c, helpLanguage, "against")
	c.Flags().Float64Var(&maxDrop, "max-drop", 0, "exit with code 3 if top-1, or the first of --metric, drops by more than this: percentage points (pp) of metrics that are shares")
	return c
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
