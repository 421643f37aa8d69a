package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stable are the packages that programs outside of the module may rely on. docs/library.md lists them too.
var stable = []string{".", "export", "graph", "graph/onnx", "graph/onnx/onnxgo",
	"graph/tensor", "observers", "quantizer/target", "quantizer/tqc"}

// What the last paragraph of a package comment says.
const (
	sayStable   = "Stable: what it exports keeps its meaning; see docs/library.md."
	sayUnstable = "Unstable: it may change without notice."
)

// reached says which packages that are not stable stand in the exported declarations of stable ones, and why that is right.
var reached = map[string]string{
	// Results of methods: plain data with the names of --json, which stay.
	"analysis":                    result,
	"analysis/language":           result,
	"analysis/language/groupsums": result,
	"analysis/tensors":            result,
	"calib/tune":                  result,
	"quantizer/decision":          result,
	"quantizer/plan":              result,
	"reports":                     result,
	// What one function gives and another takes. Programs hand it on and do not look into it.
	"calib":                     handed,
	"calib/data":                handed,
	"graph/language/checkpoint": handed,
	"graph/language/decode":     handed,
	"kernels":                   handed,
	"quantizer/lower":           handed,
	"quantizer/overlay":         handed,
	"quantizer/program":         handed,
	"quantizer/sim":             handed,
	// Values that stand in fields of stable types, and whose meaning docs/numerics.md and docs/targets.md fix.
	"graph/pattern": value,
	"kernels/qmath": value,
	// Types of errors that have a name in package qwb.
	"graph/exec": "qwb.UnsupportedError and qwb.MemoryError are theirs",
}

const (
	result = "a result"
	handed = "handed on"
	value  = "a value"
)

// publicPackages are the folders of packages that others can import.
func publicPackages(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != ".." && (strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") || name == "testdata" || name == "examples" ||
				name == "internal" || name == "cmd") {
				return filepath.SkipDir
			}
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(file, "../")))
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
		return nil
	})
	require.NoError(t, err)
	return list
}

// files parses the files of a package that are no tests.
func files(t *testing.T, dir string) []*ast.File {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("..", dir))
	require.NoError(t, err)
	var list []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", dir, e.Name()), nil, parser.ParseComments)
		require.NoError(t, err)
		if f.Name.Name != "main" {
			list = append(list, f)
		}
	}
	return list
}

// Every package that can be imported says whether it may be relied on.
func TestStability(t *testing.T) {
	for _, dir := range publicPackages(t) {
		want, other := sayUnstable, sayStable
		if slices.Contains(stable, dir) {
			want, other = sayStable, sayUnstable
		}
		doc := ""
		list := files(t, dir)
		for _, f := range list {
			doc += f.Doc.Text()
		}
		if len(list) == 0 {
			continue // a program
		}
		require.Equal(t, 1, strings.Count(doc, want), "%s: the package comment ends in %q", dir, want)
		require.NotContains(t, doc, other, dir)
	}
	text, err := os.ReadFile("../docs/library.md")
	require.NoError(t, err)
	for _, dir := range stable {
		require.Contains(t, string(text), "`"+path.Join("qwb", dir)+"`", "docs/library.md")
	}
}

// importsOf are the module's packages that a file imports, by the names that they have in it.
func importsOf(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, i := range f.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		if local, ours := strings.CutPrefix(p, "qwb/"); ours {
			name := path.Base(local)
			if i.Name != nil {
				name = i.Name.Name
			}
			names[name] = local
		}
	}
	return names
}

// work is where the types are declared that package qwb has a name for.
const work = "internal/work/"

// named are these types, by package.
func named(t *testing.T) map[string]map[string]bool {
	list := map[string]map[string]bool{}
	for _, f := range files(t, ".") {
		names := importsOf(f)
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Assign.IsValid() {
				return true
			}
			if s, ok := spec.Type.(*ast.SelectorExpr); ok {
				dir := names[s.X.(*ast.Ident).Name]
				if list[dir] == nil {
					list[dir] = map[string]bool{}
				}
				list[dir][s.Sel.Name] = true
			}
			return true
		})
	}
	return list
}

// shown are the nodes of a declaration that programs see. only has the types that count, nil: all.
func shown(d ast.Decl, only map[string]bool) (list []ast.Node) {
	switch d := d.(type) {
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if s, ok := s.(*ast.TypeSpec); ok && (only == nil || only[s.Name.Name]) {
				list = append(list, s)
			}
		}
	case *ast.FuncDecl:
		if only != nil {
			if d.Recv == nil {
				return nil
			}
			of := d.Recv.List[0].Type
			if p, ok := of.(*ast.StarExpr); ok {
				of = p.X
			}
			if name, ok := of.(*ast.Ident); !ok || !only[name.Name] {
				return nil
			}
		}
		d.Body = nil
		list = append(list, d)
	}
	return list
}

// What stable packages export is made of stable packages, and of those that reached gives a reason for. What package qwb has a name for
// counts where it is declared.
func TestSurface(t *testing.T) {
	found, aliases := map[string]bool{}, named(t)
	dirs := slices.Clone(stable)
	for dir := range aliases {
		if strings.HasPrefix(dir, work) {
			dirs = append(dirs, dir)
		}
	}
	require.Greater(t, len(dirs), len(stable)+10)
	for _, dir := range dirs {
		for _, f := range files(t, dir) {
			names, only := importsOf(f), map[string]bool(nil)
			if strings.HasPrefix(dir, work) {
				only = aliases[dir]
			}
			ast.FileExports(f)
			see := func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := s.X.(*ast.Ident); ok {
					p := names[x.Name]
					switch {
					case p == "" || slices.Contains(stable, p):
					case strings.HasPrefix(p, work):
						assert.True(t, aliases[p][s.Sel.Name], "%s exports %s, which has no name in package qwb", dir, x.Name+"."+s.Sel.Name)
					default:
						found[p] = true
						assert.NotEmpty(t, reached[p], "%s exports something of %s, which is not stable", dir, x.Name+"."+s.Sel.Name)
					}
				}
				return true
			}
			for _, d := range f.Decls {
				for _, n := range shown(d, only) {
					ast.Inspect(n, see)
				}
			}
		}
	}
	for p := range reached {
		require.True(t, found[p], "%s: nothing stable speaks of it any more", p)
	}
}
