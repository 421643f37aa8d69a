package qwb

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/export/all"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/graph/tflite"
	"qwb/internal/graphtest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// A .tflite file with an LSTM of real data and weights of integers computes what the plan's integers do, which are LiteRT's: data and
// states become codes, each row by its range.
func TestHybridFileRunsOnCodes(t *testing.T) {
	ctx, store := t.Context(), new(Memory)
	p := &Project{Model: "m.onnx", Plan: "m" + PlanSuffix, Store: store,
		Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, `opset 17
input x: f32[3,2,5]
const w: f32[1,16,5] = normal(seed=1)
const r: f32[1,16,4] = normal(seed=2)
y: f32[3,1,2,4] = LSTM(x, w, r) {hidden_size=4} "cells"
output y`)}).Write(&b))
	store.Write("m.onnx", b.Bytes())
	var x bytes.Buffer
	require.NoError(t, npy.Write(&x, graphtest.Normal(3, 3, 2, 5)))
	store.Write("d/0.npy", x.Bytes())
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "tflite_int8", Data: DataOptions{Paths: []string{"d"}}, Threads: 1})
	require.NoError(t, err)
	_, _, err = p.Set(ctx, "type:LSTM", []string{"domain=int", "activations=int8-sym-dynamic-token"}, 1)
	require.NoError(t, err)
	_, _, err = p.Export(ctx, ExportOptions{Unverified: true, Out: "m.tflite"})
	require.NoError(t, err)
	run := func(p *Project, mode, out string) []float32 {
		_, _, err := p.Run(ctx, RunOptions{Mode: mode, Inputs: []string{"x=d/0.npy"}, Output: out, Threads: 1})
		require.NoError(t, err)
		y, err := npy.Read(bytes.NewReader(get(t, p, out+"/y.npy")))
		require.NoError(t, err)
		return y.F32()
	}
	want := run(p, "int8", "codes")
	file := &Project{Model: "m.tflite", Store: store, Catalog: p.Catalog}
	require.Equal(t, want, run(file, "", "file"))
	require.NotEqual(t, want, run(p, "fp32", "float"))
	file.Plan = "i" + PlanSuffix
	r, _, err := file.Import(ctx, ImportOptions{Threads: 1})
	require.NoError(t, err)
	require.Equal(t, "tflite_int8", r.Platform)
	require.Equal(t, want, run(file, "int8", "imported"))
}

