package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"qwb/analysis"
	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/checkpoint"
	"qwb/observers"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// analysisSamples is how many samples of the plan's own data an analysis takes unless told otherwise.
const analysisSamples = 32

// analyzeOptions are the arguments of analyze.
type analyzeOptions struct {
	plan      string
	data      dataOptions
	html, png string // where to write; both empty: a folder beside the plan
	explain   bool   // what the loss of the integers is made of
	analysis.Config
}

func newAnalyze(e *env) *cobra.Command {
	var f flags
	var o analyzeOptions
	var texts textOptions
	c := &cobra.Command{
		Use:   "analyze [PLAN] | analyze CHECKPOINT --layerwise --text FILE",
		Short: "Show how large the quantization error is and which operator causes it",
		Long: fmt.Sprintf(`Analyze compares the quantized graph with the float one:

  --graphwise    the error accumulated along the quantized graph, at every operator
  --layerwise    one operator quantized at a time: its error at the graph outputs, and at its own output split into clipping and rounding
  --statistical  ranges, moments and histograms of every tensor with the thresholds of every calibration method

  --explain      what the loss of the integer program is made of: weights rounded, activations clipped, activations rounded, bias rounded,
                 tables, arithmetic profile, in this order; the parts sum to the whole, at the graph outputs and for every step alone

Without any of them the first three are made. Tables go to standard output; --html and --png write reports. With neither, both go to the
folder MODEL.report. The data are the plan's own (at most %d samples unless --samples says otherwise) or --data.

Of a language model (a checkpoint) it quantizes one matrix at a time as --group-size, --bits and --scales say, and ranks them by the
divergence from the float model on the lines of --text (as many, chosen by --seed). See docs/language-models.md.`, analysisSamples),
		Args: atMost(1, "one plan or checkpoint"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := f.check(); err != nil {
				return err
			}
			if len(args) == 1 && !strings.HasSuffix(args[0], planSuffix) && checkpoint.Is(args[0]) {
				texts.file, texts.threads, texts.samples, texts.seed = args[0], f.workers(), f.samples, f.seed
				return e.printLanguageLayers(c, texts, o.html, f.json)
			}
			if err := textsOnly(c); err != nil {
				return err
			}
			if o.plan, err = findPlan(args); err != nil {
				return err
			}
			if !o.Graphwise && !o.Layerwise && !o.Statistical && !o.explain {
				o.Graphwise, o.Layerwise, o.Statistical = true, true, true
			}
			o.data, o.Threads = f.dataOptions(), f.workers()
			o.Memory, _ = f.memory()
			o.Outputs = o.Graphwise || o.Layerwise || o.explain
			r, err := e.analyze(c.Context(), o)
			if err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			return reports.Text(e.stdout, r, true)
		},
	}
	f.addData(c)
	f.addRun(c)
	f.addMemory(c)
	f.addJSON(c)
	c.Flags().BoolVar(&o.Graphwise, "graphwise", false, "error accumulated along the quantized graph")
	c.Flags().BoolVar(&o.Layerwise, "layerwise", false, "error of each operator quantized alone")
	c.Flags().BoolVar(&o.Statistical, "statistical", false, "statistics of every tensor")
	c.Flags().BoolVar(&o.explain, "explain", false, "parts of the loss of the integer program")
	c.Flags().BoolVar(&o.Split, "split", false, "layerwise: split the local error into weight and activation")
	c.Flags().StringVar(&o.html, "html", "", "write the report as one HTML file")
	c.Flags().StringVar(&o.png, "png", "", "write plots to this folder")
	texts.addTo(c)
	c.Flags().StringVar(&texts.mode, "mode", "", "of a checkpoint: sim (quantized weights) or int8 (activations too, the default)")
	return c
}

