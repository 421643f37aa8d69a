package verify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis/verify"
	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// curves are functions of 16-bit codes.
const curves = `
input x: f32[1,3,9,9]
const w: f32[4,3,3,3] = normal(seed=1, std=0.3)
c: f32[1,4,9,9] = Conv(x, w) {pads=[1,1,1,1]} "conv"
t: f32[1,4,9,9] = Tanh(c) "tanh"
e: f32[1,4,9,9] = HardSwish(t) "hard"
g: f32[1,4,9,9] = Sigmoid(e) "gate"
output g
`

// wide lowers curves with 16-bit activations.
func wide(t *testing.T, profile string) *lowered {
	t.Helper()
	tg := lowertest.Int16(target.ONNX)
	g, set, feeds := lowertest.ConfiguredFor(t, curves, &tg)
	pr, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	p, err := lower.Compile(g, set, &tg, pr)
	require.NoError(t, err)
	return &lowered{g, set, p, feeds}
}

// TFLite's profiles tabulate functions of int16 by lines, all others completely; both hold, on both backends.
func TestFunctionsOfInt16Hold(t *testing.T) {
	for profile, byLines := range map[string]bool{"tflite2": true, "tflite1": true, "onnx": false, "ort": false, "tvm-upward": false} {
		l := wide(t, profile)
		_, op := step[*lower.Table](t, l, nil)
		require.Equal(t, byLines, op.Lines != nil, profile)
		require.Equal(t, 1<<16, op.Codes.Len())
		for _, b := range programtest.Available() {
			v := l.verify(t, b)
			require.True(t, v.Holds(), "%s: %+v", profile, v.First)
			require.Positive(t, v.IntegersCompared)
		}
	}
}

// A table with an entry for every 32 codes takes the others for their neighbours, on a target that says so.
func TestTablesWithFewerEntriesHold(t *testing.T) {
	for _, tg := range []*target.Target{&target.ESPDLInt16, &target.ESPDLInt16S3} {
		g, set, feeds := lowertest.ConfiguredFor(t, curves, tg)
		pr, err := tg.ProfileNamed("")
		require.NoError(t, err)
		p, err := lower.Compile(g, set, tg, pr)
		require.NoError(t, err)
		l := &lowered{g, set, p, feeds}
		for _, b := range programtest.Available() {
			v := l.verify(t, b)
			require.True(t, v.Holds(), "%s: %+v", tg.Name, v.First)
			require.Positive(t, v.IntegersCompared)
		}
	}
}

// Every code is within the error of a line of the function: of a tanh over lines of 128 codes, some steps of 65,536.
func TestLinesAreCloseToTheFullTable(t *testing.T) {
	full, lines := wide(t, "onnx"), wide(t, "tflite2")
	_, a := step[*lower.Table](t, full, nil)
	_, b := step[*lower.Table](t, lines, nil)
	different, most, drawn := 0, int32(0), b.Codes.Integers()
	for i, q := range a.Codes.Integers() {
		d := q - drawn[i]
		if most = max(most, d, -d); d != 0 {
			different++
		}
	}
	t.Logf("%d of 65536 codes differ, by %d at most", different, most)
	require.Positive(t, different)
	require.Less(t, most, int32(64))
}

// A changed entry of the lines, and a changed code, are found in the step.
func TestFaultsInLinesAreFound(t *testing.T) {
	for name, plant := range map[string]func(op *lower.Table){
		"line":  func(op *lower.Table) { op.Lines[300]++ },
		"code":  func(op *lower.Table) { op.Codes.Data.([]int16)[77]++ },
		"drawn": func(op *lower.Table) { op.Lines = nil },
	} {
		l := wide(t, "tflite2")
		s, op := step[*lower.Table](t, l, nil)
		plant(op)
		v, err := verify.Static(l.set, l.p)
		require.NoError(t, err)
		require.NotEmpty(t, v.Faults, name)
		require.Equal(t, l.p.Name(s.ID), v.Faults[0].Node, name)
	}
}
