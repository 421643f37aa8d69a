package cmd

import (
	"context"
	"time"

	"qwb/analysis"
	"qwb/internal/bench"
	"qwb/internal/work/search"
	"qwb/internal/work/store"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// rooflineSpan is how long each loop is measured in a round: with three rounds all of them take less than half a second.
const rooflineSpan = 5 * time.Millisecond

// RooflineOf is what a device file says of a machine.
func RooflineOf(file string) (analysis.Roofline, error) {
	d, err := search.OpenDevice(store.OS{}, file)
	if err != nil {
		return analysis.Roofline{}, err
	}
	return d.Roofline()
}

// Roofline measures what the machine can do at most with so many threads.
func Roofline(ctx context.Context, threads int) (analysis.Roofline, error) {
	o, err := benchOptions(bench.Options{Rounds: 3, Span: rooflineSpan})
	if err != nil {
		return analysis.Roofline{}, err
	}
	float, floatOps, floatName := bench.ComputePeak(cpu.Detect(), kernels.PeakFloat, threads)
	integer, integerOps, integerName := bench.ComputePeak(cpu.Detect(), kernels.PeakInteger, threads)
	s, err := bench.Measure(ctx, o, float, integer)
	if err != nil {
		return analysis.Roofline{}, err
	}
	reads, err := measureReads(ctx, o, threads)
	if err != nil {
		return analysis.Roofline{}, err
	}
	r := analysis.Roofline{Threads: threads, FloatPeak: floatName, IntegerPeak: integerName,
		FloatGOPS: floatOps / s.Timing(0).Min / 1e9, IntegerGOPS: integerOps / s.Timing(1).Min / 1e9}
	for _, b := range reads.Read {
		r.Read = append(r.Read, analysis.ReadSpeed{Bytes: b.Bytes, GBps: b.GBps})
	}
	return r, nil
}
