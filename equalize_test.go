package qwb

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"qwb/calib/data/npy"
	"qwb/calib/tune"
	"qwb/export/all"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/quantizer/overlay"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// unequal is a network with ReLU6, a depthwise convolution and a residual, whose channels are of very different ranges.
const unequal = `opset 17
input x: f32[1,3,8,8]
const w1: f32[8,3,3,3] = normal(seed=1, std=0.3)
const b1: f32[8] = normal(seed=2, std=0.3)
const w2: f32[8,1,3,3] = normal(seed=3, std=0.3)
const b2: f32[8] = normal(seed=4, std=0.3)
const w3: f32[8,8,1,1] = normal(seed=5, std=0.3)
const w4: f32[8,8,1,1] = normal(seed=6, std=0.3)
const w5: f32[5,128] = normal(seed=7, std=0.1)
const lo: f32[] = [0]; const hi: f32[] = [6]
c1 = Conv(x, w1, b1) {pads=[1, 1, 1, 1]} "conv1"
r1 = Relu(c1)
c2 = Conv(r1, w2, b2) {pads=[1, 1, 1, 1], group=8} "depthwise"
r2 = Clip(c2, lo, hi) "relu6"
c3 = Conv(r2, w3) "project"
c4 = Conv(c3, w4) "mix"
a = Add(c3, c4)
p = MaxPool(a) {kernel_shape=[2, 2], strides=[2, 2]}
f = Flatten(p)
y = Gemm(f, w5) {transB=1} "fc"
output y: f32[1,5]
`

// placeUnequal is placeSpread of the network above.
func placeUnequal(t *testing.T, n int) *Project { return placeSpread(t, unequal, n) }

// placeSpread writes a network, the weights of its first two operators spread by powers of two that cancel, and n samples.
func placeSpread(t *testing.T, text string, n int) *Project {
	t.Helper()
	g := graphtest.Parse(t, text)
	spread := func(node string, out bool, factor func(c int) float32) {
		id, _ := g.LookupNode(node)
		for input, v := range g.Node(id).Inputs[1:] {
			w := g.Const(v)
			if input > 0 && !out {
				continue
			}
			per := w.Len() / w.Shape[0]
			for i := range w.F32() {
				c := i / per
				if !out && w.Shape[1] > 1 {
					c = i / (per / w.Shape[1]) % w.Shape[1]
				}
				w.F32()[i] *= factor(c)
			}
		}
	}
	f := func(c int) float32 { return float32(int(1) << (c % 6)) }
	spread("conv1", true, func(c int) float32 { return 1 / f(c) })
	spread("depthwise", false, f)
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: g}).Write(&b))
	store := new(Memory)
	store.Write("m.onnx", b.Bytes())
	for i := range n {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(100+i), 1, 3, 8, 8)))
		store.Write(fmt.Sprintf("m/%02d.npy", i), b.Bytes())
	}
	return &Project{Model: "m.onnx", Plan: "m" + PlanSuffix, Store: store,
		Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
}

// Equalization per tensor lowers the error on held-out samples, and its plan verifies, exports, is undone and done again; threads change no
// byte.
func TestEqualize(t *testing.T) {
	ctx := context.Background()
	var plans [2][]byte
	for i, threads := range []int{1, 3} {
		p := placeUnequal(t, 48)
		store := p.Store.(*Memory)
		_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", PerTensor: true, Data: DataOptions{Paths: []string{"m"}},
			Threads: threads})
		require.NoError(t, err)
		before := content(t, store, p.Plan)
		r, _, err := p.Tune(ctx, TuneOptions{Methods: []string{"equalize"}, Threads: threads})
		require.NoError(t, err)
		require.NotEmpty(t, r.Overlay, "%+v", r.Methods[0])
		require.True(t, r.Confirmed)
		require.Less(t, r.After.NSR, 0.5*r.Before.NSR)
		require.Positive(t, r.Steps)
		require.Less(t, *r.FloatNSR, 1e-10)
		derivesAgain(t, p)
		plans[i] = content(t, store, p.Plan)
		if i > 0 {
			break
		}
		v, _, err := p.Verify(ctx, VerifyOptions{Data: DataOptions{Samples: 2}})
		require.NoError(t, err)
		require.Positive(t, v.IntegersCompared)
		require.Zero(t, v.IntegersDifferent)
		_, _, err = p.Export(ctx, ExportOptions{Platform: "onnxruntime", Out: "q.onnx"})
		require.NoError(t, err)
		_, _, err = p.Undo(ctx, 1)
		require.NoError(t, err)
		store.Write("old.json", before)
		old, _, err := p.job().ReadPlan("old.json")
		require.NoError(t, err)
		undone, _, err := p.job().ReadPlan(p.Plan)
		require.NoError(t, err)
		require.Equal(t, old.Nodes, undone.Nodes)
		_, _, err = p.Redo(ctx, 1)
		require.NoError(t, err)
		_, _, err = p.Export(ctx, ExportOptions{Platform: "onnxruntime", Out: "q2.onnx"})
		require.NoError(t, err)
		require.Equal(t, content(t, store, "q.onnx"), content(t, store, "q2.onnx"))
		require.Len(t, files(t, store, overlay.Belongs), 1)
		again, _, err := p.job().ReadPlan(p.Plan)
		require.NoError(t, err)
		again.Verification = nil
		encoded, err := again.Encode()
		require.NoError(t, err)
		require.Equal(t, string(plans[0]), string(encoded))
	}
	require.Equal(t, string(plans[0]), string(plans[1]))
}

