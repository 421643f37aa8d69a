package workbench_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/graph/language/checkpoint"
	"qwb/internal/workbench"
)

// TestStoredMatrices: what a page says of a checkpoint before anything is measured. The embedding of stories260K has 512 x 64 weights; its
// five layers have four matrices for attention (64 x 64 and 32 x 64) and three of 172 x 64. Version 2 of the file has a float32 for each
// group of 8 codes, as the header of this file says.
func TestStoredMatrices(t *testing.T) {
	shared := os.Getenv("QWB_TESTDATA")
	if shared == "" {
		t.Skip("QWB_TESTDATA is not set: no folder with models")
	}
	b := workbench.New(workbench.Options{Project: qwb.Project{Catalog: qwb.Standard("test")}, Threads: 1})
	t.Cleanup(b.Close)
	p := &page{t, b, nil, b.Revision()}
	for name, want := range map[string]struct {
		kind string
		bits float64
	}{"stories260K.bin": {"float32", 32}, "stories260K-q8.bin": {"int8 in groups of 8", 8 + 32.0/8}} {
		p.job("open", fmt.Sprintf(`{"file": %q}`, filepath.Join(shared, "models", "llm", name)), nil)
		var r workbench.StoredMatrices
		p.call("matrices", ``, &r)
		require.Len(t, r.Matrices, 1+5*7, name)
		weights := 0
		for _, m := range r.Matrices {
			weights += m.Rows * m.Cols
			assert.Equal(t, want.kind, m.Type, m.Node)
			assert.InDelta(t, want.bits, m.Bits, 1e-9, m.Node)
			assert.Equal(t, want.bits*float64(m.Rows*m.Cols)/8, float64(m.Bytes), m.Node)
		}
		assert.Equal(t, 512*64+5*(2*64*64+2*32*64+3*172*64), weights, name)
		assert.Equal(t, "embedding", r.Matrices[0].Op)
	}
}

// TestStoredImportance: an importance matrix beside the checkpoint is shown, one of another model is named, and none is no fault.
func TestStoredImportance(t *testing.T) {
	shared := os.Getenv("QWB_TESTDATA")
	if shared == "" {
		t.Skip("QWB_TESTDATA is not set: no folder with models")
	}
	folder := t.TempDir()
	model, err := os.ReadFile(filepath.Join(shared, "models", "llm", "stories260K.bin"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "m.bin"), model, 0o600))
	b := workbench.New(workbench.Options{Project: qwb.Project{Catalog: qwb.Standard("test")}, Threads: 1})
	t.Cleanup(b.Close)
	p := &page{t, b, nil, b.Revision()}
	p.job("open", fmt.Sprintf(`{"file": %q}`, filepath.Join(folder, "m.bin")), nil)
	listed := func() (r workbench.StoredMatrices) {
		p.call("matrices", ``, &r)
		return r
	}
	assert.Nil(t, listed().Matrices[1].Energy)
	save := func(m *checkpoint.Importance) {
		var w bytes.Buffer
		require.NoError(t, m.Write(&w))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "imatrix.gguf"), w.Bytes(), 0o600))
	}
	sums := make([]float32, 64) // of two inputs: energies of 1, and one of 9
	for i := range sums {
		sums[i] = 2
	}
	sums[5] = 18
	save(&checkpoint.Importance{Entries: []checkpoint.InputSquares{{Name: "blk.0.attn_q.weight", Sums: sums, Counts: []float32{2}}}})
	r := listed()
	assert.Equal(t, filepath.Join(folder, "imatrix.gguf"), r.Imatrix)
	for _, m := range r.Matrices {
		if m.Node != "query of layer 0" {
			assert.Nil(t, m.Energy, m.Node)
			continue
		}
		assert.InDelta(t, 72.0/64, *m.Energy, 1e-9)
		assert.InDelta(t, 9.0/72, *m.Focus, 1e-9)
	}
	save(&checkpoint.Importance{Entries: []checkpoint.InputSquares{{Name: "blk.0.attn_q.weight", Sums: sums[:3], Counts: []float32{2}}}})
	assert.Contains(t, listed().Note, "importance of 3 inputs of 1 matrices")
}
