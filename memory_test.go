package qwb

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/calib/data/npy"
	"qwb/export/all"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/internal/work/store"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/tqc"
)

// place is a store in memory with the model NAME.onnx, whose weights are those of the seed, and the folder NAME of four samples.
func place(t *testing.T, store *Memory, name string, seed int) *Project {
	t.Helper()
	text := network
	for i := range 6 {
		text = strings.Replace(text, fmt.Sprintf("seed=%d,", i+1), fmt.Sprintf("seed=%d,", 10*seed+i+1), 1)
	}
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, text)}).Write(&b))
	store.Write(name+".onnx", b.Bytes())
	for i := range 4 {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(100*seed+i), 1, 3, 8, 8)))
		store.Write(fmt.Sprintf("%s/%02d.npy", name, i), b.Bytes())
	}
	return &Project{Model: name + ".onnx", Plan: name + PlanSuffix, Store: store,
		Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
}

// work calibrates a project, sends an operator to float, verifies and exports it as ONNX and C.
func work(p *Project, platform string) error {
	ctx := context.Background()
	data := DataOptions{Paths: []string{strings.TrimSuffix(p.Model, ".onnx")}, Threads: 2}
	if _, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: platform, Data: data, Fresh: true, Threads: 2}); err != nil {
		return err
	}
	if _, _, err := p.Dispatch(ctx, DispatchOptions{Selectors: []string{"gemm"}, Threads: 2}); err != nil {
		return err
	}
	if _, _, err := p.Tune(ctx, TuneOptions{Methods: []string{"bias"}, Force: true, Threads: 2}); err != nil {
		return err
	}
	if _, _, err := p.Export(ctx, ExportOptions{Platform: platform, Out: "q." + p.Model, Threads: 2}); err != nil {
		return err
	}
	_, _, err := p.Export(ctx, ExportOptions{Format: "c", Out: "q." + p.Model + ".c", Threads: 2})
	return err
}

// Two jobs in one process, on two models and platforms in one store, write what each writes alone; nothing but a store in memory is
// touched.
func TestTwoJobsAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	alone, together := new(Memory), new(Memory)
	require.NoError(t, work(place(t, alone, "a", 1), "trt_int8"))
	require.NoError(t, work(place(t, alone, "b", 2), "onnxruntime"))
	for range 3 {
		a, b := place(t, together, "a", 1), place(t, together, "b", 2)
		var both sync.WaitGroup
		errs := make([]error, 2)
		both.Add(2)
		go func() { defer both.Done(); errs[0] = work(a, "trt_int8") }()
		go func() { defer both.Done(); errs[1] = work(b, "onnxruntime") }()
		both.Wait()
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
	}
	require.Contains(t, alone.Names(), "q.a.onnx.c")
	require.Contains(t, strings.Join(alone.Names(), " "), ".safetensors", "tuned values")
	for _, name := range alone.Names() {
		want, _ := alone.Read(name)
		got, ok := together.Read(name)
		require.True(t, ok, name)
		if !strings.HasSuffix(name, ".bak") && !strings.HasSuffix(name, ".runs.jsonl") { // of the runs before
			require.True(t, bytes.Equal(want, got), "%s differs", name)
		}
	}
	a, _ := alone.Read("a.plan.json")
	b, _ := alone.Read("b.plan.json")
	require.NotEqual(t, string(a), string(b))
}

// What the store in memory holds is what the operating system's files hold.
func TestMemoryGivesTheFilesOfTheSystem(t *testing.T) {
	t.Chdir(t.TempDir())
	mem := new(Memory)
	p := place(t, mem, "m", 3)
	system := *p
	system.Store = nil
	stage := OS{}.Stage()
	defer stage.Discard()
	for _, name := range mem.Names() {
		b, _ := mem.Read(name)
		require.NoError(t, stage.Add(name, store.BytesOf(b)))
	}
	require.NoError(t, stage.Commit())
	require.NoError(t, work(p, "onnxruntime"))
	require.NoError(t, work(&system, "onnxruntime"))
	for _, name := range mem.Names() {
		b, _ := mem.Read(name)
		require.True(t, bytes.Equal(b, read(t, name)), "%s differs", name)
	}
}

// Warnings come back as values and are told while they arise.
func TestWarningsAreValues(t *testing.T) {
	store := new(Memory)
	p := place(t, store, "m", 3)
	heard := &listener{}
	p.Events = heard
	r, warnings, err := p.Calibrate(context.Background(),
		CalibrateOptions{Platform: "trt_int8", Data: DataOptions{Paths: []string{"synthetic:2"}}, Threads: 1})
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(warnings), "synthetic")
	require.Equal(t, heard.warnings, warnings)
	require.Zero(t, r.Seconds, "nobody handed a clock in")
	require.Zero(t, r.PeakRSS)
}

