package cmd

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/bench"
	"qwb/internal/options"
	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/gpu"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// cudaOptions are the arguments of bench cuda.
type cudaOptions struct {
	backend string
	only    *regexp.Regexp
	whole   bool // networks instead of kernels
	tune    bool // tiles are chosen by measuring
	batches []int
	profile string
	seed    uint64
	rounds  int
	span    time.Duration
	threads int
}

// cudaReport is what bench cuda --json prints.
type cudaReport struct {
	Machine machineInfo  `json:"machine"`
	Device  deviceInfo   `json:"device"`
	Peaks   cuda.Peaks   `json:"peaks"`
	Results []cudaResult `json:"results"`
	Failed  []cudaFailed `json:"failed"`
}

// deviceInfo is the GPU that figures hold for.
type deviceInfo struct {
	Name            string `json:"name"`
	Arch            int    `json:"compute_capability"` // 90 for 9.0
	Multiprocessors int    `json:"multiprocessors"`
	Memory          int64  `json:"memory_bytes"`
	Driver          int    `json:"driver_cuda"` // 12040 for 12.4
	Emulated        bool   `json:"emulated"`    // figures of an emulated device say nothing
}

// cudaResult is one kernel or network.
type cudaResult struct {
	Name    string `json:"name"`
	Backend string `json:"backend"`
	Batch   int    `json:"batch"`
	Mode    string `json:"mode"`
	bench.DeviceTime
	GOPS        float64 `json:"gops"`
	GBps        float64 `json:"gbps"`
	ShareOfPeak float64 `json:"share_of_peak"`
	Peak        string  `json:"peak"`          // what the share is of
	How         string  `json:"how,omitempty"` // the kernel was chosen
	// Of networks.
	Images     float64  `json:"images_per_second,omitempty"`            // on the device, inputs there
	EndToEnd   float64  `json:"images_per_second_end_to_end,omitempty"` // from the host's memory and back
	StepsHost  int      `json:"steps_on_host,omitempty"`
	HostReason []string `json:"host_reasons,omitempty"`
}

// cudaFailed is a case that could not be measured.
type cudaFailed struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

func newBenchCUDA(e *Host) *cobra.Command {
	var threads int
	var asJSON bool
	var o cudaOptions
	var only string
	return e.Takes(&cobra.Command{
		Use:     "cuda",
		Short:   "Time GPU kernels, compared with the peak of the GPU, or whole networks",
		Example: "  qwb bench cuda",
		Long: `Cuda measures the peak speed of the GPU: products of 8-bit integers with and without tensor cores, float
multiply-adds, copies. Then it measures every kernel on the shapes of real networks, with the clock of the
device, as a share of the peak. The larger cases use 2 GiB of memory.

--networks measures INT8 networks instead. They have the shape of ResNet-50 and weights generated from --seed.
The results are images per second on the device, and with the copies from and to host memory.

--backend ptx interprets the same kernels without a GPU, on tiny shapes. It only tests that everything runs:
ignore its times.`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.only, err = regexp.Compile(only); err != nil {
				return qwb.Usagef("--only: %w", err)
			}
			if o.rounds < 1 || o.span <= 0 || len(o.batches) == 0 || slices.Min(o.batches) < 1 {
				return qwb.Usagef("--rounds %d --span %v --batches %v: all have to be above zero", o.rounds, o.span, o.batches)
			}
			if _, err := qmath.ProfileNamed(o.profile); err != nil {
				return qwb.UsageError{Err: err}
			}
			o.threads = threads
			r, err := e.benchCUDA(c.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				err = e.printJSON(r)
			} else {
				err = e.printCUDA(r)
			}
			if n := len(r.Failed); err == nil && n > 0 {
				err = fmt.Errorf("bench: %d of %d cases could not be measured", n, n+len(r.Results))
			}
			return err
		},
	}, slices.Concat(options.Threads(&threads), options.JSON(&asJSON),
		options.Table{
			{Name: "backend", At: &o.backend, Default: qwb.FloatCUDA, Values: func() []string { return []string{qwb.FloatCUDA, qwb.FloatPTX} },
				Help: "cuda (a GPU), or ptx (GPU kernels interpreted on the CPU: slow)"},
			{Name: "only", At: &only, Help: "run only cases whose name matches this regular expression"},
			{Name: "tune", At: &o.tune, Help: "measure all tiles of each product and use the fastest (default: the tile that qwb chooses by rule)"},
			{Name: "networks", At: &o.whole, Help: "measure networks instead of kernels"},
			{Name: "batches", At: &o.batches, Default: []int{1, 32, 256}, Help: "batch sizes of the networks"},
			{Name: "seed", At: &o.seed, Default: uint64(1), Help: "random seed for the weights of the networks"},
			{Name: "rounds", At: &o.rounds, Default: 9, Signed: true, Help: "number of rounds; each measures everything once"},
			{Name: "span", At: &o.span, Default: 10 * time.Millisecond,
				Help: "shortest time of each measurement in a round; short work is repeated"},
			{Name: "profile", At: &o.profile, Default: "trt", Values: options.Profiles,
				Help: "arithmetic profile of the networks: " + strings.Join(options.Profiles(), ", ")},
		}))
}

