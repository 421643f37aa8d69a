package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/internal/demo"
	"qwb/internal/options"
	"qwb/quantizer/tqc"
)

// demoErrorSamples is how many calibration samples the error at the output is measured on.
const demoErrorSamples = 64

func newDemo(e *env) *cobra.Command {
	var dir string
	var seed uint64
	var threads int
	return e.takes(&cobra.Command{
		Use:     "demo",
		Short:   "Calibrate, analyse, evaluate and export a small built-in model on generated data",
		Example: lines("qwb demo -o qwb-demo"),
		Long: `Demo runs the whole workflow on a small built-in network that classifies glyphs in dark, noisy pictures with
hot pixels. It prints the accuracy for several calibration methods and for one scale per tensor or per
channel. It writes the folder qwb-demo with the model, the pictures and all results. Another --seed generates
other pictures. Demo calls the same functions as the commands.`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, args []string) error {
			d := &demonstration{env: e, dir: dir, seed: seed, threads: threads}
			return d.run(c.Context())
		},
	}, append(options.Threads(&threads),
		options.Option{Name: "output", Short: "o", At: &dir, Default: demo.Folder, Help: "folder to write"},
		options.Option{Name: "seed", At: &seed, Default: uint64(demo.DefaultSeed), Help: "random seed for the pictures"}))
}

// demonstration is one run of the demo.
type demonstration struct {
	*env
	dir     string
	seed    uint64
	threads int
}

// variant is one row of the table.
type variant struct {
	platform  string
	observer  tqc.Observer
	perTensor bool
}

// variants lists the rows of a platform; the last one is kept and exported.
func variants(platform string) []variant {
	list := []variant{{platform, tqc.ObserverRobust, true}}
	for _, o := range []tqc.Observer{tqc.ObserverMinMax, tqc.ObserverPercentile, tqc.ObserverMSE, tqc.ObserverKL, tqc.ObserverAuto,
		tqc.ObserverRobust} {
		list = append(list, variant{platform, o, false})
	}
	return list
}

func (d *demonstration) path(name ...string) string {
	return filepath.Join(append([]string{d.dir}, name...)...)
}

func (d *demonstration) run(ctx context.Context) error {
	if err := d.write(ctx); err != nil {
		return err
	}
	model, plan := d.path(demo.ModelName), d.path("glyphs"+qwb.PlanSuffix)
	float, _, err := d.project(model, "").Eval(ctx, d.evaluation("fp32"))
	if err != nil {
		return err
	}
	fmt.Fprintf(d.stdout, "%s in float: %d of %d pictures correct (%.1f %%)\n\n", model, float.Top1, float.N,
		100*float64(float.Top1)/float64(float.N))
	t := tabwriter.NewWriter(d.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "platform\tweights\tobserver\ttop-1\tdrop in pp\tpredictions changed\toutput NSR")
	quiet := *d // one set of warnings is enough
	quiet.env = &env{stdout: io.Discard, stderr: io.Discard}
	worker := d
	data := qwb.DataOptions{Paths: []string{d.path(demo.CalibrationFolder)}, Threads: d.threads}
	var files []string
	for _, platform := range []string{"onnxruntime", "trt_int8"} {
		for _, v := range variants(platform) {
			o := qwb.CalibrateOptions{Platform: platform, Data: data, Observer: v.observer, PerTensor: v.perTensor, Fresh: true, Threads: d.threads}
			if _, _, err := worker.project(model, plan).Calibrate(ctx, o); err != nil {
				return err
			}
			worker, data.Paths = &quiet, nil // from here on the statistics are there
			if err := quiet.row(ctx, t, v, plan); err != nil {
				return err
			}
		}
		x, _, err := quiet.project("", plan).Export(ctx, qwb.ExportOptions{Platform: platform, Out: d.path("glyphs." + platform + ".onnx")})
		if err != nil {
			return err
		}
		files = append(files, x.File)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return d.report(ctx, plan, files)
}

// row calibrates nothing: it measures the plan and prints one line.
func (d *demonstration) row(ctx context.Context, t io.Writer, v variant, plan string) error {
	a, _, err := d.project("", plan).Eval(ctx, d.evaluation("sim"))
	if err != nil {
		return err
	}
	r, _, err := d.project("", plan).Analyze(ctx, qwb.AnalyzeOptions{Data: qwb.DataOptions{Samples: demoErrorSamples, Threads: d.threads},
		Config: analysis.Config{Outputs: true, Threads: d.threads}})
	if err != nil {
		return err
	}
	weights := "per channel"
	if v.perTensor {
		weights = "per tensor"
	}
	_, err = fmt.Fprintf(t, "%s\t%s\t%s\t%.1f %%\t%.1f ± %.1f\t%d\t%.2g\n", v.platform, weights, v.observer,
		100*float64(a.Top1)/float64(a.N), a.Drop, a.DropError, a.Flips, r.Worst().NSR)
	return err
}

// report analyses the plan that was left and says what lies where.
func (d *demonstration) report(ctx context.Context, plan string, files []string) error {
	html := d.path("glyphs.report.html")
	r, _, err := d.project("", plan).Analyze(ctx, qwb.AnalyzeOptions{Data: qwb.DataOptions{Threads: d.threads},
		Config: analysis.Config{Graphwise: true, Layerwise: true, Statistical: true, Split: true, Threads: d.threads}})
	if err != nil {
		return err
	}
	if err := d.writeReports(ctx, r, plan, reportFiles{html: html, png: d.path("plots")}); err != nil {
		return err
	}
	worst := r.Layerwise[0]
	for _, l := range r.Layerwise {
		if l.NSR > worst.NSR {
			worst = l
		}
	}
	fmt.Fprintf(d.stdout, "\nmost sensitive operator: %s (%s), NSR %.2g when it alone is quantized (%.3g forward "+
		"passes per sample for %d operators)\n\n", worst.Node, worst.Op, worst.NSR, r.Forwards, len(r.Layerwise))
	for _, line := range [][2]string{{plan, "the plan: every decision and scale"},
		{qwb.StatsPath(plan), "the statistics: another observer or platform needs no new pass over the data"},
		{html, "the report"}, {d.path("plots"), "the plots"}, {files[0], "INT8 for ONNX Runtime"}, {files[1], "INT8 for TensorRT"}} {
		fmt.Fprintf(d.stdout, "%-32s %s\n", line[0], line[1])
	}
	return nil
}

func (d *demonstration) evaluation(mode string) qwb.EvalOptions {
	return qwb.EvalOptions{Mode: mode, Threads: d.threads, Data: qwb.DataOptions{Paths: []string{d.path(demo.EvaluationFolder)},
		Labels: d.path(demo.Labels), Threads: d.threads}}
}

// write makes the folder: the model, calibration pictures, and evaluation pictures with labels.
func (d *demonstration) write(ctx context.Context) error {
	return demo.Files(ctx, d.seed, func(name string, content []byte) error {
		file := d.path(filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		_, err := qwb.WriteFile(qwb.OS{}, file, func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		})
		return err
	})
}
