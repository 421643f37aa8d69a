package qwb

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/calib/data/npy"
	"qwb/export/all"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/tqc"
)

// A cell of two gates, unrolled.
const cell = `
opset 17
input x: f32[1,8]
input h: f32[1,16]
const wz: f32[8,16] = normal(seed=1, std=0.5)
const uz: f32[16,16] = normal(seed=2, std=0.4)
const wn: f32[8,16] = normal(seed=3, std=0.5)
const un: f32[16,16] = normal(seed=4, std=0.4)
const wo: f32[16,4] = normal(seed=5, std=0.5)
const one: f32[1] = [1]
xz = MatMul(x, wz)
hz = MatMul(h, uz)
sz = Add(xz, hz)
z = Sigmoid(sz)
xn = MatMul(x, wn)
hn = MatMul(h, un)
sn = Add(xn, hn)
n = Tanh(sn)
k = Sub(one, z)
a = Mul(k, n)
b = Mul(z, h)
h_out = Add(a, b)
y = MatMul(h_out, wo)
output y: f32[1,4]
output h_out: f32[1,16]
`

// sequences is a project of the cell with folders of sequences: rolled has inputs alone, zeros a state of zeros at every step.
func sequences(t *testing.T) *Project {
	t.Helper()
	store := new(Memory)
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, cell)}).Write(&b))
	store.Write("m.onnx", b.Bytes())
	for i := range 8 {
		arrays := map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(100+i), 12, 8)}
		for _, folder := range []string{"rolled", "zeros"} {
			var b bytes.Buffer
			require.NoError(t, npy.WriteArchive(&b, arrays))
			store.Write(fmt.Sprintf("%s/%d.npz", folder, i), b.Bytes())
			arrays["h"] = tensor.New(tensor.Float32, 12, 16)
		}
	}
	return &Project{Model: "m.onnx", Plan: "m" + PlanSuffix, Store: store,
		Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
}

func (p *Project) calibrated(t *testing.T, folder string, threads int, states ...string) []tqc.Warning {
	t.Helper()
	free := 0.0
	_, warnings, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "onnxruntime", BorderCost: &free, Threads: threads,
		Data: DataOptions{Paths: []string{folder}, States: states}, Fresh: true})
	require.NoError(t, err)
	return warnings
}

// Rolled states give ranges that hold when the quantized network runs on its own states, zeros do not. The plan keeps what is a state, and
// no command has to be told again; threads change no byte.
func TestRolledStates(t *testing.T) {
	ctx := context.Background()
	p := sequences(t)
	warnings := p.calibrated(t, "zeros", 1)
	require.Contains(t, fmt.Sprint(warnings), "record the state by rolling the model over sequences: --state h=h_out")
	analyze := func(states ...string) *analysis.Report {
		r, _, err := p.Analyze(ctx, AnalyzeOptions{Data: DataOptions{Paths: []string{"rolled"}, States: states},
			Config: analysis.Config{Outputs: true, Threads: 3}})
		require.NoError(t, err)
		return r
	}
	zeros := analyze("h=h_out")
	var plans [2][]byte
	for i := range plans {
		warnings := p.calibrated(t, "rolled", 1+2*i, "h=h_out")
		require.NotContains(t, fmt.Sprint(warnings), "constant")
		plans[i] = get(t, p, p.Plan)
	}
	require.Equal(t, string(plans[0]), string(plans[1]))
	opened, _, err := p.OpenPlan()
	require.NoError(t, err)
	require.NoError(t, opened.Close())
	require.Equal(t, []graph.State{{Input: "h", Output: "h_out"}}, opened.Plan.Preprocess.States)
	rolled := analyze()
	require.Equal(t, 96, rolled.Samples)
	for _, r := range []*analysis.Report{zeros, rolled} {
		require.Len(t, r.Steps, 2)
		require.Equal(t, 8, r.Steps[0].Sequences)
		require.Len(t, r.Steps[0].Curve, 12)
		require.Equal(t, r.Steps[0].Last, r.Steps[0].Curve[11].NSR)
	}
	require.Less(t, rolled.Steps[0].Last.NSR, 0.01)
	require.Greater(t, zeros.Steps[0].Last.NSR, 10*rolled.Steps[0].Last.NSR)

	v, _, err := p.Verify(ctx, VerifyOptions{Threads: 2})
	require.NoError(t, err)
	require.NotEqual(t, "different", v.Verdict)
	e, _, err := p.Eval(ctx, EvalOptions{Mode: "int8", Data: DataOptions{Paths: []string{"rolled"}}, Threads: 2})
	require.NoError(t, err)
	// Its product gives floats, which the program has by another rounding of the same integers than the simulation.
	require.InEpsilon(t, rolled.Steps[0].Curve[5].NSR.NSR, e.Steps[0].Curve[5].NSR.NSR, 1e-5, "the integers are the simulation")
	_, _, err = p.Eval(ctx, EvalOptions{Mode: "int8", Batch: 2, Data: DataOptions{Paths: []string{"rolled"}}})
	require.ErrorContains(t, err, "--batch 2")
}

