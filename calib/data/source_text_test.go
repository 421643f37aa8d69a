package data_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/tensor"
)

var tokensInput = data.InputSpec{{Name: "input_ids", DType: tensor.Int64,
	Shape: graph.Shape{{N: -1, Symbol: "batch"}, {N: -1, Symbol: "sequence"}}}}

// letters are tokens for tests: 1, and then the bytes.
func letters(line string) ([]int64, error) {
	if strings.Contains(line, "!") {
		return nil, fmt.Errorf("no token for !")
	}
	out := []int64{1}
	for _, b := range []byte(line) {
		out = append(out, int64(b))
	}
	return out, nil
}

func text(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.txt")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestTextIsASamplePerLine(t *testing.T) {
	long := strings.Repeat("x", 1<<17) // longer than the buffer
	path := text(t, "ab\r\n\n  \n c\n"+long+"\n\u00e9")
	set, warnings, err := data.Open([]string{path}, tokensInput, data.Options{Text: letters})
	require.NoError(t, err)
	assert.Empty(t, warnings)
	require.Equal(t, 4, set.Len())
	for i, want := range []string{"ab", " c", long, "\u00e9"} {
		s, err := set.Sample(i)
		require.NoError(t, err)
		ids, _ := letters(want)
		got := s.Feeds["input_ids"]
		assert.Equal(t, []int{1, len(ids)}, got.Shape)
		assert.Equal(t, ids, got.I64())
		assert.Equal(t, fmt.Sprintf("t.txt#%06d", i), set.Name(i))
	}
	folder, _, err := data.Open([]string{filepath.Dir(path)}, tokensInput, data.Options{Text: letters, Samples: 2, Seed: 1})
	require.NoError(t, err)
	assert.Equal(t, 2, folder.Len())
}

// TestLongLinesAreCut: of a line without end a megabyte is read, to a whole character.
func TestLongLinesAreCut(t *testing.T) {
	set, _, err := data.Open([]string{text(t, "x"+strings.Repeat("\u00e9", 1<<20))}, tokensInput, data.Options{Text: letters})
	require.NoError(t, err)
	s, err := set.Sample(0)
	require.NoError(t, err)
	assert.Equal(t, 1<<20, s.Feeds["input_ids"].Len(), "the first token and a byte less than a megabyte")
}

func TestTextThatIsNoData(t *testing.T) {
	open := func(spec data.InputSpec, content string, o data.Options) error {
		set, _, err := data.Open([]string{text(t, content)}, spec, o)
		if err != nil {
			return err
		}
		_, err = set.Sample(0)
		return err
	}
	floats := data.InputSpec{{Name: "x", DType: tensor.Float32, Shape: graph.Shape{{N: 1}, {N: 4}}}}
	assert.ErrorContains(t, open(tokensInput, "a\n", data.Options{}), "neither image")
	assert.ErrorContains(t, open(tokensInput, "\n \n", data.Options{Text: letters}), "there is no line with text")
	assert.ErrorContains(t, open(tokensInput, "a!\n", data.Options{Text: letters}), "no token for !")
	assert.ErrorContains(t, open(floats, "a\n", data.Options{Text: letters}), "text feeds models that take int64 [batch,sequence], "+
		"this one takes x f32[1,4]")
	assert.ErrorContains(t, open(append(tokensInput, floats...), "a\n", data.Options{Text: letters}), "text files feed models with one input")
}
