package calib

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/observers"
)

// summer keeps the exact sums of what one operator reads, on behalf of all workers. It is used under the lock of the input's tracker.
//
// A value of the input takes part in the sum of every tap that reads it at some output position: which taps depends on where it lies, and
// in a few classes only (the corners, the edges, the middle; with a stride the phases). Counters are by class and channel; a class's go to
// the sums of all its taps when the window is closed.
type summer struct {
	g      *graph.Graph
	node   graph.NodeID
	sums   *observers.InputSums
	limits observers.Limits
	rows   bool // MatMul, Gemm: the channels are the last axis
	table  *kernels.Table
	window *observers.Window

	// Of the shape that was seen last:
	spatial []int
	class   [][]int // by axis and coordinate
	classes []int   // how many there are along each axis
	taps    [][]int // by class of all axes: its taps
	outputs uint64  // output positions of one sample
	size    uint64  // elements of one sample
	seen    uint64  // elements, not yet in Count
}

// maxAxisTaps bounds a window along one axis: taps are bits of a set.
const maxAxisTaps = 64

// newSummer returns a summer for the data input of a node, nil where none is kept: weights that are not constant, windows or inputs
// that are too large, operators that are not Conv, ConvTranspose, MatMul or Gemm.
func newSummer(g *graph.Graph, id graph.NodeID, table *kernels.Table, room observers.Room) *summer {
	n := g.Node(id)
	w := g.Const(n.Input(1))
	if !n.IsONNX() || w == nil || w.DType != tensor.Float32 || n.Input(0) == graph.NoValue ||
		g.Const(n.Input(0)) != nil {
		return nil
	}
	s := &summer{g: g, node: id, limits: observers.NoLimits, table: table}
	l, ok := graph.LinearOf(n, graph.WeightInput, w.Shape)
	s.rows = len(w.Shape) == 2
	switch {
	case !ok || s.rows == graph.Slides(n.Op) || n.Gemm().TransA ||
		slices.ContainsFunc(w.Shape[2:], func(k int) bool { return k > maxAxisTaps }):
		return nil
	case l.In <= 0 || l.Taps <= 0 || l.Taps > observers.MaxSums || l.In > observers.MaxSums/l.Taps:
		return nil
	}
	s.sums = observers.NewInputSums(room, l.Taps, l.In)
	return s
}

// shape gets ready for inputs of a shape; the first axis does not matter.
func (s *summer) shape(shape []int) error {
	if s.rows {
		if len(shape) == 0 || shape[len(shape)-1] != s.sums.Channels {
			return fmt.Errorf("an input of shape %v for %d channels", shape, s.sums.Channels)
		}
		if s.window == nil {
			s.taps, s.size, s.outputs = [][]int{{0}}, uint64(s.sums.Channels), 1
			s.open(1)
		}
		return nil
	}
	if len(shape) < 3 || shape[1] != s.sums.Channels {
		return fmt.Errorf("an input of shape %v for %d channels", shape, s.sums.Channels)
	}
	if s.window != nil && slices.Equal(shape[2:], s.spatial) {
		return nil
	}
	s.finish()
	n := s.g.Node(s.node)
	geo, err := graph.WindowGeometry(n, graph.Static(shape...), graph.Static(s.g.Const(n.Inputs[1]).Shape...))
	if err != nil {
		return err
	}
	s.spatial = slices.Clone(shape[2:])
	s.class, s.classes = nil, nil
	sets := make([][]uint64, len(geo.In)) // by axis and class: which taps read it
	s.outputs, s.size = 1, uint64(s.sums.Channels)
	for d := range geo.In {
		s.outputs, s.size = s.outputs*uint64(geo.Out[d]), s.size*uint64(geo.In[d])
		of := make([]int, geo.In[d])
		for y := range of {
			var set uint64
			for r := range geo.Kernel[d] {
				if geo.Reads(d, r, y) {
					set |= 1 << r
				}
			}
			if of[y] = slices.Index(sets[d], set); of[y] < 0 {
				of[y] = len(sets[d])
				sets[d] = append(sets[d], set)
			}
		}
		s.class, s.classes = append(s.class, of), append(s.classes, len(sets[d]))
	}
	s.taps = combine(sets, geo.Kernel)
	s.open(len(s.taps))
	return nil
}

