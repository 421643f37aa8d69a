package data

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLabels(t *testing.T) {
	f := tree{"d/a.png": pngFile(4, 3, 1), "d/s/b.png": pngFile(4, 3, 2), "d/c.png": pngFile(4, 3, 3),
		"l.tsv": []byte("file\tindex\r\na.png\t5\r\nb.png\t0\textra column\r\n\r\nother.png\t1\r\n")}
	set, _ := open(t, f, input("x", 1, 3, 3, 4), Options{Labels: "l.tsv", LabelOffset: 1}, "d")
	require.Equal(t, 6, set.Label(0))
	require.Equal(t, -1, set.Label(1))
	require.Equal(t, 1, set.Label(2), "found by its base name")
	require.EqualError(t, set.RequireLabels(), "data: 1 of 3 samples have no label (first: c.png)")
	require.ErrorContains(t, openError(f, input("x", 1, 3, 3, 4), Options{Labels: "l.tsv", LabelOffset: -1}, "d"),
		"negative (-1 with the label offset)")
	require.ErrorContains(t, openError(f, input("x", 1, 3, 3, 4), Options{Labels: "none.tsv"}, "d"), "labels none.tsv: file does not exist")
	f["empty.tsv"] = []byte("file\tindex\n")
	require.ErrorContains(t, openError(f, input("x", 1, 3, 3, 4), Options{Labels: "empty.tsv"}, "d"), "labels empty.tsv: it holds no labels")
}

func TestParseLabels(t *testing.T) {
	for src, want := range map[string]string{
		"a\t1\nb 2\n":    "line 2: needs a file, a tab and an index",
		"a\t1\nb\ttwo\n": `line 2: "two" is no index of a class`,
		"a\t-1\n":        `line 1: "-1" is no index`,
		"a\t1\na\t2\n":   "line 2: a has index 1 above and 2 here",
	} {
		_, err := parseLabels([]byte(src))
		require.ErrorContains(t, err, want, src)
	}
	got, err := parseLabels([]byte("\xef\xbb\xbfx\\a.png\t3\n./b\t4\nb\t4"))
	require.NoError(t, err)
	require.Equal(t, map[string]int{"x/a.png": 3, "b": 4}, got)
}

func FuzzParseLabels(f *testing.F) {
	f.Add([]byte("file\tindex\na.png\t5\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := parseLabels(src)
		for _, l := range got {
			require.True(t, err == nil && l >= 0)
		}
	})
}
