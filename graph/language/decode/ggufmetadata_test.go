package decode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/decode"
)

// TestGGUFMetadataMakeTheSameTokenizer: a tokenizer.bin written as metadata cuts texts as before.
func TestGGUFMetadataMakeTheSameTokenizer(t *testing.T) {
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/llm/ and data/text/")
	}
	text, err := os.ReadFile(filepath.Join(dir, "data", "text", "tinystories_valid_head.txt"))
	require.NoError(t, err)
	for _, name := range []string{"tokenizer.bin", "tok512.bin"} {
		b, err := os.ReadFile(filepath.Join(dir, "models", "llm", name))
		require.NoError(t, err)
		want, err := decode.ParseLlama2cTokenizer(b)
		require.NoError(t, err)
		got, err := decode.GGUFTokenizer(want.GGUFMetadata(2), 1)
		require.NoError(t, err)
		assert.Equal(t, want.Size(), got.Size())
		for line := range strings.Lines(string(text) + "\nSüß \u4e16\u754c \U0001f600\t\x80") {
			ids := want.Encode(line)
			require.Equal(t, ids, got.Encode(line), "%s: %q", name, line)
			require.Equal(t, decode.Text(want, 1, ids), decode.Text(got, 1, ids))
		}
	}
}