// combine lists the taps of every class, the last axis fastest in both.
func combine(sets [][]uint64, kernel []int) [][]int {
	all := [][]int{{0}}
	for d, of := range sets {
		var next [][]int
		for _, taps := range all {
			for _, set := range of {
				var list []int
				for _, t := range taps {
					for r := range kernel[d] {
						if set>>r&1 != 0 {
							list = append(list, t*kernel[d]+r)
						}
					}
				}
				next = append(next, list)
			}
		}
		all = next
	}
	return all
}

func (s *summer) open(classes int) {
	n := s.sums.Channels
	s.window = observers.NewWindow(s.table, classes*n, func(place int, v float32) {
		if v-v != 0 {
			s.sums.Skipped++
			return
		}
		for _, t := range s.taps[place/n] {
			s.sums.Sums[t*n+place%n].Add(v)
		}
	}, func(place int, m int64, e int) {
		for _, t := range s.taps[place/n] {
			s.sums.Sums[t*n+place%n].AddScaled(m, e)
		}
	})
}

// add adds elements of one sample's input that are consecutive in memory, the first being number from. x is the extent of those that are
// finite, and finite whether all are.
func (s *summer) add(shape []int, layout tensor.Layout, from int, data []float32, x observers.Extent, finite bool) error {
	if err := s.shape(shape); err != nil || len(data) == 0 {
		return err
	}
	s.seen += uint64(len(data))
	n, inner := s.sums.Channels, 1 // in memory, channels follow each other, inner elements of each
	if s.rows {
		if layout == tensor.ChannelsLast && len(shape) > 2 {
			inner = shape[1]
		}
	} else if layout != tensor.ChannelsLast {
		inner = tensor.Count(s.spatial)
	}
	largest := max(-x.Min, x.Max, 0)
	for _, b := range []float32{s.limits.Lo, s.limits.Hi} { // what is limited becomes a bound
		if !math.IsInf(float64(b), 0) {
			largest = max(largest, b, -b)
		}
	}
	per := int64(len(data)/n + 1)
	if inner > 1 {
		per = int64(len(data))
	}
	open := finite && s.window.Open(largest, per)
	switch {
	case inner > 1:
		s.addPlanes(data, from, inner, open)
	case s.rows || len(s.taps) == 1:
		s.addRows(data, from%n, 0, open)
	default:
		s.addPixels(data, from, open)
	}
	return nil
}

// addRows adds to a class rows of all channels, the first beginning with channel c.
func (s *summer) addRows(data []float32, c, class int, open bool) {
	n := s.sums.Channels
	if c > 0 {
		head := min(n-c, len(data))
		for i, v := range data[:head] {
			s.window.Run([]float32{v}, class*n+c+i, s.limits, open)
		}
		data = data[head:]
	}
	whole := len(data) / n * n
	s.window.Rows(data[:whole], class*n, n, s.limits, open)
	for i, v := range data[whole:] {
		s.window.Run([]float32{v}, class*n+i, s.limits, open)
	}
}

// addPixels adds channels-last elements: of each pixel all channels.
func (s *summer) addPixels(data []float32, from int, open bool) {
	n := s.sums.Channels
	last := len(s.spatial) - 1
	width := s.spatial[last]
	for len(data) > 0 {
		p, c := from/n, from%n
		line, x := p/width, p%width
		base := s.lineClass(line)
		kind := s.class[last][x]
		end := x + 1
		for end < width && s.class[last][end] == kind {
			end++
		}
		size := min((end-x)*n-c, len(data))
		if len(s.taps[base+kind]) > 0 {
			s.addRows(data[:size], c, base+kind, open)
		}
		data, from = data[size:], from+size
	}
}

// lineClass is the number of the first class of a line of the last axis: line counts the lines of all other spatial axes, again and again.
func (s *summer) lineClass(line int) int {
	at, factor := 0, s.classes[len(s.classes)-1]
	for d := len(s.spatial) - 2; d >= 0; d-- {
		at += s.class[d][line%s.spatial[d]] * factor
		line /= s.spatial[d]
		factor *= s.classes[d]
	}
	return at
}

