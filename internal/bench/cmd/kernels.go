package cmd

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/bench"
	"qwb/internal/options"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// kernelsReport is what bench kernels --json prints.
type kernelsReport struct {
	Machine machineInfo   `json:"machine"`
	Results []benchResult `json:"results"`
}

func newBenchKernels(e *Host) *cobra.Command {
	var asJSON bool
	var o bench.Options
	var only string
	var threads int
	return e.Takes(&cobra.Command{
		Use:     "kernels",
		Short:   "Time every kernel that runs on this processor, on the shapes of real networks",
		Example: "  qwb bench kernels --threads 1",
		Long: `Kernels measures every kernel of every operation that runs on this processor, on the shapes of real networks.
* marks the kernel that qwb uses. Speeds are in GOPS (one multiply-add is two operations), GB/s read and
written, or Gelem/s. The share is relative to the fastest multiply-add loop, or to reading a buffer of the
size of the kernel's data. Both are measured in the same rounds with the same number of threads.

Plain Go kernels are left out if they would take seconds. Elementwise kernels run on one thread.`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, args []string) error {
			if threads < 0 {
				return qwb.Usagef("--threads %d: must be 0 or more", threads)
			}
			which, err := regexp.Compile(only)
			if err != nil {
				return qwb.Usagef("--only: %w", err)
			}
			if o, err = benchOptions(o); err != nil {
				return err
			}
			r, err := e.benchKernels(c.Context(), o, which, max(threads, 1))
			if err != nil {
				return err
			}
			if asJSON {
				return e.printJSON(r)
			}
			return e.printKernels(r, max(threads, 1))
		},
	}, slices.Concat(options.JSON(&asJSON),
		options.Table{
			{Name: "threads", At: &threads, Default: 1, Signed: true, Help: "number of threads"},
			{Name: "only", At: &only, Help: "run only cases and kernels whose name matches this regular expression"},
		}, rounds(&o, 5, 30*time.Millisecond)))
}

// benchKernels times the cases and rows whose name, together, which finds.
func (e *Host) benchKernels(ctx context.Context, o bench.Options, which *regexp.Regexp, threads int) (*kernelsReport, error) {
	cases := bench.Kernels()
	set, finish := e.progress("kernels", len(cases))
	defer finish()
	r := &kernelsReport{Machine: thisMachine(), Results: []benchResult{}}
	for i, k := range cases {
		results, err := benchKernel(ctx, o, k, which, threads)
		if err != nil {
			return nil, err
		}
		r.Results = append(r.Results, results...)
		set(i + 1)
	}
	if len(r.Results) == 0 {
		return nil, qwb.Usagef("--only %q: no case and row of that name", which)
	}
	return r, nil
}

// benchKernel times every row of one case, and the peak, in the same rounds.
func benchKernel(ctx context.Context, o bench.Options, k bench.Kernel, which *regexp.Regexp, threads int) ([]benchResult, error) {
	features := cpu.Detect()
	usual := kernels.Select(features)
	par := bench.Parallel(threads)
	var rows []kernels.Row
	var works []bench.Work
	for _, r := range kernels.Rows() {
		if !k.Takes(r) || !r.Runs(features) || !which.MatchString(k.Name()+" "+r.Name) {
			continue
		}
		run := k.Prepare(usual.With(r))
		rows = append(rows, r)
		works = append(works, func(context.Context) error { run(par); return nil })
	}
	if len(rows) == 0 {
		return nil, nil
	}
	peak, amount, name := kernelPeak(features, k, threads)
	s, err := bench.Measure(ctx, o, append(works, peak)...)
	if err != nil {
		return nil, err
	}
	var out []benchResult
	speed := amount / s.Timing(len(rows)).Seconds / 1e9
	for i, row := range rows {
		t := s.Timing(i)
		out = append(out, benchResult{Name: k.Name(), Backend: row.Name, Threads: threads, Batch: 1, Mode: k.Mode, Timing: t,
			GOPS: k.Ops / t.Seconds / 1e9, Speed: k.Speed(t.Seconds), Unit: string(k.Unit), Peak: name, PeakSpeed: speed,
			ShareOfPeak: s.Ratio(len(rows), i).Median * k.Speed(1) * 1e9 / amount, Picked: usual.Rows()[row.Op].Name == row.Name})
	}
	return out, nil
}

// kernelPeak is what bounds a kernel, as a work with its amount in the kernel's unit.
func kernelPeak(f cpu.Features, k bench.Kernel, threads int) (bench.Work, float64, string) {
	if k.Bound != kernels.PeakRead {
		return bench.ComputePeak(f, k.Bound, threads)
	}
	w, bytes, name := bench.ReadPeak(f, int(k.Bytes), threads)
	return w, bytes * k.Speed(1) * 1e9 / k.Bytes, name
}

func (e *Host) printKernels(r *kernelsReport, threads int) error {
	e.printMachine(r.Machine, threads)
	w := table(e.Stdout)
	fmt.Fprintln(w, "case\t\trow\ttime\tspeed\t\tshare of peak\tpeak\t\t")
	last := ""
	for _, x := range r.Results {
		name := x.Name
		if name == last {
			name = ""
		}
		last = x.Name
		mark := ""
		if x.Picked {
			mark = "*"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f\t%s\t%.1f %%\t%.1f\t%s\t%s\t\n", name, mark, x.Backend, duration(x.Seconds), x.Speed, x.Unit,
			100*x.ShareOfPeak, x.PeakSpeed, x.Peak, quietness(x.Timing))
	}
	return w.Flush()
}
