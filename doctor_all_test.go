package qwb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/export"
	"qwb/export/all"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// networks hold what doctor's rules are about: fused activations, branches that join, pools, sums over rows, softmax and a float part.
var doctorNetworks = map[string]string{
	"convolutions": `opset 13
input x: f32[1,3,8,8]
const w1: f32[8,3,3,3] = normal(seed=1, std=0.2)
const b1: f32[8] = normal(seed=2, std=0.1)
const w2: f32[8,1,3,3] = normal(seed=3, std=0.3)
const w3: f32[8,8,1,1] = normal(seed=4, std=0.3)
const w4: f32[5,16] = normal(seed=5, std=0.3)
const b4: f32[5] = normal(seed=6, std=0.1)
c = Conv(x, w1, b1) {pads=[1,1,1,1]} "first"
r = Relu(c) "relu"
d = Conv(r, w2) {pads=[1,1,1,1], group=8} "depthwise"
e = Conv(r, w3) "pointwise"
s = Add(d, e) "sum"
u = Relu(s) "relu2"
k = Concat(u, r) {axis=1} "join"
m = MaxPool(k) {kernel_shape=[2,2], strides=[2,2]} "pool"
a = GlobalAveragePool(m) "mean"
f = Flatten(a) "flat"
y = Gemm(f, w4, b4) {transB=1} "head"
output y`,
	"rows": `opset 17
input x: f32[1,3,8,8]
const to: i64[3] = [1, 24, 8]
const wq: f32[8,8] = normal(seed=1, std=0.3)
const wk: f32[8,8] = normal(seed=2, std=0.3)
const wv: f32[8,6] = normal(seed=3, std=0.3)
h = Reshape(x, to) "rows"
q = MatMul(h, wq) "q"
k = MatMul(h, wk) "k"
v = MatMul(h, wv) "v"
kt = Transpose(k) {perm=[0,2,1]} "turn"
s = MatMul(q, kt) "scores"
p = Softmax(s) {axis=-1} "softmax"
o = MatMul(p, v) "mix"
t = Tanh(o) "tanh"
z = Mul(t, o) "gate"
y = Sigmoid(z) "sigmoid"
output y`,
}

// floatInside has operators that the target has in float beside those on integers: a product with a root, a Resize that computes numbers.
const floatInside = `opset 17
input x: f32[1,3,8,8]
const w1: f32[8,3,3,3] = normal(seed=1, std=0.3)
const b1: f32[8] = normal(seed=2, std=0.3)
const w2: f32[8,8,1,1] = normal(seed=3, std=0.3)
const low: f32[] = 0.01
const power: f32[] = -0.5
const double: f32[4] = [1, 1, 2, 2]
c = Conv(x, w1, b1) {pads=[1,1,1,1]} "first"
r = Relu(c) "relu"
a = GlobalAveragePool(r) "mean"
l = Add(a, low) "above"
p = Pow(l, power) "root"
m = Mul(r, p) "scaled"
u = Resize(r, _, double) {mode="linear"} "larger"
y = Conv(m, w2) "last"
z = Conv(u, w2) "last of larger"
output y
output z`

// doctor finds nothing in a file in which float operators stand between integers.
func TestDoctorTakesFloatOperatorsForWhatTheyAre(t *testing.T) {
	for _, platform := range []string{target.ONNXRuntime.Name, target.OpenVINO.Name} {
		free := 0.0
		p := &Project{Model: "m.onnx", Plan: platform + PlanSuffix, Store: storedNetwork(t, floatInside),
			Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
		_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: platform, Data: DataOptions{Paths: []string{"m"}},
			BorderCost: &free})
		require.NoError(t, err, platform)
		require.NotEmpty(t, doctored(t, p, "float inside", platform))
	}
}

// doctor finds nothing in any file that qwb writes, for every platform and format.
func TestDoctorFindsNothingInWhatWasExported(t *testing.T) {
	ctx, formats := context.Background(), all.Formats()
	seen := map[string]bool{}
	for name, text := range doctorNetworks {
		store := storedNetwork(t, text)
		free := 0.0
		for i, platform := range target.Builtin().Names() {
			if i%4 != 0 && !longtest.Wanted(t) {
				continue
			}
			p := &Project{Model: "m.onnx", Plan: platform + PlanSuffix, Store: store,
				Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: formats}}
			_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: platform, Data: DataOptions{Paths: []string{"m"}}, BorderCost: &free})
			if err != nil {
				require.ErrorContains(t, err, "could not be exported", platform)
				continue
			}
			if !strings.Contains(string(get(t, p, p.Plan)), `"ACTIVATED"`) {
				continue // that nothing is quantized is a finding
			}
			for _, f := range doctored(t, p, name, platform) {
				seen[f], seen[platform] = true, true
			}
		}
	}
	if !longtest.Wanted(t) {
		return
	}
	for i := range formats {
		if f := &formats[i]; f.From != export.Checkpoint && f.Doctor != nil {
			require.True(t, seen[f.Name], "nothing was written as %s", f.Name)
		}
	}
	for _, platform := range target.Builtin().Names() {
		require.True(t, seen[platform], "nothing was written for %s", platform)
	}
}

