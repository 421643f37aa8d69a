package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/bench"
	"qwb/internal/options"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/sim"
)

// modelOptions are the arguments of bench model.
type modelOptions struct {
	bench.Options
	file    string // model or plan
	data    qwb.DataOptions
	batch   int
	threads int
	modes   []string
	backend string // what runs the integers, next to the CPU
	perNode bool
}

// modelReport is what bench model --json prints.
type modelReport struct {
	Machine machineInfo   `json:"machine"`
	Model   string        `json:"model"`
	MACs    int64         `json:"macs"` // of the whole batch
	Results []benchResult `json:"results"`
	Ratios  []modeRatio   `json:"ratios"`
	PeakRSS int64         `json:"peak_rss_bytes"`
	*nodesReport
}

// deviceResult is what a device adds to a result: the time of the kernels alone, from the first step to the last as the device's own
// events have it, while seconds is what a caller waits, with the way of inputs and outputs.
type deviceResult struct {
	Device        string  `json:"device"`
	DeviceSeconds float64 `json:"device_seconds"` // median over the rounds
	DeviceMin     float64 `json:"device_min_seconds"`
	DeviceMax     float64 `json:"device_max_seconds"`
	PerSecond     float64 `json:"samples_per_second"`        // with transfers
	DeviceRate    float64 `json:"device_samples_per_second"` // without
	Steps         int     `json:"steps"`
	OnHost        int     `json:"steps_on_host"`
}

// modeRatio compares a mode with the first one, round by round.
type modeRatio struct {
	Mode string `json:"mode"`
	Over string `json:"over"`
	bench.Ratio
}

func newBenchModel(e *Host) *cobra.Command {
	var data qwb.DataOptions
	var threads int
	var asJSON bool
	var o modelOptions
	var paced bool
	var mode string
	return e.Takes(&cobra.Command{
		Use:     "model MODEL|PLAN",
		Short:   "Time the forward pass of a model: float, simulated INT8 or INT8, whole or per node",
		Example: "  qwb bench model model.onnx --mode fp32,int8 --threads 1",
		Long: `Model measures one forward pass of a whole batch. Several modes run in turn and are compared round by round.
The speed counts two operations per multiply-accumulate. The share is relative to the fastest multiply-add
loop in the same rounds, with the same number of threads.

Inputs are generated unless --data is given. Their values do not change the time, but dynamic dimensions do:
height and width of an image become 224, others 1.

--per-node also measures every node and compares it with its roofline. This is the larger of two times: its
operations at peak speed, and its bytes read and written at the bandwidth of a buffer of that size. Nodes that
are computed together are one line.

With --backend cuda, INT8 also runs on the GPU, next to the CPU. It is measured twice: with the copies of
inputs and outputs, as a caller sees it, and without them, by events of the device. --backend ptx interprets
GPU kernels: ignore its times.

--paced runs one sample for every line on standard input and prints its time as a line of JSON, until the
input ends. Two programs can so be measured in turn.`,
		Args: exactly(1, "one model or plan"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.batch < 0 {
				return qwb.Usagef("--batch %d: must be 0 or more", o.batch)
			}
			if o.Options, err = benchOptions(o.Options); err != nil {
				return err
			}
			o.file, o.batch, o.threads, o.data = args[0], max(o.batch, 1), threads, data
			if o.modes, err = parseModes(mode, o.file); err != nil {
				return err
			}
			if o.backend != e.defaultBackend() && !slices.Contains(o.modes, "int8") {
				return qwb.Usagef("--backend is for --mode int8 only; add --mode int8")
			}
			if o.perNode && o.modes[0] == "int8" {
				return qwb.Usagef("--per-node needs fp32 or sim as the first mode, not int8")
			}
			if paced {
				if o.perNode || len(o.modes) > 1 {
					return qwb.Usagef("--paced takes one mode and no --per-node")
				}
				return e.benchPaced(c.Context(), o, c.InOrStdin())
			}
			r, err := e.benchModel(c.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return e.printJSON(r)
			}
			return e.printModel(r, o.threads)
		},
	}, slices.Concat(sampled(&data, 0), options.Threads(&threads, &data.Threads), options.JSON(&asJSON),
		options.Table{
			{Name: "batch", At: &o.batch, Default: 1, Help: "samples in one forward pass"},
			{Name: "mode", At: &mode, Default: "fp32", Values: func() []string { return []string{qwb.ModeFloat, qwb.ModeSim, qwb.ModeInt8} },
				Help: "fp32; with a plan also sim (simulated INT8) or int8 (the integer program); or several, separated by commas"},
			{Name: "backend", At: &o.backend, Default: e.defaultBackend(), Values: e.backends,
				Help: "backend of --mode int8, next to the CPU: " + strings.Join(e.backends(), ", ")},
			{Name: "per-node", At: &o.perNode, Help: "also time every node, compared with its roofline"},
			{Name: "paced", At: &paced, Help: "run one sample for every line of standard input"},
		}, rounds(&o.Options, 7, 200*time.Millisecond)))
}

