package lower_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/lower"
)

// The table has every type that says what it is, in the text form of a program, once, and no operator twice.
func TestEveryOperationHasARow(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var types []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if m, ok := d.(*ast.FuncDecl); ok && m.Name.Name == "describe" && m.Recv != nil {
				types = append(types, m.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name)
			}
		}
	}
	var names, ops []string
	for _, o := range lower.Operators() {
		names, ops = append(names, o.Name), append(ops, o.Ops...)
		require.NotEmpty(t, o.Doc)
	}
	require.ElementsMatch(t, types, names)
	slices.Sort(ops)
	require.Equal(t, slices.Compact(slices.Clone(ops)), ops)
	require.Greater(t, len(ops), 40)
}

type maker struct{}

// A row is for its type, and of that for the operators that it names.
func TestRows(t *testing.T) {
	all := lower.Rows[maker, string]{
		lower.For(func(_ maker, _ *lower.Step, op *lower.Clamp) (string, error) { return "clamp", nil }),
		lower.For(func(_ maker, _ *lower.Step, op *lower.Average) (string, error) { return op.Kind, nil }).Of("ReduceMean"),
	}
	for want, op := range map[string]lower.Op{"clamp": &lower.Clamp{}, "ReduceMean": &lower.Average{Kind: "ReduceMean"}} {
		got, ok, err := all.Make(maker{}, &lower.Step{Op: op})
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, got)
		require.True(t, lower.Has(all.Own(), lower.NameOf(op), op.Name()))
	}
	for _, op := range []lower.Op{&lower.Average{Kind: "AveragePool"}, &lower.Softmax{}} {
		_, ok, err := all.Make(maker{}, &lower.Step{Op: op})
		require.NoError(t, err)
		require.False(t, ok)
		require.False(t, lower.Has(all.Own(), lower.NameOf(op), op.Name()))
	}
	but := lower.For(func(maker, *lower.Step, *lower.Move) (string, error) { return "", nil }).But("ReduceMax")
	require.NotContains(t, but.Ops, "ReduceMax")
	require.Contains(t, but.Ops, "Transpose")
}