// storedNetwork is a store with a network and samples.
func storedNetwork(t *testing.T, text string) *Memory {
	store := new(Memory)
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, text)}).Write(&b))
	store.Write("m.onnx", b.Bytes())
	for i := range 8 {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(100+i), 1, 3, 8, 8)))
		store.Write(fmt.Sprintf("m/%02d.npy", i), b.Bytes())
	}
	return store
}

// doctored exports a plan in every format and asks doctor of the file; it returns the formats that there is a file of.
func doctored(t *testing.T, p *Project, name, platform string) (written []string) {
	ctx := context.Background()
	for i := range p.Catalog.Formats {
		f := &p.Catalog.Formats[i]
		if f.From == export.Checkpoint || f.Doctor == nil || !f.Takes(platform) {
			continue
		}
		out := fmt.Sprintf("%s.%s.%s%s", name, platform, f.Name, f.Ext)
		r, _, err := p.Export(ctx, ExportOptions{Format: f.Name, Out: out, Unverified: true})
		if err != nil { // what a format cannot hold it says, and writes nothing
			require.False(t, errors.As(err, new(CheckError)) || strings.Contains(err.Error(), "would break rules"), "%s %s: %v",
				platform, f.Name, err)
			continue
		}
		found, _, err := p.DoctorFile(ctx, DoctorFileOptions{File: r.File, Platform: platform, Format: f.Name})
		require.NotNil(t, found, "%s for %s: %v", f.Name, platform, err)
		assert.Empty(t, found.Findings, "%s, %s for %s", name, f.Name, platform)
		written = append(written, f.Name)
	}
	return written
}

// Nor in files of 16-bit integers and of floats of 8 bits, for every platform that has them.
func TestDoctorFindsNothingInOtherFormats(t *testing.T) {
	const tiny = `opset 21
input x: f32[1,3,8,8]
const w: f32[8,3,3,3] = normal(seed=1, std=0.2)
const b: f32[8] = normal(seed=2, std=0.1)
const v: f32[8,4] = normal(seed=3, std=0.3)
c = Conv(x, w, b) {pads=[1,1,1,1]} "first"
r = Relu(c) "relu"
a = GlobalAveragePool(r) "mean"
f = Flatten(a) "flat"
y = Gemm(f, v) "head"
output y`
	ctx, store, free, files := context.Background(), storedNetwork(t, tiny), 0.0, map[string]int{}
	for name, scheme := range map[string]string{"int16": "int16-sym-tensor", "e4m3": "e4m3-sym-tensor"} {
		for _, platform := range target.Builtin().Names() {
			tg, err := target.Find(platform)
			require.NoError(t, err)
			has := func(list []tqc.Scheme) bool {
				return slices.ContainsFunc(list, func(s tqc.Scheme) bool { return s.String() == scheme })
			}
			own, _ := tqc.SchemeOf(tg.Activation)
			if own.String() != scheme && !has(tg.Schemes.Activation) {
				continue
			}
			p := &Project{Model: "m.onnx", Plan: name + platform + PlanSuffix, Store: store,
				Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
			_, _, err = p.Calibrate(ctx, CalibrateOptions{Platform: platform, Data: DataOptions{Paths: []string{"m"}}, BorderCost: &free})
			require.NoError(t, err, platform)
			words := []string{"activations=" + scheme}
			if name == "e4m3" && has(tg.Schemes.Weight) {
				words = append(words, "weights="+scheme)
			}
			if own.String() != scheme {
				if _, _, err := p.Set(ctx, "/./", words, 1); err != nil {
					t.Logf("%s: %v", platform, err) // operators without this format say so
					continue
				}
			}
			files[name] += len(doctored(t, p, name, platform))
		}
		require.Greater(t, files[name], 2, name)
	}
}
