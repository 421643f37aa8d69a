// Package docs_test holds the documents to the repository: links resolve, names that are mentioned exist, and the import order
// of ARCHITECTURE.md is the one that is enforced.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = ".."

// documents returns the texts of all documents by path from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/*.md", "examples/*/measured/*.md", "cmd/*/measured/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, p := range paths {
			b, err := os.ReadFile(p)
			require.NoError(t, err)
			out[p] = string(b)
		}
	}
	require.Greater(t, len(out), 10)
	return out
}

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)]*))?\)`)
	code    = regexp.MustCompile("(?s)```.*?```") // Of[T](x) is no link
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^\w\- ]`)
)

// TestLinksResolve: the files are there, and so are the headings behind a #.
func TestLinksResolve(t *testing.T) {
	all := documents(t)
	for path, text := range all {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			to := path
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(path), m[1])
				assert.FileExists(t, to, "%s links to it", path)
			}
			if m[2] != "" {
				assert.Contains(t, anchors(all[to]), m[2], "%s links to it in %s", path, to)
			}
		}
	}
}

// anchors are what a link can name of a document, as GitHub makes them of its headings.
func anchors(text string) (out []string) {
	for _, m := range heading.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		out = append(out, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

// TestEveryDocumentIsReachable follows links from docs/index.md, where the README sends its readers.
func TestEveryDocumentIsReachable(t *testing.T) {
	all := documents(t)
	start := filepath.Join(root, "docs", "index.md")
	assert.Contains(t, all[filepath.Join(root, "README.md")], "](docs/index.md)")
	reached, queue := map[string]bool{start: true, filepath.Join(root, "README.md"): true}, []string{start}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(all[path], ""), -1) {
			next := filepath.Join(filepath.Dir(path), m[1])
			if _, ok := all[next]; ok && !reached[next] {
				reached[next] = true
				queue = append(queue, next)
			}
		}
	}
	for path := range all {
		assert.True(t, reached[path], "no way of links leads from docs/index.md to %s", path)
	}
}

var (
	quoted     = regexp.MustCompile("`([^`\n]+)`")
	identifier = regexp.MustCompile(`^([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\.\w+)?$`)
	testName   = regexp.MustCompile(`^Test[A-Z]\w+$`)
	sourceFile = regexp.MustCompile(`^[a-z_]+(/[a-z_*]+)*/[\w*]+\.(go|txt)$`)
)

// TestNamesExist looks up every `package.Name`, every `TestName` and every `path/file.go` that the documents mention.
func TestNamesExist(t *testing.T) {
	declared, packages := declarations(t)
	for path, text := range documents(t) {
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			name := m[1]
			if id := identifier.FindStringSubmatch(name); id != nil && packages[id[1]] {
				assert.True(t, declared[id[1]+"."+id[2]], "%s mentions %s, which does not exist", path, name)
			}
			if testName.MatchString(name) {
				assert.True(t, declared[name], "%s mentions %s, which does not exist", path, name)
			}
			if sourceFile.MatchString(name) && !strings.Contains(name, "NAME") {
				found, err := filepath.Glob(filepath.Join(root, name))
				require.NoError(t, err)
				assert.NotEmpty(t, found, "%s mentions %s, which does not exist", path, name)
			}
		}
	}
}

// declarations returns what packages declare at their top level, as package.Name, test functions by name alone, and the names of the
// packages.
func declarations(t *testing.T) (declared, packages map[string]bool) {
	t.Helper()
	declared, packages = map[string]bool{}, map[string]bool{}
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != root && (name[0] == '.' || name[0] == '_' || name == "testdata") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		packages[f.Name.Name] = true
		for _, d := range f.Decls {
			for _, name := range namesOf(d) {
				declared[f.Name.Name+"."+name] = true
				if strings.HasPrefix(name, "Test") {
					declared[name] = true
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	return declared, packages
}

func namesOf(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// joined is a string that may be written in parts.
func joined(t *testing.T, e ast.Expr) string {
	t.Helper()
	if sum, ok := e.(*ast.BinaryExpr); ok {
		return joined(t, sum.X) + joined(t, sum.Y)
	}
	line, err := strconv.Unquote(e.(*ast.BasicLit).Value)
	require.NoError(t, err)
	return line
}

// TestImportOrder compares the import order in ARCHITECTURE.md with the list that internal/imports_test.go enforces.
func TestImportOrder(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "internal", "imports_test.go"), nil, 0)
	require.NoError(t, err)
	var lines []string
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != "layers" {
			return true
		}
		for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
			lines = append(lines, joined(t, e))
		}
		return false
	})
	require.NotEmpty(t, lines)
	text := documents(t)[filepath.Join(root, "ARCHITECTURE.md")]
	assert.Contains(t, text, "```\n"+strings.Join(lines, "\n")+"\n```\n")
}
