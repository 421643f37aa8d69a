package analysis

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// rows are this processor's; all give the same sums.
var rows = sync.OnceValue(func() *kernels.Table { return kernels.Select(cpu.Detect()) })

// nsrFloor keeps the noise-to-signal ratio finite where the signal is zero, as in PPQ's torch_snr_error.
const nsrFloor = 1e-7

// meter averages Error over samples; samples are added in order, so that the sums do not depend on scheduling.
type meter struct {
	sum    Error
	nsr    []float64 // by sample, 0 of those left out
	n      int
	in     []float64 // the same without those
	blocks Blocks    // of the samples
	of     Blocks    // of in
}

func (m *meter) add(e Error) {
	m.sum.NSR += e.NSR
	m.sum.MSE += e.MSE
	m.sum.Cosine += e.Cosine
	if m.blocks != nil {
		m.of = append(m.of, m.blocks[len(m.nsr)])
	}
	m.nsr, m.in = append(m.nsr, e.NSR), append(m.in, e.NSR)
	m.n++
}

// addUnless leaves out an empty sample.
func (m *meter) addUnless(empty bool, e Error) {
	if !empty {
		m.add(e)
		return
	}
	m.nsr = append(m.nsr, 0)
}

// spread says how sure the mean NSR is.
func (m *meter) spread() Spread { return NewSpread(m.of.Estimate(m.in)) }

// mean returns the average over the samples; without samples, an error of zero.
func (m *meter) mean() Error {
	if m.n == 0 {
		return Error{Cosine: 1}
	}
	n := float64(m.n)
	return Error{NSR: m.sum.NSR / n, MSE: m.sum.MSE / n, Cosine: m.sum.Cosine / n}
}

// Compare returns the error of q against f for one sample. Both are float tensors of the same shape, compared as float32; sums are float64,
// added in the order that kernels/ref.Compare states, over the elements as they lie in memory, row-major where the layouts differ.
// NSR = sum((q-f)^2) / (sum(f^2) + 1e-7), MSE = sum((q-f)^2) / n, Cosine = <q,f> / (|q||f|), 1 where both are zero and 0 where
// one of them is. An empty tensor has no error. Infinite values that are the same in both are left out; others, and NaN, are an error.
func Compare(q, f *tensor.Tensor) (Error, error) {
	x, y, err := aligned(q, f)
	if err != nil {
		return Error{}, err
	}
	noise, signal, other, dot := rows().Compare(x, y)
	if !finite(noise + signal + other) {
		rest := finites(x, y)
		x, y = rest[0], rest[1]
		if noise, signal, other, dot = rows().Compare(x, y); !finite(noise + signal + other) {
			return Error{}, ErrNotFinite
		}
	}
	e := Error{NSR: noise / (signal + nsrFloor), Cosine: cosine(dot, other, signal)}
	if len(y) > 0 {
		e.MSE = noise / float64(len(y))
	}
	return e, nil
}

// finites leaves out of all lists the elements that are the same infinite value in the first two.
func finites(lists ...[]float32) [][]float32 {
	out := make([][]float32, len(lists))
	for i, a := range lists[0] {
		if a == lists[1][i] && math.IsInf(float64(a), 0) {
			continue
		}
		for k := range lists {
			out[k] = append(out[k], lists[k][i])
		}
	}
	return out
}

func cosine(dot, qq, ff float64) float64 {
	switch {
	case qq == 0 && ff == 0:
		return 1
	case qq == 0 || ff == 0:
		return 0
	}
	return dot / (math.Sqrt(qq) * math.Sqrt(ff))
}

// Mismatch returns the share of differing elements of two tensors of an integer or boolean type, 1 where the shapes differ.
func Mismatch(q, f *tensor.Tensor) float64 {
	q, f = q.ToRowMajor(), f.ToRowMajor()
	switch x := q.Data.(type) {
	case []int64:
		return mismatch(x, tensor.Of[int64](f))
	case []int32:
		return mismatch(x, tensor.Of[int32](f))
	case []int8:
		return mismatch(x, tensor.Of[int8](f))
	case []uint8:
		return mismatch(x, tensor.Of[uint8](f))
	case []bool:
		return mismatch(x, tensor.Of[bool](f))
	}
	if tensor.Equal(q, f) {
		return 0
	}
	return 1
}

func mismatch[T comparable](a, b []T) float64 {
	if len(a) != len(b) {
		return 1
	}
	if len(a) == 0 {
		return 0
	}
	n := 0
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return float64(n) / float64(len(a))
}

// parts splits the noise of q against f at an intermediate result: of the chain f -> middle -> q each part is the projection of
// its step on the whole, <middle-f, q-f> and <q-middle, q-f>, over sum(f^2) + 1e-7, so that the parts sum to the NSR of q.
// middle may be f itself.
func parts(f, middle, q *tensor.Tensor) (first, second float64, err error) {
	if middle.Layout != f.Layout || q.Layout != f.Layout {
		middle, q, f = middle.ToRowMajor(), q.ToRowMajor(), f.ToRowMajor()
	}
	xs, ys, err := aligned(middle, f)
	if err != nil {
		return 0, 0, err
	}
	zs, _, err := aligned(q, f)
	if err != nil {
		return 0, 0, err
	}
	if first, second = partsOf(zs, ys, xs, middle == f); !finite(first + second) {
		rest := finites(zs, ys, xs)
		if first, second = partsOf(rest[0], rest[1], rest[2], middle == f); !finite(first + second) {
			return 0, 0, ErrNotFinite
		}
	}
	return first, second, nil
}

func partsOf(q, f, middle []float32, one bool) (first, second float64) {
	var signal float64
	if one {
		second, signal, _, _ = rows().Compare(q, f)
	} else {
		signal, first, second = rows().Parts(q, f, middle)
	}
	return first / (signal + nsrFloor), second / (signal + nsrFloor)
}

// ErrNotFinite is the error of a comparison with an infinite value or NaN in it.
var ErrNotFinite = errors.New("there are values that are not finite: their error is no number")

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// aligned returns the elements of two float tensors of one shape in the same order, as float32.
func aligned(q, f *tensor.Tensor) (x, y []float32, err error) {
	if !q.DType.IsFloat() || !f.DType.IsFloat() || q.Len() != f.Len() {
		return nil, nil, fmt.Errorf("cannot compare %s with %s", q.Type(), f.Type())
	}
	if q, f = exec.Floats(q), exec.Floats(f); q.Layout != f.Layout {
		q, f = q.ToRowMajor(), f.ToRowMajor()
	}
	return q.F32(), f.F32(), nil
}
