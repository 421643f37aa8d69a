package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"qwb/analysis"
	"qwb/calib/data"
	"qwb/graph/checkpoint"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/program"
	"qwb/reports"
)

// evalOptions are the arguments of eval.
type evalOptions struct {
	file    string // model or plan
	mode    string // fp32, sim or int8
	backend string // of mode int8
	profile string // of mode int8; empty: the platform's
	data    dataOptions
	threads int
	batch   int // samples in one run of the integers
}

func newEval(e *env) *cobra.Command {
	var f flags
	var texts textOptions
	var labels, answers, backend, profile string
	var offset int
	var maxDrop float64
	c := &cobra.Command{
		Use:   "eval MODEL|PLAN --data D --labels F | eval CHECKPOINT --text FILE",
		Short: "Count how often a classifier is right, or how well a language model predicts text: in float, simulated INT8 or integers",
		Long: `Eval counts right first answers (top-1) and right answers among the first five (top-5). In mode sim it also runs the float graph
on the same samples and says how many answers differ, and how many percentage points of top-1 were lost, with the standard error of
that difference over the pairs. Mode int8 runs the integer program under the platform's arithmetic profile, beside both. With
another --profile it runs under that as well and says what is lost by it: --profile avx2-saturating, for one, is what processors
without VNNI do to 8-bit weights, held against the same arithmetic with exact sums.

Labels are a TSV file (file<TAB>index, a header is allowed) or a MNIST label file; CIFAR-10 files bring their own. The class is
the label plus --label-offset. With --data and no --samples, all of it is used.

Of a language model (a checkpoint) it scores the lines of a text: mean negative log-likelihood and perplexity. A quantized model, or one
that --group-size, --bits or --scales quantize, is held against the float one: the divergence of what they expect next, and how often the
most likely token is another. See docs/language-models.md.`,
		Args: exactly(1, "one model, plan or checkpoint"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			o := evalOptions{file: args[0], mode: f.mode, data: f.dataOptions(), threads: f.workers(), batch: f.batch}
			o.data.labels, o.data.labelOffset, o.data.budget = labels, offset, f.budget()
			o.backend, o.profile = backend, profile
			gate := c.Flags().Changed("max-drop")
			isPlan := strings.HasSuffix(o.file, planSuffix)
			_, missing := os.Stat(o.file)
			if !isPlan && (checkpoint.Is(o.file) || missing != nil && texts.text != "") {
				texts.file, texts.threads, texts.samples, texts.seed, texts.answers = o.file, f.workers(), f.samples, f.seed, answers
				texts.backend = backend
				if c.Flags().Changed("mode") {
					texts.mode = f.mode
				}
				return e.printText(c, texts, f.json)
			}
			if err := textsOnly(c); err != nil {
				return err
			}
			switch {
			case o.mode != "fp32" && o.mode != "sim" && o.mode != "int8":
				return usagef("--mode %s: one of fp32, sim, int8", o.mode)
			case o.mode != "fp32" && !isPlan:
				return usagef("--mode %s needs a plan; calibrate %s first", o.mode, o.file)
			case !isPlan && len(o.data.paths) == 0:
				return usagef("eval of a model needs --data")
			case o.profile != "" && o.mode != "int8":
				return usagef("--profile is the arithmetic of --mode int8")
			case c.Flags().Changed("batch") && o.mode != "int8":
				return usagef("--batch is of --mode int8")
			case o.backend != defaultBackend().Name && o.mode != "int8":
				return usagef("--backend is what runs --mode int8")
			case gate && o.mode == "fp32":
				return usagef("--max-drop is about a quantized mode")
			case math.IsNaN(maxDrop):
				return usagef("--max-drop NaN: not a number")
			}
			if _, err := knownBackend(o.backend); err != nil {
				return err
			}
			r, err := e.eval(c.Context(), o)
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
				return checkError{fmt.Errorf("the accuracy drops by %.2f points, more than %g", r.Drop, maxDrop)}
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
	texts.addTo(c)
	c.Flags().StringVar(&texts.against, "against", "", "of a checkpoint: the one that it is held against (default: its own weights as floats)")
	c.Flags().Float64Var(&maxDrop, "max-drop", 0, "exit 3 if top-1 drops by more than this many percentage points")
	return c
}

func writeAnswers(path string, answers []analysis.Answer) error {
	_, err := writeFile(path, func(w io.Writer) error {
		for _, a := range answers {
			if _, err := fmt.Fprintf(w, "%s\t%d\t%d\n", a.Sample, a.Label, a.Class); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (e *env) eval(ctx context.Context, o evalOptions) (*analysis.Accuracy, error) {
	if !strings.HasSuffix(o.file, planSuffix) {
		m, err := e.openModel(o.file)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		set, pre, err := e.openData(m.Graph, o.data.of(m))
		if err != nil {
			return nil, err
		}
		doctor := data.NewDoctor(data.SpecOf(m.Graph), m.loaded, &pre)
		r, err := e.accuracy(ctx, m, set, doctor.Observe, analysis.AccuracyConfig{Threads: o.threads, Memory: o.data.budget})
		for _, w := range doctor.Warnings() {
			e.warnAbout(w)
		}
		return r, err
	}
	p, err := e.openPlan(o.file)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	set, _, err := e.openData(p.Graph, p.data(o.data))
	if err != nil {
		return nil, err
	}
	cfg := analysis.AccuracyConfig{Threads: o.threads, Memory: o.data.budget}
	if o.mode != "fp32" {
		if cfg.Simulator, err = simulator(p.Graph, p.set, p.target); err != nil {
			return nil, err
		}
	}
	if o.mode == "int8" {
		running, err := p.integerForwards(&cfg, o)
		for _, x := range running {
			defer x.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	var hashes [][32]byte
	r, err := e.accuracy(ctx, p.model, set, func(s *exec.Sample) { hashes = append(hashes, s.Hash) }, cfg)
	if err != nil {
		return nil, err
	}
	if stats, err := loadStats(statsPath(o.file), p.model); err == nil {
		for _, w := range data.Overlap(sampleHashes(stats), hashes) {
			e.warnAbout(w)
		}
	}
	return r, nil
}

// integerForwards makes the program under the profile asked for and the one to hold it against: of a profile that saturates the same
// one without that, of another one that is not the platform's own the platform's. It returns what is to be closed at the end.
func (p *planned) integerForwards(cfg *analysis.AccuracyConfig, o evalOptions) (running []*program.Executor, err error) {
	forward := func(profile qmath.Profile) (analysis.Forward, error) {
		x, err := p.executor(o.backend, profile, o.batch, o.threads)
		if err != nil {
			return nil, err
		}
		running = append(running, x)
		return func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
			return x.Run(ctx, feeds, nil)
		}, nil
	}
	own, err := p.profile("")
	if err != nil {
		return nil, err
	}
	asked, err := p.profile(o.profile)
	if err != nil {
		return nil, err
	}
	cfg.Backend, cfg.Profile, cfg.Batch = o.backend, asked.Name, o.batch
	if cfg.Integer, err = forward(asked); err != nil {
		return running, err
	}
	if asked.Saturates {
		own = asked.Unsaturated()
	}
	if own.Name != asked.Name {
		cfg.BaseProfile = own.Name
		cfg.Base, err = forward(own)
	}
	return running, err
}

// accuracy evaluates a labelled data set. see is shown every sample.
func (e *env) accuracy(ctx context.Context, m *model, set *data.Set, see func(*exec.Sample), cfg analysis.AccuracyConfig) (*analysis.Accuracy, error) {
	if err := set.RequireLabels(); err != nil {
		return nil, err
	}
	tick, finish := e.progress("eval", set.Len())
	defer finish()
	cfg.Progress = tick
	start := time.Now()
	r, err := analysis.Eval(ctx, m.Graph, &watched{set.Iterator(), see}, cfg)
	if err != nil {
		return nil, budgetHint(m.name("eval", err))
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}
