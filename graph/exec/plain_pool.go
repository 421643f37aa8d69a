package exec

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

var plainPoolEvals = []evaluator{
	{"MaxPool", simple(plainMaxPool)},
	{"AveragePool", buildPlainAverage},
	{"LpPool", buildPlainLp},
	{"GlobalAveragePool", plainGlobal(func(x []float64) float64 {
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		return sum / float64(len(x))
	})},
	{"GlobalMaxPool", plainGlobal(func(x []float64) float64 { return maxOf.float(func(i int) float64 { return x[i] }, len(x)) })},
	{"GlobalLpPool", func(n *graph.Node, version int64) (evalFunc, error) {
		p := normOrder(n, version)
		return plainGlobal(func(x []float64) float64 { return lpNorm(x, p) })(n, version)
	}},
}

// plainPool prepares a pool.
func plainPool(c *call) (*sweep, []float64, error) {
	geo, err := graph.PoolGeometry(c.node, graph.Static(c.in(0).Shape...))
	if err != nil {
		return nil, nil, err
	}
	return newSweep(geo), c.f64(0), nil
}

// plainMaxPool serves all types through float64, which holds those that are allowed exactly. Indices are those of maxIndices.
func plainMaxPool(c *call) error {
	s, src, err := plainPool(c)
	if err != nil {
		return err
	}
	dst, set, err := c.outF64(0)
	if err != nil {
		return err
	}
	var indices []int64
	if c.wants(1) {
		t, err := c.out(1)
		if err != nil {
			return err
		}
		indices = t.I64()
	}
	columns := c.node.AttrInt("storage_order", 0) != 0
	s.planes(c, len(dst)/max(s.out, 1), s.size, func(plane, at int, pos []int) {
		best := -1
		s.inside(pos, func(_, off int) {
			if off += plane * s.in; best < 0 || src[off] > src[best] {
				best = off
			}
		})
		if at += plane * s.out; best >= 0 {
			dst[at] = src[best]
		}
		if indices != nil {
			if columns && best >= 0 {
				best = plane*s.in + byColumns(s.geo.In, best-plane*s.in)
			}
			indices[at] = int64(best)
		}
	})
	set()
	return nil
}

// byColumns returns the offset in column-major order of an element of a row-major plane.
func byColumns(shape []int, at int) int {
	out, step := 0, 1
	it := newCounter(shape, at)
	for a, i := range it.index {
		out += i * step
		step *= shape[a]
	}
	return out
}

func buildPlainAverage(n *graph.Node, _ int64) (evalFunc, error) {
	includePad := n.Pool().CountPadding
	return func(c *call) error {
		return plainWindows(c, func(s *sweep, pos []int, x []float64) float64 {
			sum, count := 0.0, 0
			s.inside(pos, func(_, at int) { sum, count = sum+x[at], count+1 })
			if includePad {
				count = s.count(pos)
			}
			return sum / float64(count)
		})
	}, nil
}

func buildPlainLp(n *graph.Node, version int64) (evalFunc, error) {
	p := normOrder(n, version)
	return func(c *call) error {
		return plainWindows(c, func(s *sweep, pos []int, x []float64) float64 {
			var window []float64
			s.inside(pos, func(_, at int) { window = append(window, x[at]) })
			return lpNorm(window, p)
		})
	}, nil
}

// plainWindows computes each output element from a window over its plane.
func plainWindows(c *call, f func(s *sweep, pos []int, plane []float64) float64) error {
	s, src, err := plainPool(c)
	if err != nil {
		return err
	}
	dst, set, err := c.outF64(0)
	if err != nil {
		return err
	}
	s.planes(c, len(dst)/max(s.out, 1), s.size, func(plane, at int, pos []int) {
		dst[plane*s.out+at] = f(s, pos, src[plane*s.in:][:s.in])
	})
	set()
	return nil
}

// plainGlobal computes one number from each plane.
func plainGlobal(f func(plane []float64) float64) func(*graph.Node, int64) (evalFunc, error) {
	return simple(func(c *call) error {
		dst, set, err := c.outF64(0)
		if err != nil {
			return err
		}
		size := tensor.Count(c.in(0).Shape[2:])
		if size == 0 && len(dst) > 0 {
			return emptyPlanes(c.in(0))
		}
		for i, src := 0, c.f64(0); i < len(dst); i++ {
			dst[i] = f(src[i*size:][:size])
		}
		set()
		return nil
	})
}
