package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/internal/bench"
	"qwb/internal/file"
	"qwb/internal/options"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

func newBenchDevice(e *Host) *cobra.Command {
	var threads int
	var out string
	o := bench.Options{}
	return e.Takes(&cobra.Command{
		Use:     "device -o FILE",
		Short:   "Write a device file of this machine, from which qwb predicts times",
		Example: "  qwb bench device --threads 1 -o this-machine.yaml",
		Long: `Device measures this machine's peaks (float32, INT16 and INT8 arithmetic, reading memory) and writes them as a
device file, from which qwb dispatch --device FILE predicts times. They are times at the peak, not of an engine:
they rank plans, and promise nothing. Edit the file for another machine.`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" {
				return qwb.Usagef("bench device needs -o: the file to write")
			}
			measured, err := benchOptions(o)
			if err != nil {
				return err
			}
			d, err := thisDevice(c.Context(), measured, max(threads, 1))
			if err != nil {
				return err
			}
			return file.Replace(out, func(w io.Writer) error {
				_, err := w.Write(d.YAML())
				return err
			})
		},
	}, slices.Concat(options.Threads(&threads), rounds(&o, 5, 20*time.Millisecond), options.Output(&out, "file to write")))
}

// thisDevice measures the machine with so many threads.
func thisDevice(ctx context.Context, o bench.Options, threads int) (*analysis.Device, error) {
	f := cpu.Detect()
	float, floatOps, _ := bench.ComputePeak(f, kernels.PeakFloat, threads)
	integer, integerOps, _ := bench.ComputePeak(f, kernels.PeakInteger, threads)
	pairs, pairsOps, _ := bench.ComputePeak(f, kernels.PeakPairs, threads)
	s, err := bench.Measure(ctx, o, float, integer, pairs)
	if err != nil {
		return nil, err
	}
	reads, err := measureReads(ctx, o, threads)
	if err != nil {
		return nil, err
	}
	d := &analysis.Device{Name: cmp.Or(cpuModel(), runtime.GOARCH),
		Doc: fmt.Sprintf("%s, %d threads, peaks measured by qwb bench device", f, threads),
		GOPS: map[string]float64{"fp32": floatOps / s.Timing(0).Seconds / 1e9, "int8": integerOps / s.Timing(1).Seconds / 1e9,
			"int16": pairsOps / s.Timing(2).Seconds / 1e9}}
	for _, r := range reads.Read {
		d.Read = append(d.Read, analysis.ReadSpeed{Bytes: r.Bytes, GBps: r.GBps})
	}
	return d, nil
}
