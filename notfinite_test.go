package qwb

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/calib/data/npy"
	"qwb/internal/graphtest"
	"qwb/quantizer/tqc"
)

// deviation is a standard deviation over the picture, written out.
const deviation = `
input x: f32[1,4,8,8]
const w: f32[8,4,3,3] = normal(seed=1, std=0.2)
const b: f32[8] = normal(seed=2, std=0.05)
const wo: f32[4,8,1,1] = normal(seed=3, std=0.3)
c = Conv(x, w, b) {pads=[1, 1, 1, 1]} "conv"
h = Relu(c) "relu"
q = Mul(h, h) "square"
e = ReduceMean(q) {axes=[2, 3]} "mean of squares"
m = ReduceMean(h) {axes=[2, 3]} "mean"
k = Mul(m, m) "square of mean"
v = Sub(e, k) "variance"
s = Sqrt(v) "deviation"
y = Conv(s, wo) "last"
output y: f32[1,4,1,1]
`

// quiet places a network and samples, of which every other one is so many times quieter.
func quiet(t *testing.T, text string, by float32) *Project {
	t.Helper()
	p := placeOf(t, text)
	for i := range 16 {
		x := graphtest.Normal(uint64(100+i), 1, 4, 8, 8)
		if i%2 == 0 {
			for k := range x.F32() {
				x.F32()[k] /= by
			}
		}
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, x))
		p.Store.(*Memory).Write(fmt.Sprintf("m/%02d.npy", i), b.Bytes())
	}
	return p
}

// What the kept samples show is found also where a verification sees others: no file is written of such a plan.
func TestNaNInKeptSamplesEndsAVerification(t *testing.T) {
	ctx, zero := context.Background(), 0.0
	p := quiet(t, deviation, 100)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", BorderCost: &zero,
		Data: DataOptions{Paths: []string{"m"}}, Threads: 2})
	require.NoError(t, err)
	_, _, err = p.Set(ctx, "square,square of mean", []string{"domain=int"}, 1)
	require.NoError(t, err)
	for i := range 8 {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(300+i), 1, 4, 8, 8)))
		p.Store.(*Memory).Write(fmt.Sprintf("loud/%02d.npy", i), b.Bytes())
	}
	v, _, err := p.Verify(ctx, VerifyOptions{Data: DataOptions{Paths: []string{"loud"}}, Threads: 2})
	require.NoError(t, err)
	require.Equal(t, analysis.VerdictNotFinite, v.Verdict)
	require.Equal(t, "deviation", v.NotFinite.Node)
	_, _, err = p.Export(ctx, ExportOptions{Out: "m.q.onnx", Threads: 1})
	require.ErrorAs(t, err, new(CheckError))
	_, warnings, err := p.Export(ctx, ExportOptions{Out: "m.q.onnx", Threads: 1, Unverified: true})
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(warnings), "this plan is bad: it gives NaN")
}

// A root of a variance that is written out is float, and has no NaN. On integers it has, and every command that runs the plan names the
// root, what it reads, and the command that mends it: that of pow2_int8 quantizes behind the root, where NaN was a code before.
func TestNaNIsFoundWhereItIsMade(t *testing.T) {
	ctx, zero := context.Background(), 0.0
	for _, platform := range []string{"onnxruntime", "pow2_int8"} {
		t.Run(platform, func(t *testing.T) {
			p := quiet(t, deviation, 100)
			o := DataOptions{Paths: []string{"m"}}
			_, warnings, err := p.Calibrate(ctx, CalibrateOptions{Platform: platform, BorderCost: &zero, Data: o, Threads: 2})
			require.NoError(t, err)
			for _, w := range warnings {
				require.NotContains(t, w.Text, "NaN")
			}
			v, _, err := p.Verify(ctx, VerifyOptions{Threads: 2})
			require.NoError(t, err)
			require.True(t, v.Holds(), v.Verdict)

			_, _, err = p.Set(ctx, "square,square of mean", []string{"domain=int"}, 1)
			require.NoError(t, err)
			said := func(text string) {
				t.Helper()
				for _, part := range []string{"Sqrt of -", "where the float network does not", "a difference of numbers that were rounded",
					"qwb set m.plan.json '", "domain=fp32 mends it"} {
					require.Contains(t, text, part)
				}
			}
			v, _, err = p.Verify(ctx, VerifyOptions{Threads: 2})
			require.NoError(t, err)
			require.Equal(t, analysis.VerdictNotFinite, v.Verdict)
			require.Equal(t, "deviation", v.NotFinite.Node)
			require.True(t, math.IsNaN(float64(v.NotFinite.Value)))
			said(Divergence(v))
			_, _, err = p.Export(ctx, ExportOptions{Out: "m.q.onnx", Threads: 1})
			require.ErrorAs(t, err, new(CheckError))
			said(err.Error())
			_, warnings, err = p.Calibrate(ctx, CalibrateOptions{Platform: platform, BorderCost: &zero, Threads: 1}) // keeps the decision
			require.NoError(t, err)
			texts := ""
			for _, w := range warnings {
				texts += w.Text + "\n"
			}
			said(texts)
			for name, err := range everyRun(p) {
				require.ErrorAs(t, err, new(CheckError), name)
				said(err.Error())
				if name != "gate" {
					require.Equal(t, "deviation", Describe(err).Node, name)
				}
			}

			cure := strings.Fields(v.NotFinite.Cure)
			selector := strings.Trim(strings.Join(cure[3:len(cure)-1], " "), "'")
			_, _, err = p.Set(ctx, selector, cure[len(cure)-1:], 1)
			require.NoError(t, err)
			v, _, err = p.Verify(ctx, VerifyOptions{Threads: 2})
			require.NoError(t, err)
			require.True(t, v.Holds(), v.Verdict)
		})
	}
}

