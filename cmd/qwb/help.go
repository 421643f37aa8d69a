package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// headings are all commands, in the order in which they are used.
var headings = []struct {
	title    string
	commands []func(*env) *cobra.Command
}{
	{"Networks (ONNX models)", []func(*env) *cobra.Command{newInspect, newPreprocess, newDoctor, newBind, newReplace, newImport, newCalibrate,
		newSweep, newAnalyze, newDispatch, newTune, newEval, newVerify, newExport, newRun}},
	{"Language models (checkpoints; analyze, eval and export take them too)", []func(*env) *cobra.Command{newGenerate}},
	{"Plans and decisions", []func(*env) *cobra.Command{newSet, newWhatIf, newUnset, newPlan, newDiff, newCompare, newMerge}},
	{"Evidence", []func(*env) *cobra.Command{newCertify, newVerifyCertificate, newGate}},
	{"Tools", []func(*env) *cobra.Command{newServe, newDemo, newTarget, newOperators, newBench, newVersion, newMan}},
}

// helpGroup is a heading in the list of commands.
type helpGroup struct {
	title    string
	commands []*cobra.Command
}

// addCommands gives root all commands, and help their headings.
func (e *env) addCommands(root *cobra.Command) {
	for _, h := range headings {
		g := helpGroup{title: h.title}
		for _, command := range h.commands {
			g.commands = append(g.commands, command(e))
		}
		root.AddCommand(g.commands...)
		e.groups = append(e.groups, g)
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	tools := &e.groups[len(e.groups)-1]
	for _, name := range []string{"completion", "help"} {
		if c, _, err := root.Find([]string{name}); err == nil {
			tools.commands = append(tools.commands, c)
		}
	}
}

// lines are the examples of a command; a test reads them as command lines.
func lines(list ...string) string { return "  " + strings.Join(list, "\n  ") }

// helpLanguage is the heading of those flags of a command that are for language models only, where the command takes networks too.
const helpLanguage = "Flags for language models (checkpoints)"

// headingKey is the annotation of a flag that says under which heading help lists it.
const headingKey = "qwb heading"

// underHeading puts flags of c under a heading of their own.
func underHeading(c *cobra.Command, heading string, flags ...string) {
	for _, name := range flags {
		if err := c.Flags().SetAnnotation(name, headingKey, []string{heading}); err != nil {
			panic(err) // there is no such flag
		}
	}
}

// defaultWidth is how many columns help takes where it is not written to a terminal.
const defaultWidth = 110

// helpWidth is how many columns help may take on w: those of the terminal, from 60 to 140.
func helpWidth(w io.Writer) int {
	if f, ok := raw(w).(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			return min(max(columns, 60), 140)
		}
	}
	return defaultWidth
}

// addHelp gives root and all below it their layout of help.
func (e *env) addHelp(root *cobra.Command) {
	root.SetUsageFunc(e.usage)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(c.OutOrStdout(), "%s\n\n", strings.TrimRight(text, " \n"))
		_ = e.usage(c)
	})
}

// everyCommand calls f for c and each command below it.
func everyCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, below := range c.Commands() {
		everyCommand(below, f)
	}
}

// usage prints how a command is called: its forms, examples, the commands below it and its flags, each list under headings.
func (e *env) usage(c *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintln(&b, "Usage:")
	for _, form := range forms(c) {
		fmt.Fprintf(&b, "  %s\n", form)
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	for _, g := range e.groupsOf(c) {
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for _, below := range g.commands {
			if !below.Hidden {
				fmt.Fprintf(&b, "  %-*s  %s\n", c.NamePadding(), below.Name(), below.Short)
			}
		}
	}
	for _, s := range flagSections(c) {
		fmt.Fprintf(&b, "\n%s:\n%s\n", s.title, strings.TrimRight(s.flags.FlagUsagesWrapped(helpWidth(c.OutOrStdout())), "\n"))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help explains a command and its flags.\n", c.CommandPath())
	}
	_, err := io.WriteString(c.OutOrStdout(), b.String())
	return err
}

// forms lists the ways in which a command is called: the Use of a command that takes different things has them separated by " | ".
func forms(c *cobra.Command) []string {
	var list []string
	parent := ""
	if c.HasParent() {
		parent = c.Parent().CommandPath() + " "
	}
	if c.Runnable() && !c.HasAvailableSubCommands() {
		for _, form := range strings.Split(strings.TrimPrefix(c.Use, c.Name()), " | "+c.Name()) {
			list = append(list, parent+c.Name()+form+" [flags]")
		}
	}
	if c.HasAvailableSubCommands() {
		list = append(list, c.CommandPath()+" COMMAND [flags]")
	}
	return list
}

// groupsOf lists the commands below c under their headings.
func (e *env) groupsOf(c *cobra.Command) []helpGroup {
	switch {
	case !c.HasAvailableSubCommands():
		return nil
	case !c.HasParent():
		return e.groups
	}
	g := helpGroup{title: "Commands"}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			g.commands = append(g.commands, below)
		}
	}
	return []helpGroup{g}
}

// flagSection is a heading with its flags.
type flagSection struct {
	title string
	flags *pflag.FlagSet
}

// flagSections lists the flags of a command by headings: its own, those with a heading of their own, and those that all commands have.
func flagSections(c *cobra.Command) []flagSection {
	list := []flagSection{{"Flags", pflag.NewFlagSet("", pflag.ContinueOnError)}}
	add := func(title string, f *pflag.Flag) {
		i := slices.IndexFunc(list, func(s flagSection) bool { return s.title == title })
		if i < 0 {
			i = len(list)
			list = append(list, flagSection{title, pflag.NewFlagSet("", pflag.ContinueOnError)})
		}
		list[i].flags.AddFlag(f)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		title := "Flags"
		if a := f.Annotations[headingKey]; len(a) > 0 {
			title = a[0]
		}
		add(title, f)
	})
	c.InheritedFlags().VisitAll(func(f *pflag.Flag) { add("Flags of all commands", f) })
	return slices.DeleteFunc(list, func(s flagSection) bool { return !s.flags.HasAvailableFlags() })
}
