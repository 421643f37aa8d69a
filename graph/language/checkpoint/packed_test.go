package checkpoint_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
)

// TestPacked: the matrices of checkpoints that other tools have quantized are, bit for bit, what the tools' own code makes of them in
// float32 (testdata/make_packed.py).
func TestPacked(t *testing.T) {
	b, err := os.ReadFile("testdata/packed/expected.json")
	require.NoError(t, err)
	var want map[string]map[string]string
	require.NoError(t, json.Unmarshal(b, &want))
	require.Len(t, want, 18)
	for name, matrices := range want {
		t.Run(name, func(t *testing.T) {
			m := open(t, "testdata/packed/"+name)
			require.Len(t, matrices, 7)
			for _, x := range m.Tensors() {
				if x.Type != checkpoint.Packed {
					require.True(t, x.Role.Vector() || x.Role == checkpoint.Embedding, "%s", x.Part)
					continue
				}
				var bytes []byte
				for _, v := range x.All() {
					if v == 0 {
						v = 0 // without a sign
					}
					bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(v))
				}
				sum := sha256.Sum256(bytes)
				assert.Equal(t, matrices[x.Name], hex.EncodeToString(sum[:]), "%s: %v", x.Name, x.Storage())
				part := make([]float32, 5) // across the end of a row
				x.Read(part, x.Cols-2)
				assert.Equal(t, x.All()[x.Cols-2:][:5], part)
			}
		})
	}
}

// TestPackedIsRefused: what is not read, or contradicts itself, is an error that says so.
func TestPackedIsRefused(t *testing.T) {
	for _, c := range []struct{ from, old, new, want string }{
		{"gptq-4", `"gptq", "bits"`, `"hqq", "bits"`, `quant_method "hqq" is not read`},
		{"gptq-4", `"checkpoint_format": "gptq"`, `"checkpoint_format": "marlin"`, `"marlin" of gptq is not read`},
		{"gptq-4", `"bits": 4`, `"bits": 2`, "0 of the widths"},
		{"awq", `"gemm"`, `"gemv"`, `version "gemv" of awq is not read`},
		{"ct-w4a16", `"ignore"`, `"sparsity_config": {"format": "sparse-24-bitmask"}, "ignore"`, "sparsity_config"},
		{"ct-w4a16", `"ignore"`, `"transform_config": {"config_groups": {"a": 1}}, "ignore"`, "transform_config"},
		{"ct-w4a16", `"hidden_size": 32`, `"hidden_size": 64`, "does not hold 64 x 64 elements"},
	} {
		dir := t.TempDir()
		for _, name := range []string{"config.json", "model.safetensors"} {
			b, err := os.ReadFile(filepath.Join("testdata/packed", c.from, name))
			require.NoError(t, err)
			if name == "config.json" {
				require.Contains(t, string(b), c.old)
				b = []byte(strings.Replace(string(b), c.old, c.new, 1))
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o666))
		}
		_, err := checkpoint.Open(dir)
		assert.ErrorContains(t, err, c.want)
	}
}

// TestPackedIndexLeavesItsGroups: a column of a group that there is not is an error, not a number from elsewhere.
func TestPackedIndexLeavesItsGroups(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		b, err := os.ReadFile(filepath.Join("testdata/packed/gptq-3-order", name))
		require.NoError(t, err)
		if name == "model.safetensors" {
			s, err := checkpoint.ParseSafetensors(b)
			require.NoError(t, err)
			for _, a := range s.Arrays {
				if strings.HasSuffix(a.Name, "up_proj.g_idx") {
					a.Data[4] = 2
				}
			}
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o666))
	}
	_, err := checkpoint.Open(dir)
	assert.ErrorContains(t, err, "column 1 is of group 2 of 2")
}
