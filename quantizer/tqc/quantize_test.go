package tqc_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// Codes come in stretches that know nothing of channels, and are those of each number by itself.
func TestCodesComeInStretches(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := tensor.New(tensor.Float32, 3, 5000, 2)
	for i := range x.F32() {
		x.F32()[i] = float32(r.NormFloat64())
	}
	for _, c := range []struct {
		policy tqc.Policy
		axis   int
		inner  int
		n      int
	}{{tqc.PerTensor, 0, x.Len(), 1}, {tqc.PerChannel, 0, 10000, 3}, {tqc.PerChannel, 1, 2, 5000}, {tqc.PerChannel, 2, 1, 2}} {
		cfg := s8
		cfg.Policy, cfg.Axis = tqc.Symmetric|tqc.Linear|c.policy, c.axis
		p := tqc.Params{Scale: make([]float32, c.n), ZeroPoint: make([]int32, c.n)}
		for i := range p.Scale {
			p.Scale[i] = 0.01 + float32(i%7)/100
		}
		codes, err := tqc.Quantize(x, &cfg, &p)
		require.NoError(t, err)
		narrow, err := tqc.QuantizeTo(tensor.Int8, x, &cfg, &p)
		require.NoError(t, err)
		for i, v := range x.F32() {
			codec := p.Codec(&cfg, i/c.inner%c.n)
			require.Equal(t, codec.Quantize(v), codes[i])
			require.Equal(t, codes[i], int32(tensor.Of[int8](narrow)[i]))
		}
		next := 0
		require.NoError(t, tqc.Codes(x, &cfg, &p, func(from int, part []int32) bool {
			require.Equal(t, next, from)
			require.Equal(t, codes[from:from+len(part)], part)
			next = from + len(part)
			return next < 9000
		}))
		require.True(t, next >= 9000 && next < x.Len(), "it ends when it is told to")

		bad := x.Clone()
		bad.F32()[9001] = float32(math.NaN())
		_, err = tqc.QuantizeTo(tensor.Int8, bad, &cfg, &p)
		require.EqualError(t, err, "the constant holds NaN at element 9001")
		cfg.QMin, cfg.QMax = 0, 255
		x.F32()[9002] = 100
		_, err = tqc.QuantizeTo(tensor.Int8, x, &cfg, &p)
		require.ErrorContains(t, err, "does not fit into i8")
		x.F32()[9002] = 0
	}
}
