package verify_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph"
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

// changed is a change of an operator of run time, that verification has to find.
type changed func(g *graph.Graph, n *graph.Node)

// constant changes the first number of a constant input.
func constant(at int) changed {
	return func(g *graph.Graph, n *graph.Node) {
		c := g.Const(n.Inputs[at]).Clone()
		if x := c.F32(); x != nil {
			x[0] *= 2
		} else {
			x := c.Integers()
			x[0] ^= 1
			c = tensor.New(c.DType, c.Shape...).WithIntegers(x)
		}
		g.SetConst(n.Inputs[at], c)
	}
}

// attribute changes the number of an attribute.
func attribute(name string) changed {
	return func(_ *graph.Graph, n *graph.Node) {
		a := n.Attr(name)
		a.F, a.I, a.Floats = 2*a.F, a.I+1, slices.Clone(a.Floats)
		for i := range a.Floats {
			a.Floats[i] *= 2
		}
	}
}

func testCells(t *testing.T, text string, tg *target.Target) {
	tg.Ops = slices.Clone(tg.Ops)
	for i := range tg.Ops {
		tg.Ops[i].Asked = false
	}
	testChanged(t, text, tg, map[string]changed{"": nil, "weight code": constant(1), "recurrence code": constant(2), "bias": constant(3),
		"weight scale": constant(8), "recurrence scale": constant(10)}, 1e-8)
}

// An LSTM of integers with scales of the plan, whose first state is a constant.
func TestCellsOfThePlan(t *testing.T) {
	tg := target.TFLiteInt8
	tg.Ops, tg.BorderCost = slices.Clone(tg.Ops), 0
	at := slices.IndexFunc(tg.Ops, func(o target.Op) bool { return o.Type == "LSTM" })
	tg.Ops[at].Asked, tg.Ops[at].Schemes.Activation = false, tg.Ops[at].Schemes.Activation[1:]
	list := map[string]changed{"": nil, "weight code": constant(1), "recurrence code": constant(2), "bias": constant(3), "state": constant(5),
		"cells": constant(6)}
	for _, name := range []string{"x_scale", "x_zero_point", "h_scale", "h_zero_point", "c_scale", "w_scale", "r_scale"} {
		list[name] = attribute(name)
	}
	testChanged(t, `
input x: f32[5,2,6]
const w: f32[1,16,6] = normal(seed=2, std=0.4)
const r: f32[1,16,4] = normal(seed=3, std=0.4)
const b: f32[1,32] = normal(seed=4, std=0.2)
const h: f32[1,2,4] = normal(seed=5, std=0.2)
const c: f32[1,2,4] = normal(seed=6, std=0.2)
y: f32[5,1,2,4], _, last: f32[1,2,4] = LSTM(x, w, r, b, _, h, c) {hidden_size=4} "cells"
output y, last
`, &tg, list, 1e-4) // Sigmoid and Tanh of 16 bits
}

func testChanged(t *testing.T, text string, tg *target.Target, changes map[string]changed, near float64) {
	l := prepared(t, text, tg)
	pr, err := qmath.ProfileNamed(tg.Profile)
	require.NoError(t, err)
	for what, change := range changes {
		l.p, err = lower.Compile(l.g, l.set, tg, pr)
		require.NoError(t, err)
		found := change == nil
		for _, s := range l.p.Steps {
			if op, ok := s.Op.(*lower.RunTime); ok && change != nil {
				if id, ok := op.Graph.LookupNode("cells"); ok {
					found = true
					change(op.Graph, op.Graph.Node(id))
				}
			}
		}
		require.True(t, found)
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
				require.Less(t, d.NSR, near, "%s is not the simulation", d.Output)
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
