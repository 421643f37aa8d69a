package qwb

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/export/all"
	"qwb/graph/onnx"
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
}