// Steps at the end of a sequence that a mask marks as padding are none: whatever stands there, plan and errors are those without them.
func TestPaddedSteps(t *testing.T) {
	masked := strings.Replace(cell, "input h:", "input m: f32[1,1]\ninput h:", 1)
	masked = strings.Replace(masked, "h_out = Add(a, b)", "c = Add(a, b)\nd = Sub(c, h)\ne = Mul(m, d)\nh_out = Add(h, e)", 1)
	store := new(Memory)
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, masked)}).Write(&b))
	store.Write("m.onnx", b.Bytes())
	for i := range 4 {
		x, m := graphtest.Normal(uint64(100+i), 12, 8), tensor.New(tensor.Float32, 12, 1)
		for k := range 9 + i {
			m.F32()[min(k, 11)] = 1
		}
		write := func(folder string, steps int) {
			var b bytes.Buffer
			require.NoError(t, npy.WriteArchive(&b, map[string]*tensor.Tensor{
				"x": tensor.FromF32(slices.Clone(x.F32()[:8*steps]), steps, 8), "m": tensor.FromF32(slices.Clone(m.F32()[:steps]), steps, 1)}))
			store.Write(fmt.Sprintf("%s/%d.npz", folder, i), b.Bytes())
		}
		write("short", min(9+i, 12))
		for k := range x.F32() {
			if k/8 >= 9+i {
				x.F32()[k] = 1000
			}
		}
		write("padded", 12)
	}
	free, ctx := 0.0, context.Background()
	found := map[string]string{}
	for _, folder := range []string{"short", "padded"} {
		p := &Project{Model: "m.onnx", Plan: folder + PlanSuffix, Store: store,
			Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
		data := DataOptions{Paths: []string{folder}, States: []string{"h=h_out"}, Mask: "m"}
		_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", BorderCost: &free, Data: data})
		require.NoError(t, err)
		r, _, err := p.Analyze(ctx, AnalyzeOptions{Data: DataOptions{Paths: []string{folder}}, Config: analysis.Config{Outputs: true}})
		require.NoError(t, err)
		require.Equal(t, 9+10+11+12, r.Samples)
		require.Equal(t, 4, r.Steps[0].Sequences)
		found[folder] = fmt.Sprint(r.Outputs[0].NSR, *r.Steps[0].Last.NSRError, r.Steps[0].Last.NSR)
		data.States = nil
		_, _, err = p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Fresh: true, Data: data})
		require.ErrorContains(t, err, "they need --state")
	}
	require.Equal(t, found["short"], found["padded"])
}

// A budget is on the last steps, on the quantized network's own states.
func TestBudgetOfTheLastStep(t *testing.T) {
	ctx := context.Background()
	p := sequences(t)
	p.calibrated(t, "rolled", 1, "h=h_out")
	r, _, err := p.Analyze(ctx, AnalyzeOptions{Data: DataOptions{Paths: []string{"rolled"}}, Config: analysis.Config{Outputs: true}})
	require.NoError(t, err)
	opened, _, err := p.OpenPlan()
	require.NoError(t, err)
	defer opened.Close()
	set, _, err := p.OpenData(opened.Reference, opened.Data(DataOptions{Paths: []string{"rolled"}}))
	require.NoError(t, err)
	ev, err := analysis.NewEvaluator(ctx, opened.Reference, set.Iterator, 2, 0)
	require.NoError(t, err)
	q, err := opened.Simulator()
	require.NoError(t, err)
	m, err := ev.Measure(ctx, q, nil)
	require.NoError(t, err)
	require.Len(t, m.Losses, 8)
	require.Equal(t, r.Steps[0].Last.NSR, m.Losses.Means()[0])
	every, err := ev.Losses(ctx, q)
	require.NoError(t, err)
	require.Len(t, every, 96)
	some, err := ev.LossesWhile(ctx, q, func(analysis.Losses) bool { return true })
	require.NoError(t, err)
	require.Equal(t, every, some, "states go on from one part of the samples to the next")
}