// Everything that is asked of what a program does not offer is an error.
func TestWithoutBackendsAndDevices(t *testing.T) {
	p := place(t, new(Memory), "m", 3)
	p.Catalog = Catalog{}
	ctx := context.Background()
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "trt_int8", Backend: FloatCUDA, Data: DataOptions{Paths: []string{"m"}}})
	require.ErrorContains(t, err, "processor only")
	_, _, err = p.Calibrate(ctx, CalibrateOptions{Platform: "trt_int8", Data: DataOptions{Paths: []string{"m"}}})
	require.NoError(t, err)
	_, _, err = p.Verify(ctx, VerifyOptions{})
	require.ErrorContains(t, err, "no backend")
	_, _, err = p.Verify(ctx, VerifyOptions{Backend: "cpu"})
	require.ErrorAs(t, err, new(UsageError))
	_, _, err = p.Generate(ctx, GenerateOptions{})
	require.ErrorContains(t, err, "file of the operating system")
}

// listener keeps what it hears, and calls at when a progress begins or goes on.
type listener struct {
	warnings []tqc.Warning
	notes    []string
	details  []string
	at       func(what string, done int)
}

func (l *listener) Progress(what string, _ int) (func(int), func()) {
	tell := func(done int) {
		if l.at != nil {
			l.at(what, done)
		}
	}
	tell(0)
	return tell, func() {}
}

func (l *listener) Note(text string)      { l.notes = append(l.notes, text) }
func (l *listener) Detail(text string)    { l.details = append(l.details, text) }
func (l *listener) Warning(w tqc.Warning) { l.warnings = append(l.warnings, w) }

// Whatever runs a network refuses a sample for which there is not enough memory before it runs, with the figure that would do.
func TestMemoryBoundsEveryCommand(t *testing.T) {
	text := "opset 21\ninput x: f32[N,1024]\nconst w: f32[1024,16] = normal(seed=1, std=0.1)\nm = MatMul(x, w)\nd0 = Concat(m, m) {axis=0}\n"
	const doublings = 18
	for i := range doublings {
		text += fmt.Sprintf("d%d = Concat(d%d, d%d) {axis=0}\n", i+1, i, i)
	}
	text += fmt.Sprintf("y = ReduceMean(d%d) {keepdims=1}\noutput y\n", doublings)
	store, ctx := new(Memory), t.Context()
	p := place(t, store, "m", 1)
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, text)}).Write(&b))
	store.Write("m.onnx", b.Bytes())
	for i := range 2 {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(i), 1, 1024)))
		store.Write(fmt.Sprintf("d/%d.npy", i), b.Bytes())
	}
	data := DataOptions{Paths: []string{"d"}}
	calibration := CalibrateOptions{Platform: "onnxruntime", Data: data, BorderCost: new(float64)}
	_, _, err := p.Calibrate(ctx, calibration)
	require.NoError(t, err)
	before, _ := store.Read(p.Plan)
	commands := map[string]func(ctx context.Context) error{
		"calibrate": func(ctx context.Context) error {
			_, _, err := (&Project{Model: p.Model, Plan: "o" + PlanSuffix, Store: store, Catalog: p.Catalog}).Calibrate(ctx, calibration)
			return err
		},
		"analyze": func(ctx context.Context) error {
			_, _, err := p.Analyze(ctx, AnalyzeOptions{})
			return err
		},
		"eval": func(ctx context.Context) error {
			_, _, err := p.Eval(ctx, EvalOptions{Mode: ModeSim, Data: data})
			return err
		},
		"verify": func(ctx context.Context) error { _, _, err := p.Verify(ctx, VerifyOptions{}); return err },
		"export": func(ctx context.Context) error { _, _, err := p.Export(ctx, ExportOptions{}); return err },
		"tune": func(ctx context.Context) error {
			_, _, err := p.Tune(ctx, TuneOptions{Methods: []string{"bias"}, Force: true})
			return err
		},
		"dispatch": func(ctx context.Context) error {
			_, _, err := p.Dispatch(ctx, DispatchOptions{Budget: &Budget{Name: "nsr", At: 1}, Force: true})
			return err
		},
	}
	for name, command := range commands {
		t.Run(name, func(t *testing.T) {
			var full *MemoryError
			err := command(exec.WithMemory(ctx, 128<<20))
			require.ErrorAs(t, err, &full)
			require.Greater(t, full.Bytes, int64(128<<20))
			require.ErrorContains(t, err, fmt.Sprintf("--mem %dM would do", (full.Bytes+1<<20-1)>>20))
			after, _ := store.Read(p.Plan)
			require.Equal(t, before, after)
		})
	}
}
