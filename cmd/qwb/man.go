package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"qwb"
)

func newMan(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:     "man DIR",
		Short:   "Write a manual page for each command",
		Example: lines("qwb man /usr/local/share/man/man1"),
		Long:    "Man writes qwb.1 and a page for each command, qwb-calibrate.1 and so on, into a folder. They say what --help says.",
		Hidden:  true,
		Args:    exactly(1, "one folder"),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			everyCommand(c.Root(), func(c *cobra.Command) {
				if err == nil && (!c.Hidden || c.Name() == "man") {
					err = e.writePage(args[0], c)
				}
			})
			return err
		},
	}
	return c
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func (e *env) writePage(dir string, c *cobra.Command) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	_, err := qwb.WriteFile(qwb.OS{}, filepath.Join(dir, pageName(c)+".1"), func(w io.Writer) error {
		_, err := io.WriteString(w, e.manPage(c))
		return err
	})
	return err
}

// manPage is the manual page of a command in the man macros of troff. It holds no date: the same version gives the same bytes.
func (e *env) manPage(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"qwb %s\" \"qwb\"\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(pageName(c))), roff(version),
		roff(pageName(c)), roff(c.Short))
	fmt.Fprintln(&b, ".SH SYNOPSIS\n.nf")
	for _, form := range forms(c) {
		fmt.Fprintln(&b, roff(form))
	}
	fmt.Fprintln(&b, ".fi")
	if c.Long != "" {
		fmt.Fprintln(&b, ".SH DESCRIPTION")
		manText(&b, c.Long)
	}
	if c.HasExample() {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	if groups := e.groupsOf(c); len(groups) > 0 {
		fmt.Fprintln(&b, ".SH COMMANDS")
		for _, g := range groups {
			fmt.Fprintf(&b, ".SS %s\n", roff(g.title))
			for _, below := range g.commands {
				if !below.Hidden {
					fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(pageName(below)+"(1)"), roff(below.Short))
				}
			}
		}
	}
	for i, s := range flagSections(c) {
		if i == 0 {
			fmt.Fprintln(&b, ".SH OPTIONS")
		} else {
			fmt.Fprintf(&b, ".SS %s\n", roff(s.title))
		}
		s.flags.VisitAll(func(f *pflag.Flag) { manFlag(&b, f) })
	}
	fmt.Fprintln(&b, ".SH EXIT STATUS\n0 done, 1 failed, 2 wrong flags or arguments, 3 a check failed.")
	if c.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(pageName(c.Parent())))
	}
	return b.String()
}

// manText writes paragraphs: lines that begin with a space stand as they are, others are filled.
func manText(b *strings.Builder, text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			fmt.Fprintln(b, ".PP")
		}
		fixed := false
		for _, line := range strings.Split(paragraph, "\n") {
			if verbatim := strings.HasPrefix(line, " "); verbatim != fixed {
				fmt.Fprintln(b, map[bool]string{true: ".nf", false: ".fi"}[verbatim])
				fixed = verbatim
			}
			fmt.Fprintln(b, roff(line))
		}
		if fixed {
			fmt.Fprintln(b, ".fi")
		}
	}
}

func manFlag(b *strings.Builder, f *pflag.Flag) {
	value, text := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if value != "" {
		name += " " + value
	}
	if !slices.Contains([]string{"", "0", "false", "[]", "0s"}, f.DefValue) {
		text += " (default " + f.DefValue + ")"
	}
	fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(name), roff(text))
}

// roff makes text stand as it is: no backslash acts, no line begins with a control character, and a minus is one.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
