package qmath_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
)

// block returns a block whose first elements are x and whose others are 0.
func block(x ...float32) []float32 { return append(x, make([]float32, qmath.BlockSize-len(x))...) }

func TestBlocks(t *testing.T) {
	third := float32(1) / 3
	for _, c := range []struct {
		name  string
		rule  qmath.BlockRule
		x     []float32
		codes []int8
		scale float32
	}{
		{"8 bits, ties away from zero", qmath.BlockRule{Bits: 8}, block(127, 0.5, -1.5, 2.5), []int8{127, 1, -2, 3}, 1},
		{"8 bits, the scale is stored as half", qmath.BlockRule{Bits: 8}, block(third, -third), []int8{127, -127}, qmath.FP16.Round(third / 127)},
		{"8 bits, the scale is stored as float", qmath.BlockRule{Bits: 8, Scale: qmath.FloatScale}, block(third, -third), []int8{127, -127},
			third / 127},
		{"ggml's 4 bits, the largest is negative", qmath.BlockRule{Bits: 4}, block(-8, 8, 7.5, 0.5, -0.5, -7.5), []int8{-8, 7, 7, 1, 0, -7}, 1},
		{"ggml's 4 bits, the largest is positive", qmath.BlockRule{Bits: 4}, block(8, -8, -7.5, -0.5, 0.5), []int8{-8, 7, 7, 1, 0}, -1},
		{"InferLLM's 4 bits", qmath.BlockRule{Bits: 4, Scale: qmath.FloatScale}, block(7, -7, 2.5, -2.5, 0.5), []int8{7, -7, 3, -3, 1}, 1},
		{"zeros", qmath.BlockRule{Bits: 4}, block(), []int8{}, 0},
		{"too small for a scale", qmath.BlockRule{Bits: 8, Scale: qmath.FloatScale}, block(1e-44, -1e-40), []int8{}, 0},
		{"a searched scale keeps what is exact", qmath.BlockRule{Bits: 8, Search: true}, block(127, -3), []int8{127, -3}, 1},
	} {
		codes, want := make([]int8, qmath.BlockSize), make([]int8, qmath.BlockSize)
		copy(want, c.codes)
		scale, ok := c.rule.Quantize(codes, c.x)
		assert.True(t, ok, c.name)
		assert.Equal(t, want, codes, c.name)
		assert.Equal(t, c.scale, scale, c.name)
	}
	_, ok := qmath.BlockRule{Bits: 8}.Quantize(make([]int8, qmath.BlockSize), block(1e7))
	assert.False(t, ok, "a scale beyond half precision")
}

// TestSearchedBlocks: a searched scale never makes the error larger, and often smaller.
func TestSearchedBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, rule := range []qmath.BlockRule{{Bits: 8}, {Bits: 4}, {Bits: 8, Scale: qmath.FloatScale}, {Bits: 4, Scale: qmath.FloatScale}} {
		better := 0
		for range 300 {
			x := normal(r, qmath.BlockSize)
			codes := make([]int8, qmath.BlockSize)
			scale, ok := rule.Quantize(codes, x)
			require.True(t, ok)
			plain := qmath.SquaredError(x, codes, scale)
			searched := rule
			searched.Search = true
			scale, ok = searched.Quantize(codes, x)
			require.True(t, ok)
			e := qmath.SquaredError(x, codes, scale)
			require.LessOrEqual(t, e, plain)
			if e < plain {
				better++
			}
			assert.Equal(t, rule.Scale.Stored(scale), scale)
		}
		assert.Greater(t, better, 150, "%+v", rule)
	}
}

func TestSteps(t *testing.T) {
	assert.Zero(t, qmath.Steps(0, 0, 0))
	assert.Equal(t, 0.5, qmath.Steps(-1.25, -2, 0.5))
	assert.True(t, math.IsInf(qmath.Steps(1, 0, 0), 1))
}

// TestBlocksOfGGML compares with blocks that the quantizers of llama.cpp's gguf package (0.19.0) made. The file has six blocks as float32,
// then those as Q8_0, then as Q4_0. Among them are zeros, scales that are subnormal as halves, and ties.
func TestBlocksOfGGML(t *testing.T) {
	const blocks = 6
	b, err := os.ReadFile("testdata/ggml_blocks.bin")
	require.NoError(t, err)
	x := make([]float32, blocks*qmath.BlockSize)
	_, err = binary.Decode(b, binary.LittleEndian, x)
	require.NoError(t, err)
	b = b[4*len(x):]
	codes := make([]int8, qmath.BlockSize)
	for _, bits := range []int{8, 4} {
		for i := range blocks {
			scale, ok := qmath.BlockRule{Bits: bits}.Quantize(codes, x[i*qmath.BlockSize:][:qmath.BlockSize])
			require.True(t, ok)
			assert.Equal(t, qmath.FromHalf(binary.LittleEndian.Uint16(b)), scale, "%d bits, block %d", bits, i)
			b = b[2:]
			for k, code := range codes {
				var want int8
				if bits == 8 {
					want = int8(b[k])
				} else {
					want = int8(b[k%16]>>(4*(k/16))&15) - 8
				}
				require.Equal(t, want, code, "%d bits, block %d, element %d", bits, i, k)
			}
			b = b[qmath.BlockSize*bits/8:]
		}
	}
	assert.Empty(t, b)
}
