// Package graphtest helps tests to state graphs as text, to compare them and to make tensors.
//
// Unstable: it may change without notice.
package graphtest

import (
	"math/rand/v2"
	"strings"
	"testing"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Parse reads the text form of a graph and fails the test if it is malformed or violates the invariants of a graph.
func Parse(t testing.TB, text string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if err := g.Check(); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return g
}

// Equal fails the test unless the text forms of want (text, brought into canonical form) and got are the same.
func Equal(t testing.TB, want string, got *graph.Graph) {
	t.Helper()
	if w, g := graph.Format(Parse(t, want)), graph.Format(got); w != g {
		t.Fatalf("graphs differ (- wanted, + found):\n%s", diff(strings.Split(w, "\n"), strings.Split(g, "\n")))
	}
}

// diff marks the lines that only one side has, along a longest common subsequence.
func diff(a, b []string) string {
	lcs := make([][]int, len(a)+1)
	for i := range lcs {
		lcs[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				lcs[i][j] = lcs[i+1][j+1] + 1
			} else {
				lcs[i][j] = max(lcs[i+1][j], lcs[i][j+1])
			}
		}
	}
	var out strings.Builder
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out.WriteString("  " + a[i] + "\n")
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && lcs[i+1][j] >= lcs[i][j+1]:
			out.WriteString("- " + a[i] + "\n")
			i++
		default:
			out.WriteString("+ " + b[j] + "\n")
			j++
		}
	}
	return out.String()
}

// Normal returns a float32 tensor of normally distributed elements, mean 0 and standard deviation 1; the same seed gives the
// same elements.
func Normal(seed uint64, shape ...int) *tensor.Tensor {
	r := rand.New(rand.NewPCG(seed, 1))
	t := tensor.New(tensor.Float32, shape...)
	for i, data := 0, t.F32(); i < len(data); i++ {
		data[i] = float32(r.NormFloat64())
	}
	return t
}

// Uniform returns a float32 tensor of elements in [low, high); the same seed gives the same elements.
func Uniform(seed uint64, low, high float32, shape ...int) *tensor.Tensor {
	r := rand.New(rand.NewPCG(seed, 2))
	t := tensor.New(tensor.Float32, shape...)
	for i, data := 0, t.F32(); i < len(data); i++ {
		data[i] = low + float32(r.Float32()*(high-low))
	}
	return t
}

// Iota returns a float32 tensor with the elements 0, 1, 2, ...
func Iota(shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape...)
	for i := range t.F32() {
		t.F32()[i] = float32(i)
	}
	return t
}
