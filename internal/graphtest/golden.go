package graphtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rewrite, the variable QWB_REWRITE, writes what golden cases give as what they want. A flag could collide with one of a test.
var rewrite = os.Getenv("QWB_REWRITE") != ""

// Case is one of a file of golden cases, which "====" separates: a claim in lines starting with "#", a line with what it is about, more
// text, mostly a graph, "----", and what is wanted of them.
type Case struct{ File, Claim, Head, Text, Want string }

// Cases reads the cases of all files of a pattern.
func Cases(t testing.TB, pattern string) []Case {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var cases []Case
	for _, file := range files {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, text := range strings.Split(strings.TrimSpace(string(src)), "\n====\n") {
			c := Case{File: file}
			input, want, ok := strings.Cut(text+"\n", "\n----\n")
			require.True(t, ok, "%s: no ---- in %s", file, text)
			c.Want = strings.TrimSpace(want)
			for strings.HasPrefix(input, "#") {
				var line string
				line, input, _ = strings.Cut(input, "\n")
				c.Claim += line + "\n"
			}
			require.NotEmpty(t, c.Claim, "%s: a case starts with its claim: %s", file, text)
			c.Head, c.Text, _ = strings.Cut(input, "\n")
			cases = append(cases, c)
		}
	}
	return cases
}

// Platform is the word behind "platform" in the head, and the rest of the line.
func (c *Case) Platform() (platform, rest string) {
	platform, rest, _ = strings.Cut(strings.TrimPrefix(c.Head, "platform "), " ")
	return platform, rest
}

// Name is the file and the first line of the claim.
func (c *Case) Name() string {
	line, _, _ := strings.Cut(c.Claim, "\n")
	return filepath.Base(c.File) + "/" + strings.TrimPrefix(line, "# ")
}

// Golden holds what get makes of every case of a pattern to what the case wants; with QWB_REWRITE it writes that into the files.
func Golden(t *testing.T, pattern string, get func(t *testing.T, c Case) string) {
	t.Helper()
	files := map[string][]string{}
	for _, c := range Cases(t, pattern) {
		var got string
		t.Run(c.Name(), func(t *testing.T) {
			got = strings.TrimSpace(get(t, c))
			if !rewrite {
				require.Equal(t, c.Want, got, c.Claim)
			}
		})
		input := strings.TrimSuffix(c.Claim+c.Head+"\n"+c.Text, "\n")
		files[c.File] = append(files[c.File], input+"\n----\n"+got)
	}
	if rewrite {
		for file, cases := range files {
			require.NoError(t, os.WriteFile(file, []byte(strings.Join(cases, "\n====\n")+"\n"), 0o644))
		}
	}
}
