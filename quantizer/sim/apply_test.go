package sim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

func TestApplyAlongAnAxisInBothLayouts(t *testing.T) {
	x := graphtest.Normal(3, 2, 3, 4, 5)
	cfg := tqc.Config{Policy: tqc.Asymmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 8, QMax: 255}}
	for axis, scales := range [][]float32{{0.1, 0.2}, {0.1, 0.2, 0.3}, {0.1, 0.2, 0.3, 0.4}, {0.1, 0.2, 0.3, 0.4, 0.5}} {
		cfg.Axis = axis - 4*(axis%2) // negative axes count from the end
		p := tqc.Params{Scale: scales, ZeroPoint: make([]int32, len(scales))}
		for i := range p.ZeroPoint {
			p.ZeroPoint[i] = int32(100 + i)
		}
		want := x.Clone()
		for i, v := range x.F32() {
			at := [4]int{i / 60, i / 20 % 3, i / 5 % 4, i % 5}
			want.F32()[i] = p.Grid(&cfg, at[axis]).Fake(v)
		}
		row, last := x.Clone(), x.ToChannelsLast()
		require.NoError(t, sim.Apply(row, x, &cfg, &p, sim.Quantize))
		require.NoError(t, sim.Apply(last, last, &cfg, &p, sim.Quantize))
		require.True(t, tensor.Equal(want, row), "axis %d", axis)
		require.True(t, tensor.Equal(want, last.ToRowMajor()), "axis %d, channels last", axis)
	}
	cfg.Axis = 4
	require.ErrorContains(t, sim.Apply(x, x, &cfg, &tqc.Params{Scale: []float32{1}, ZeroPoint: []int32{0}}, sim.Quantize),
		"along axis 4 of f32[2,3,4,5]")
}

// A matrix with a scale for each column, which is turned in tiles that do not divide it.
func TestApplyToColumns(t *testing.T) {
	const rows, columns = 300, 19
	x := graphtest.Normal(4, rows, columns)
	cfg := tqc.Config{Policy: tqc.Asymmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 8, QMax: 255}, Axis: 1}
	p := tqc.Params{Scale: make([]float32, columns), ZeroPoint: make([]int32, columns)}
	for i := range columns {
		p.Scale[i], p.ZeroPoint[i] = 0.001*float32(i+1), int32(90+i)
	}
	for _, mode := range []sim.Mode{sim.Quantize, sim.Clip} {
		want := x.Clone()
		for i, v := range x.F32() {
			lo, hi := p.Codec(&cfg, i%columns).Limits()
			if want.F32()[i] = min(max(v, lo), hi); mode == sim.Quantize {
				want.F32()[i] = p.Grid(&cfg, i%columns).Fake(v)
			}
		}
		got := tensor.New(tensor.Float32, rows, columns)
		require.NoError(t, sim.Apply(got, x, &cfg, &p, mode))
		require.True(t, tensor.Equal(want, got))
	}
	p.Scale = p.Scale[1:]
	require.ErrorContains(t, sim.Apply(x, x, &cfg, &p, sim.Quantize), "18 scales along axis 1 of f32[300,19], which has 19")
}

func TestApplyPerGroup(t *testing.T) {
	x := graphtest.Normal(4, 5, 2) // groups of 2 along axis 0: rows 0-1, 2-3, 4
	cfg := tqc.Config{Policy: tqc.Symmetric | tqc.PerGroup | tqc.Linear, Format: qmath.Format{Bits: 4, QMin: -8, QMax: 7}, GroupSize: 2}
	p := tqc.Params{Scale: []float32{0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, ZeroPoint: make([]int32, 6)}
	got := x.Clone()
	require.NoError(t, sim.Apply(got, x, &cfg, &p, sim.Quantize))
	for i, v := range x.F32() {
		row, col := i/2, i%2
		require.Equal(t, p.Grid(&cfg, row/2*2+col).Fake(v), got.F32()[i])
	}
	p.Scale = p.Scale[:5]
	require.Error(t, sim.Apply(got, x, &cfg, &p, sim.Quantize))
}

// A float32 quotient has 24 bits: a code of 30 needs the float64 division that the exporter uses.
func TestBiasCodesAreExact(t *testing.T) {
	cfg := tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 32, QMin: math.MinInt32,
		QMax: math.MaxInt32}}
	p := tqc.Params{Scale: []float32{3e-9}, ZeroPoint: []int32{0}}
	x := graphtest.Uniform(5, -2, 2, 1000)
	got := x.Clone()
	require.NoError(t, sim.Apply(got, x, &cfg, &p, sim.Quantize))
	for i, v := range x.F32() {
		q := int32(math.RoundToEven(float64(v) / float64(p.Scale[0])))
		require.Equal(t, float32(q)*p.Scale[0], got.F32()[i])
	}
}
