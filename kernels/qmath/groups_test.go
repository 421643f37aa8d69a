package qmath_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/kernels/qmath"
)

func TestQuantizeGroups(t *testing.T) {
	for _, c := range []struct {
		name   string
		x      []float32
		size   int
		r      qmath.Rounding
		codes  []int8
		scales []float32
	}{
		{"ties to even", []float32{127, 0.5, 1.5, -2.5}, 4, qmath.HalfEven, []int8{127, 0, 2, -2}, []float32{1}},
		{"ties away from zero", []float32{127, 0.5, 1.5, -2.5}, 4, qmath.HalfAwayFromZero, []int8{127, 1, 2, -3}, []float32{1}},
		{"the last group is short", []float32{254, -254, 1, -12.7}, 3, qmath.HalfEven, []int8{127, -127, 0, -127}, []float32{2, 12.7 / 127.}},
		{"zeros", []float32{0, 0, 5, 0}, 2, qmath.HalfEven, []int8{0, 0, 127, 0}, []float32{0, float32(5) / 127}},
		{"a scale that underflows", []float32{1e-45, -1e-45}, 2, qmath.HalfEven, []int8{0, 0}, []float32{0}},
		{"the largest number", []float32{3.4028235e38, -3.4028235e38}, 2, qmath.HalfEven, []int8{127, -127},
			[]float32{float32(3.4028235e38) / 127}},
		{"nothing", nil, 2, qmath.HalfEven, []int8{}, []float32{}},
	} {
		codes, scales := make([]int8, len(c.x)), make([]float32, (len(c.x)+c.size-1)/c.size)
		qmath.QuantizeGroups(codes, scales, c.x, c.size, c.r)
		assert.Equal(t, c.codes, codes, c.name)
		assert.Equal(t, c.scales, scales, c.name)
	}
}
