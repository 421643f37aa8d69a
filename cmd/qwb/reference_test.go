package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the parts of documents and of the Python package that are made of the tables of options")

// TestTheDocumentHasTheTables: the flags of single commands in docs/cli.md are those of the tables. go test ./cmd/qwb -run TheDocumentHas
// -update writes them.
func TestTheDocumentHasTheTables(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "cli.md")
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	const from, to = "### Of single commands\n\n", "\n`calibrate` takes float models."
	text := string(b)
	begin, end := strings.Index(text, from)+len(from), strings.Index(text, to)
	require.Less(t, len(from), begin)
	require.Less(t, begin, end)
	want := reference(text[:begin])
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text[:begin]+want+text[end:]), 0o644))
		return
	}
	require.Equal(t, want, text[begin:end])
}

// valueWords are what values are called in a document.
var valueWords = map[string]string{"string": "X", "stringArray": "X", "strings": "A,B", "int": "N", "uint": "N", "float": "N"}

// reference is the table of those flags that the tables before it do not explain; bench has a document of its own. Flags of one name that
// mean the same are one row.
func reference(before string) string {
	type row struct{ commands, flag, meaning string }
	var rows []row
	e := &env{stdout: io.Discard, stderr: io.Discard}
	newRoot(e)
	for _, g := range e.groups {
		for _, top := range g.commands {
			everyCommand(top, func(c *cobra.Command) {
				name := strings.TrimPrefix(c.CommandPath(), "qwb ")
				if strings.HasPrefix(name, "bench") || strings.HasPrefix(name, "completion") {
					return
				}
				c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
					if regexp.MustCompile("(?m)^\\| .*`--" + regexp.QuoteMeta(f.Name) + `\b[^-]`).MatchString(before) {
						return
					}
					value, help := pflag.UnquoteUsage(f)
					if word := valueWords[value]; word != "" {
						value = word
					}
					if !slices.Contains([]string{"", "0", "false", "[]"}, f.DefValue) {
						help += " (default: " + f.DefValue + ")"
					}
					r := row{"`" + name + "`", strings.TrimSpace("--" + f.Name + " " + value), strings.ReplaceAll(help, "|", `\|`)}
					if o := e.tables[c].Find(f.Name); o != nil && o.See != "" {
						r.meaning += fmt.Sprintf(" ([%s](%s))", strings.Split(o.See, "#")[0], o.See)
					}
					if i := slices.IndexFunc(rows, func(x row) bool { return x.flag == r.flag && x.meaning == r.meaning }); i >= 0 {
						rows[i].commands += ", " + r.commands
						return
					}
					rows = append(rows, r)
				})
			})
		}
	}
	var out strings.Builder
	out.WriteString("| command | flag | meaning |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&out, "| %s | `%s` | %s |\n", r.commands, r.flag, r.meaning)
	}
	return out.String()
}

// pythonCommands are those whose flags are keywords of functions of the Python package.
var pythonCommands = []string{"calibrate", "import", "inspect", "bind", "generate", "eval", "analyze", "dispatch", "tune",
	"verify", "run", "export"}

// TestThePythonPackageHasTheTables: its functions say which keywords they take.
func TestThePythonPackageHasTheTables(t *testing.T) {
	var want strings.Builder
	want.WriteString(`"""What keywords the functions take: the flags of their commands, with kind and help. Made of the tables of options by go test ./cmd/qwb -run ThePython -update."""

OPTIONS = {
`)
	root := silent()
	for _, name := range pythonCommands {
		c, _, err := root.Find([]string{name})
		require.NoError(t, err)
		fmt.Fprintf(&want, "    %q: {\n", name)
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if _, help := pflag.UnquoteUsage(f); f.Name != "json" && f.Name != "help" {
				fmt.Fprintf(&want, "        %q: (%q, %q),\n", strings.ReplaceAll(f.Name, "-", "_"), f.Value.Type(), help)
			}
		})
		want.WriteString("    },\n")
	}
	want.WriteString("}\n")
	file := filepath.Join("..", "..", "examples", "python", "qwb", "_options.py")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want.String()), 0o644))
		return
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want.String(), string(b))
}