// liteProject is of a .tflite file, m.tflite, with one sample, d/0.npy.
func liteProject(t *testing.T, file []byte, x *tensor.Tensor) *Project {
	store := new(Memory)
	store.Write("m.tflite", file)
	var data bytes.Buffer
	require.NoError(t, npy.Write(&data, x))
	store.Write("d/0.npy", data.Bytes())
	return &Project{Model: "m.tflite", Store: store,
		Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
}

// A FULLY_CONNECTED of real data and weights of integers makes codes of each row of the data, as a run of the file and of what is imported
// of it do.
func TestHybridProductRunsOnCodes(t *testing.T) {
	const rows, in, out = 3, 8, 5
	x, codes := graphtest.Normal(4, rows, in), make([]byte, in*out)
	for i := range codes {
		codes[i] = byte(int8(37*i%255 - 127))
	}
	scale, bias := []float32{0.01, 0.02, 0.005, 0.03, 0.01}, []float32{1, 2, 3, -4, 5}
	biases, err := binary.Append(nil, binary.LittleEndian, bias)
	require.NoError(t, err)
	for _, asymmetric := range []bool{false, true} {
		var want [rows * out]float64
		for i := range rows {
			own := x.F32()[i*in:][:in]
			low, high := min(slices.Min(own), 0), max(slices.Max(own), 0)
			s, zero := float64(max(high, -low))/127, 0.0
			if asymmetric {
				s = float64(high-low) / 255
				zero = math.RoundToEven(-128 - float64(low)/s)
			}
			for k := range out {
				for c := range in {
					want[i*out+k] += (math.RoundToEven(float64(own[c])/s+zero) - zero) * float64(int8(codes[k*in+c])) * s * float64(scale[k])
				}
				want[i*out+k] = max(want[i*out+k]+float64(bias[k]), 0)
			}
		}
		b, err := (&tflite.Model{Version: 3, Subgraphs: []tflite.Subgraph{{
			Tensors: []tflite.Tensor{{Name: "x", Shape: []int{rows, in}},
				{Name: "w", Type: tflite.Int8, Shape: []int{out, in}, Data: codes,
					Quantization: &tflite.Quantization{Scale: scale, ZeroPoint: make([]int, out)}},
				{Name: "y", Shape: []int{rows, out}}, {Name: "b", Shape: []int{out}, Data: biases}},
			Operators: []tflite.Operator{{Op: "FULLY_CONNECTED", Version: 9, Inputs: []int{0, 1, 3}, Outputs: []int{2},
				OptionsType: "FullyConnected", Options: tflite.Options{"asymmetric_quantize_inputs": asymmetric,
					"fused_activation_function": tflite.Relu}}},
			Inputs: []int{0}, Outputs: []int{2}}}}).Write()
		require.NoError(t, err)
		p := liteProject(t, b, x)
		run := func(mode string) {
			_, _, err := p.Run(t.Context(), RunOptions{Mode: mode, Inputs: []string{"x=d/0.npy"}, Output: "out" + mode, Threads: 1})
			require.NoError(t, err)
			y, err := npy.Read(bytes.NewReader(get(t, p, "out"+mode+"/y.npy")))
			require.NoError(t, err)
			for i, v := range y.F32() {
				require.InDelta(t, want[i], v, 1e-5, "%s %d", mode, i)
			}
		}
		run("")
		p.Plan = "i" + PlanSuffix
		_, _, err = p.Import(t.Context(), ImportOptions{Platform: "tflite_int8", Threads: 1})
		require.NoError(t, err)
		run("sim")
		if !asymmetric { // codes of rows with zero points have no integer form here
			run("int8")
			r, _, err := p.Export(t.Context(), ExportOptions{Unverified: true, Out: "again.tflite"})
			require.NoError(t, err)
			require.GreaterOrEqual(t, r.ReadBack.Compared, int64(in*out+3*out))
			p.Model, p.Plan = "again.tflite", ""
			run("")
		}
	}
}

// A convolution of one image of real data and weights of integers makes codes of the image as a whole, with a zero point: a run of the
// file, of what is imported of it, in float and on integers, and of the file that is written of that. A batch of two has two scales, and
// stays in float.
func TestHybridConvolutionRunsOnCodes(t *testing.T) {
	const height, width, in, out = 4, 5, 3, 2
	for _, c := range []struct {
		op    string
		batch int
	}{{"CONV_2D", 1}, {"DEPTHWISE_CONV_2D", 1}, {"CONV_2D", 2}} {
		depthwise := c.op == "DEPTHWISE_CONV_2D"
		channels, filter := out, []int{out, 2, 2, in}
		if depthwise {
			channels, filter = in, []int{1, 2, 2, in}
		}
		x, codes := graphtest.Normal(7, c.batch, in, height, width), make([]byte, filter[0]*4*in)
		for i := range codes {
			codes[i] = byte(int8(91*i%255 - 127))
		}
		scale, bias, axis := []float32{0.01, 0.02, 0.005}[:channels], []float32{0.5, -0.25, 1}[:channels], 0
		if depthwise {
			axis = 3
		}
		biases, err := binary.Append(nil, binary.LittleEndian, bias)
		require.NoError(t, err)
		image := x.F32()
		low, high := float64(min(slices.Min(image), 0)), float64(max(slices.Max(image), 0))
		step := (high - low) / 255
		zero := math.RoundToEven(-128 - low/step)
		code := func(v float32) float64 {
			if c.batch > 1 {
				return float64(v)
			}
			return (math.RoundToEven(float64(v)/step+zero) - zero) * step
		}
		var want []float64 // channels first
		for n := range c.batch {
			for k := range channels {
				for place := range (height - 1) * (width - 1) {
					sum := float64(bias[k])
					for tap := range 4 * in {
						a, b, i := tap/(2*in), tap/in%2, tap%in
						data := code(image[((n*in+i)*height+place/(width-1)+a)*width+place%(width-1)+b])
						switch {
						case !depthwise:
							sum += data * float64(int8(codes[k*4*in+tap])) * float64(scale[k])
						case i == k:
							sum += data * float64(int8(codes[tap])) * float64(scale[k])
						}
					}
					want = append(want, min(max(sum, 0), 6))
				}
			}
		}
		options := tflite.Options{"padding": 1, "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1,
			"fused_activation_function": tflite.Relu6}
		if depthwise {
			options["depth_multiplier"] = 1
		}
		b, err := (&tflite.Model{Version: 3, Subgraphs: []tflite.Subgraph{{
			Tensors: []tflite.Tensor{{Name: "x", Shape: []int{c.batch, height, width, in}},
				{Name: "w", Type: tflite.Int8, Shape: filter, Data: codes,
					Quantization: &tflite.Quantization{Scale: scale, ZeroPoint: make([]int, channels), Axis: axis}},
				{Name: "y", Shape: []int{c.batch, height - 1, width - 1, channels}}, {Name: "b", Shape: []int{channels}, Data: biases}},
			Operators: []tflite.Operator{{Op: c.op, Version: 5, Inputs: []int{0, 1, 3}, Outputs: []int{2},
				OptionsType: map[bool]string{false: "Conv2D", true: "DepthwiseConv2D"}[depthwise], Options: options}},
			Inputs: []int{0}, Outputs: []int{2}}}}).Write()
		require.NoError(t, err)
		p := liteProject(t, b, x)
		run := func(p *Project, mode string) []float32 {
			_, _, err := p.Run(t.Context(), RunOptions{Mode: mode, Inputs: []string{"x=d/0.npy"}, Output: "out", Threads: 1})
			require.NoError(t, err)
			y, err := npy.Read(bytes.NewReader(get(t, p, "out/y.npy")))
			require.NoError(t, err)
			for i, v := range y.F32() {
				require.InDelta(t, want[i], v, 1e-5, "%s %s %d", c.op, mode, i)
			}
			return y.F32()
		}
		run(p, "")
		if c.batch > 1 {
			continue
		}
		p.Plan = "i" + PlanSuffix
		r, _, err := p.Import(t.Context(), ImportOptions{Threads: 1})
		require.NoError(t, err)
		require.Equal(t, "tflite_int8", r.Platform)
		run(p, "sim")
		codesOf := run(p, "int8")
		_, _, err = p.Verify(t.Context(), VerifyOptions{Backend: "cpu", Data: DataOptions{Paths: []string{"d"}}, Threads: 1})
		require.NoError(t, err)
		_, _, err = p.Export(t.Context(), ExportOptions{Out: "again.tflite"})
		require.NoError(t, err)
		again := &Project{Model: "again.tflite", Plan: "a" + PlanSuffix, Store: p.Store, Catalog: p.Catalog}
		_, _, err = again.Import(t.Context(), ImportOptions{Threads: 1})
		require.NoError(t, err)
		require.Equal(t, codesOf, run(again, "int8"))
	}
}
