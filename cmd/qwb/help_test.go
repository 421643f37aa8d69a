package main

import (
	"bytes"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func silent() *cobra.Command { return newRoot(&env{stdout: io.Discard, stderr: io.Discard}) }

// TestEveryCommandStandsUnderOneHeading of qwb --help.
func TestEveryCommandStandsUnderOneHeading(t *testing.T) {
	e := &env{stdout: io.Discard, stderr: io.Discard}
	root := newRoot(e)
	var listed []*cobra.Command
	for _, g := range e.groups {
		listed = append(listed, g.commands...)
	}
	assert.ElementsMatch(t, root.Commands(), listed)
}

// TestExamplesAreCommandLines: commands, flags and numbers of arguments of the examples exist, and every command has one.
func TestExamplesAreCommandLines(t *testing.T) {
	everyCommand(silent(), func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "qwb ")
		if c.HasAvailableSubCommands() || path == "help" || strings.HasPrefix(path, "completion ") {
			return
		}
		assert.NotEmpty(t, c.Example, path)
		for _, line := range strings.Split(c.Example, "\n") {
			line, _, _ = strings.Cut(line, "  #")
			args := words(line)
			require.Equal(t, "qwb", args[0], line)
			c, rest, err := silent().Find(args[1:])
			require.NoError(t, err, line)
			require.NoError(t, c.ParseFlags(rest), line)
			require.NoError(t, c.ValidateArgs(c.Flags().Args()), line)
		}
	})
	for _, args := range [][]string{{"export", "--help"}, {"help", "plan", "recipe"}} {
		assert.Contains(t, done(t, args...).stdout, "\nExamples:\n  qwb ")
	}
}

// TestFormsNameTheCommandOnce: that of a command without arguments was "qwb bench cuda cuda".
func TestFormsNameTheCommandOnce(t *testing.T) {
	everyCommand(silent(), func(c *cobra.Command) {
		for _, form := range forms(c) {
			assert.Regexp(t, "^"+c.CommandPath()+` (COMMAND |[^a-z ].*)?\[flags\]$`, form)
		}
	})
}

// TestFlagsOfLanguageModelsStandApart from those of networks, in commands that take both.
func TestFlagsOfLanguageModelsStandApart(t *testing.T) {
	for _, command := range []string{"eval", "analyze", "export"} {
		own, language, ok := strings.Cut(done(t, command, "--help").stdout, "\n"+helpLanguage+":\n")
		require.True(t, ok, command)
		_, own, _ = strings.Cut(own, "\nFlags:\n")
		for _, flag := range []string{"--group-size", "--tokenizer", "--method"} {
			assert.Contains(t, language, flag, command)
			assert.NotContains(t, own, flag, command)
		}
		assert.NotContains(t, language, "--json", command)
		assert.Contains(t, own, "--json", command)
	}
	help := done(t, "eval", "--help").stdout
	assert.Contains(t, help, "  qwb eval [MODEL|PLAN] --data D --labels F [flags]\n  qwb eval CHECKPOINT --text FILE [flags]\n")
	for _, line := range strings.Split(help[strings.Index(help, "\nFlags:"):], "\n") {
		assert.LessOrEqual(t, len(line), defaultWidth, line)
	}
}

// TestTheShellCompletesArguments: selectors, properties, names of a list, files.
func TestTheShellCompletesArguments(t *testing.T) {
	calibrated(t)
	for _, c := range []struct {
		args      []string
		want, not []string
	}{
		{[]string{"tune", "--method", "bias,"}, []string{"bias,gptq", "bias,ridge"}, []string{"bias,bias", "gptq"}},
		{[]string{"calibrate", "--dispatcher", ""}, []string{"conservative", "allin"}, nil},
		{[]string{"set", ""}, []string{"conv1", "type:Conv", "first", "pattern:attention"}, []string{"domain="}},
		{[]string{"set", "conv1", ""}, []string{"domain=", "weights="}, []string{"conv1"}},
		{[]string{"set", "conv1", "domain="}, []string{"domain=int", "domain=fp32"}, nil},
		{[]string{"set", "m.plan.json", "gemm", "observer="}, []string{"observer=kl"}, nil},
		{[]string{"dispatch", "--fp32", "conv1,"}, []string{"conv1,conv2"}, []string{"conv1,conv1"}},
		{[]string{"target", "show", ""}, []string{"trt_int8"}, nil},
		{[]string{"verify", ""}, []string{"plan.json", ":8"}, nil},
	} {
		got := strings.Split(done(t, append([]string{"__completeNoDesc"}, c.args...)...).stdout, "\n")
		for _, want := range c.want {
			assert.Contains(t, got, want, "%v", c.args)
		}
		for _, not := range c.not {
			assert.NotContains(t, got, not, "%v", c.args)
		}
	}
}

// TestManualPages: one for each command, with all of its flags; man, where there is one, has nothing to say against them.
func TestManualPages(t *testing.T) {
	inFolder(t)
	done(t, "man", "man1")
	pages := tree(t, "man1")
	everyCommand(silent(), func(c *cobra.Command) {
		file := "man1/" + pageName(c) + ".1"
		if c.Hidden && c.Name() != "man" {
			assert.NotContains(t, pages, file)
			return
		}
		require.Contains(t, pages, file)
		page := string(read(t, file))
		c.Flags().VisitAll(func(f *pflag.Flag) {
			assert.Contains(t, page, roff("--"+f.Name), file)
		})
		if man, err := exec.LookPath("groff"); err == nil && slices.Contains([]string{"qwb", "calibrate", "export", "set"}, c.Name()) {
			out, err := exec.Command(man, "-man", "-Tutf8", "-ww", "-z", file).CombinedOutput()
			assert.NoError(t, err)
			assert.Empty(t, string(out), file)
		}
	})
	assert.Equal(t, "\\&.a \\e b\\-\n\\&'c", roff(".a \\ b-\n'c"))
	var b bytes.Buffer
	e := &env{stdout: io.Discard, stderr: io.Discard}
	b.WriteString(e.manPage(newRoot(e)))
	assert.NotContains(t, b.String(), "\n\n", "an empty line ends a page's paragraph in some readers")
	fails(t, exitUsage, "man takes one folder", "man")
}