// addPlanes adds elements of which inner of one channel follow each other.
func (s *summer) addPlanes(data []float32, from, inner int, open bool) {
	n := s.sums.Channels
	for len(data) > 0 {
		c, at := from/inner%n, from%inner
		size := min(inner-at, len(data))
		if s.rows || len(s.taps) == 1 {
			s.window.Run(data[:size], c, s.limits, open)
		} else {
			s.addLines(data[:size], at, c, open)
		}
		data, from = data[size:], from+size
	}
}

// addLines adds elements of one channel's plane, the first at position at.
func (s *summer) addLines(data []float32, at, c int, open bool) {
	n, last := s.sums.Channels, len(s.spatial)-1
	width := s.spatial[last]
	for len(data) > 0 {
		x := at % width
		base, kind := s.lineClass(at/width), s.class[last][x]
		end := x + 1
		for end < width && s.class[last][end] == kind {
			end++
		}
		size := min(end-x, len(data))
		if len(s.taps[base+kind]) > 0 {
			s.window.Run(data[:size], (base+kind)*n+c, s.limits, open)
		}
		data, at = data[size:], at+size
	}
}

// finish leaves everything in the sums.
func (s *summer) finish() {
	if s.window != nil {
		s.window.Close()
		if s.size > 0 { // else there were no elements
			s.sums.Count += s.seen / s.size * s.outputs
		}
		s.seen = 0
	}
}

// sums reports whether a sample takes part in sums: those that are held out do not, so that what is fitted on sums can be tried on them.
func (c *Config) sums(h Hash) bool {
	if c.Summed != nil {
		return c.Summed(h)
	}
	return !exec.HeldOut(h)
}

// resumeSums goes on from the sums of earlier statistics.
func (r *run) resumeSums(old *Stats) error {
	if r.cfg.MinMaxOnly || old.sums == nil && len(old.hashes) > 0 {
		r.withoutSums = true
		return nil
	}
	for _, k := range r.trackers {
		if k == nil {
			continue
		}
		for _, s := range k.sums {
			name := r.g.Node(s.node).Name
			if o := old.sums[name]; o != nil {
				if err := s.sums.Merge(o); err != nil {
					return fmt.Errorf("node %q: %w", name, err)
				}
			}
		}
	}
	return nil
}

// collectSums puts the sums of all operators that were reached into statistics.
func (r *run) collectSums(to *Stats) {
	if to.sums = nil; r.withoutSums || r.cfg.MinMaxOnly {
		return
	}
	to.sums = map[string]*observers.InputSums{}
	for _, k := range r.trackers {
		if k == nil {
			continue
		}
		for _, s := range k.sums {
			if s.finish(); s.sums.Count > 0 || s.sums.Skipped > 0 {
				to.sums[r.g.Node(s.node).Name] = s.sums
			}
		}
	}
}

// Sums returns the exact sums of what an operator reads, over the samples to fit on (see exec.HeldOut); nil where there are none.
func (s *Stats) Sums(node string) *observers.InputSums { return s.sums[node] }

// HasSums reports whether sums were kept. Statistics of version 1 have none, nor has what was merged with such statistics or made with
// minima and maxima only.
func (s *Stats) HasSums() bool { return s.sums != nil }

// Lacks says, for people, what newer statistics would hold beside; empty where nothing is missing.
func (s *Stats) Lacks() []string {
	var list []string
	if !s.HasBins() {
		list = append(list, "histograms: they hold minima and maxima only")
	}
	if !s.HasSums() {
		list = append(list, "sums of what operators read: calibrate anew for them")
	}
	return list
}

// mergeSums adds up the sums of both; nil where one of them has none although it has samples.
func mergeSums(a, b *Stats) (map[string]*observers.InputSums, error) {
	for _, s := range []*Stats{a, b} {
		if s.sums == nil && len(s.hashes) > 0 {
			return nil, nil
		}
	}
	out := map[string]*observers.InputSums{}
	for _, s := range []*Stats{a, b} {
		for name, x := range s.sums {
			if out[name] == nil {
				out[name] = x.Clone()
			} else if err := out[name].Merge(x); err != nil {
				return nil, fmt.Errorf("node %q: %w", name, err)
			}
		}
	}
	return out, nil
}