// everyRun runs the project's plan by every command that judges, and returns their errors by name.
func everyRun(p *Project) map[string]error {
	ctx, nsr, runs := context.Background(), 1.0, CompareOptions{Runs: []string{p.Plan, p.Model}}
	list := map[string]error{}
	_, _, list["analyze"] = p.Analyze(ctx, AnalyzeOptions{Config: analysis.Config{Graphwise: true, Layerwise: true}})
	for _, mode := range []string{"sim", "int8"} {
		runs.Mode = mode
		o := DataOptions{Paths: []string{"m"}}
		_, _, list["eval "+mode] = p.Eval(ctx, EvalOptions{Mode: mode, Data: o, Threads: 1})
		_, _, list["run "+mode] = p.Run(ctx, RunOptions{Mode: mode, Data: o, Output: "out"})
		_, _, list["compare "+mode] = p.Compare(ctx, runs)
	}
	_, _, list["gate"] = p.Gate(ctx, GateOptions{A: p.Plan, MaxNSR: &nsr})
	_, _, list["certify"] = p.Certify(ctx, CertifyOptions{Out: "c.json", Threads: 1})
	return list
}

// inverse divides by a mean square, written out.
const inverse = `
input x: f32[1,4,8,8]
const w: f32[8,4,3,3] = normal(seed=1, std=0.2)
const wo: f32[4,8,1,1] = normal(seed=3, std=0.3)
h = Conv(x, w) {pads=[1, 1, 1, 1]} "conv"
q = Mul(h, h) "square"
e = ReduceMean(q) {axes=[2, 3]} "mean"
r = Reciprocal(e) "inverse"
y = Conv(r, wo) "last"
output y: f32[1,4,1,1]
`

// An infinite number that becomes the largest code fails nothing by itself: it is found by every command that runs the plan, and only where
// it gets into a code. A sweep has no row for such a plan and says how it is mended.
func TestInfinityIsFoundWhereItIsMade(t *testing.T) {
	ctx, zero := context.Background(), 0.0
	p := quiet(t, inverse, 1000)
	o := DataOptions{Paths: []string{"m"}}
	_, warnings, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", BorderCost: &zero, Data: o, Threads: 2})
	require.NoError(t, err)
	said := func(text string) {
		t.Helper()
		for _, part := range []string{"inverse (Reciprocal)", "an infinite number where the float network does not", "division by 0",
			"domain=fp32 mends it"} {
			require.Contains(t, text, part)
		}
	}
	require.Contains(t, fmt.Sprint(warnings), "conv stay float: on integers inverse (Reciprocal) gives an infinite number")
	v, _, err := p.Verify(ctx, VerifyOptions{Threads: 2})
	require.NoError(t, err)
	require.True(t, v.Holds(), v.Verdict)
	e, _, err := p.Explain(ctx, "conv")
	require.NoError(t, err)
	require.Contains(t, e.Why, "calibrate: on integers inverse (Reciprocal): division by 0")

	_, _, err = p.Set(ctx, "conv", []string{"domain=int"}, 1)
	require.NoError(t, err)
	_, warnings, err = p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", BorderCost: &zero, Threads: 1}) // keeps the decision
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(warnings, func(w tqc.Warning) bool { return w.Node == "inverse" }), warnings)
	for name, err := range everyRun(p) {
		require.ErrorAs(t, err, new(CheckError), name)
		said(err.Error())
	}
	_, warnings, err = p.Tune(ctx, TuneOptions{Methods: []string{"bias"}, Data: o, Force: true, Threads: 1})
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(warnings, func(w tqc.Warning) bool { return w.Node == "inverse" }), warnings)

	r, _, err := p.Sweep(ctx, SweepOptions{Data: o, Platforms: []string{"pow2_int8"}, Observers: []tqc.Observer{"minmax"}, Fresh: true,
		Force: true, Threads: 1, Batch: 1})
	require.Nil(t, r)
	require.ErrorAs(t, err, new(CheckError))
	said(err.Error())
	require.Contains(t, err.Error(), "qwb calibrate m.onnx --data m --platform pow2_int8 --observer minmax && qwb "+
		"set m.plan.json conv domain=fp32 mends it")

	masked := quiet(t, strings.Replace(inverse, `y = Conv(r,`, `
const lo: f32[] = [0]
const hi: f32[] = [1000]
z = Clip(r, lo, hi) "bound"
y = Conv(z,`, 1), 1000)
	_, _, err = masked.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", BorderCost: &zero, Data: o, Threads: 2})
	require.NoError(t, err)
	for name, err := range everyRun(masked) {
		if err != nil { // a limit may be missed
			require.NotContains(t, err.Error(), "infinite", name)
		}
	}
}