// parseModes splits --mode.
func parseModes(arg, file string) ([]string, error) {
	modes := strings.Split(arg, ",")
	for i, m := range modes {
		switch {
		case !slices.Contains([]string{"fp32", "sim", "int8"}, m):
			return nil, qwb.Usagef("--mode %s: one of fp32, sim, int8", m)
		case m != "fp32" && !strings.HasSuffix(file, qwb.PlanSuffix):
			return nil, qwb.Usagef("--mode %s needs a plan; calibrate %s first", m, file)
		case slices.Contains(modes[:i], m):
			return nil, qwb.Usagef("--mode %s: %s is named twice", arg, m)
		}
	}
	return modes, nil
}

// timed is a model that is ready to be timed.
type timed struct {
	*qwb.Model
	plan    *qwb.Planned // nil: of a model alone
	session *exec.Session
	threads int
	feeds   map[string]*tensor.Tensor
}

// openTimed loads a model, or a plan and its model, with one batch of inputs.
func (e *Host) openTimed(file string, d qwb.DataOptions, batch, threads int) (*timed, error) {
	t := timed{threads: threads}
	var err error
	if strings.HasSuffix(file, qwb.PlanSuffix) {
		if t.plan, _, err = e.Project("", file).OpenPlan(); err != nil {
			return nil, err
		}
		t.Model = t.plan.Model
	} else if t.Model, _, err = e.Project(file, "").OpenNormal(); err != nil {
		return nil, err
	}
	if batch > 1 {
		g, err := graph.OpenBatch(t.Graph)
		if err != nil {
			t.Close()
			return nil, t.Named("bench", err)
		}
		t.Graph = g
	}
	if t.session, err = exec.New(t.Graph, exec.Options{Threads: threads}); err != nil {
		t.Close()
		return nil, t.Named("bench", err)
	}
	if t.feeds, err = e.feeds(&t, d, batch); err != nil {
		t.Close()
		return nil, fmt.Errorf("bench: %s: %w", t.Path, err)
	}
	return &t, nil
}

// work is one forward in float or simulated INT8, with a runner of its own. step, if not nil, is told of every step.
func (t *timed) work(mode string, step stepFunc) (bench.Work, *exec.Runner, error) {
	hooks := &exec.Hooks{}
	if mode == "sim" {
		q, err := sim.New(t.Graph, t.plan.Set, sim.Options{})
		if err != nil {
			return nil, nil, err
		}
		hooks = q.Hooks(nil)
	}
	hooks.Step = step
	r := t.session.NewRunner()
	return func(ctx context.Context) error {
		_, err := r.Run(ctx, t.feeds, hooks)
		return err
	}, r, nil
}

