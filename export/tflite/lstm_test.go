package tflite

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
	"qwb/graph/tflite/lift"
	"qwb/internal/exporttest"
	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// TestHybridLSTM: the program computes what LiteRT 2.3 computes of the file. With QWB_OUT=DIR the file and its inputs are written there.
func TestHybridLSTM(t *testing.T) {
	tg := target.TFLiteInt8
	tg.Ops = slices.Clone(tg.Ops)
	for i := range tg.Ops {
		tg.Ops[i].Asked = false
	}
	m, file, run, err := exportedFor(t, cellsAndProduct, &tg, nil)
	require.NoError(t, err)
	for i := range m.Subgraphs[0].Operators {
		if o := &m.Subgraphs[0].Operators[i]; o.Op == "UNIDIRECTIONAL_SEQUENCE_LSTM" {
			require.Equal(t, 2, o.Version)
			require.Equal(t, tf.Int8, m.Subgraphs[0].Tensors[o.Inputs[5]].Type)
		}
	}
	got := run()
	written(t, file, got)
	for i, want := range litert {
		require.InDeltaSlice(t, want, got[i].F32(), 5e-7)
	}
}

// cellsAndProduct is an LSTM of two directions, and a product of its cells.
const cellsAndProduct = `
input x: f32[3,2,5]
input h: f32[2,2,4]
const w: f32[2,16,5] = normal(seed=1)
const r: f32[2,16,4] = normal(seed=2)
const b: f32[2,32] = normal(seed=3, std=0.3)
const m: f32[4,3] = normal(seed=4)
y: f32[3,2,2,4], _, c: f32[2,2,4] = LSTM(x, w, r, b, _, h) {hidden_size=4, direction="bidirectional"} "cells"
z: f32[2,2,3] = MatMul(c, m) "product"
output y
output c
output z
`

// written writes a file and its inputs and results to the folder QWB_OUT.
func written(t *testing.T, file []byte, got []*tensor.Tensor) {
	dir := os.Getenv("QWB_OUT")
	if dir == "" {
		return
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lstm.tflite"), file, 0o644))
	for i, name := range []string{"y", "c", "z", "x", "h"} {
		b := &builder{}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b.permuteBytes(got[i], got[i].Shape, identity(len(got[i].Shape))), 0o644))
	}
}

// litert are y and c of LiteRT 2.3, the same of its reference kernels and of its default.
var litert = [][]float32{
	{0.258589685, 0.129870489, -0.0275729243, 0.650813818, -0.284697205, -0.0440990329, 0.0545598492, 0.300298125, 0.00791314337,
		-0.666555166, 0.668606102, -0.705070972, -0.0169181656, -0.574390113, -0.0557568409, -0.0389630795, 0.347213268, 0.016038103,
		-0.1824653, -0.0331094936, -0.528243184, -0.0129402122, 0.00583268749, -0.0671041906, 0.439925432, -0.0850465372, 0.102870852,
		-0.53528434, -0.539566219, 0.1243634, 0.115552515, -0.150621712, 0.0569641069, 0.054642804, -0.319077879, -0.142886132,
		0.133522138, 0.141627938, -0.249286711, -0.243521288, 0.0547422953, -0.179998115, -0.417918444, 0.299161941, -0.027974749,
		0.252701879, 0.676103711, -0.102738127},
	{0.438827634, 1.09788716, -0.334278703, -0.202134296, 0.426708549, 0.820714474, -0.309416443, -0.451162219, 0.669778943,
		-1.04378676, 1.59607649, -1.02065837, -0.260682553, -0.897298932, -0.298320353, -0.0470373631},
}

// integerCells is the target with LSTM on integers throughout, without being asked.
func integerCells() *target.Target {
	tg := target.TFLiteInt8
	tg.Ops = slices.Clone(tg.Ops)
	for i := range tg.Ops {
		if tg.Ops[i].Asked {
			tg.Ops[i].Asked, tg.Ops[i].Schemes.Activation = false, tg.Ops[i].Schemes.Activation[1:]
		}
	}
	return &tg
}

// TestIntegerLSTM: the same with scales of the plan; every code is LiteRT's.
func TestIntegerLSTM(t *testing.T) {
	m, file, run, err := exportedFor(t, cellsAndProduct, integerCells(), nil)
	require.NoError(t, err)
	found := 0
	for i := range m.Subgraphs[0].Operators {
		if o := &m.Subgraphs[0].Operators[i]; o.Op == "UNIDIRECTIONAL_SEQUENCE_LSTM" {
			found++
			require.Equal(t, 1, o.Version)
			require.Len(t, o.Intermediates, 5)
			require.Equal(t, tf.Int8, m.Subgraphs[0].Tensors[o.Inputs[18]].Type)
			require.Equal(t, tf.Int16, m.Subgraphs[0].Tensors[o.Inputs[19]].Type)
		}
	}
	require.Equal(t, 2, found)
	got := run()
	written(t, file, got)
	for i, want := range litertIntegers {
		require.Equal(t, want, got[i].F32())
	}
}

