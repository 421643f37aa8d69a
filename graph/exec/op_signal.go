package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// signalEvals are operators of signal processing.
var signalEvals = []evaluator{
	{op: "DFT", build: buildDFT},
	{op: "STFT", build: buildSTFT},
	{op: "HannWindow", build: windowFunc(hann)},
	{op: "HammingWindow", build: windowFunc(hamming)},
	{op: "BlackmanWindow", build: windowFunc(blackman)},
	{op: "MelWeightMatrix", build: buildMelWeights},
}

// dft is a Fourier transform along an axis of numbers that are real (a last axis of 1) or complex (of 2).
type dft struct {
	inverse bool
	half    bool // the half of a spectrum that the other half follows from: the result, or what an inverse starts from
}

// buildDFT transforms complex numbers in their own precision and real ones in float64, so that what cancels does so to the last
// bit that a result has. It has the axis as an attribute before opset 20, as input 2 since.
func buildDFT(n *graph.Node, version int64) (evalFunc, error) {
	d := dft{n.AttrInt("inverse", 0) != 0, n.AttrInt("onesided", 0) != 0}
	return func(c *call) error {
		axis := n.Axis()
		if version >= 20 {
			axis = -2
			if c.has(2) {
				var err error
				if axis, err = scalarInt(c.in(2)); err != nil {
					return err
				}
			}
		}
		return c.inFloat(1, func() error {
			if x := c.in(0); d.inverse && d.half || x.Shape[len(x.Shape)-1] == 1 {
				return runDFT[float32, float64](c, d, axis)
			}
			return runDFT[float32, float32](c, d, axis)
		}, func() error { return runDFT[float64, float64](c, d, axis) })
	}, nil
}

func runDFT[T, F float](c *call, d dft, axis int) error {
	x := c.in(0)
	last := len(x.Shape) - 1
	if last < 1 || x.Shape[last] != 1 && x.Shape[last] != 2 {
		return fmt.Errorf("the last axis of %s is neither 1 (real) nor 2 (complex)", x.Type())
	}
	axis, err := axisIn(axis, last+1)
	if err != nil {
		return err
	}
	if axis == last {
		return fmt.Errorf("axis %d of %s cannot be transformed", axis, x.Type())
	}
	length := x.Shape[axis]
	if d.inverse && d.half {
		length = 2 * (length - 1)
	}
	if c.has(1) {
		if length, err = scalarInt(c.in(1)); err != nil {
			return err
		}
	}
	if length < 1 {
		return fmt.Errorf("a transform of length %d", length)
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	src, dst := spectraOf[T](x, axis), spectraOf[T](out, axis)
	if len(dst.data) == 0 {
		return nil
	}
	shared := newFourier[F](length)
	c.parallel(dst.outer*dst.inner, 32*length, func(lo, hi int) {
		f, line := shared.clone(), make([]point[F], length)
		for i := lo; i < hi; i++ {
			readLine(line, src, i)
			transform(d, f, line)
			writeLine(dst, i, line)
		}
	})
	return nil
}

// transform transforms one line in place. The half of a spectrum is completed first.
func transform[T float](d dft, f *fourier[T], line []point[T]) {
	if !d.inverse {
		f.forward(line)
		return
	}
	if n := len(line); d.half {
		line[0].im = 0
		for k := 1; 2*k <= n; k++ {
			if 2*k == n {
				line[k].im = 0
			}
			line[n-k] = point[T]{line[k].re, -line[k].im}
		}
	}
	f.inverse(line)
}

// spectra are the lines along an axis of a tensor whose last axis is 1 or 2.
type spectra[T float] struct {
	data                    []T
	outer, n, inner, values int
}

func spectraOf[T float](t *tensor.Tensor, axis int) spectra[T] {
	last := len(t.Shape) - 1
	outer, n, inner := blocks(t.Shape[:last], axis)
	return spectra[T]{tensor.Of[T](t), outer, n, inner, t.Shape[last]}
}

// at returns the offset of the first element of line i, and from element to element.
func (s spectra[T]) at(i int) (first, step int) {
	return (i/s.inner*s.n*s.inner + i%s.inner) * s.values, s.inner * s.values
}

// readLine fills line with the elements of line i of s, 0 beyond their end.
func readLine[T, F float](line []point[F], s spectra[T], i int) {
	at, step := s.at(i)
	clear(line)
	for k := range min(len(line), s.n) {
		line[k].re = F(s.data[at])
		if s.values == 2 {
			line[k].im = F(s.data[at+1])
		}
		at += step
	}
}

// writeLine sets line i of s to the first elements of line.
func writeLine[T, F float](s spectra[T], i int, line []point[F]) {
	at, step := s.at(i)
	for _, v := range line[:s.n] {
		s.data[at] = T(v.re)
		if s.values == 2 {
			s.data[at+1] = T(v.im)
		}
		at += step
	}
}

// buildSTFT transforms frames of a signal, each times a window, that begin a step apart.
func buildSTFT(*graph.Node, int64) (evalFunc, error) {
	return func(c *call) error {
		if w := c.raw(2); w != nil && w.DType != c.raw(0).DType {
			return badType(2, w.DType)
		}
		return c.inFloat(1, func() error { return runSTFT[float32](c) }, func() error { return runSTFT[float64](c) })
	}, nil
}

func runSTFT[T float](c *call) error {
	x := c.in(0)
	step, err := scalarInt(c.in(1))
	if err != nil {
		return err
	}
	length, parts := x.Shape[1], 1
	if len(x.Shape) > 2 {
		parts = x.Shape[2]
	}
	var window []T
	if w := c.in(2); w != nil {
		window = tensor.Of[T](w)
		length = len(window)
	}
	if c.has(3) {
		if length, err = scalarInt(c.in(3)); err != nil {
			return err
		}
	}
	if step < 1 || length < 1 || length > x.Shape[1] || window != nil && len(window) != length || parts != 1 && parts != 2 {
		return fmt.Errorf("frames of %d, %d apart, of %s, and a window of %d", length, step, x.Type(), len(window))
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	frames := out.Shape[1]
	dst := spectraOf[T](out, 2)
	shared := newFourier[float64](length)
	c.parallel(x.Shape[0]*frames, 32*length, func(lo, hi int) {
		f, line := shared.clone(), make([]point[float64], length)
		for i := lo; i < hi; i++ {
			first := (i/frames*x.Shape[1] + i%frames*step) * parts
			frame := spectra[T]{tensor.Of[T](x)[first:], 1, length, 1, parts}
			readLine(line, frame, 0)
			for k, w := range window {
				line[k] = point[float64]{line[k].re * float64(w), line[k].im * float64(w)}
			}
			f.forward(line)
			writeLine(dst, i, line)
		}
	})
	return nil
}
