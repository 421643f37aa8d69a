package verify

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// pairCount is what the data shows about pairs of products that are added in int16: sums of pairs, those that leave int16, and
// accumulators that have one.
type pairCount struct {
	sums, saturated, affected int64
}

// pair16 is two neighbouring products of an output channel: weights and places of the inputs, as tap and channel of the group.
type pair16 struct {
	wa, wb         int32
	tapA, tapB     int
	depthA, depthB int
}

// countPairs counts the pairs of a step that saturate for the integers of one sample; all is how many pairs a channel has. Only those that
// may saturate are looked at, and of them those that do for the extremes of the two planes that they read.
func (l *linear) countPairs(c *computer, in *tensor.Tensor, all int, count *pairCount) error {
	p, err := l.locate(in)
	if err != nil {
		return err
	}
	list := c.step.pairs
	count.sums += int64(all) * int64(len(list)) * int64(p.images*p.positions)
	channels := make([]pairCount, len(list)*p.images)
	err = inParallel(c.threads, len(channels), func(i int) error {
		image, channel := i/len(list), i%len(list)
		first := (image*p.groups + channel/max(len(list)/p.groups, 1)) * p.depth
		channels[i] = p.count(list[channel], first)
		return nil
	})
	for _, n := range channels {
		count.saturated, count.affected = count.saturated+n.saturated, count.affected+n.affected
	}
	return err
}

// count counts for one output channel of one image, which reads planes from first on.
func (p *places) count(pairs []pair16, first int) (n pairCount) {
	var affected []bool
	for k := range pairs {
		q := &pairs[k]
		a, b := &p.planes[first+q.depthA], &p.planes[first+q.depthB]
		hi := max(q.wa*a.least, q.wa*a.most) + max(q.wb*b.least, q.wb*b.most)
		lo := min(q.wa*a.least, q.wa*a.most) + min(q.wb*b.least, q.wb*b.most)
		if lo >= math.MinInt16 && hi <= math.MaxInt16 {
			continue
		}
		if affected == nil {
			affected = make([]bool, p.positions)
		}
		for position := range affected {
			sum := q.wa*p.at(a, q.tapA, position) + q.wb*p.at(b, q.tapB, position)
			if sum < math.MinInt16 || sum > math.MaxInt16 {
				n.saturated++
				affected[position] = true
			}
		}
	}
	for _, yes := range affected {
		if yes {
			n.affected++
		}
	}
	return n
}

// bytes reports whether the factors are bytes that processors without VNNI multiply in pairs.
func (l *linear) bytes() bool {
	if l.weights == nil || l.x.QMin < -128 || l.x.QMax > 255 {
		return false
	}
	for _, z := range l.weights.zero {
		if z != 0 {
			return false
		}
	}
	for _, q := range l.weights.codes {
		if q < math.MinInt8 || q > math.MaxInt8 {
			return false
		}
	}
	return true
}

// risky lists, by output channel, the pairs that saturate for some input: in the order tap by tap, channel after channel.
func (l *linear) risky() [][]pair16 {
	w := l.weights
	own := make([][]int32, len(w.scale))
	w.runs(func(c, from, to int) { own[c] = append(own[c], w.codes[from:to]...) })
	depth := 1
	if l.node.Op == "Conv" {
		depth = w.shape[1]
	} else if len(own) > 0 {
		depth = len(own[0])
	}
	least, most := l.x.QMin, l.x.QMax
	if least < 0 {
		least, most = least+128, most+128
	}
	list := make([][]pair16, len(own))
	for c, codes := range own {
		taps := len(codes) / max(depth, 1)
		at := func(i int) (q int32, tap, k int) { return codes[i%depth*taps+i/depth], i / depth, i % depth }
		for i := 0; i+1 < len(codes); i += 2 {
			var q pair16
			q.wa, q.tapA, q.depthA = at(i)
			q.wb, q.tapB, q.depthB = at(i + 1)
			lo := min(q.wa*least, q.wa*most) + min(q.wb*least, q.wb*most)
			hi := max(q.wa*least, q.wa*most) + max(q.wb*least, q.wb*most)
			if lo < math.MinInt16 || hi > math.MaxInt16 {
				list[c] = append(list[c], q)
			}
		}
	}
	return list
}

// places says what the sums of products of one sample read: planes of codes from 0 on, one for each image, group and depth.
type places struct {
	images, groups, depth, positions int

	planes []plane
	inside [][]int32 // by tap and position: the place in a plane, -1 for padding; nil: a position reads the place of its number
	zero   int32     // what padding reads
}

// plane are the codes of one channel, and between what they and the padding lie.
type plane struct {
	codes       []int32
	least, most int32
}

// at returns what a tap reads at a position.
func (p *places) at(a *plane, tap, position int) int32 {
	if p.inside == nil {
		return a.codes[position]
	}
	if i := p.inside[tap][position]; i >= 0 {
		return a.codes[i]
	}
	return p.zero
}

func (l *linear) locate(in *tensor.Tensor) (*places, error) {
	codes, shape := in.Integers(), in.Shape
	raise := int32(0)
	if l.x.QMin < 0 { // the kernels read codes from 0 on
		raise = 128
	}
	p := &places{zero: l.x.ZeroPoint + raise}
	size := 0
	if l.node.Op == "Conv" {
		geo, err := graph.ConvGeometry(l.node, graph.Static(shape...), graph.Static(l.weights.shape...))
		if err != nil {
			return nil, err
		}
		size = tensor.Count(geo.In)
		p.images, p.groups, p.depth, p.positions = shape[0], geo.Group, l.weights.shape[1], tensor.Count(geo.Out)
		p.inside = l.offsets(geo)
	} else {
		p.images, p.groups, p.depth = 1, 1, l.terms(shape)
		size = len(codes) / max(p.depth, 1)
		p.positions = size
		if !l.node.Gemm().TransA { // a plane are the numbers of all rows
			columns := make([]int32, len(codes))
			for i, q := range codes {
				columns[i%p.depth*size+i/p.depth] = q
			}
			codes = columns
		}
	}
	p.planes = make([]plane, p.images*p.groups*p.depth)
	for k := range p.planes {
		a := plane{codes: codes[k*size:][:size], least: p.zero, most: p.zero}
		for i := range a.codes {
			a.codes[i] += raise
			a.least, a.most = min(a.least, a.codes[i]), max(a.most, a.codes[i])
		}
		p.planes[k] = a
	}
	return p, nil
}

// offsets lists, by tap and output position, the input position of its plane; -1 for padding.
func (l *linear) offsets(geo *graph.Geometry) [][]int32 {
	list := make([][]int32, tensor.Count(geo.Kernel))
	for tap := range list {
		list[tap] = make([]int32, tensor.Count(geo.Out))
		for position := range list[tap] {
			at, size := 0, 1
			t, o := tap, position
			for a := len(geo.In) - 1; a >= 0; a-- {
				i := o%geo.Out[a]*geo.Stride[a] - geo.PadBegin[a] + t%geo.Kernel[a]*geo.Dilation[a]
				if i < 0 || i >= geo.In[a] {
					at = -1
					break
				}
				at += i * size
				size *= geo.In[a]
				t, o = t/geo.Kernel[a], o/geo.Out[a]
			}
			list[tap][position] = int32(at)
		}
	}
	return list
}
