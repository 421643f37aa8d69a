package analysis

import (
	"fmt"
	"math"

	"qwb/graph/tensor"
)

// nsrFloor keeps the noise-to-signal ratio finite where the signal is zero, as in PPQ's torch_snr_error.
const nsrFloor = 1e-7

// meter averages Error over samples; samples are added in order, so that the sums do not depend on scheduling.
type meter struct {
	sum Error
	n   int
}

func (m *meter) add(e Error) {
	m.sum.NSR += e.NSR
	m.sum.MSE += e.MSE
	m.sum.Cosine += e.Cosine
	m.n++
}

// mean returns the average over the samples; without samples, an error of zero.
func (m *meter) mean() Error {
	if m.n == 0 {
		return Error{Cosine: 1}
	}
	n := float64(m.n)
	return Error{NSR: m.sum.NSR / n, MSE: m.sum.MSE / n, Cosine: m.sum.Cosine / n}
}

// Compare returns the error of q against f for one sample. Both are float32 tensors of the same shape; sums are float64.
// NSR = sum((q-f)^2) / (sum(f^2) + 1e-7), MSE = sum((q-f)^2) / n, Cosine = <q,f> / (|q||f|), 1 where both are zero and 0 where
// one of them is. An empty tensor has no error.
func Compare(q, f *tensor.Tensor) (Error, error) {
	x, y, err := aligned(q, f)
	if err != nil {
		return Error{}, err
	}
	var noise, signal, other, dot float64
	for i := range y {
		a, b := float64(x[i]), float64(y[i])
		d := a - b
		noise += d * d
		signal += b * b
		other += a * a
		dot += a * b
	}
	e := Error{NSR: noise / (signal + nsrFloor), Cosine: cosine(dot, other, signal)}
	if len(y) > 0 {
		e.MSE = noise / float64(len(y))
	}
	return e, nil
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

// parts splits the noise of q against f at intermediate results: with steps f = s0, s1, ..., sn = q, part k is the
// projection <s(k)-s(k-1), q-f> / (sum(f^2) + 1e-7), so that the parts sum to the NSR of q.
func parts(f *tensor.Tensor, steps ...*tensor.Tensor) ([]float64, error) {
	data := make([][]float32, len(steps)+1)
	for i, s := range steps {
		x, y, err := aligned(s, f)
		if err != nil {
			return nil, err
		}
		data[0], data[i+1] = y, x
	}
	last := data[len(data)-1]
	out := make([]float64, len(steps))
	var signal float64
	for i, b := range data[0] {
		whole := float64(last[i]) - float64(b)
		signal += float64(b) * float64(b)
		for k := range out {
			out[k] += (float64(data[k+1][i]) - float64(data[k][i])) * whole
		}
	}
	for k := range out {
		out[k] /= signal + nsrFloor
	}
	return out, nil
}

// aligned returns the elements of two float32 tensors of one shape in the same order.
func aligned(q, f *tensor.Tensor) (x, y []float32, err error) {
	if q.DType != tensor.Float32 || f.DType != tensor.Float32 || q.Len() != f.Len() {
		return nil, nil, fmt.Errorf("cannot compare %s with %s", q.Type(), f.Type())
	}
	if q.Layout != f.Layout {
		q, f = q.ToRowMajor(), f.ToRowMajor()
	}
	return q.F32(), f.F32(), nil
}
