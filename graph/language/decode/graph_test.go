package decode_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
)

// graphLogits runs the graph of a model on sequences of equal length.
func graphLogits(t testing.TB, m *checkpoint.Model, sequences ...[]int) []float32 {
	t.Helper()
	g, err := checkpoint.Graph(m)
	require.NoError(t, err)
	require.NoError(t, g.Check())
	require.Empty(t, graph.InferShapes(g))
	logits := g.Value(g.Outputs[0])
	assert.Equal(t, "[batch,sequence,"+strconv.Itoa(m.Vocab)+"]", logits.Shape.String())
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	var ids []int64
	for _, seq := range sequences {
		for _, id := range seq {
			ids = append(ids, int64(id))
		}
	}
	out, err := s.NewRunner().Run(context.Background(),
		map[string]*tensor.Tensor{checkpoint.InputIDs: tensor.FromI64(ids, len(sequences), len(sequences[0]))}, nil)
	require.NoError(t, err)
	return out[0].F32()
}

// engineLogits runs a model's decoding executor on one sequence.
func engineLogits(t testing.TB, m *checkpoint.Model, ids []int) []float32 {
	t.Helper()
	e, err := decode.New(context.Background(), m, decode.Options{Weights: decode.Weights{Float: true}})
	require.NoError(t, err)
	out, err := e.Forward(context.Background(), []decode.Sequence{{Cache: decode.NewCache(&m.Config), Tokens: ids, Want: len(ids)}})
	require.NoError(t, err)
	return append([]float32(nil), out...)
}

// TestGraphOfACheckpoint: the graph gives the logits of the decoding executor, whatever the format and the order of rotary pairs.
func TestGraphOfACheckpoint(t *testing.T) {
	names := []string{"stories260K.bin", "stories260K-hf", "stories260K-q8.bin"}
	if longtest.Wanted(t) {
		names = append(names, "stories15M.bin")
	}
	first := []int{1, 403, 407, 261, 378, 17, 300, 5, 6, 7, 8, 9, 410, 411, 12, 100}
	second := []int{1, 7, 9, 500, 33, 33, 33, 401, 17, 300, 5, 6, 2, 9, 77, 123}
	for _, name := range names {
		m, err := checkpoint.Open(llm(t) + "/" + name)
		require.NoError(t, err)
		got := graphLogits(t, m, first, second)
		want := append(engineLogits(t, m, first), engineLogits(t, m, second)...)
		assert.InDeltaSlice(t, want, got, 1e-4, name)
		require.NoError(t, m.Close())
	}
}

// TestFolderIsTheModelOfLlama2c: rows of queries and keys are ordered otherwise, pairs are halves, and the likelihood is the same.
func TestFolderIsTheModelOfLlama2c(t *testing.T) {
	a, b := engine(t, "stories260K.bin", decode.Options{}), engine(t, "stories260K-hf", decode.Options{})
	ids := tokenizer(t, "tok512.bin").Encode("Once upon a time, there was a little girl named Lily. She loved to play outside in the sun.")
	ids = append([]int{1}, ids...)
	x, err := a.LogLikelihood(context.Background(), ids)
	require.NoError(t, err)
	y, err := b.LogLikelihood(context.Background(), ids)
	require.NoError(t, err)
	assert.InDeltaSlice(t, x, y, 1e-5, "sums of products in another order")
	assert.InDelta(t, mean(x), mean(y), 1e-6)
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// TestWeightsThatAreNoNumbers: a graph is not made of NaN.
func TestWeightsThatAreNoNumbers(t *testing.T) {
	c := checkpoint.Config{Family: checkpoint.Llama, Dim: 2, Hidden: 2, Layers: 1, Heads: 1, KVHeads: 1, HeadDim: 2, Vocab: 2, Context: 4,
		RopeTheta: 1, Tied: true}
	var tensors []*checkpoint.Tensor
	for _, p := range c.Parts() {
		rows, cols := c.Shape(p.Role)
		data := make([]byte, 4*rows*cols)
		if p.Role == checkpoint.Up {
			data[7], data[6] = 0x7f, 0xc0
		}
		tensors = append(tensors, checkpoint.NewTensor(p, p.String(), rows, cols, checkpoint.F32, data, nil, 0))
	}
	m, err := checkpoint.New(c, "test", tensors, nil)
	require.NoError(t, err)
	_, err = checkpoint.Graph(m)
	assert.ErrorContains(t, err, `tensor "up of layer 0" (up of layer 0): element [0,1] is NaN`)
}

// TestQwen2: logits are those that testdata/make_qwen2.py computes from the definition, with biases, a theta of its own and half-precision
// matrices in two files.
func TestQwen2(t *testing.T) {
	b, err := os.ReadFile("testdata/qwen2-logits.json")
	require.NoError(t, err)
	var want struct {
		IDs    []int
		Logits []float32
	}
	require.NoError(t, json.Unmarshal(b, &want))
	m, err := checkpoint.Open("testdata/qwen2")
	require.NoError(t, err)
	defer m.Close()
	assert.InDeltaSlice(t, want.Logits, engineLogits(t, m, want.IDs), 1e-5)
	assert.InDeltaSlice(t, want.Logits, graphLogits(t, m, want.IDs), 1e-5)
}

// TestGraphOfQwen2 compares a graph with biases, grouped heads of their own size, scaled frequencies and a classifier of its own with
// the decoding executor, whose weights have the same origin but share no code with the graph's operators.
func TestGraphOfQwen2(t *testing.T) {
	c := checkpoint.Config{Family: checkpoint.Qwen2, Dim: 16, Hidden: 24, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 6, Vocab: 20, Context: 32,
		NormEps: 1e-6, RopeTheta: 1e6, Pairing: checkpoint.Halves, Scaling: &checkpoint.RopeScaling{Factor: 8, LowFactor: 1, HighFactor: 4,
			OriginalContext: 16}}
	var tensors []*checkpoint.Tensor
	for i, p := range c.Parts() {
		rows, cols := c.Shape(p.Role)
		x := make([]byte, 0, 4*rows*cols)
		for k := range rows * cols {
			x = binary.LittleEndian.AppendUint32(x, math.Float32bits(float32(math.Sin(float64(1+i*37+k*k%101)))))
		}
		tensors = append(tensors, checkpoint.NewTensor(p, p.String(), rows, cols, checkpoint.F32, x, nil, 0))
	}
	m, err := checkpoint.New(c, "test", tensors, nil)
	require.NoError(t, err)
	ids := []int{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8}
	assert.InDeltaSlice(t, engineLogits(t, m, ids), graphLogits(t, m, ids), 1e-4)
}
