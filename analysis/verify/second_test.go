package verify_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// data are the names of package lower that this package reads: types of plain data and two constants. Its functions and methods
// would make a second derivation the first one again.
var data = []string{"Average", "Clamp", "Concat", "Dequantize", "Island", "Linear", "MaxPool", "Move", "NoTensor", "Product", "Program",
	"Quantize", "Requantization", "Requantize", "Select", "Simulated", "Softmax", "Step", "StepID", "Sum", "Table", "Tensor", "TensorID", "Weights"}

func TestTheSecondDerivationUsesNoFunctionOfLower(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	allowed := map[string]bool{}
	for _, name := range data {
		allowed[name] = true
	}
	methods := map[string]bool{"Grid": true, "Quantized": true, "For": true, "Offset": true, "Each": true, "PerChannel": true, "Empty": true, "Saturates": true}
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