// Too few samples to confirm anything are refused before any work: the plan stays as it is.
func TestEqualizeOfFewSamples(t *testing.T) {
	ctx := context.Background()
	p := placeUnequal(t, 6)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}}, Threads: 2})
	require.NoError(t, err)
	was := content(t, p.Store.(*Memory), p.Plan)
	_, _, err = p.Tune(ctx, TuneOptions{Methods: []string{"equalize"}, Threads: 2})
	require.ErrorAs(t, err, new(CheckError))
	require.ErrorContains(t, err, "6 samples can confirm nothing: give at least 16 that differ")
	require.Equal(t, was, content(t, p.Store.(*Memory), p.Plan))
}

// Where the data of the plan is gone, people hear that no structure can be compared.
func TestEqualizeWithoutThePlansData(t *testing.T) {
	ctx := context.Background()
	p := placeUnequal(t, 48)
	store := p.Store.(*Memory)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", PerTensor: true, Data: DataOptions{Paths: []string{"m"}},
		Threads: 2})
	require.NoError(t, err)
	moved := new(Memory)
	for _, name := range store.Names() {
		to := name
		if rest, ok := strings.CutPrefix(name, "m/"); ok {
			to = "moved/" + rest
		}
		moved.Write(to, content(t, store, name))
	}
	p.Store = moved
	r, warnings, err := p.Tune(ctx, TuneOptions{Methods: []string{"equalize"}, Data: DataOptions{Paths: []string{"moved"}}, Threads: 2})
	require.NoError(t, err)
	require.Empty(t, r.Overlay)
	require.Contains(t, fmt.Sprint(warnings), "changes of structure are not tried")
}

// Tuning that was interrupted behind an equalization goes on from it, to the same bytes.
func TestInterruptedBehindEqualize(t *testing.T) {
	ctx := context.Background()
	o := TuneOptions{Methods: []string{"equalize", "bias"}, Threads: 2}
	place := func() *Project {
		store := placeUnequal(t, 48).Store.(*Memory)
		t.Chdir(t.TempDir())
		require.NoError(t, os.Mkdir("m", 0o755))
		for _, name := range append([]string{"m.onnx"}, samplesOf(t, store)...) {
			require.NoError(t, os.WriteFile(name, content(t, store, name), 0o644))
		}
		p := &Project{Model: "m.onnx", Plan: "m.plan.json", Catalog: Catalog{Version: "0.0.0", Now: time.Now}}
		_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", PerTensor: true,
			Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
		require.NoError(t, err)
		return p
	}
	p := place()
	r, _, err := p.Tune(ctx, o)
	require.NoError(t, err)
	require.Positive(t, r.Steps)
	plan, values := read(t, "m.plan.json"), read(t, r.Overlay)

	p = place()
	stop, cancel := context.WithCancel(ctx)
	p.Events = stopsAt("bias", 2, cancel)
	_, _, err = p.Tune(stop, o)
	require.ErrorIs(t, err, context.Canceled)
	require.FileExists(t, "m.tuning")
	p.Events = nil
	again, _, err := p.Tune(ctx, o)
	require.NoError(t, err)
	require.Equal(t, values, read(t, again.Overlay))
	require.Equal(t, plan, read(t, "m.plan.json"))
}

func samplesOf(t *testing.T, store *Memory) (list []string) {
	t.Helper()
	entries, err := fs.ReadDir(store, "m")
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, "m/"+e.Name())
	}
	return list
}

// Equalization through a ReLU6 leaves a Min behind it, which trt_int8 computes in float, and with it the convolutions around. So it is not
// kept unless that is allowed, and then a warning, the result and the plan's story name what moved.
func TestTuningMovesNothingToFP32UnlessAllowed(t *testing.T) {
	ctx := context.Background()
	for _, allow := range []bool{false, true} {
		p := placeSpread(t, strings.Replace(unequal, `r1 = Relu(c1)`, `r1 = Clip(c1, lo, hi) "first"`, 1), 48)
		cost := 5.0
		_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "trt_int8", BorderCost: &cost, PerTensor: true,
			Data: DataOptions{Paths: []string{"m"}}})
		require.NoError(t, err)
		r, warnings, err := p.Tune(ctx, TuneOptions{Methods: []string{"auto"}, AllowFP32: allow})
		require.NoError(t, err)
		require.NotEmpty(t, r.Overlay)
		require.Positive(t, r.OnIntegers.Before)
		log, _, err := p.Log(ctx)
		require.NoError(t, err)
		story := strings.Join(log.Decisions[len(log.Decisions)-1].Story(), "\n")
		require.Contains(t, story, r.OnIntegers.Words[0])
		if !allow {
			require.Equal(t, r.OnIntegers.Before, r.OnIntegers.After)
			require.Empty(t, r.OnIntegers.Moved)
			equalize := r.Methods[slices.IndexFunc(r.Methods, func(m *tune.Report) bool { return m.Name == tune.Equalize.Name })]
			require.Contains(t, equalize.Layers[0].Why, "first/min")
			require.Contains(t, equalize.Layers[0].Why, "--allow-fp32")
			require.NotContains(t, fmt.Sprint(warnings), "FP32")
			continue
		}
		require.Less(t, r.OnIntegers.After, r.OnIntegers.Before)
		require.Contains(t, r.OnIntegers.Moved, "first/min")
		require.Contains(t, r.OnIntegers.Moved, "depthwise")
		require.Contains(t, fmt.Sprint(warnings), "moved to FP32: ")
		require.Contains(t, story, "moved to FP32: ")
		// What moved is what the plan is now: more of the same moves nothing.
		r, warnings, err = p.Tune(ctx, TuneOptions{Methods: []string{"bias"}, Force: true})
		require.NoError(t, err)
		require.Equal(t, r.OnIntegers.Before, r.OnIntegers.After)
		require.NotContains(t, fmt.Sprint(warnings), "moved to FP32")
	}
}
