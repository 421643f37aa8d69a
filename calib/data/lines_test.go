package data_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/calib/data"
)

// lines reads all lines of a text.
func lines(t *testing.T, text string, o data.LinesOptions) []data.Line {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.txt")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	l, err := data.OpenLines(path, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	require.Equal(t, int64(len(text)), l.Size())
	var out []data.Line
	for {
		line, err := l.Next()
		if errors.Is(err, io.EOF) {
			require.Equal(t, l.Size(), l.Offset())
			return out
		}
		require.NoError(t, err)
		out = append(out, line)
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 100_000) // more than is buffered
	for _, c := range []struct {
		text    string
		longest int
		want    []data.Line
	}{
		{"", 0, nil},
		{"\n \n\t\r\n", 0, nil},
		{"a\n\n b \r\nc", 0, []data.Line{{1, "a", false}, {3, " b ", false}, {4, "c", false}}},
		{long + "\n" + long, 0, []data.Line{{1, long, false}, {2, long, false}}},
		{long + "\nab", 3, []data.Line{{1, "xxx", true}, {2, "ab", false}}},
		{"abc\nabcd\n", 3, []data.Line{{1, "abc", false}, {2, "abc", true}}},
		{"aé\naéb", 2, []data.Line{{1, "a", true}, {2, "a", true}}},
		{"aéb", 3, []data.Line{{1, "aé", true}}},
		{"a\xff\xffb", 2, []data.Line{{1, "a\xff", true}}},
		{"    x\n", 3, []data.Line{{1, "   ", true}}},
	} {
		assert.Equal(t, c.want, lines(t, c.text, data.LinesOptions{Longest: c.longest}), "%.20q", c.text)
	}
}

// TestLinesChosen: so many lines with text, by the seed, in their order.
func TestLinesChosen(t *testing.T) {
	var text strings.Builder
	for i := range 50 {
		fmt.Fprintf(&text, "line %d\n\n", i)
	}
	all := lines(t, text.String(), data.LinesOptions{})
	require.Len(t, all, 50)
	require.Equal(t, all, lines(t, text.String(), data.LinesOptions{Samples: 50}))
	require.Equal(t, all, lines(t, text.String(), data.LinesOptions{Samples: 60, Seed: 2}))
	seen := map[int]bool{}
	for seed := range uint64(40) {
		some := lines(t, text.String(), data.LinesOptions{Samples: 7, Seed: seed})
		require.Len(t, some, 7)
		for i, l := range some {
			require.Contains(t, all, l)
			require.True(t, i == 0 || some[i-1].Number < l.Number)
			seen[l.Number] = true
		}
		require.Equal(t, some, lines(t, text.String(), data.LinesOptions{Samples: 7, Seed: seed}))
	}
	require.Greater(t, len(seen), 45)
}

func TestLinesCannotBeRead(t *testing.T) {
	_, err := data.OpenLines("no-such-file", data.LinesOptions{})
	assert.ErrorContains(t, err, "no-such-file")
	l, err := data.OpenLines(t.TempDir(), data.LinesOptions{})
	require.NoError(t, err)
	_, err = l.Next()
	assert.ErrorContains(t, err, "line 1: ")
	require.NoError(t, l.Close())
}
