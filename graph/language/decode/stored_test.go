package decode_test

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/kernels/qmath"
)

// storedShape is a small model whose rows are whole blocks of 32.
var storedShape = checkpoint.Config{Family: checkpoint.Llama, Dim: 64, Hidden: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16,
	Vocab: 50, Context: 16,
	NormEps: 1e-5, RopeTheta: 10000, BOS: 1, EOS: []int{1}}

// storedModel makes a model whose matrices are random numbers of a type; Groups have 32 elements.
func storedModel(t *testing.T, typ checkpoint.Type) *checkpoint.Model {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, uint64(typ)))
	var tensors []*checkpoint.Tensor
	for _, p := range storedShape.Parts() {
		rows, cols := storedShape.Shape(p.Role)
		n := rows * cols
		if p.Role.Vector() {
			tensors = append(tensors, checkpoint.NewTensor(p, p.String(), rows, cols, checkpoint.F32,
				floatBytes(slices.Repeat([]float32{1}, n)), nil, 0))
			continue
		}
		data := make([]byte, typ.Bytes(n))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		scale := func() float32 { return (1 + rng.Float32()) / 512 }
		var scales []byte
		group := 0
		switch typ {
		case checkpoint.Groups:
			group = 32
			for range n / group {
				scales = append(scales, floatBytes([]float32{scale()})...)
			}
		case checkpoint.GGQ8, checkpoint.GGQ4:
			for size, at := typ.Bytes(32), 0; at < len(data); at += size {
				binary.LittleEndian.PutUint16(data[at:], qmath.HalfBits(scale()))
			}
		default:
			for size, at := typ.Bytes(32), 0; at < len(data); at += size {
				binary.LittleEndian.PutUint32(data[at:], math.Float32bits(scale()))
			}
		}
		tensors = append(tensors, checkpoint.NewTensor(p, p.String(), rows, cols, typ, data, scales, group))
	}
	m, err := checkpoint.New(storedShape, typ.String(), tensors, nil)
	require.NoError(t, err)
	return m
}

func floatBytes(x []float32) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// dequantized is a model of the same numbers as floats.
func dequantized(t *testing.T, m *checkpoint.Model) *checkpoint.Model {
	t.Helper()
	var tensors []*checkpoint.Tensor
	for _, x := range m.Tensors() {
		tensors = append(tensors, checkpoint.NewTensor(x.Part, x.Name, x.Rows, x.Cols, checkpoint.F32, floatBytes(x.All()), nil, 0))
	}
	f, err := checkpoint.New(m.Config, "float32", tensors, nil)
	require.NoError(t, err)
	return f
}

func logits(t *testing.T, m *checkpoint.Model, o decode.Options) []float32 {
	t.Helper()
	e, err := decode.New(context.Background(), m, o)
	require.NoError(t, err)
	l, err := e.Forward(context.Background(), []decode.Sequence{{Cache: decode.NewCache(&e.Config), Tokens: []int{1, 20, 3, 49}, Want: 4}})
	require.NoError(t, err)
	return slices.Clone(l)
}

// TestStoredCodes: every stored form of integers is multiplied as the numbers that it stands for: with float activations up to
// rounding, with quantized ones up to what that costs.
func TestStoredCodes(t *testing.T) {
	for _, typ := range []checkpoint.Type{checkpoint.Groups, checkpoint.GGQ8, checkpoint.GGQ4, checkpoint.WideQ8, checkpoint.WideQ4} {
		m := storedModel(t, typ)
		want := logits(t, dequantized(t, m), decode.Options{})
		size := 0.0
		for _, v := range want {
			size = max(size, math.Abs(float64(v)))
		}
		assert.InDeltaSlice(t, want, logits(t, m, decode.Options{Weights: decode.Weights{Float: true}}), 1e-5*size, "%s times floats", typ)
		got := logits(t, m, decode.Options{})
		assert.InDeltaSlice(t, want, got, 0.05*size, "%s times codes", typ)
		assert.NotEqual(t, want, got)
		assert.Equal(t, got, logits(t, m, decode.Options{Reference: true}), "%s by definition", typ)
	}
}

// TestScalesThatAreNotFinite: they are found while the codes are packed.
func TestScalesThatAreNotFinite(t *testing.T) {
	m := storedModel(t, checkpoint.Groups)
	bad := slices.Repeat([]float32{1}, 96*64/32)
	bad[5] = float32(math.NaN())
	var tensors []*checkpoint.Tensor
	for _, x := range m.Tensors() {
		if x.Part == (checkpoint.Part{Role: checkpoint.Gate, Layer: 1}) {
			x = checkpoint.NewTensor(x.Part, "gate", x.Rows, x.Cols, checkpoint.Groups, make([]byte, x.Len()), floatBytes(bad), 32)
		}
		tensors = append(tensors, x)
	}
	m, err := checkpoint.New(storedShape, "broken", tensors, nil)
	require.NoError(t, err)
	_, err = decode.New(context.Background(), m, decode.Options{})
	assert.ErrorContains(t, err, `tensor "gate" (gate of layer 1): element [2,32] is NaN`)
}
