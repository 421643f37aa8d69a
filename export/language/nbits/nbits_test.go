package nbits_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export/language/nbits"
	"qwb/export/language/weights"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/weightstest"
)

// built makes the graph of a random model and what is read of its file.
func built(t *testing.T, c checkpoint.Config, o nbits.Options) (source, back *graph.Graph) {
	t.Helper()
	m := weightstest.Model(t, c, 1)
	source, err := checkpoint.Graph(m)
	require.NoError(t, err)
	out, err := nbits.Build(source, o)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, out.Write(&b))
	model, warnings, err := onnx.Read(bytes.NewReader(b.Bytes()), int64(b.Len()), nil)
	require.NoError(t, err)
	assert.Empty(t, warnings)
	for _, v := range out.Graph.Values() {
		assert.NotEqual(t, tensor.Undefined, out.Graph.Value(v).DType, out.Graph.Value(v).Name)
	}
	return source, model.Graph
}

func logits(t *testing.T, g *graph.Graph) []float32 {
	t.Helper()
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	outs, err := s.NewRunner().Run(context.Background(),
		map[string]*tensor.Tensor{checkpoint.InputIDs: tensor.FromI64([]int64{1, 7, 299, 4, 0, 8}, 2, 3)}, nil)
	require.NoError(t, err)
	return outs[0].F32()
}

// TestModels: what is written is read again, near the source, and gives logits near those of the source; rows of 100 end in a block that is
// not full.
func TestModels(t *testing.T) {
	for _, family := range []checkpoint.Family{checkpoint.Llama, checkpoint.Qwen2} {
		for _, o := range []nbits.Options{{Bits: 8}, {Bits: 4, Block: 16}, {Bits: 4, Block: 16, Search: true}, {Bits: 8, Block: 128}} {
			c := weightstest.Llama()
			c.Family, c.Hidden, c.Tied = family, 100, o.Bits == 8
			source, back := built(t, c, o)
			n, largest, err := nbits.Compare(source, back, o)
			require.NoError(t, err)
			assert.Equal(t, int64(2*(64*(64+2*32+64)+3*64*100)+300*64), n)
			assert.Greater(t, largest, 0.49)
			if !o.Search {
				assert.LessOrEqual(t, largest, map[int]float64{8: 0.5001, 4: 1.0001}[o.Bits])
			}
			want, got := logits(t, source), logits(t, back)
			var noise, signal float64
			for i := range want {
				d := float64(want[i] - got[i])
				noise, signal = noise+d*d, signal+float64(want[i])*float64(want[i])
			}
			assert.Less(t, noise/signal, map[int]float64{8: 1e-3, 4: 0.1}[o.Bits])
			assert.Greater(t, noise/signal, 1e-8)
		}
	}
}

// TestBlocksThatDoNotDivide: by choice an error, a Gemm, or smaller blocks.
func TestBlocksThatDoNotDivide(t *testing.T) {
	c := weightstest.Llama()
	c.Hidden = 80 // 5 blocks of 16
	source, err := checkpoint.Graph(weightstest.Model(t, c, 1))
	require.NoError(t, err)
	_, err = nbits.Build(source, nbits.Options{Bits: 8, Block: 64, Fallback: weights.FallbackError})
	assert.ErrorContains(t, err, `"layers.0.down": blocks of 64 elements (with adjust, halves down to 16) do not divide rows of 80`)
	for fallback, want := range map[string][2]int64{weights.FallbackIgnore: {0, 64}, weights.FallbackAdjust: {16, 64}, "": {64, 64}} {
		o := nbits.Options{Bits: 8, Block: 64, Fallback: fallback}
		_, back := built(t, c, o)
		for i, name := range []string{"layers.0.down", "layers.0.up"} {
			id, ok := back.LookupNode(name)
			require.True(t, ok)
			assert.Equal(t, want[i], back.Node(id).AttrInt("block_size", 0), "%s %s", fallback, name)
		}
		n, _, err := nbits.Compare(source, back, o)
		require.NoError(t, err)
		left := map[bool]int64{true: 2 * 64 * 80}[fallback == weights.FallbackIgnore]
		assert.Equal(t, int64(2*(64*(64+2*32+64)+3*64*80)+300*64)-left, n)
		_, _, err = nbits.Compare(source, source, o) // nothing is quantized
		assert.Error(t, err)
	}
	c.Hidden = 72
	source, err = checkpoint.Graph(weightstest.Model(t, c, 1))
	require.NoError(t, err)
	_, err = nbits.Build(source, nbits.Options{Bits: 8, Block: 64, Fallback: weights.FallbackAdjust})
	assert.ErrorContains(t, err, "do not divide rows of 72")
}

func TestDifferencesAreFound(t *testing.T) {
	o := nbits.Options{Bits: 8, Block: 32}
	for _, change := range []func(g *graph.Graph){
		func(g *graph.Graph) { constant(t, g, "layers.1.up.codes").Data.([]uint8)[10] ^= 2 },
		func(g *graph.Graph) { constant(t, g, "layers.0.key.scales").F32()[1] *= 1.01 },
		func(g *graph.Graph) { constant(t, g, "final_norm.weight").F32()[3]++ },
		func(g *graph.Graph) { constant(t, g, "embedding.weight").F32()[3]++ },
	} {
		source, back := built(t, weightstest.Llama(), o)
		_, _, err := nbits.Compare(source, back, o)
		require.NoError(t, err)
		change(back)
		_, _, err = nbits.Compare(source, back, o)
		assert.Error(t, err)
	}
}

// constant returns a constant of its own, so that it may be changed.
func constant(t *testing.T, g *graph.Graph, name string) *tensor.Tensor {
	t.Helper()
	id, ok := g.Lookup(name)
	require.True(t, ok, name)
	c := g.Const(id).Clone()
	g.SetConst(id, c)
	return c
}

func TestOptionsThatAreNone(t *testing.T) {
	source, err := checkpoint.Graph(weightstest.Model(t, weightstest.Llama(), 1))
	require.NoError(t, err)
	for _, block := range []int{8, 48, -16} {
		_, err := nbits.Build(source, nbits.Options{Bits: 8, Block: block})
		assert.ErrorContains(t, err, "a power of two, 16 or more")
	}
}
