package tune

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// squares are the sums of x^2 over all that an operator multiplies a weight's elements with, by input channel and kernel tap: the diagonal
// of its Gram matrices, by less work than those.
type squares struct {
	node   *graph.Node
	weight []int // shape
	m      matrix
	sum    []float64 // of x^2, [channels of all groups][taps]
	first  []float64 // of x
	count  float64   // of what each is a sum over, zeros of the padding included
}

func newSquares(n *graph.Node, weight *tensor.Tensor) *squares {
	s := &squares{node: n, weight: weight.Shape}
	s.m, _ = matrixOf(n, weight)
	s.sum, s.first = make([]float64, s.m.In*s.m.Taps), make([]float64, s.m.In*s.m.Taps)
	return s
}

// add adds one input, row-major.
func (s *squares) add(x *tensor.Tensor) error {
	data := x.F32()
	rank := len(x.Shape)
	switch {
	case graph.Slides(s.node.Op):
		return s.addWindows(x)
	case s.node.Gemm().TransA:
		if rank != 2 || x.Shape[0] != s.m.In {
			return fmt.Errorf("an input of shape %v for %d channels", x.Shape, s.m.In)
		}
		for i, v := range data {
			s.one(i/x.Shape[1], v)
		}
		s.count += float64(x.Shape[1])
		return nil
	}
	if rank == 0 || x.Shape[rank-1] != s.m.In {
		return fmt.Errorf("an input of shape %v for %d channels", x.Shape, s.m.In)
	}
	for ; len(data) > 0; data = data[s.m.In:] {
		for c, v := range data[:s.m.In] {
			s.one(c, v)
		}
		s.count++
	}
	return nil
}

// merge adds what o has seen.
func (s *squares) merge(o *squares) {
	for i, v := range o.sum {
		s.sum[i] += v
		s.first[i] += o.first[i]
	}
	s.count += o.count
}

func (s *squares) one(c int, v float32) {
	s.sum[c] += float64(v) * float64(v)
	s.first[c] += float64(v)
}

// addWindows adds an input of a convolution: of each channel's plane, one axis after the other, the lines are added up that a tap reads at
// some output position.
func (s *squares) addWindows(x *tensor.Tensor) error {
	geo, err := graph.WindowGeometry(s.node, graph.Static(x.Shape...), graph.Static(s.weight...))
	if err != nil {
		return err
	}
	plane := tensor.Count(geo.In)
	s.count += float64(x.Shape[0] * tensor.Count(geo.Out))
	f := newFold(geo)
	one, two := make([]float64, plane), make([]float64, plane)
	for i, data := 0, x.F32(); len(data) > 0; i, data = i+1, data[plane:] {
		for k, v := range data[:plane] {
			one[k], two[k] = float64(v), float64(v)*float64(v)
		}
		at := i % s.m.In * s.m.Taps
		for t, v := range f.run(one) {
			s.first[at+t] += v
		}
		for t, v := range f.run(two) {
			s.sum[at+t] += v
		}
	}
	return nil
}

// fold adds up the elements of a plane that each tap reads.
type fold struct {
	geo   *graph.Geometry
	reads [][][]int // by axis and tap: the positions that are read
	next  [][]float64
}

func newFold(geo *graph.Geometry) *fold {
	f := &fold{geo: geo, reads: make([][][]int, len(geo.In)), next: make([][]float64, len(geo.In))}
	outer, rest := 1, tensor.Count(geo.In)
	for d, n := range geo.In {
		f.reads[d] = make([][]int, geo.Kernel[d])
		for t := range f.reads[d] {
			for y := range n {
				if geo.Reads(d, t, y) {
					f.reads[d][t] = append(f.reads[d][t], y)
				}
			}
		}
		outer, rest = outer*geo.Kernel[d], rest/n
		f.next[d] = make([]float64, outer*rest)
	}
	return f
}

// run returns the sums by tap, which hold until the next run.
func (f *fold) run(now []float64) []float64 {
	outer := 1 // taps of the axes done
	for d, n := range f.geo.In {
		inner := len(now) / outer / n
		next := f.next[d]
		clear(next)
		for o := range outer {
			for t, reads := range f.reads[d] {
				to, from := next[(o*len(f.reads[d])+t)*inner:][:inner], now[o*n*inner:][:n*inner]
				if inner == 1 {
					for _, y := range reads {
						to[0] += from[y]
					}
					continue
				}
				for _, y := range reads {
					line := from[y*inner:][:len(to)]
					for k := range to {
						to[k] += line[k]
					}
				}
			}
		}
		outer, now = outer*f.geo.Kernel[d], next
	}
	return now
}

// each returns what the error of each element of the weight counts, in its row-major order: the sum of x^2 by which it is multiplied,
// centred of (x - mean x)^2: what is left where the mean of the output's error is taken off a bias.
func (s *squares) each(centred bool) []float64 {
	sums := slices.Clone(s.sum)
	for i, v := range s.first {
		if centred {
			sums[i] = max(0, sums[i]-float64(v*v)/max(s.count, 1))
		}
	}
	return s.m.spread(sums, s.weight)
}

// spread gives each element of a weight what its input and tap have in sums. To each a share of their mean is added, since what no sample
// reads may still be read.
func (m *matrix) spread(sums []float64, shape []int) []float64 {
	const damp = 0.01
	total := 0.0
	for _, v := range sums {
		total += v
	}
	base := damp * total / float64(len(sums))
	out := make([]float64, tensor.Count(shape))
	for g := range m.Groups {
		for r := range m.Rows() {
			for k := range m.K() {
				out[m.At(g, r, k)] = sums[g*m.K()+k] + base
			}
		}
	}
	return out
}

// importance is what the error of each element of the weight counts, by what the operator reads behind the quantized prefix; nil where that
// is not finite. Where a proposer wants the moments of all pairs it is their diagonal.
func (l *LayerBench) importance(ctx context.Context) ([]float64, error) {
	if l.float && l.Grams == nil {
		if x, err := l.rounding(ctx); err == nil && x != nil { // what fails is for that proposer to say
			return x.importance(), nil
		}
	}
	n, in := l.Graph.Node(l.Node), l.Graph.Node(l.Node).Inputs[0]
	s, of := newSquares(n, l.Weight), make([]*squares, l.places())
	err := l.inputs(ctx, func(place int, st *state, xq, _ *tensor.Tensor) error {
		xq = xq.ToRowMajor()
		one := newSquares(n, l.Weight)
		of[place] = one
		if !st.padded.Touches(in) || xq.Len() == 0 {
			return one.add(xq)
		}
		err := one.add(st.padded.Filled(in, xq, 0))
		one.count *= float64(st.padded.Elements(in, xq)) / float64(xq.Len())
		return err
	}, func(place int) error {
		s.merge(of[place])
		return nil
	})
	if err != nil {
		return nil, err
	}
	list := s.each(tunableBias(l.Graph, l.Set, l.Node) > 0)
	if slices.ContainsFunc(list, func(h float64) bool { return h-h != 0 }) {
		return nil, nil
	}
	return list, nil
}
