package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// command is one line of a document, "$ qwb ..." in a fenced block. What the block shows as its output is not compared.
type command struct {
	line   int
	args   []string
	exit   int  // "# exit 3" at the end of the line, else 0
	shared bool // stands in a block under the comment <!-- needs QWB_TESTDATA -->; $QWB_TESTDATA in it is that folder
}

const needsShared = "<!-- needs QWB_TESTDATA -->"

// commandsOf finds the commands of a document. A line that ends in a backslash goes on in the next one.
func commandsOf(text string) []command {
	var out []command
	fenced, shared := false, false
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		switch {
		case strings.HasPrefix(line, "```"):
			if fenced = !fenced; !fenced {
				shared = false
			}
		case line == needsShared:
			shared = true
		case fenced && strings.HasPrefix(line, "$ qwb"):
			c := command{line: i + 1, shared: shared}
			for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
				i++
				line = strings.TrimSuffix(line, `\`) + " " + strings.TrimSpace(lines[i])
			}
			line, comment, _ := strings.Cut(line, " # ")
			if strings.HasPrefix(comment, "exit 3") {
				c.exit = exitCheck
			}
			c.args = words(strings.TrimPrefix(line, "$ qwb"))
			out = append(out, c)
		}
	}
	return out
}

// words splits as a shell does, single and double quotes being the only special characters.
func words(s string) []string {
	var out []string
	var quote rune
	open := false
	for _, r := range s {
		switch {
		case quote == 0 && (r == ' ' || r == '\t'):
			open = false
			continue
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
			continue
		}
		if !open {
			out, open = append(out, ""), true
		}
		if r != quote {
			out[len(out)-1] += string(r)
		}
	}
	return out
}

func TestCommandsOf(t *testing.T) {
	require.Equal(t, []command{
		{line: 2, args: []string{"eval", "a b", "--x", ""}, exit: 3},
		{line: 4, args: []string{"run", "-v"}},
		{line: 10, args: []string{"inspect", "$QWB_TESTDATA/m.onnx"}, shared: true},
	}, commandsOf("```\n$ qwb eval 'a b' --x \"\" # exit 3\nits output\n$ qwb run \\\n  -v\n```\n$ qwb not fenced\n"+
		needsShared+"\n```\n$ qwb inspect $QWB_TESTDATA/m.onnx\n```\n"))
}

// Every "$ qwb ..." of the documents does what it says it does, run in the order of its document in a folder of its own.
func TestDocuments(t *testing.T) {
	longtest.Need(t, "the documents run the demo")
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	demo := "" // where it was run; other documents get a copy
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "examples/*/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			commands := commandsOf(string(read(t, path)))
			if len(commands) == 0 {
				continue
			}
			name, err := filepath.Rel(root, path)
			require.NoError(t, err)
			found += len(commands)
			folder, err := os.MkdirTemp(t.TempDir(), "")
			require.NoError(t, err)
			t.Run(name, func(t *testing.T) {
				t.Chdir(folder)
				for _, c := range commands {
					switch {
					case c.shared && os.Getenv("QWB_TESTDATA") == "":
						t.Logf("%s:%d: left out, QWB_TESTDATA is not set", name, c.line)
						continue
					case c.shared:
						for i, a := range c.args {
							c.args[i] = strings.ReplaceAll(a, "$QWB_TESTDATA", os.Getenv("QWB_TESTDATA"))
						}
					case len(c.args) == 1 && c.args[0] == "demo" && demo != "":
						require.NoError(t, os.CopyFS("qwb-demo", os.DirFS(demo)))
						continue
					}
					r := invoke(c.args...)
					require.Equalf(t, c.exit, r.code, "%s:%d: qwb %s\n%s", name, c.line, strings.Join(c.args, " "), r.stderr)
					if len(c.args) == 1 && c.args[0] == "demo" {
						demo = filepath.Join(folder, "qwb-demo")
					}
				}
			})
		}
	}
	require.Greater(t, found, 5)
}