// cudaBench is a device that is measured. A kernel that fails takes the device with it, and the next one gets a new one.
type cudaBench struct {
	cudaOptions
	find   func(backend string) (*cuda.Device, error)
	device *cuda.Device
	stream *cuda.Stream
	report *cudaReport
}

func (b *cudaBench) open() error {
	d, err := b.find(b.backend)
	if err != nil {
		return err
	}
	d.MeasureTiles = b.tune
	s, err := d.NewStream()
	if err != nil {
		return errors.Join(err, d.Close())
	}
	b.device, b.stream = d, s
	return nil
}

func (b *cudaBench) close() error {
	if b.device == nil {
		return nil
	}
	err := errors.Join(b.stream.Close(), b.device.Close())
	b.device, b.stream = nil, nil
	return err
}

// failed tells of a case that could not be measured, and replaces a device that is lost. It returns false where there is no other:
// then what was measured so far is all there is.
func (b *cudaBench) failed(name string, err error) bool {
	b.report.Failed = append(b.report.Failed, cudaFailed{name, err.Error()})
	if b.stream.Synchronize() == nil {
		return true
	}
	_ = b.close() // fails as the kernel did
	if err := b.open(); err != nil {
		b.report.Failed = append(b.report.Failed, cudaFailed{"everything after " + name, err.Error()})
		return false
	}
	return true
}

func (e *Host) benchCUDA(ctx context.Context, o cudaOptions) (r *cudaReport, err error) {
	b := &cudaBench{cudaOptions: o, find: e.OpenDevice,
		report: &cudaReport{Machine: thisMachine(), Results: []cudaResult{}, Failed: []cudaFailed{}}}
	if err := b.open(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	r, d := b.report, b.device
	r.Device = deviceInfo{d.Name, d.Arch, d.Multiprocessors, d.Memory, d.DriverVersion, d.Emulated}
	if o.whole {
		err = b.networks(ctx)
	} else {
		err = b.kernels(ctx, e)
	}
	if err != nil {
		return nil, err
	}
	if len(r.Results)+len(r.Failed) == 0 {
		return nil, qwb.Usagef("--only %q: no case of that name", o.only)
	}
	if b.device == nil {
		return r, nil
	}
	if r.Peaks, err = cuda.MeasurePeaks(b.device); err != nil {
		b.failed("peaks", err)
	}
	for i := range r.Results {
		x := &r.Results[i]
		amount, bound := x.GOPS, bench.DeviceBound(x.Peak)
		if bound == bench.BoundCopy {
			amount = x.GBps
		}
		if peak := bound.Of(r.Peaks); peak > 0 {
			x.ShareOfPeak = amount * 1e9 / peak
		}
	}
	return r, nil
}

// kernels times kernels.
func (b *cudaBench) kernels(ctx context.Context, e *Host) error {
	cases := slices.DeleteFunc(bench.DeviceCases(), func(c bench.DeviceCase) bool {
		return b.device.Emulated != c.Small || !b.only.MatchString(c.Name())
	})
	set, finish := e.progress("kernels", len(cases))
	defer finish()
	for i, c := range cases {
		x, err := benchDeviceCase(ctx, b.stream, c, b.cudaOptions)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			b.report.Results = append(b.report.Results, *x)
		} else if !b.failed(c.Name(), err) {
			return nil
		}
		set(i + 1)
	}
	return nil
}