// TestImportedIntegerLSTM: the file is imported as LSTM on integers, with the integers of the plan; with another scale of its cells it is
// not taken for one.
func TestImportedIntegerLSTM(t *testing.T) {
	tg := integerCells()
	m, _, run, err := exportedFor(t, cellsAndProduct, tg, nil)
	require.NoError(t, err)
	g, warnings, err := lift.Graph(m)
	require.NoError(t, err)
	require.Empty(t, warnings)
	q, err := qdq.Read(t.Context(), g)
	require.NoError(t, err)
	im, err := q.Configure(tg)
	require.NoError(t, err)
	for s := range tqc.SlotID(im.Set.NumSlots()) {
		if slot := im.Set.Slot(s); im.Graph.Const(slot.Value) == nil {
			slot.Config.Rounding = tg.Activation.Rounding
		}
	}
	profile, err := qmath.ProfileNamed(tg.Profile)
	require.NoError(t, err)
	p, err := lower.CompileBy(im.Graph, im.Set, tg, profile, lower.Options{Context: t.Context(), Partial: true, Codes: im.Codes})
	require.NoError(t, err)
	want, found := run(), 0
	for i := range p.Steps {
		if op, ok := p.Steps[i].Op.(*lower.RunTime); ok {
			require.Equal(t, "IntegerLSTM", op.Graph.Node(op.Graph.Nodes()[0]).Op)
			found++
		}
	}
	require.Equal(t, 2, found)
	got, err := programtest.Reference(t, p, 1).Run(t.Context(), map[string]*tensor.Tensor{"x": want[3], "h": want[4]}, nil)
	require.NoError(t, err)
	for i, y := range got {
		require.Equal(t, want[i].F32(), y.F32())
	}

	for i := range m.Subgraphs[0].Tensors {
		if x := &m.Subgraphs[0].Tensors[i]; x.Type == tf.Int16 && x.Variable {
			x.Quantization = &tf.Quantization{Scale: []float32{1.0 / 4096}, ZeroPoint: []int{0}}
		}
	}
	_, warnings, err = lift.Graph(m)
	require.NoError(t, err)
	require.NotEmpty(t, warnings)
	require.Contains(t, warnings[0].Text, "its cells the scale 0.0009765625")
}

// litertIntegers are y and c of LiteRT 2.3, the same of its reference kernels and of its default.
var litertIntegers = [][]float32{
	{0.15133253, 0.05188544, -0.0043237866, 0.54047334, 0.03891408, -0.08647573, 0.02594272, 0.33725536, 0.008647573, -0.56209224,
		0.54047334, -0.56209224, -0.008647573, -0.5491209, -0.07782816, -0.043237865, 0.3199602, 0.008647573, -0.15565632, -0.03891408,
		-0.08647573, -0.030266507, 0.0043237866, -0.0648568, 0.41075972, -0.09079952, 0.09079952, -0.5318257, -0.44535002, 0.10377088,
		0, -0.15565632, 0.047561653, 0.05188544, -0.07782816, -0.18592282, 0.23780826, 0.1297136, -0.4237311, -0.069180585,
		0.056209225, -0.2594272, -0.3199602, 0.38914078, -0.047561653, 0.27672234, 0.54047334, -0.069180585},
	{0.41992188, 1, -0.08300781, -0.2705078, 0.62597656, 0.8623047, -0.59277344, -0.10839844, 0.6328125, -1.0439453, 1.5917969,
		-1.0107422, -0.111328125, -0.89453125, -0.36914062, -0.049804688},
}

// TestDamagedCells: weights, biases, scales of states and attributes of each direction of an LSTM are compared.
func TestDamagedCells(t *testing.T) {
	f := Format()
	dynamic := target.TFLiteInt8
	dynamic.Ops = slices.Clone(dynamic.Ops)
	for i := range dynamic.Ops {
		dynamic.Ops[i].Asked = false
	}
	cell := func(change func(o *tf.Operator)) func(t testing.TB, dir string) {
		return edited(func(t testing.TB, s *tf.Subgraph) {
			for i := range s.Operators {
				if s.Operators[i].Op == "UNIDIRECTIONAL_SEQUENCE_LSTM" && strings.HasSuffix(s.Tensors[s.Operators[i].Inputs[1]].Name, ":1") {
					change(&s.Operators[i]) // of the second direction
				}
			}
		})
	}
	code, scale := func(x *tf.Tensor) { x.Data[1] ^= 5 }, func(x *tf.Tensor) { x.Quantization.Scale[0] *= 1.0001 }
	plants := map[string]func(t testing.TB, dir string){
		"a code of W": changed("cells/W2", "", code), "a code of R of the second direction": changed("cells/R1", ":1", code),
		"a scale of W": changed("cells/W0", "", scale), "a bias": changed("cells/B3", ":1", code),
		"an activation":     cell(func(o *tf.Operator) { o.Options["fused_activation_function"] = tf.Relu }),
		"the order of axes": cell(func(o *tf.Operator) { o.Options["time_major"] = false }),
		"gates exchanged":   cell(func(o *tf.Operator) { o.Inputs[1], o.Inputs[2] = o.Inputs[2], o.Inputs[1] }),
	}
	for name, tg := range map[string]*target.Target{"hybrid": &dynamic, "integers": integerCells()} {
		in, _ := inputFor(t, cellsAndProduct, tg, nil)
		exporttest.Equal(t, &f, in)
		for what, plant := range plants {
			t.Run(name+": "+what, func(t *testing.T) { exporttest.Found(t, &f, in, plant) })
		}
	}
	in, _ := inputFor(t, cellsAndProduct, integerCells(), nil)
	exporttest.Found(t, &f, in, changed("cells/cell", "", scale))
}
