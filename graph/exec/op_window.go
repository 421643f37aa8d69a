package exec

import (
	"errors"
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// hann, hamming and blackman are the values of a window at t turns, 0 at its beginning and 1 at its end; the constants are
// those of ONNX.
func hann(t float64) float64 { s := math.Sin(math.Pi * t); return s * s }

func hamming(t float64) float64 { return 25.0/46 - 21.0/46*math.Cos(2*math.Pi*t) }

func blackman(t float64) float64 {
	return 0.42 - 0.5*math.Cos(2*math.Pi*t) + 0.08*math.Cos(4*math.Pi*t)
}

// windowFunc makes windows of a size; the end is the element after the last where periodic, else the last. The only element
// of a window that is not periodic is 1.
func windowFunc(f func(t float64) float64) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, _ int64) (evalFunc, error) {
		periodic := n.AttrInt("periodic", 1) != 0
		return func(c *call) error {
			size, err := scalarInt(c.in(0))
			if err != nil {
				return err
			}
			if _, err := checkedLen([]int{size}); err != nil {
				return err
			}
			values := make([]float64, size)
			turns := float64(size)
			if !periodic {
				turns--
			}
			for i := range values {
				if values[i] = 1; turns > 0 {
					values[i] = f(float64(i) / turns)
				}
			}
			return c.outNumbers(values, []int{size})
		}, nil
	}
}

// outNumbers makes output 0, of the inferred element type, of values.
func (c *call) outNumbers(values []float64, shape []int) error {
	d := c.typ[0].dtype
	data, err := castTo(d, &tensor.Tensor{DType: tensor.Float64, Shape: shape, Data: values})
	if err != nil {
		return err
	}
	out, err := c.outAs(0, d, shape, tensor.RowMajor)
	if err != nil {
		return err
	}
	copyElements(out.Data, 0, data, 0, len(values))
	return nil
}

// buildMelWeights makes a matrix [bins of a spectrum, bands] of triangles whose corners are equally far apart in mel,
// 2595*log10(1 + Hz/700).
func buildMelWeights(*graph.Node, int64) (evalFunc, error) {
	return func(c *call) error {
		var n [3]int // bands, length of the transform, samples per second
		for i := range n {
			var err error
			if n[i], err = scalarInt(c.in(i)); err != nil {
				return err
			}
		}
		var edge [2]float64
		for i := range edge {
			var err error
			if edge[i], err = scalarFloat(c.in(3 + i)); err != nil {
				return fmt.Errorf("input %d: %w", 3+i, err)
			}
		}
		if n[0] < 0 || n[1] < 0 || n[2] < 1 || n[0] > maxElements || n[1] > maxElements || !(edge[0] >= 0 && edge[1] >= edge[0]) {
			return fmt.Errorf("%d bands from %g to %g Hz, transforms of %d, %d samples per second", n[0], edge[0], edge[1], n[1], n[2])
		}
		bins := n[1]/2 + 1
		if _, err := checkedLen([]int{bins, n[0]}); err != nil {
			return err
		}
		corners, err := melCorners(n[0], n[1], n[2], bins, edge)
		if err != nil {
			return err
		}
		values := make([]float64, bins*n[0])
		for band := range n[0] {
			left, top, right := corners[band], corners[band+1], corners[band+2]
			for k := left; k < top; k++ {
				values[k*n[0]+band] = float64(k-left) / float64(top-left)
			}
			values[top*n[0]+band] = 1
			for k := top + 1; k < right; k++ {
				values[k*n[0]+band] = float64(right-k) / float64(right-top)
			}
		}
		return c.outNumbers(values, []int{bins, n[0]})
	}, nil
}

// melCorners returns the bins of the corners of the bands.
func melCorners(bands, length, rate, bins int, edge [2]float64) ([]int, error) {
	mel := func(hz float64) float64 { return 2595 * math.Log1p(hz/700) / math.Ln10 }
	low, step := mel(edge[0]), (mel(edge[1])-mel(edge[0]))/float64(bands+2)
	corners := make([]int, bands+2)
	for i := range corners {
		hz := 700 * math.Expm1((low+float64(i)*step)/2595*math.Ln10)
		bin := math.Floor(float64(length+1) * hz / float64(rate))
		if bin >= float64(bins) && i <= bands || bin > float64(bins) {
			return nil, fmt.Errorf("%g Hz is beyond the spectrum of %d bins", hz, bins)
		}
		corners[i] = int(bin)
	}
	return corners, nil
}

func scalarFloat(t *tensor.Tensor) (float64, error) {
	if t.Len() == 1 {
		switch d := t.Data.(type) {
		case []float32:
			return float64(d[0]), nil
		case []float64:
			return d[0], nil
		}
	}
	return 0, errors.New("one float expected, got " + t.Type())
}