// analyze measures what o asks for and writes the reports.
func (e *env) analyze(ctx context.Context, o analyzeOptions) (*analysis.Report, error) {
	r, err := e.measure(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, w := range r.Warnings {
		e.warnAbout(w)
	}
	return r, e.writeReports(r, o)
}

// measure is analyze without writing reports.
func (e *env) measure(ctx context.Context, o analyzeOptions) (*analysis.Report, error) {
	start := time.Now()
	p, err := e.openPlan(o.plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	set, err := e.planData(p, o.data, analysisSamples)
	if err != nil {
		return nil, err
	}
	q, err := simulator(p.Graph, p.set, p.target)
	if err != nil {
		return nil, err
	}
	if o.Statistical {
		stats, err := loadStats(statsPath(o.plan), p.model)
		if err != nil {
			e.warn("no thresholds in the report: %v", err)
		} else {
			o.Thresholds = thresholds(p.Graph, p.set, stats)
		}
	}
	tick, finish := e.progress("analyze", set.Len())
	o.Progress = tick
	r, err := analysis.Analyze(ctx, p.Graph, q, set.Iterator(), o.Config)
	finish()
	if err != nil {
		return nil, err
	}
	if o.explain {
		if r.Explained, err = e.explain(ctx, p, set, o.Threads); err != nil {
			return nil, err
		}
	}
	r.Model, r.Plan, r.Platform = filepath.Base(p.path), filepath.Base(o.plan), p.plan.Platform
	r.Warnings = append(p.plan.Warnings, r.Warnings...)
	r.Seconds, r.PeakRSS = time.Since(start).Seconds(), peakRSS()
	return r, nil
}

// explain splits the loss of the plan's integer program, under the platform's profile.
func (e *env) explain(ctx context.Context, p *planned, set *data.Set, threads int) (*analysis.Explanation, error) {
	profile, err := p.profile("")
	if err != nil {
		return nil, err
	}
	lowered, err := p.program(profile)
	if err != nil {
		return nil, err
	}
	tick, finish := e.progress("explain", set.Len())
	defer finish()
	start := time.Now()
	r, err := analysis.Explain(ctx, set.Iterator(), analysis.ExplainConfig{Set: p.set, Program: lowered, Backend: defaultBackend(), Threads: threads,
		Progress: tick})
	if err != nil {
		return nil, err
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// writeReports writes HTML and plots to where they are asked for, or both to the default folder, which it names on standard error.
func (e *env) writeReports(r *analysis.Report, o analyzeOptions) error {
	var folder string
	if o.html == "" && o.png == "" {
		folder = strings.TrimSuffix(o.plan, planSuffix) + ".report"
		o.html, o.png = filepath.Join(folder, "report.html"), folder
	}
	var s staging
	defer s.discard()
	if o.png != "" {
		for _, im := range reports.PNG(r) {
			if err := s.add(filepath.Join(o.png, im.Name), im.Write); err != nil {
				return err
			}
		}
	}
	if o.html != "" {
		if err := s.add(o.html, func(w io.Writer) error { return reports.HTML(w, r) }); err != nil {
			return err
		}
	}
	if err := s.commit(); err != nil {
		return err
	}
	if folder != "" {
		e.note("report: %s", folder)
	}
	return nil
}

// thresholds tells for a tensor which range every calibration method chooses under its policy, from the statistics.
func thresholds(g *graph.Graph, set *tqc.Set, stats *calib.Stats) func(graph.ValueID) []analysis.Threshold {
	slots := map[graph.ValueID]tqc.SlotID{}
	for id := range tqc.SlotID(set.NumSlots()) {
		s := set.Slot(id)
		if _, seen := slots[s.Value]; !seen && s.State().Quantizes() && !s.Weight {
			slots[s.Value] = id
		}
	}
	return func(v graph.ValueID) []analysis.Threshold {
		id, ok := slots[v]
		t := stats.Tensor(g.Value(v).Name)
		if !ok || t == nil {
			return nil
		}
		root := set.Slot(set.Root(id))
		used := root.Method
		if used == tqc.ObserverNone {
			used = root.Config.Observer
		}
		var out []analysis.Threshold
		for _, th := range calib.Thresholds(t.State, set.Slot(id).Config, observers.Params{}) {
			out = append(out, analysis.Threshold{Method: string(th.Method), Lo: th.Range.Lo, Hi: th.Range.Hi, Used: th.Method == used})
		}
		return out
	}
}
