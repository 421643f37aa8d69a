// Package cmd is the command bench: it measures kernels, models, calibration and analysis against what the machine can do.
package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/bench"
	"qwb/internal/options"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// machineInfo is what the figures of a benchmark hold for.
type machineInfo struct {
	CPU     string `json:"cpu"`
	ISA     string `json:"isa"` // what kernels are chosen by
	Cores   int    `json:"cores"`
	System  string `json:"system"`
	Go      string `json:"go"`
	Foreign bool   `json:"foreign_cpu_known"` // whether quiet rounds can be told from others
}

func thisMachine() machineInfo {
	_, known := othersCPU()
	return machineInfo{CPU: cmp.Or(cpuModel(), runtime.GOARCH), ISA: cpu.Detect().String(), Cores: runtime.NumCPU(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Foreign: known}
}

// benchResult is one line of a benchmark.
type benchResult struct {
	Name    string `json:"name"`
	Backend string `json:"backend"` // the kernel row, or the processor's instruction set
	Threads int    `json:"threads"`
	Batch   int    `json:"batch"`
	Mode    string `json:"mode"`
	bench.Timing
	GOPS        float64 `json:"gops"`
	ShareOfPeak float64 `json:"share_of_peak"` // of the peak measured in the same rounds, on as many threads
	Peak        string  `json:"peak"`          // the loop that the share is of
	PeakSpeed   float64 `json:"peak_speed"`    // in the result's unit
	Speed       float64 `json:"speed"`
	Unit        string  `json:"unit"`
	Picked      bool    `json:"picked,omitempty"` // the row that this processor uses
	*deviceResult
}

// New makes the command bench with those below it.
func New(e *Host) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of kernels, models, calibration and analysis; compare with the peak",
		Long: `Bench measures speed and compares it with the peak speed of this machine. It measures in rounds. In each round
it runs everything that it compares, and a loop that reaches the processor's peak. It prints the medians over
the rounds. On Linux it leaves out rounds in which other processes used more than 6 % of a core. If all rounds
are left out, the line says that no round was quiet.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return qwb.Usagef("unknown benchmark %q: kernels, model, cuda, calibration, layerwise, generate, checkpoint or device", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return qwb.Usagef("bench takes what to measure: kernels, model, cuda, calibration, layerwise, generate, checkpoint or device")
		},
	}
	c.AddCommand(newBenchKernels(e), newBenchModel(e), newBenchCUDA(e), newBenchCalibration(e), newBenchLayerwise(e), newBenchGenerate(e),
		newBenchCheckpoint(e), newBenchDevice(e))
	return c
}

// rounds are the options that say how long to measure.
func rounds(o *bench.Options, n int, span time.Duration) options.Table {
	return options.Table{
		{Name: "rounds", At: &o.Rounds, Default: n, Signed: true, Help: "number of rounds; each measures everything once"},
		{Name: "patience", At: &o.Patience, Signed: true, Help: "number of extra rounds to replace rounds that were not quiet"},
		{Name: "span", At: &o.Span, Default: span, Help: "shortest time of each measurement in a round; short work is repeated"},
	}
}

// sampled are the options about data, with a number of samples where none is given.
func sampled(o *qwb.DataOptions, samples int) options.Table {
	t := options.Data(o)
	t.Find("samples").Default = samples
	return t
}

// benchOptions completes the options: the clock, and limits that make sense.
func benchOptions(o bench.Options) (bench.Options, error) {
	if o.Rounds < 1 || o.Span <= 0 || o.Patience < 0 {
		return o, qwb.Usagef("--rounds %d --span %v --patience %d: --rounds and --span must be above 0, --patience 0 or more", o.Rounds,
			o.Span, o.Patience)
	}
	start := time.Now()
	o.Clock = bench.Clock{Now: func() time.Duration { return time.Since(start) }, Others: othersCPU}
	return o, nil
}

// floatPeak is the processor's peak of multiply-adds as a work, the operations it does, and the instruction set of the kernels
// that it is to be compared with.
func floatPeak(threads int) (w bench.Work, ops float64, isa string) {
	w, ops, _ = bench.ComputePeak(cpu.Detect(), kernels.PeakFloat, threads)
	return w, ops, kernels.Select(cpu.Detect()).Rows()[kernels.OpGemm].ISA
}

// measureReads measures the bandwidth of reading on so many threads.
func measureReads(ctx context.Context, o bench.Options, threads int) (roof bench.Roof, err error) {
	var works []bench.Work
	var amount []float64
	for _, n := range bench.Levels {
		w, bytes, _ := bench.ReadPeak(cpu.Detect(), n, threads)
		works, amount = append(works, w), append(amount, bytes)
	}
	s, err := bench.Measure(ctx, o, works...)
	if err != nil {
		return roof, err
	}
	for i, n := range bench.Levels {
		roof.Read = append(roof.Read, bench.Bandwidth{Bytes: n, GBps: amount[i] / s.Timing(i).Seconds / 1e9})
	}
	return roof, nil
}

// printMachine is the first line of every table.
func (e *Host) printMachine(m machineInfo, threads int) {
	fmt.Fprintf(e.Stdout, "%s (%s), %d of %d cores, %s\n\n", m.CPU, m.ISA, threads, m.Cores, m.System)
}

// table returns a writer that aligns columns, to be flushed.
func table(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
}

// quietness says what to think of a timing, "" if there is nothing to say.
func quietness(t bench.Timing) string {
	if t.Quiet == 0 && t.Rounds > 0 {
		return "not quiet"
	}
	return ""
}

// perSecond formats how often something happens in a second.
func perSecond(n float64) string {
	if n >= 100 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.2f", n)
}

// duration formats seconds for people.
func duration(seconds float64) string {
	switch {
	case seconds >= 1:
		return fmt.Sprintf("%.3f s", seconds)
	case seconds >= 1e-3:
		return fmt.Sprintf("%.3f ms", seconds*1e3)
	}
	return fmt.Sprintf("%.2f us", seconds*1e6)
}
