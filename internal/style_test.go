package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// plainMath may call what gives other last bits on other processors: numbers for people, and definitions that tests hold others to.
var plainMath = []string{"kernels/elementary", "kernels/cuda", "kernels/kerneltest", "reports", "internal/demo/train"}

// opens may open files by the system's own call: the opener of all others, and what opens files of the system, of the build or of a test.
var opens = []string{"internal/file", "internal/filetest", "internal/drivertest", "graph/exec", "internal/graphtest", "internal/exporttest",
	"internal/testrun", "internal/bench", "kernels/cuda/gen", "kernels/_asm", "cmd/qwb-page", "examples"}

// forbidden lists calls that belong in one place only: who may make them, and what to do instead.
var forbidden = []struct {
	call    string
	allowed []string
	instead string
}{
	{"math.Round", []string{"kernels", "graph", "reports", "calib/data", "internal/demo"}, "round through kernels/qmath"},
	{"math.RoundToEven", []string{"kernels", "graph"}, "round through kernels/qmath"},
	{"math.Floor", []string{"kernels", "graph", "calib/data", "reports"}, "round through kernels/qmath"},
	{"math.Exp", plainMath, "its last bits depend on the processor: take kernels/elementary"},
	{"math.Tanh", plainMath, "its last bits depend on the processor: take kernels/elementary"},
	{"math.Sinh", plainMath, "its last bits depend on the processor: take kernels/elementary"},
	{"math.Cosh", plainMath, "its last bits depend on the processor: take kernels/elementary"},
	{"math.Erf", plainMath, "its last bits depend on the processor: take kernels/elementary"},
	{"math.Erfc", plainMath, "its last bits depend on the processor: take kernels/elementary"},
	{"math.Pow", plainMath, "its last bits depend on the processor: take kernels/elementary"},
	{"os.Open", opens, "it may wait for ever: take internal/file"},
	{"os.OpenFile", opens, "it may wait for ever: take internal/file"},
	{"os.ReadFile", opens, "it may wait for ever: take internal/file"},
	{"yaml.Unmarshal", []string{"internal/strictyaml"}, "its time and memory have no bounds: take internal/strictyaml"},
	{"yaml.UnmarshalWithOptions", []string{"internal/strictyaml"}, "its time and memory have no bounds: take internal/strictyaml"},
	{"yaml.NewDecoder", []string{}, "its time and memory have no bounds: take internal/strictyaml"},
	{"parser.ParseBytes", []string{"internal/strictyaml"}, "its time and memory have no bounds: take internal/strictyaml"},
	{"fmt.Print", []string{}, "write to the writer of the command"},
	{"fmt.Println", []string{}, "write to the writer of the command"},
	{"fmt.Printf", []string{}, "write to the writer of the command"},
	{"os.Exit", []string{"cmd", "internal/demo", "internal/testrun", "internal/typecheck", "internal/workbench/pagetypes",
		"kernels/cuda/gen"}, "return an error"},
	{"time.Now", []string{"cmd", "internal/bench/cmd"}, "let cmd measure time"},
}

func TestForbiddenCalls(t *testing.T) {
	for dir, files := range parseSources(t) {
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				if fn, ok := n.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s: func init: make it a value in an explicit list", dir)
				}
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				pkg, ok := sel.X.(*ast.Ident)
				if !ok {
					return true
				}
				for _, rule := range forbidden {
					if pkg.Name+"."+sel.Sel.Name == rule.call && !belowAny(dir, rule.allowed) {
						t.Errorf("%s calls %s: %s", dir, rule.call, rule.instead)
					}
				}
				return true
			})
		}
	}
}

// What a reader takes in at a glance.
const (
	lineColumns   = 140
	functionLines = 80
)

// longer are functions above functionLines that are lists or one algorithm: remove lines from here, add none.
var longer = []string{"kernels/qmath/profiles.go Profiles", "reports/layout/columns.go alignment", "reports/png/pareto.go paretoPlot",
	"kernels/cuda/emulate/machine.go advance"}

// TestLinesAndFunctionsAreShort holds every line of hand-written Go, tests too, to lineColumns, but for texts of several lines, and every
// function outside of tests and of the generators of assembly to functionLines.
func TestLinesAndFunctionsAreShort(t *testing.T) {
	require.NoError(t, filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
			if err == nil && d.IsDir() && (d.Name() == "testdata" || name != ".." && strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return err
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, source, parser.ParseComments)
		if err != nil || ast.IsGenerated(f) {
			return err
		}
		for i, line := range strings.Split(string(source), "\n") {
			if n := utf8.RuneCountInString(line); n > lineColumns && !inText(files, f, i+1) {
				t.Errorf("%s:%d has %d columns: break it, at most %d", name, i+1, n, lineColumns)
			}
		}
		file := strings.TrimPrefix(filepath.ToSlash(name), "../")
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(file, "kernels/_asm/") {
				continue
			}
			n := files.Position(fn.End()).Line - files.Position(fn.Pos()).Line + 1
			if known := slices.Contains(longer, file+" "+fn.Name.Name); known != (n > functionLines) {
				t.Errorf("%s: %s has %d lines, the limit is %d (in the list of longer ones: %t)", name, fn.Name.Name, n, functionLines, known)
			}
		}
		return nil
	}))
}

// inText reports whether a line is part of a text of several lines.
func inText(files *token.FileSet, f *ast.File, line int) (in bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			from, to := files.Position(l.Pos()).Line, files.Position(l.End()).Line
			in = in || from < to && from <= line && line <= to
		}
		return !in
	})
	return in
}

// TestPackagesAreDocumented asks for a package comment in every package.
func TestPackagesAreDocumented(t *testing.T) {
	for dir, files := range parseSources(t) {
		documented := false
		for _, f := range files {
			documented = documented || f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != ""
		}
		if !documented {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

func belowAny(dir string, roots []string) bool {
	for _, r := range roots {
		if below(dir, r) {
			return true
		}
	}
	return false
}