func benchDeviceCase(ctx context.Context, s *cuda.Stream, c bench.DeviceCase, o cudaOptions) (*cudaResult, error) {
	w, err := c.Prepare(s)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	t, err := bench.MeasureDevice(ctx, s, o.rounds, o.span, w.Run)
	if err := errors.Join(err, s.Synchronize()); err != nil {
		return nil, err
	}
	return &cudaResult{Name: c.Name(), Backend: o.backend, Batch: c.Batch, Mode: c.Mode, DeviceTime: t, How: w.Note,
		GOPS: c.Ops / t.Seconds / 1e9, GBps: c.Bytes / t.Seconds / 1e9, Peak: string(c.Bound)}, nil
}

// networks times networks at every batch.
func (b *cudaBench) networks(ctx context.Context) error {
	width, size := 64, 224
	if b.device.Emulated {
		width, size = 4, 32
	}
	g, err := bench.ResNet50(width, size, b.seed)
	if err != nil {
		return err
	}
	p, macs, err := networkProgram(ctx, g, b.cudaOptions)
	if err != nil {
		return err
	}
	for _, batch := range b.batches {
		name := fmt.Sprintf("resnet50 width=%d size=%d batch=%d", width, size, batch)
		if !b.only.MatchString(name) {
			continue
		}
		x, err := benchNetwork(ctx, b.device, p, batch, b.cudaOptions)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if !b.failed(name, err) {
				return nil
			}
			continue
		}
		x.Name, x.Backend, x.Mode, x.Batch, x.Peak = name, b.backend, "int8", batch, string(bench.BoundInt8)
		x.GOPS = 2 * macs * float64(batch) / x.Seconds / 1e9
		b.report.Results = append(b.report.Results, *x)
	}
	return nil
}

// networkProgram calibrates a network on two made-up samples and lowers it.
func networkProgram(ctx context.Context, g *graph.Graph, o cudaOptions) (*lower.Program, float64, error) {
	profile, err := qmath.ProfileNamed(o.profile)
	if err != nil {
		return nil, 0, err
	}
	samples, err := madeUp(g, 2)
	if err != nil {
		return nil, 0, err
	}
	stats, err := calib.Run(ctx, g, samples.Iterator(), calib.Config{Threads: o.threads, MinMaxOnly: true})
	if err != nil {
		return nil, 0, err
	}
	set, err := qwb.Configure(ctx, g, stats, &target.TRTInt8, tqc.ObserverMinMax, o.threads)
	if err != nil {
		return nil, 0, err
	}
	p, err := lower.Compile(g, set, &target.TRTInt8, profile)
	var macs float64
	for _, id := range g.Nodes() {
		n, _ := g.MACs(id)
		macs += float64(n)
	}
	return p, macs, err
}

// madeUp is a data set of n made-up samples.
func madeUp(g *graph.Graph, n int) (*data.Set, error) {
	spec := data.SpecOf(g)
	none, err := data.Preprocessing("none", spec, nil)
	if err != nil {
		return nil, err
	}
	set, _, err := data.Open([]string{fmt.Sprintf("synthetic:%d", n)}, spec, data.Options{Preprocess: &none})
	return set, err
}

