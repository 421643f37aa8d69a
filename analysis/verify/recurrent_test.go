package verify_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/target"
)

// cells is an LSTM of two directions whose first result is not asked for, behind a product and before another.
const cells = `
input x: f32[5,2,6]
const wi: f32[6,8] = normal(seed=1, std=0.4)
const w: f32[2,16,8] = normal(seed=2, std=0.4)
const r: f32[2,16,4] = normal(seed=3, std=0.4)
const b: f32[2,32] = normal(seed=4, std=0.2)
const wo: f32[4,3] = normal(seed=5, std=0.4)
i: f32[5,2,8] = MatMul(x, wi) "in"
_, h: f32[2,2,4], c: f32[2,2,4] = LSTM(i, w, r, b) {hidden_size=4, direction="bidirectional"} "cells"
y: f32[2,2,3] = MatMul(h, wo) "out"
output y, c
`

func TestCellsOnIntegers(t *testing.T) {
	testCells(t, cells, atRunTime(qmath.IntegerFormat(8, true), target.ONNXRuntime.Activation.Policy))
	tflite := target.TFLiteInt8
	tflite.BorderCost = 0
	testCells(t, hybridCells, &tflite)
}

// hybridCells is an LSTM whose rows have scales.
const hybridCells = `
input x: f32[5,2,6]
const w: f32[1,16,6] = normal(seed=2, std=0.4)
const r: f32[1,16,4] = normal(seed=3, std=0.4)
const b: f32[1,32] = normal(seed=4, std=0.2)
y: f32[5,1,2,4] = LSTM(x, w, r, b) {hidden_size=4} "cells"
output y
`

func testCells(t *testing.T, text string, tg *target.Target) {
	tg.Ops = slices.Clone(tg.Ops)
	for i := range tg.Ops {
		tg.Ops[i].Asked = false
	}
	l := prepared(t, text, tg)
	pr, err := qmath.ProfileNamed(tg.Profile)
	require.NoError(t, err)
	for what, at := range map[string]int{"": 0, "weight code": 1, "recurrence code": 2, "bias": 3, "weight scale": 8, "recurrence scale": 10} {
		l.p, err = lower.Compile(l.g, l.set, tg, pr)
		require.NoError(t, err)
		for _, s := range l.p.Steps {
			op, ok := s.Op.(*lower.RunTime)
			if !ok {
				continue
			}
			if id, ok := op.Graph.LookupNode("cells"); ok && what != "" {
				v := op.Graph.Node(id).Inputs[at]
				c := op.Graph.Const(v).Clone()
				if x := c.F32(); x != nil {
					x[0] *= 2
				} else {
					x := c.Integers()
					x[0] ^= 1
					c = tensor.New(c.DType, c.Shape...).WithIntegers(x)
				}
				op.Graph.SetConst(v, c)
			}
		}
		for _, b := range []program.Backend{program.Reference, cpu.Backend} {
			v := l.verify(t, b)
			if what != "" {
				require.Equal(t, analysis.VerdictDifferent, v.Verdict, what)
				require.NotEmpty(t, v.Static.Faults, what)
				continue
			}
			require.Empty(t, v.Static.Faults, lower.Format(l.p))
			require.Equal(t, analysis.VerdictEqual, v.Verdict, "%+v", v.First)
			for _, d := range v.Drift {
				require.Less(t, d.NSR, 1e-8, "%s is not the simulation", d.Output)
			}
		}
	}
}

// Operators of run time came with opset 11, and axes of DequantizeLinear with 13: parts of older graphs are raised.
func TestCellsOnIntegersOfAnOldOpset(t *testing.T) {
	tg := atRunTime(qmath.IntegerFormat(8, true), target.ONNXRuntime.Activation.Policy)
	tg.Ops = slices.Clone(tg.Ops)
	for i := range tg.Ops {
		tg.Ops[i].Asked = false
	}
	l := prepared(t, "opset 10\n"+cells, tg)
	pr, err := qmath.ProfileNamed(tg.Profile)
	require.NoError(t, err)
	l.p, err = lower.Compile(l.g, l.set, tg, pr)
	require.NoError(t, err)
	v := l.verify(t, program.Reference)
	require.Empty(t, v.Static.Faults)
	require.Equal(t, analysis.VerdictEqual, v.Verdict, "%+v", v.First)
}
