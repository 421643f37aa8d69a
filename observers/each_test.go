package observers

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// The mean is that of the samples' extremes, rounded once, whatever the order and however they are put together.
func TestSampleExtents(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var all, a, b SampleExtents
	var lo, hi, abs Exact
	for i := range 200 {
		x := Extent{float32(r.NormFloat64() * math.Ldexp(1, r.IntN(60)-30)), 0}
		x.Max = x.Min + float32(r.ExpFloat64())
		lo.Add(x.Min)
		hi.Add(x.Max)
		abs.Add(max(float32(math.Abs(float64(x.Min))), float32(math.Abs(float64(x.Max)))))
		all.Add(x)
		if part := &a; i%3 == 0 {
			part.Add(x)
		} else {
			b.Add(x)
		}
	}
	all.Add(NoExtent)
	b.Merge(&a)
	require.Equal(t, all, b)
	require.Equal(t, SampleMean{lo.Float64() / 200, hi.Float64() / 200, abs.Float64() / 200}, all.Mean())
	code, err := all.MarshalBinary()
	require.NoError(t, err)
	var back SampleExtents
	require.NoError(t, back.UnmarshalBinary(code))
	require.Equal(t, all, back)
	for n := range code {
		require.Error(t, back.UnmarshalBinary(code[:n]))
	}
	require.Error(t, back.UnmarshalBinary(append(code, 0)))
	require.Equal(t, all, back)
}

// A state that was put together knows the extents of its samples if all parts do.
func TestSamplesOfMergedStates(t *testing.T) {
	with := func(v ...float32) *State {
		st := stateOf(t, v)
		s := new(SampleExtents)
		s.Add(st.Extent())
		st.SetSamples(s)
		return st
	}
	st := New()
	st.Merge(with(1, 2))
	st.Merge(New())
	st.Merge(with(-3, 5))
	mean, known := st.SampleMean()
	require.True(t, known)
	require.Equal(t, SampleMean{-1, 3.5, 3.5}, mean)
	c := st.Clone()
	require.Equal(t, st.Samples(), c.Samples())
	require.NotSame(t, st.Samples(), c.Samples())
	c.Merge(stateOf(t, []float32{1}))
	_, known = c.SampleMean()
	require.False(t, known, "one part does not know")
	_, _, err := nncfMean.Range(c, act(true), 0)
	require.ErrorIs(t, err, ErrNoSamples)
	c.Merge(with(4))
	require.Nil(t, c.Samples())

	few := NewMinMax()
	_, err = few.Observe(tensor.FromF32([]float32{2, 8}, 2), -1)
	require.NoError(t, err)
	few.SetSampleMean(SampleMean{-2, 8, 9})
	got, _, err := nncfMean.Range(few, act(false), 0)
	require.NoError(t, err)
	require.Equal(t, Range{-2, 8}, got, "no bins are needed")
	got, _, err = nncfMean.Range(few, act(true), 0)
	require.NoError(t, err)
	require.Equal(t, Range{-2, 9}, got)
}
