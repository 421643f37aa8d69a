package tune

import (
	"fmt"
	"slices"
	"sync"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// moment says how an operator's output on one sample differs from the float one, e = quantized - float: by channel the sum of e, how many
// elements a channel has, the sum of e^2 over all, and the sum of the squared float outputs.
type moment struct {
	sums    []float64
	count   int
	errors  float64
	squares float64
}

// rows are the kernels of this processor.
var rows = sync.OnceValue(func() *kernels.Table { return kernels.Select(cpu.Detect()) })

// tiny keeps outputs that are zero from making a ratio infinite.
const tiny = 1e-7

// momentOf compares two outputs of one shape, whose channels lie along axis (-1: the last). The sums of a channel are added in the order
// in which its elements lie in memory, squares in that of ref.Compare; tensors of different layouts are compared row-major.
func momentOf(q, f *tensor.Tensor, axis int) (moment, error) {
	if !slices.Equal(q.Shape, f.Shape) || q.DType != tensor.Float32 || f.DType != tensor.Float32 {
		return moment{}, fmt.Errorf("the quantized output is %s, the float one %s", q.Type(), f.Type())
	}
	if q.Layout != f.Layout {
		q, f = q.ToRowMajor(), f.ToRowMajor()
	}
	axis, ok := graph.Axis(axis, len(q.Shape))
	if !ok {
		return moment{}, fmt.Errorf("an output %s without channels", q.Type())
	}
	outer, n, inner := q.Blocks(axis)
	m := moment{sums: make([]float64, n), count: outer * inner}
	x, y := q.F32(), f.F32()
	m.errors, m.squares, _, _ = rows().Compare(x, y)
	if inner == 1 {
		rows().AddDifferences(m.sums, x, y)
		return m, nil
	}
	for ; len(x) > 0; x, y = x[n*inner:], y[n*inner:] {
		c := 0
		for ; c+4 <= n; c += 4 {
			sumFour(m.sums[c:], x[c*inner:], y[c*inner:], inner)
		}
		for ; c < n; c++ {
			sum, at := 0.0, y[c*inner:]
			for i, v := range x[c*inner:][:inner] {
				sum += float64(v) - float64(at[i])
			}
			m.sums[c] += sum
		}
	}
	return m, nil
}

// sumFour adds the differences of four channels, each in its order: the processor need not wait for the sum of one.
func sumFour(sums []float64, x, y []float32, n int) {
	var a, b, c, d float64
	x0, x1, x2, x3 := x[:n], x[n:][:n], x[2*n:][:n], x[3*n:][:n]
	y0, y1, y2, y3 := y[:n], y[n:][:n], y[2*n:][:n], y[3*n:][:n]
	for i := range x0 {
		a += float64(x0[i]) - float64(y0[i])
		b += float64(x1[i]) - float64(y1[i])
		c += float64(x2[i]) - float64(y2[i])
		d += float64(x3[i]) - float64(y3[i])
	}
	sums[0], sums[1], sums[2], sums[3] = sums[0]+a, sums[1]+b, sums[2]+c, sums[3]+d
}

// moment compares two outputs of a sample, which are value v, where they are no padding.
func (s *state) moment(v graph.ValueID, q, f *tensor.Tensor, axis int) (moment, error) {
	if !s.padded.Touches(v) {
		return momentOf(q, f, axis)
	}
	m, err := momentOf(s.padded.Filled(v, q, 0), s.padded.Filled(v, f, 0), axis)
	if err == nil && q.Len() > 0 {
		m.count = m.count * s.padded.Elements(v, q) / q.Len()
	}
	return m, err
}

// padding is where samples with a mask are padded, nil without a mask, or where the reference has it no more.
func (b *Bench) padding(mask string) *graph.Padding {
	if mask == "" {
		return nil
	}
	if b.found == nil || b.found.of != b.Reference || b.found.mask != mask {
		p, _ := graph.FindPadding(b.Reference, mask)
		b.found = &found{b.Reference, mask, p}
	}
	return b.found.padding
}

// found is the padding of a graph by a mask.
type found struct {
	of      *graph.Graph
	mask    string
	padding *graph.Padding
}

// shifted is the moment after delta is added to every element, by channel: that changes the sum of squared errors of a channel by
// 2 delta sum(e) + n delta^2.
func (m *moment) shifted(delta []float64) moment {
	out := moment{sums: slices.Clone(m.sums), count: m.count, errors: m.errors, squares: m.squares}
	var d float64
	for c, x := range delta {
		n := float64(float64(m.count) * x)
		d += float64(2*x*m.sums[c]) + float64(n*x)
		out.sums[c] += n
	}
	out.errors += d
	return out
}

// nsr is the squared error as a share of the squared float output.
func (m *moment) nsr() float64 { return m.errors / (m.squares + tiny) }

// leftOver is the mean error of each channel over samples, turned round.
func leftOver(list []moment) []float64 {
	if len(list) == 0 {
		return nil
	}
	delta := make([]float64, len(list[0].sums))
	count := 0
	for i := range list {
		for c, s := range list[i].sums {
			delta[c] -= s
		}
		count += list[i].count
	}
	for c := range delta {
		delta[c] /= float64(max(count, 1))
	}
	return delta
}