// A claim of a search rests on sequences, however many steps they have: eight can confirm nothing, and one recording is cut into blocks.
func TestSearchOfSequences(t *testing.T) {
	p := sequences(t)
	p.calibrated(t, "rolled", 1, "h=h_out")
	auto := func(folder string, most float64) *DispatchResult {
		r, _, err := p.Dispatch(context.Background(), DispatchOptions{Budget: &Budget{Name: "nsr", At: most},
			Data: DataOptions{Paths: []string{folder}}})
		var refused CheckError
		if err != nil {
			require.ErrorAs(t, err, &refused)
		}
		return r
	}
	r := auto("rolled", 0.5)
	require.Equal(t, 96, r.Found.Samples)
	require.Contains(t, r.Found.Refused, "8 step blocks can confirm nothing")
	require.Equal(t, 12*16, r.Found.Needed, "16 sequences of 12 steps")

	var b bytes.Buffer
	require.NoError(t, npy.WriteArchive(&b, map[string]*tensor.Tensor{"x": graphtest.Normal(7, 400, 8)}))
	p.Store.(*Memory).Write("long/0.npz", b.Bytes())
	r = auto("long", 0.5)
	require.True(t, r.Found.Claimed, r.Found.Refused)
	require.Equal(t, 400, r.Found.HeldOut.Samples)
}

// What a run in integers writes at a step follows from its own state at the step before.
func TestRunRolls(t *testing.T) {
	ctx := context.Background()
	p := sequences(t)
	p.calibrated(t, "rolled", 1, "h=h_out")
	arrays := func(mode string) (list []map[string]*tensor.Tensor) {
		r, _, err := p.Run(ctx, RunOptions{Mode: mode, Data: DataOptions{Paths: []string{"rolled"}}, Output: mode, Threads: 2})
		require.NoError(t, err)
		for _, file := range r.Files {
			b := get(t, p, file)
			a, err := npy.OpenArchive(bytes.NewReader(b), int64(len(b)))
			require.NoError(t, err)
			one := map[string]*tensor.Tensor{}
			for _, n := range a.Names() {
				one[n], err = a.Read(n)
				require.NoError(t, err)
			}
			list = append(list, one)
		}
		return list
	}
	steps := arrays("int8")
	require.Len(t, steps, 96)
	store := p.Store.(*Memory)
	again := graphtest.Normal(100, 12, 8)
	for step := 1; step < 3; step++ { // one step by itself, from what the one before wrote
		var b bytes.Buffer
		x := tensor.FromF32(again.F32()[8*step:8*step+8], 1, 8)
		require.NoError(t, npy.WriteArchive(&b, map[string]*tensor.Tensor{"x": x, "h": steps[step-1]["h_out"]}))
		name := fmt.Sprintf("one/%d.npz", step)
		store.Write(name, b.Bytes())
		r, _, err := p.Run(ctx, RunOptions{Mode: "int8", Data: DataOptions{Paths: []string{name}}, Output: "one", Threads: 1})
		require.NoError(t, err)
		b2 := get(t, p, r.Files[0])
		a, err := npy.OpenArchive(bytes.NewReader(b2), int64(len(b2)))
		require.NoError(t, err)
		y, err := a.Read("y")
		require.NoError(t, err)
		require.Equal(t, steps[step]["y"].F32(), y.F32())
	}
	require.NotEqual(t, steps[1]["y"].F32(), arrays("fp32")[1]["y"].F32())
}

// A gate holds the ends of sequences to its limit too, of a plan and of a certificate; where it compares two, each step counts for itself.
func TestGateOfSequences(t *testing.T) {
	p := sequences(t)
	p.calibrated(t, "rolled", 1, "h=h_out")
	ctx, limit, none := context.Background(), 1.0, 0.0
	data := DataOptions{Paths: []string{"rolled"}}
	_, _, err := p.Certify(ctx, CertifyOptions{Data: data, Out: "c.json"})
	require.NoError(t, err)
	for _, a := range []string{p.Plan, "c.json"} {
		r, _, err := p.Gate(ctx, GateOptions{A: a, B: "c.json", MaxNSR: &limit, MaxFlips: &none, MaxDrop: &none,
			Run: CompareOptions{Data: data}})
		require.NoError(t, err, "what is the same has no class that changed")
		var names []string
		for _, c := range r.Checks {
			names = append(names, c.Check)
			if strings.HasPrefix(c.Check, "NSR") || strings.HasPrefix(c.Check, "classes") {
				require.Equal(t, 8, c.Samples, "%s: each sequence is one piece of evidence", c.Check)
			}
		}
		require.Contains(t, names, "NSR at last steps")
	}
}
