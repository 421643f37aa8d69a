package checkpoint_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/kernels/qmath"
)

// TestBlocks: every type of blocks is read as gguf-py reads it (testdata/make_blocks.py), bit for bit, at once and from the middle.
func TestBlocks(t *testing.T) {
	b, err := os.ReadFile("testdata/blocks.json")
	require.NoError(t, err)
	var list map[string]struct {
		Number         uint32
		Blocks, Floats string
	}
	require.NoError(t, json.Unmarshal(b, &list))
	require.Len(t, list, 12)
	for name, c := range list {
		blocks, err := base64.StdEncoding.DecodeString(c.Blocks)
		require.NoError(t, err)
		raw, err := base64.StdEncoding.DecodeString(c.Floats)
		require.NoError(t, err)
		want := make([]float32, len(raw)/4)
		_, err = binary.Decode(raw, binary.LittleEndian, want)
		require.NoError(t, err)
		// Three blocks are the three rows of the matrix of a file.
		size := len(want) / 3
		arrays := []ggufTensor{{name: "token_embd.weight", dims: []int{size, 3}, kind: c.Number, data: blocks}}
		set := map[string]any{"llama.embedding_length": uint32(size), "llama.feed_forward_length": uint32(2), "llama.block_count": uint32(1),
			"llama.attention.head_count": uint32(1), "llama.attention.head_count_kv": uint32(1), "llama.rope.dimension_count": uint32(size),
			"llama.vocab_size": uint32(3)}
		add := func(name string, dims ...int) {
			n := 4
			for _, d := range dims {
				n *= d
			}
			arrays = append(arrays, ggufTensor{name: name, dims: dims, data: make([]byte, n)})
		}
		for _, m := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			add("blk.0."+m+".weight", size, size)
		}
		add("blk.0.ffn_gate.weight", size, 2)
		add("blk.0.ffn_up.weight", size, 2)
		add("blk.0.ffn_down.weight", 2, size)
		for _, m := range []string{"blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"} {
			add(m+".weight", size)
		}
		m := open(t, write(t, gguf(tinyMeta("llama", set), arrays)))
		e := m.Tensor(checkpoint.Embedding, -1)
		assert.Equal(t, name, e.Type.String())
		assert.False(t, e.Floats() || e.Quantized(), name)
		same := func(want, got []float32) {
			t.Helper()
			require.Equal(t, len(want), len(got))
			for i := range want {
				require.Equal(t, math.Float32bits(want[i]), math.Float32bits(got[i]), "%s: element %d: %g, not %g", name, i, got[i], want[i])
			}
		}
		same(want, e.All())
		row := make([]float32, size)
		e.Row(row, 1)
		same(want[size:2*size], row)
	}
}

// writtenTypes are the types that testdata/written.bin has, in its order.
var writtenTypes = []checkpoint.Type{checkpoint.GGQ41, checkpoint.GGQ50, checkpoint.GGQ51, checkpoint.Q2K, checkpoint.Q3K, checkpoint.Q4K,
	checkpoint.Q5K, checkpoint.Q6K, checkpoint.IQ4NL, checkpoint.IQ4XS}

// TestWrittenBlocks: floats become the bytes that ggml's own quantizers make of them (testdata/make_written.py), and a search never loses.
func TestWrittenBlocks(t *testing.T) {
	b, err := os.ReadFile("testdata/written.bin")
	require.NoError(t, err)
	x := make([]float32, 12*256)
	_, err = binary.Decode(b, binary.LittleEndian, x)
	require.NoError(t, err)
	b = b[4*len(x):]
	for _, kind := range writtenTypes {
		form := kind.Form()
		size := kind.Bytes(form.Elements)
		better := 0
		for at := 0; at < len(x); at, b = at+form.Elements, b[size:] {
			var block qmath.Block
			x := x[at:][:form.Elements]
			require.True(t, form.Quantize(&block, x))
			require.Equal(t, b[:size], kind.AppendBlock(nil, &block), "%s: block at %d", kind, at)
			var again qmath.Block
			kind.ParseBlock(&again, b)
			require.Equal(t, block, again, "%s: block at %d, read", kind, at)
			plain := errorOf(form, &block, x)
			form.Search(&block, x, nil)
			searched := errorOf(form, &block, x)
			require.LessOrEqual(t, searched, plain*(1+1e-9))
			if searched < plain {
				better++
			}
			kind.ParseBlock(&again, kind.AppendBlock(nil, &block))
			require.Equal(t, block, again)
		}
		assert.Greater(t, better, len(x)/form.Elements/2, "%s", kind)
	}
	assert.Empty(t, b)
	var block qmath.Block
	for _, v := range []float32{float32(math.NaN()), float32(math.Inf(1)), 3e38} {
		y := make([]float32, 256)
		y[200], y[20] = v, v
		for _, kind := range writtenTypes {
			if form := kind.Form(); form.Quantize(&block, y[:form.Elements]) {
				t.Errorf("%s: %g is taken", kind, v)
			}
		}
	}
}

func errorOf(form *qmath.BlockForm, b *qmath.Block, x []float32) (sum float64) {
	y := make([]float32, len(x))
	form.Dequantize(y, b)
	for i, v := range x {
		d := float64(v) - float64(y[i])
		sum += d * d
	}
	return sum
}

// TestSplitGGUF: a model in three files is the model in one, opened by the first of them; another part, or one too few, is an error.
func TestSplitGGUF(t *testing.T) {
	arrays := tinyGGUF(tinyArrays(checkpoint.Llama, false), 8)
	whole := open(t, write(t, gguf(tinyMeta("llama", nil), arrays)))
	dir := t.TempDir()
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("m-%05d-of-00003.gguf", i)) }
	cut := []int{0, 1, 9, len(arrays)}
	for i := range 3 {
		split := map[string]any{"split.no": uint32(i), "split.count": uint32(3), "split.tensors.count": uint32(len(arrays))}
		meta := split
		if i == 0 {
			meta = tinyMeta("llama", split)
		}
		require.NoError(t, os.WriteFile(name(i+1), gguf(meta, arrays[cut[i]:cut[i+1]]), 0o600))
	}
	m := open(t, name(1))
	assert.Equal(t, whole.Config, m.Config)
	for i, p := range whole.Tensors() {
		assert.Equal(t, p.All(), m.Tensors()[i].All(), "%s", p.Part)
	}
	fails := func(path, want string) {
		t.Helper()
		_, err := checkpoint.Open(path)
		assert.ErrorContains(t, err, want)
	}
	fails(name(2), "name the first one, NAME-00001-of-00003.gguf")
	b, err := os.ReadFile(name(2))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name(3), b, 0o600))
	fails(name(1), "m-00003-of-00003.gguf is not file 3 of 3")
	require.NoError(t, os.Remove(name(3)))
	fails(name(1), "m-00003-of-00003.gguf")
}
