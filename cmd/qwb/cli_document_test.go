package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheDocumentListsCommandsAndFlags: docs/cli.md, with docs/bench.md for bench, has all of them. It lacked --explain.
func TestTheDocumentListsCommandsAndFlags(t *testing.T) {
	document := func(name string) string {
		b, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		require.NoError(t, err)
		return string(b)
	}
	text, bench := document("cli.md"), document("bench.md")+document("gpu.md")
	everyCommand(newRoot(&env{stdout: io.Discard, stderr: io.Discard}), func(c *cobra.Command) {
		path := c.CommandPath()
		if c.Parent() != nil && c.Parent().Parent() == nil {
			assert.Regexp(t, `(?m)\bqwb `+c.Name()+`\b`, text, path)
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			in := text
			if strings.HasPrefix(path, "qwb bench") {
				in += bench
			}
			name := regexp.QuoteMeta("--" + f.Name)
			if f.Name == "output" {
				name = "`-o"
			}
			assert.Regexp(t, name+`\b`, in, "%s --%s", path, f.Name)
		})
	})
}

// TestFlagsOfOneNameMeanOneThing but for those that the document lists with what they mean where. It said that all do. A flag counts as one
// thing if it has one type everywhere, and one default outside of bench, whose defaults are its own.
func TestFlagsOfOneNameMeanOneThing(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(b), "### Names with several meanings")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n#")
	type use struct{ types, defaults, commands map[string]bool }
	uses := map[string]use{}
	everyCommand(newRoot(&env{stdout: io.Discard, stderr: io.Discard}), func(c *cobra.Command) {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			u, ok := uses[f.Name]
			if !ok {
				u = use{map[string]bool{}, map[string]bool{}, map[string]bool{}}
				uses[f.Name] = u
			}
			u.types[strings.TrimSuffix(f.Value.Type(), "64")] = true
			u.commands[strings.TrimPrefix(c.CommandPath(), "qwb ")] = true
			if !strings.HasPrefix(c.CommandPath(), "qwb bench") {
				u.defaults[f.DefValue] = true
			}
		})
	})
	several := 0
	for name, u := range uses {
		if len(u.types) < 2 && len(u.defaults) < 2 {
			continue
		}
		several++
		row := regexp.MustCompile("(?m)^\\| `--"+regexp.QuoteMeta(name)+"` .*$").FindAllString(section, -1)
		if assert.NotEmpty(t, row, "--%s has no row", name) && !strings.Contains(row[len(row)-1], "| all other commands |") {
			for command := range u.commands {
				assert.Contains(t, strings.Join(row, "\n"), "`"+command+"`", "--%s", name)
			}
		}
	}
	assert.Greater(t, several, 3)
}
