package verify_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// data lists the names of package lower that this package may read: types of plain data and constants. Its functions and methods would
// make a second derivation the first one again.
func data(t *testing.T) map[string]bool {
	files, err := filepath.Glob("../../quantizer/lower/*.go")
	require.NoError(t, err)
	names := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && (g.Tok == token.TYPE || g.Tok == token.CONST) {
				for _, s := range g.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = true
					case *ast.ValueSpec:
						names[s.Names[0].Name] = true
					}
				}
			}
		}
	}
	require.True(t, names["Linear"] && names["NoTensor"] && !names["Compile"] && !names["Narrow"])
	return names
}

// methods lists those of the types of package lower, but for those that name things and the one that says which tensors are compared.
func methods(t *testing.T) map[string]bool {
	files, err := filepath.Glob("../../quantizer/lower/*.go")
	require.NoError(t, err)
	names := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.IsExported() &&
				!slices.Contains([]string{"Name", "String", "Error", "Unwrap", "Counts"}, f.Name.Name) {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}

func TestTheSecondDerivationUsesNoFunctionOfLower(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	allowed, methods := data(t), methods(t)
	seen := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if s, ok := call.Fun.(*ast.SelectorExpr); ok && methods[s.Sel.Name] {
					_, plain := s.X.(*ast.SelectorExpr) // l.set.Grid is the plan's
					require.Truef(t, plain && s.Sel.Name == "Grid" || quantizedOnly(s), "%s calls method %s", file, s.Sel.Name)
				}
			}
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "lower" {
				seen++
				require.Truef(t, allowed[s.Sel.Name], "%s uses lower.%s", file, s.Sel.Name)
			}
			return true
		})
	}
	require.Positive(t, seen)
}

// quantizedOnly allows Tensor.Quantized, which says no more than that there is an encoding.
func quantizedOnly(s *ast.SelectorExpr) bool { return s.Sel.Name == "Quantized" }
