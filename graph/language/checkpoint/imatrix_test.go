package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
)

func importance() *checkpoint.Importance {
	return &checkpoint.Importance{Datasets: []string{"a.txt", "b.txt"}, Chunks: 3, ChunkSize: 512, Entries: []checkpoint.InputSquares{
		{Name: "blk.0.attn_q.weight", Sums: []float32{1, 2, 0, 4}, Counts: []float32{2}},
		{Name: "blk.0.ffn_down_exps.weight", Sums: []float32{1, 2, 3, 4, 5, 6}, Counts: []float32{2, 0}},
	}}
}

func written(t testing.TB, m *checkpoint.Importance) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, m.Write(&b))
	return b.Bytes()
}

// oldImportance is the binary form: means times chunks.
func oldImportance(chunks uint32, name string, values ...float32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 1)
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(name))), name...)
	b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, chunks), uint32(len(values)))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	b = binary.LittleEndian.AppendUint32(b, 7)
	return append(binary.LittleEndian.AppendUint32(b, 5), "a.txt"...)
}

func readImportance(t testing.TB, b []byte) (*checkpoint.Importance, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "imatrix.gguf")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return checkpoint.ReadImportance(path)
}

func TestImportance(t *testing.T) {
	m, err := readImportance(t, written(t, importance()))
	require.NoError(t, err)
	assert.Equal(t, importance(), m)
	means, err := m.Means(checkpoint.Part{Role: checkpoint.Query}, 4)
	require.NoError(t, err)
	assert.Equal(t, []float64{0.5, 1, 0, 2}, means)
	means, err = m.Means(checkpoint.Part{Role: checkpoint.Classifier, Layer: -1}, 4)
	require.NoError(t, err)
	assert.Nil(t, means)
	_, err = m.Means(checkpoint.Part{Role: checkpoint.Query}, 5)
	assert.ErrorContains(t, err, "importance of 4 inputs of 1 matrices")
	_, err = m.Means(checkpoint.Part{Role: checkpoint.ExpertDown, Expert: 2}, 3)
	assert.ErrorContains(t, err, "of 2 matrices")

	old, err := readImportance(t, oldImportance(2, "blk.1.ffn_up.weight", 6, 0, 3))
	require.NoError(t, err)
	assert.Equal(t, []string{"a.txt"}, old.Datasets)
	assert.EqualValues(t, 7, old.Chunks)
	means, err = old.Means(checkpoint.Part{Role: checkpoint.Up, Layer: 1}, 3)
	require.NoError(t, err)
	assert.Equal(t, []float64{3, 0, 1.5}, means)
}

func TestBadImportance(t *testing.T) {
	change := func(f func(m *checkpoint.Importance)) []byte {
		m := importance()
		f(m)
		return written(t, m)
	}
	for want, b := range map[string][]byte{
		"neither GGUF nor the binary form": {0, 0, 0, 0},
		"number 1 is NaN": change(func(m *checkpoint.Importance) {
			m.Entries[0].Sums[1] = float32(math.NaN())
		}),
		"number 0 is -1":                     change(func(m *checkpoint.Importance) { m.Entries[0].Counts[0] = -1 }),
		"there are two tensors":              change(func(m *checkpoint.Importance) { m.Entries[1] = m.Entries[0] }),
		"number 2 is +Inf":                   oldImportance(1, "x", 0, 1, float32(math.Inf(1))),
		"0 chunks":                           oldImportance(0, "x", 1),
		"bytes are asked for":                oldImportance(1, "x", 1, 2)[:15],
		"general.type <nil>, not imatrix":    gguf(tinyMeta("llama", nil), tinyGGUF(tinyArrays(checkpoint.Llama, false), 8)),
		"is no part of an importance matrix": bytes.Replace(written(t, importance()), []byte("q.weight.in_sum2"), []byte("q.weight.in_sumX"), 1),
		"has no \"blk.0.attn_q.weight.counts": bytes.Replace(written(t, importance()), []byte("q.weight.counts"),
			[]byte("q.weight.countz"), 1),
	} {
		_, err := readImportance(t, b)
		assert.ErrorContains(t, err, want)
	}
}

// FuzzImportance: no bytes make the reader panic, hang, or give numbers that are no sums of squares.
func FuzzImportance(f *testing.F) {
	f.Add(written(f, importance()))
	f.Add(oldImportance(2, "blk.1.ffn_up.weight", 6, 0, 3))
	f.Add([]byte("GGUF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readImportance(t, b)
		if err != nil {
			return
		}
		again, err := readImportance(t, written(t, m))
		require.NoError(t, err)
		require.Equal(t, m.Entries, again.Entries)
	})
}
