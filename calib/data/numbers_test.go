package data

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// found are the findings of samples, a line each.
func found(spec InputSpec, samples ...*exec.Sample) (list []string) {
	d := NewDoctor(spec, nil, nil)
	for _, s := range samples {
		d.Observe(s)
	}
	for _, f := range d.Findings() {
		list = append(list, fmt.Sprintf("%s %s %s: %s", f.Level, f.Rule, f.Node, f.Text))
	}
	return list
}

// A value that is no number is named with its sample, input and element; a mask of -Inf is none.
func TestValuesThatAreNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	fine := func(name string) *exec.Sample { return sample(name, tensor.FromF32([]float32{0, 1, 2, 3}, 1, 2, 2)) }
	bad := sample("bad", tensor.FromF32([]float32{0, 1, inf, 3}, 1, 2, 2))
	require.Equal(t, []string{`hint not-finite x: values are not finite in 1 of 2 samples (first: sample bad, ` +
		`element [0 1 0] of input "x" is infinite)`}, found(input("x", 1, 2, 2), fine("a"), bad))
	nan := sample("none", tensor.FromF32([]float32{0, inf, 2, float32(math.NaN())}, 1, 2, 2))
	require.Equal(t, []string{`fault not-finite x: values are not finite in 2 of 3 samples (first: sample none, ` +
		`element [0 1 1] of input "x" is NaN)`}, found(input("x", 1, 2, 2), fine("a"), bad, nan))
	mask := func(name string, at int) *exec.Sample {
		x := []float32{0, 0, 0, float32(at)}
		x[at] = -inf
		return sample(name, tensor.FromF32(x, 1, 2, 2))
	}
	require.Empty(t, found(input("x", 1, 2, 2), mask("a", 0), mask("b", 1), mask("c", 2)))
	half := &tensor.Tensor{DType: tensor.Float16, Shape: []int{2}, Data: []uint16{0x3c00, 0x7c00}}
	bads := NotFinites(&exec.Sample{Name: "h", Feeds: map[string]*tensor.Tensor{"x": half}}, []string{"y", "x"})
	require.Len(t, bads, 1)
	require.Equal(t, `element [1] of input "x" is infinite`, bads[0].String())
}

// Whole numbers that never vary, and inputs of which there was not a single element.
func TestInputsThatShowNothing(t *testing.T) {
	ids := InputSpec{{Name: "x", DType: tensor.Int64, Shape: input("x", 1, 3)[0].Shape}}
	of := func(name string, x ...int64) *exec.Sample { return sample(name, tensor.FromI64(x, 1, len(x))) }
	require.Equal(t, []string{"hint constant x: every element is 1 in all of 2 samples"}, found(ids, of("a", 1, 1, 1), of("b", 1, 1)))
	require.Empty(t, found(ids, of("a", 1, 1, 1), of("b", 2, 2)), "it varies from sample to sample")
	require.Empty(t, found(ids, of("a", 1, 1), of("b", 1, 1, 0)))
	require.Empty(t, found(ids, of("a", 16000)), "a number says nothing")
	truth := func(name string, x ...bool) *exec.Sample {
		return sample(name, &tensor.Tensor{DType: tensor.Bool, Shape: []int{len(x)}, Data: x})
	}
	require.Equal(t, []string{"hint constant x: every element is true in all of 2 samples"},
		found(InputSpec{{Name: "x", DType: tensor.Bool, Shape: input("x", 2)[0].Shape}}, truth("a", true, true), truth("b", true, true, true)))

	past := func(name string, n int) *exec.Sample { return sample(name, tensor.New(tensor.Float32, 1, n, 4)) }
	require.Contains(t, found(input("x", 1, -1, 4), past("a", 0), past("b", 0)), "fault empty x: the input has no element in any of 2 "+
		"samples: none of its numbers was seen")
	require.NotContains(t, fmt.Sprint(found(input("x", 1, -1, 4), past("a", 0), past("b", 2))), "empty")
}

// One sample that reaches much farther than all others is named.
func TestOutlyingSample(t *testing.T) {
	var list []*exec.Sample
	for i := range 5 {
		list = append(list, sample(fmt.Sprint("s", i), tensor.FromF32([]float32{-1, 0, float32(i), 2}, 1, 4)))
	}
	require.Empty(t, found(input("x", 1, 4), list...))
	list = append(list, sample("far", tensor.FromF32([]float32{-1e30, 0, 1, 2}, 1, 4)))
	require.Contains(t, fmt.Sprint(found(input("x", 1, 4), list...)),
		"hint outlier x: sample far reaches 1e+30, 2.5e+29 times as far as any other")
}
