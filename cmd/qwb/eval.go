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
	var labels, answers, backend, profile string
	var offset int
	var maxDrop float64
	c := &cobra.Command{
		Use:   "eval [MODEL|PLAN] --data D --labels F | eval CHECKPOINT --text FILE",
		Short: "Count how often a classifier is right, or how well a language model predicts text: in float, simulated INT8 or integers",
		Long: `Eval counts right first answers (top-1) and right answers among the first five (top-5). In mode sim it also runs the float graph
on the same samples and says how many answers differ, and how many percentage points of top-1 were lost, with the standard error of
that difference over the pairs. Mode int8 runs the integer program under the platform's arithmetic profile, beside both. With
another --profile it runs under that as well and says what is lost by it: --profile avx2-saturating, for one, is what processors
without VNNI do to 8-bit weights, held against the same arithmetic with exact sums.

Labels are a TSV file (file<TAB>index, a header is allowed) or a MNIST label file; CIFAR-10 files bring their own. The class is
the label plus --label-offset; where another offset would make far more answers right, that is said. With --data and no --samples, all
of it is used. Without a model or plan it takes the only plan in the current folder.

Of a language model (a checkpoint) it scores the lines of a text: mean negative log-likelihood and perplexity. A quantized model, or one
that --group-size, --bits or --method quantize, is held against the float one: the divergence of what they expect next, and how often the
most likely token is another. See docs/language-models.md.`,
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
			o.Data.Labels, o.Data.LabelOffset, o.Data.Budget = labels, offset, f.budget()
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
				return usagef("--batch is of --mode int8")
			case gate && o.Mode == "fp32":
				return usagef("--max-drop is about a quantized mode")
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
			if err == nil && gate && r.Drop > maxDrop {
				return qwb.Checkf("the accuracy drops by %.2f points, more than %g", r.Drop, maxDrop)
			}
			return err
		},
	}
	f.addData(c)
	f.addRun(c)
	f.addBudget(c)
	f.addJSON(c)
	c.Flags().StringVar(&f.mode, "mode", "fp32", "fp32, or with a plan sim (simulated INT8) or int8 (the integer program); of a checkpoint fp32, sim (quantized weights) or int8 (activations too)")
	c.Flags().StringVar(&backend, "backend", defaultBackend().Name, "what runs the integers: "+backends()+"; of a checkpoint, what runs the model: cpu, cuda or ptx")
	c.Flags().IntVar(&f.batch, "batch", 1, "samples in one run of --mode int8, where the model takes them: a GPU wants many")
	c.Flags().StringVar(&profile, "profile", "", "arithmetic profile of mode int8 (default: the platform's): "+profiles())
	c.Flags().StringVar(&labels, "labels", "", "TSV or MNIST label file")
	c.Flags().IntVar(&offset, "label-offset", 0, "class = label + offset")
	c.Flags().StringVar(&answers, "answers", "", "write the answer to every sample, or the score of every sequence, to this TSV file")
	addTexts(c, &texts)
	c.Flags().StringVar(&texts.Against, "against", "", "the checkpoint that it is held against (default: its own weights as floats)")
	underHeading(c, helpLanguage, "against")
	c.Flags().Float64Var(&maxDrop, "max-drop", 0, "exit 3 if top-1 drops by more than this many percentage points")
	return c
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
