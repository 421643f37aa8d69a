package decode_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/decode"
)

// llm returns the folder with trained checkpoints, and skips the test where there is none.
func llm(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/llm/")
	}
	return dir + "/models/llm"
}

func tokenizer(t testing.TB, name string) *decode.SentencePiece {
	t.Helper()
	b, err := os.ReadFile(llm(t) + "/" + name)
	require.NoError(t, err)
	s, err := decode.ParseLlama2cTokenizer(b)
	require.NoError(t, err)
	return s
}

func TestSentencePieceOfLlama2c(t *testing.T) {
	s := tokenizer(t, "tokenizer.bin")
	require.Equal(t, 32000, s.Size())
	for _, c := range []struct {
		text string
		ids  []int
	}{
		{"", nil},
		{"Once upon a time", []int{9038, 2501, 263, 931}},
		{"I believe the meaning of life is", []int{306, 4658, 278, 6593, 310, 2834, 338}},
		{"a\x00", []int{263, 3}},
		{"🙂", []int{29871, 243, 162, 156, 133}},
	} {
		ids := s.Encode(c.text)
		assert.Equal(t, c.ids, ids, "%q", c.text)
		assert.Equal(t, c.text, decode.Text(s, 1, ids))
	}
}

// TestMergeIsTheSlowLoop: the queue gives what searching for the best pair again and again gives.
func TestMergeIsTheSlowLoop(t *testing.T) {
	b, err := os.ReadFile(llm(t) + "/../../data/text/tinystories_valid_head.txt")
	require.NoError(t, err)
	for _, name := range []string{"tok512.bin", "tokenizer.bin"} {
		s := tokenizer(t, name)
		text := string(b[:2000])
		assert.Equal(t, s.EncodeSlowly(text), s.Encode(text), name)
		assert.Equal(t, text, decode.Text(s, 1, s.Encode(text)), name)
	}
}

func TestBadTokenizers(t *testing.T) {
	b, err := os.ReadFile(llm(t) + "/tok512.bin")
	require.NoError(t, err)
	_, err = decode.ParseLlama2cTokenizer(b[:len(b)-1])
	assert.ErrorContains(t, err, "piece 511")
	_, err = decode.ParseLlama2cTokenizer(nil)
	assert.ErrorContains(t, err, "cut off")
	_, err = decode.NewSentencePiece([]string{"a"}, []float32{0})
	assert.ErrorContains(t, err, "at least 259")
}