// integers is an executor of the plan's integer program.
func (t *timed) integers(b program.Backend) (*program.Executor, error) {
	profile, err := qmath.ProfileNamed(t.plan.Target.Profile)
	if err != nil {
		return nil, err
	}
	p, err := lower.Compile(t.Graph, t.plan.Set, t.plan.Target, profile)
	if err != nil {
		return nil, err
	}
	return program.New(p, b, t.threads)
}

// contender is one of the things that are timed in turn.
type contender struct {
	mode   string
	name   string // of the mode, and of a backend that is not the CPU
	work   bench.Work
	runner *exec.Runner      // of the graph, nil for integers
	x      *program.Executor // of integers
}

// onGPU reports whether it runs on a device.
func (c *contender) onGPU() bool {
	if c.x == nil {
		return false
	}
	p := c.x.Placement()
	return p != nil && p.Device != ""
}

func (c *contender) close() {
	if c.x != nil {
		_ = c.x.Close()
	}
}

// contenders lists what a mode is timed on: integers on the CPU, and on another backend if one is asked for.
func (t *timed) contenders(e *Host, mode, backend string) (list []contender, err error) {
	if mode != "int8" {
		w, r, err := t.work(mode, nil)
		return []contender{{mode: mode, name: mode, work: w, runner: r}}, err
	}
	names := []string{e.defaultBackend()}
	if backend != names[0] {
		names = append(names, backend)
	}
	for i, name := range names {
		b, err := e.Backend(name)
		if err != nil {
			return list, err
		}
		x, err := t.integers(b)
		if err != nil {
			return list, err
		}
		c := contender{mode: mode, name: mode, x: x, work: func(ctx context.Context) error {
			outs, err := x.Run(ctx, t.feeds, nil)
			x.Reuse(outs)
			return err
		}}
		if i > 0 {
			c.name += " on " + name
		}
		list = append(list, c)
	}
	return list, nil
}

// onDevice times the device alone, once for every round.
func (c *contender) onDevice(ctx context.Context, t *timed, rounds, batch int, seconds float64) (*deviceResult, error) {
	var times []float64
	for range max(rounds, 1) {
		_, d, err := c.x.RunTimed(ctx, t.feeds)
		if err != nil {
			return nil, err
		}
		times = append(times, d.Seconds())
	}
	slices.Sort(times)
	p := c.x.Placement()
	r := &deviceResult{Device: p.Device, DeviceSeconds: times[len(times)/2], DeviceMin: times[0], DeviceMax: times[len(times)-1],
		PerSecond: float64(batch) / seconds, Steps: p.Steps, OnHost: len(p.Host)}
	if r.DeviceSeconds > 0 {
		r.DeviceRate = float64(batch) / r.DeviceSeconds
	}
	return r, nil
}

// macs is the multiply-accumulates of the model on one sample, as far as shapes are known.
func (t *timed) macs() (total float64) {
	for _, id := range t.Graph.Nodes() {
		n, _ := t.Graph.MACs(id)
		total += float64(n)
	}
	return total
}

