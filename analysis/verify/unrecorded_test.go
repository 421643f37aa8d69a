package verify

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// TestAnUnrecordedTieStaysOpen: where a tensor was not recorded and its exact value lies on a boundary, what reads it may have read
// either neighbour, and nothing else.
func TestAnUnrecordedTieStaysOpen(t *testing.T) {
	bound := func(int) float64 { return 0.01 }
	produced := &exact{value: []float64{2.495, 7, 3.2}, round: qmath.HalfEven, hi: 255, bound: bound}
	a := &again{open: map[lower.TensorID]spread{}}
	a.leaveOpen(5, produced, &tensor.Tensor{DType: tensor.Uint8, Shape: []int{3}, Data: []uint8{2, 7, 3}})
	assert.Equal(t, []uint8{2, 7, 3}, a.open[5].lo.Data)
	assert.Equal(t, []uint8{3, 7, 3}, a.open[5].hi.Data)

	read := &exact{value: []float64{2, 7, 3}, low: []float64{2, 7, 3}, high: []float64{3, 7, 3}, round: qmath.HalfEven, hi: 255,
		bound: func(int) float64 { return 0 }}
	assert.True(t, read.allows(0, 3))
	assert.True(t, read.allows(0, 2))
	assert.False(t, read.allows(0, 4))
	assert.False(t, read.allows(0, 1))
	assert.False(t, read.allows(1, 8))
	assert.Zero(t, read.off(0, 2))
	assert.InDelta(t, 0.5, read.off(0, 4), 1e-12)

	a.leaveOpen(6, &exact{value: []float64{2.4, 7}, round: qmath.HalfEven, hi: 255, bound: bound},
		&tensor.Tensor{DType: tensor.Uint8, Shape: []int{2}, Data: []uint8{2, 7}})
	assert.NotContains(t, a.open, lower.TensorID(6))
}
