package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/bench"
	"qwb/internal/options"
	"qwb/quantizer/sim"
)

// layerwiseReport is what bench layerwise --json prints. Seconds are per sample.
type layerwiseReport struct {
	Machine   machineInfo   `json:"machine"`
	Plan      string        `json:"plan"`
	Samples   int           `json:"samples"`
	Operators int           `json:"operators"`
	Results   []benchResult `json:"results"` // forward, layerwise
	// Forwards is the time of layerwise analysis over that of a forward; Counted is the work that it ran, in multiply-accumulates.
	Forwards bench.Ratio `json:"forwards"`
	Counted  float64     `json:"forwards_counted"`
	// By multiply-accumulates, and by the time that nodes take.
	BoundMACs bench.Bound `json:"bound_macs"`
	BoundTime bench.Bound `json:"bound_time"`
	// BoundProducts is BoundMACs of the operators that have multiply-accumulates alone.
	BoundProducts bench.Bound `json:"bound_products"`
	// Naive runs the whole graph once for each operator; PPQ runs the float graph as often besides.
	Naive   float64 `json:"naive"`
	PPQ     float64 `json:"ppq"`
	PeakRSS int64   `json:"peak_rss_bytes"`
}

func newBenchLayerwise(e *Host) *cobra.Command {
	var data qwb.DataOptions
	var threads int
	var memory int64
	var asJSON bool
	var o bench.Options
	return e.Takes(&cobra.Command{
		Use:     "layerwise PLAN --data D",
		Short:   "Time layerwise analysis, compared with forward passes",
		Example: "  qwb bench layerwise model.plan.json",
		Long: `Layerwise measures the analysis of every operator alone (qwb analyze --layerwise) and, in turn, the forward
pass of the float model on the same samples. The result is how many forward passes the analysis costs per
sample. It does not include work that is done only once, such as quantizing weights.

Beside it stands the lowest possible cost if the analysis restarts at each operator. It counts everything that
runs from the operator on (suffix), or everything that depends on it (descendants), weighted by
multiply-accumulates and by the time of each node.`,
		Args: exactly(1, "one plan"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o, err = benchOptions(o); err != nil {
				return err
			}
			cfg := analysis.Config{Layerwise: true, Threads: threads}
			cfg.Memory = memory
			if !strings.HasSuffix(args[0], qwb.PlanSuffix) {
				return qwb.Usagef("layerwise takes a plan; calibrate %s first", args[0])
			}
			r, err := e.benchLayerwise(c.Context(), o, args[0], data, cfg)
			if err != nil {
				return err
			}
			if asJSON {
				return e.printJSON(r)
			}
			return e.printLayerwise(r, cfg.Threads)
		},
	}, slices.Concat(sampled(&data, layerwiseSamples), options.Threads(&threads, &data.Threads), options.Memory(&memory),
		options.JSON(&asJSON), rounds(&o, 7, 100*time.Millisecond)))
}

// layerwiseSamples is how many samples are run unless told otherwise.
const layerwiseSamples = 4

func (e *Host) benchLayerwise(ctx context.Context, o bench.Options, file string, d qwb.DataOptions,
	cfg analysis.Config) (*layerwiseReport, error) {
	t, _, samples, err := e.openSamples(ctx, file, d, cfg.Threads)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	q, err := sim.New(t.Graph, t.plan.Set, sim.Options{})
	if err != nil {
		return nil, err
	}
	var found *analysis.Report
	forward, err := forwardPass(t.Graph, cfg.Threads)
	if err != nil {
		return nil, err
	}
	passes := []pass{
		forward,
		{name: "layerwise", run: func(ctx context.Context, some []*exec.Sample) (err error) {
			found, err = analysis.Analyze(ctx, t.Graph, q, &inMemory{samples: some}, cfg)
			return err
		}},
	}
	progress, finish := e.progress("bench", o.Rounds)
	defer finish()
	o.Progress = progress
	peak, ops, isa := floatPeak(cfg.Threads)
	s, err := measurePasses(ctx, o, samples, passes, peak)
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", file, err)
	}
	macs := t.macs()
	r := &layerwiseReport{Machine: thisMachine(), Plan: file, Samples: len(samples), Operators: len(found.Layerwise), Forwards: s.Ratio(1, 0),
		Counted: found.Forwards, Naive: 1 + float64(len(found.Layerwise)), PPQ: 2 * float64(len(found.Layerwise))}
	for i, mode := range []string{"fp32", "sim"} {
		work := 2 * macs
		if mode == "sim" {
			work *= found.Forwards
		}
		x := benchResult{Name: passes[i].name, Backend: isa, Threads: cfg.Threads, Batch: 1, Mode: mode, Timing: s.Timing(i),
			Unit: string(bench.GOPS)}
		x.GOPS = work / x.Seconds / 1e9
		x.Speed, x.ShareOfPeak = x.GOPS, s.Ratio(len(passes), i).Median*work/ops
		r.Results = append(r.Results, x)
	}
	if err := t.bounds(ctx, o, found, r); err != nil {
		return nil, err
	}
	r.PeakRSS = e.PeakMemory()
	return r, nil
}

// bounds fills in the least that the analysis of the operators in found can cost.
func (t *timed) bounds(ctx context.Context, o bench.Options, found *analysis.Report, r *layerwiseReport) error {
	var operators, products []graph.NodeID
	for _, l := range found.Layerwise {
		if id, ok := t.Graph.LookupNode(l.Node); ok {
			if operators = append(operators, id); l.MACs > 0 {
				products = append(products, id)
			}
		}
	}
	o.Progress = nil
	watch, _, _, err := t.watch(ctx, o, "fp32")
	if err != nil {
		return err
	}
	work := func(id graph.NodeID) float64 {
		macs, _ := t.Graph.MACs(id)
		return float64(macs)
	}
	if r.BoundMACs, err = bench.LayerwiseBound(t.Graph, operators, work); err != nil {
		return err
	}
	if r.BoundProducts, err = bench.LayerwiseBound(t.Graph, products, work); err != nil {
		return err
	}
	r.BoundTime, err = bench.LayerwiseBound(t.Graph, operators, func(id graph.NodeID) float64 { return bench.Median(watch.times[id]) })
	return err
}

func (e *Host) printLayerwise(r *layerwiseReport, threads int) error {
	e.printMachine(r.Machine, threads)
	w := table(e.Stdout)
	fmt.Fprintln(w, "\tper sample\tleast\tmost\tGOPS\tshare of peak\t\t")
	for _, x := range r.Results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f\t%.1f %%\t%s\t\n", x.Name, duration(x.Seconds), duration(x.Min), duration(x.Max), x.GOPS,
			100*x.ShareOfPeak, quietness(x.Timing))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.Stdout, `
%d operators, %d samples: %.2f forwards per sample by time [%.2f to %.2f], %.2f by multiply-accumulates
least by multiply-accumulates: %.2f (suffix), %.2f (descendants), of those with products alone %.2f, %.2f; by time of nodes: %.2f, %.2f
the whole graph for every operator: %.0f; PPQ: %.0f; peak memory %.0f MB
`, r.Operators, r.Samples, r.Forwards.Median, r.Forwards.Min, r.Forwards.Max, r.Counted, r.BoundMACs.Suffix, r.BoundMACs.Descendants,
		r.BoundProducts.Suffix, r.BoundProducts.Descendants, r.BoundTime.Suffix, r.BoundTime.Descendants, r.Naive, r.PPQ,
		float64(r.PeakRSS)/(1<<20))
	return err
}
