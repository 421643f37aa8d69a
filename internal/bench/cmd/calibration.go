package cmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/calib"
	"qwb/graph/exec"
	"qwb/internal/bench"
	"qwb/internal/options"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// calibrationReport is what bench calibration --json prints. Seconds are per sample.
type calibrationReport struct {
	Machine machineInfo         `json:"machine"`
	Model   string              `json:"model"`
	Samples int                 `json:"samples"`
	Results []calibrationResult `json:"results"`
	PeakRSS int64               `json:"peak_rss_bytes"`
}

// calibrationResult is one way over the data.
type calibrationResult struct {
	Name    string `json:"name"` // forward, minmax-only, all-methods, stream, decode, gram
	Backend string `json:"backend"`
	Threads int    `json:"threads"`
	Batch   int    `json:"batch"`
	Mode    string `json:"mode"`
	bench.Timing
	GOPS        float64     `json:"gops"`
	ShareOfPeak float64     `json:"share_of_peak"`
	OverForward bench.Ratio `json:"over_forward"`
	// Observe is what was added to the forward.
	Observe float64 `json:"observe_seconds"`
}

func newBenchCalibration(e *Host) *cobra.Command {
	var data qwb.DataOptions
	var threads int
	var asJSON bool
	var o bench.Options
	return e.Takes(&cobra.Command{
		Use:     "calibration MODEL|PLAN --data D",
		Short:   "Time calibration, compared with a forward pass",
		Example: "  qwb bench calibration model.onnx",
		Long: `Calibration measures six kinds of work in turn over the same samples, in seconds per sample:

  forward      the float model only, on decoded samples
  minmax-only  also observe the minimum and maximum of every tensor, on decoded samples
  all-methods  observe every tensor for all methods, on decoded samples
  stream       the same from files that are decoded at the same time, as in qwb calibrate
  decode       only read and preprocess the files
  gram         compute the Gram statistics of all operators (qwb tune --shard) on decoded samples, no sample held out; gops and
               share_of_peak are those of the sums only, compared with products of 16-bit integers

The results do not include work that is done only once, such as packing weights: all but the forward pass run
over half of the samples and over all of them, and the difference counts. --threads samples run at the same
time.`,
		Args: exactly(1, "one model or plan"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o, err = benchOptions(o); err != nil {
				return err
			}
			r, err := e.benchCalibration(c.Context(), o, args[0], data, threads)
			if err != nil {
				return err
			}
			if asJSON {
				return e.printJSON(r)
			}
			return e.printCalibration(r, threads)
		},
	}, slices.Concat(sampled(&data, benchSamples), options.Threads(&threads, &data.Threads), options.JSON(&asJSON),
		rounds(&o, 7, 100*time.Millisecond)))
}

// benchSamples is how many samples are run unless told otherwise.
const benchSamples = 16

func (e *Host) benchCalibration(ctx context.Context, o bench.Options, file string, d qwb.DataOptions,
	threads int) (*calibrationReport, error) {
	t, set, samples, err := e.openSamples(ctx, file, d, threads)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	forward, err := forwardPass(t.Graph, threads)
	if err != nil {
		return nil, err
	}
	passes := []pass{
		forward,
		{name: "minmax-only", run: func(ctx context.Context, some []*exec.Sample) error {
			_, err := calib.Run(ctx, t.Graph, &inMemory{samples: some}, calib.Config{Threads: threads, MinMaxOnly: true})
			return err
		}},
		{name: "all-methods", run: func(ctx context.Context, some []*exec.Sample) error {
			_, err := calib.Run(ctx, t.Graph, &inMemory{samples: some}, calib.Config{Threads: threads})
			return err
		}},
		{name: "stream", run: func(ctx context.Context, some []*exec.Sample) error {
			ctx, cancel := context.WithCancel(ctx) // ends decoding ahead
			defer cancel()
			_, err := calib.Run(ctx, t.Graph, &firstOf{set.Iterator(), len(some)}, calib.Config{Threads: threads})
			return err
		}},
		{name: "decode", run: func(ctx context.Context, some []*exec.Sample) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			_, err := readSamples(ctx, set, len(some))
			return err
		}},
	}
	gram, gramOps, err := gramPass(ctx, t.Graph, samples, threads)
	if err != nil {
		return nil, err
	}
	passes = append(passes, gram)
	progress, finish := e.progress("bench", o.Rounds)
	defer finish()
	o.Progress = progress
	peak, ops, isa := floatPeak(threads)
	pairs, pairOps, _ := bench.ComputePeak(cpu.Detect(), kernels.PeakPairs, threads)
	s, err := measurePasses(ctx, o, samples, passes, peak, pairs)
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", t.Path, err)
	}
	macs := t.macs()
	r := &calibrationReport{Machine: thisMachine(), Model: t.Path, Samples: len(samples)}
	for i, p := range passes {
		x := calibrationResult{Name: p.name, Backend: isa, Threads: threads, Batch: 1, Mode: "fp32", Timing: s.Timing(i),
			OverForward: s.Ratio(i, 0)}
		switch p.name {
		case "decode":
		case "gram":
			x.Observe = x.Seconds - s.Timing(0).Seconds
			x.Backend = kernels.Select(cpu.Detect()).Rows()[kernels.OpGram].ISA
			if x.Observe > 0 {
				x.GOPS = gramOps / x.Observe / 1e9
				x.ShareOfPeak = x.GOPS / (pairOps / s.Timing(len(passes)+1).Seconds / 1e9)
			}
		default:
			x.GOPS = 2 * macs / x.Seconds / 1e9
			x.ShareOfPeak = s.Ratio(len(passes), i).Median * 2 * macs / ops
			x.Observe = x.Seconds - s.Timing(0).Seconds
		}
		r.Results = append(r.Results, x)
	}
	r.PeakRSS = e.PeakMemory()
	return r, nil
}

func (e *Host) printCalibration(r *calibrationReport, threads int) error {
	e.printMachine(r.Machine, threads)
	w := table(e.Stdout)
	fmt.Fprintln(w, "pass\tper sample\tover forward\tleast\tmost\tadded\tof peak\t\t")
	for _, x := range r.Results {
		fmt.Fprintf(w, "%s\t%s\t%.3f\t%.3f\t%.3f\t%s\t%.0f %%\t%s\t\n", x.Name, duration(x.Seconds), x.OverForward.Median, x.OverForward.Min,
			x.OverForward.Max, duration(max(0, x.Observe)), 100*x.ShareOfPeak, quietness(x.Timing))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.Stdout, "\n%d samples, peak memory %.0f MB\n", r.Samples, float64(r.PeakRSS)/(1<<20))
	return err
}