// benchModel times the modes, and the peak, in the same rounds.
func (e *Host) benchModel(ctx context.Context, o modelOptions) (*modelReport, error) {
	t, err := e.openTimed(o.file, o.data, o.batch, o.threads)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	r := &modelReport{Machine: thisMachine(), Model: t.Path, Results: []benchResult{}, Ratios: []modeRatio{}}
	var all []contender
	defer func() {
		for i := range all {
			all[i].close()
		}
	}()
	var works []bench.Work
	var runner *exec.Runner
	for _, m := range o.modes {
		list, err := t.contenders(e, m, o.backend)
		all = append(all, list...)
		if err != nil {
			return nil, err
		}
	}
	for _, c := range all {
		if works = append(works, c.work); c.runner != nil {
			runner = c.runner
		}
	}
	set, finish := e.progress("bench", o.Rounds)
	defer finish()
	o.Progress = set
	peak, ops, name := bench.ComputePeak(cpu.Detect(), kernels.PeakFloat, o.threads)
	s, err := bench.Measure(ctx, o.Options, append(works, peak)...)
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", t.Path, err)
	}
	finish()
	if runner == nil {
		r.MACs = int64(t.macs()) * int64(o.batch)
	} else {
		for _, m := range runner.MACs() {
			r.MACs += m
		}
	}
	for i, c := range all {
		x := benchResult{Name: t.Path, Backend: kernels.Select(cpu.Detect()).Rows()[kernels.OpGemm].ISA, Threads: o.threads, Batch: o.batch,
			Mode: c.name, Timing: s.Timing(i), Peak: name, PeakSpeed: ops / s.Timing(len(works)).Seconds / 1e9, Unit: string(bench.GOPS)}
		x.GOPS = 2 * float64(r.MACs) / x.Seconds / 1e9
		x.Speed = x.GOPS
		x.ShareOfPeak = s.Ratio(len(works), i).Median * 2 * float64(r.MACs) / ops
		if c.onGPU() {
			if x.deviceResult, err = c.onDevice(ctx, t, o.Rounds, o.batch, x.Seconds); err != nil {
				return nil, fmt.Errorf("bench: %s: %w", t.Path, err)
			}
			x.Backend, x.Threads, x.Peak, x.PeakSpeed, x.ShareOfPeak = o.backend, 0, "", 0, 0 // the peak is the processor's
		}
		r.Results = append(r.Results, x)
		if i > 0 {
			r.Ratios = append(r.Ratios, modeRatio{c.name, all[0].name, s.Ratio(i, 0)})
		}
	}
	if o.perNode {
		if r.nodesReport, err = e.benchNodes(ctx, t, o); err != nil {
			return nil, err
		}
	}
	r.PeakRSS = e.PeakMemory()
	return r, nil
}

// benchPaced answers every line of in with one sample.
func (e *Host) benchPaced(ctx context.Context, o modelOptions, in io.Reader) error {
	t, err := e.openTimed(o.file, o.data, o.batch, o.threads)
	if err != nil {
		return err
	}
	defer t.Close()
	all, err := t.contenders(e, o.modes[0], o.backend)
	for i := range all {
		defer all[i].close()
	}
	if err != nil {
		return err
	}
	p, err := bench.Pace(ctx, o.Options, all[len(all)-1].work)
	if err != nil {
		return fmt.Errorf("bench: %s: %w", t.Path, err)
	}
	out := json.NewEncoder(e.Raw)
	if err := out.Encode(map[string]any{"ready": true}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		sample, err := p(ctx)
		if err != nil {
			return err
		}
		if err := out.Encode(map[string]any{"seconds": sample}); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (e *Host) printModel(r *modelReport, threads int) error {
	e.printMachine(r.Machine, threads)
	w := table(e.Stdout)
	fmt.Fprintln(w, "mode\tbatch\ttime\tleast\tmost\tGOPS\tshare of peak\t\t")
	for _, x := range r.Results {
		share := fmt.Sprintf("%.1f %%", 100*x.ShareOfPeak)
		if x.deviceResult != nil {
			share = "-"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%.1f\t%s\t%s\t\n", x.Mode, x.Batch, duration(x.Seconds), duration(x.Min), duration(x.Max), x.GOPS,
			share, quietness(x.Timing))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, x := range r.Results {
		if d := x.deviceResult; d != nil {
			fmt.Fprintf(e.Stdout, "\n%s: %s samples per second on %s; %s and %s without the way of inputs and outputs; %d of %d steps on the host\n",
				x.Mode, perSecond(d.PerSecond), d.Device, duration(d.DeviceSeconds), perSecond(d.DeviceRate), d.OnHost, d.Steps)
		}
	}
	for _, x := range r.Ratios {
		fmt.Fprintf(e.Stdout, "\n%s takes %.3f of %s [%.3f to %.3f]\n", x.Mode, x.Median, x.Over, x.Min, x.Max)
	}
	if r.nodesReport != nil {
		return e.printNodes(r.nodesReport)
	}
	return nil
}
