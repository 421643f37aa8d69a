package graph

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInfer runs the cases in testdata/infer. A case is a line
//
//	@opset op(argument, ...) {attributes} -> type, ...
//
// with one type per output, or "error: part of the message". An argument is a type (an input), a type with data (a constant),
// or _ (absent). Comment lines state the claim of the cases below them.
func TestInfer(t *testing.T) {
	files, err := filepath.Glob("testdata/infer/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			if line == "" || line[0] == '#' {
				continue
			}
			arrow := strings.LastIndex(line, " -> ")
			require.Positive(t, arrow, "%s:%d: no ->", file, i+1)
			call, want := line[:arrow], line[arrow+4:]
			if got := inferLine(t, call, want); got != want && !matchesError(got, want) {
				t.Errorf("%s:%d: %s\n  wanted %s\n  found  %s", file, i+1, call, want, got)
			}
		}
	}
}

func matchesError(got, want string) bool {
	part, is := strings.CutPrefix(want, "error: ")
	return is && strings.HasPrefix(got, "error: ") && strings.Contains(got, part)
}

// inferLine runs one case through InferShapes and returns the types of its outputs, or the errors.
func inferLine(t *testing.T, call, want string) string {
	t.Helper()
	text := "opset 17\nopset com.microsoft 1\n"
	if version, rest, ok := strings.Cut(call, " "); ok && call[0] == '@' {
		text, call = "opset "+version[1:]+"\nopset com.microsoft 1\n", rest
	}
	open := strings.IndexByte(call, '(')
	args, rest := splitArgs(call[open:])
	var names []string
	for i, arg := range args {
		name := fmt.Sprintf("i%d", i)
		if arg == "_" {
			name = arg
		} else if end := strings.IndexByte(arg, ']') + 1; end < len(arg) {
			text += fmt.Sprintf("const %s: %s =%s\n", name, arg[:end], arg[end:])
		} else {
			text += fmt.Sprintf("input %s: %s\n", name, arg)
		}
		names = append(names, name)
	}
	outs := []string{"y0"}
	if !strings.HasPrefix(want, "error: ") {
		parts, _ := splitArgs("(" + want + ")")
		for i := 1; i < len(parts); i++ {
			outs = append(outs, fmt.Sprintf("y%d", i))
		}
	}
	text += strings.Join(outs, ", ") + " = " + call[:open] + "(" + strings.Join(names, ", ") + ")" + rest + "\n"
	g, err := Parse(text)
	require.NoError(t, err, text)
	if errs := InferShapes(g); len(errs) > 0 {
		return fmt.Sprintf("error: %v", errs)
	}
	var got []string
	for _, name := range outs {
		v, _ := g.Lookup(name)
		got = append(got, FormatType(g.Value(v).DType, g.Value(v).Shape))
	}
	return strings.Join(got, ", ")
}

// splitArgs cuts "(a, b) rest" at the commas outside of brackets.
func splitArgs(s string) (args []string, rest string) {
	depth, from := 0, 1
	for i := range len(s) {
		switch s[i] {
		case '(', '[':
			depth++
		case ')', ']':
			if depth--; depth == 0 {
				if arg := strings.TrimSpace(s[from:i]); arg != "" {
					args = append(args, arg)
				}
				return args, s[i+1:]
			}
		case ',':
			if depth == 1 {
				args = append(args, strings.TrimSpace(s[from:i]))
				from = i + 1
			}
		}
	}
	return args, ""
}