// benchNetwork times forwards of one batch.
func benchNetwork(ctx context.Context, d *cuda.Device, p *lower.Program, batch int, o cudaOptions) (*cudaResult, error) {
	feeds, err := batchOf(p, batch)
	if err != nil {
		return nil, err
	}
	x, err := program.New(p, gpu.On(d), o.threads)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	r := &cudaResult{}
	var device, whole []float64
	start := time.Now()
	for i := 0; i < o.rounds+2 || time.Since(start) < o.span*time.Duration(o.rounds); i++ {
		before := time.Now()
		_, took, err := x.RunTimed(ctx, feeds)
		if err != nil {
			return nil, err
		}
		if i >= 2 { // the first makes the plan, the second is the first to follow it
			device, whole = append(device, took.Seconds()), append(whole, time.Since(before).Seconds())
		}
	}
	r.Rounds, r.Launches, r.Seconds, r.Min, r.Max = len(device), 1, bench.Median(device), slices.Min(device), slices.Max(device)
	r.Images, r.EndToEnd = float64(batch)/r.Seconds, float64(batch)/bench.Median(whole)
	for _, h := range x.Placement().Host {
		r.StepsHost++
		if why := h.Op + ": " + h.Reason; !slices.Contains(r.HostReason, why) {
			r.HostReason = append(r.HostReason, why)
		}
	}
	return r, nil
}

// batchOf makes up one batch of the program's inputs, of few different samples.
func batchOf(p *lower.Program, batch int) (map[string]*tensor.Tensor, error) {
	set, err := madeUp(p.Graph, min(batch, 4))
	if err != nil {
		return nil, err
	}
	samples := make([]*exec.Sample, set.Len())
	for i := range samples {
		if samples[i], err = set.Sample(i); err != nil {
			return nil, err
		}
	}
	feeds := map[string]*tensor.Tensor{}
	for _, in := range data.SpecOf(p.Graph) {
		parts := make([]*tensor.Tensor, batch)
		for i := range parts {
			parts[i] = samples[i%len(samples)].Feeds[in.Name]
		}
		if feeds[in.Name], err = joined(parts); err != nil {
			return nil, fmt.Errorf("input %s: %w", in, err)
		}
	}
	return feeds, nil
}

func (e *Host) printCUDA(r *cudaReport) error {
	d := r.Device
	fmt.Fprintf(e.Stdout, "%s, compute capability %d.%d, %d multiprocessors, %.1f GiB\n", d.Name, d.Arch/10, d.Arch%10, d.Multiprocessors,
		float64(d.Memory)/(1<<30))
	if d.Emulated {
		fmt.Fprintln(e.Stdout, "interpreted: times and shares say nothing about a GPU")
	}
	p := r.Peaks
	fmt.Fprintf(e.Stdout, "peaks: mma %.1f, wgmma %.1f, dp4a %.1f TOPS; FMA %.1f TFLOPS; copy %.0f, read %.0f, write %.0f GB/s\n\n",
		p.MMA/1e12, p.WGMMA/1e12, p.DP4A/1e12, p.FMA/1e12, p.Copy/1e9, p.Read/1e9, p.Write/1e9)
	w := table(e.Stdout)
	fmt.Fprintln(w, "case\ttime\tGOPS\tGB/s\tshare of peak\tpeak\timages/s\tend to end\t")
	for _, x := range r.Results {
		images, end := "", ""
		if x.Images > 0 {
			images, end = fmt.Sprintf("%.1f", x.Images), fmt.Sprintf("%.1f", x.EndToEnd)
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%.1f %%\t%s\t%s\t%s\t\n", x.Name, duration(x.Seconds), x.GOPS, x.GBps, 100*x.ShareOfPeak,
			x.Peak, images, end)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, x := range r.Results {
		for _, why := range x.HostReason {
			fmt.Fprintf(e.Stdout, "%s: on the host: %s\n", x.Name, why)
		}
	}
	for _, x := range r.Failed {
		fmt.Fprintf(e.Stdout, "%s: not measured: %s\n", x.Name, x.Error)
	}
	return nil
}
