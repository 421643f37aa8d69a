package verify

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
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

// countPairs counts the pairs of a step that saturate on these inputs. Only those that may are computed.
func (r *runner) countPairs(s *lower.Step, in []*tensor.Tensor) error {
	l, ok := r.operations[s.ID].(*linear)
	if !ok {
		return nil
	}
	at := -1
	for i := range r.program.Safety {
		if r.program.Safety[i].Step == s.ID && r.program.Safety[i].Pairs > 0 {
			at = i
		}
	}
	if at < 0 || !l.bytes() {
		return nil
	}
	list := r.risky[s.ID]
	if list == nil {
		list = l.risky()
		r.risky[s.ID] = list
	}
	p, err := l.locate(in[0].Shape)
	if err != nil {
		return err
	}
	codes := in[0].Integers()
	raise := int32(0)
	if l.x.QMin < 0 { // the kernels read codes from 0 on
		raise = 128
	}
	zero := l.x.ZeroPoint
	value := func(image, group, depth, tap, position int) int32 {
		i := p.index(image, group, depth, tap, position)
		if i < 0 {
			return zero + raise
		}
		return codes[i] + raise
	}
	count := &r.pairs[at]
	count.sums += int64(r.program.Safety[at].Pairs) * int64(len(list)) * int64(p.images*p.positions)
	for c, pairs := range list {
		if len(pairs) == 0 {
			continue
		}
		group := c / max(len(list)/p.groups, 1)
		for image := range p.images {
			for position := range p.positions {
				bad := int64(0)
				for k := range pairs {
					q := &pairs[k]
					sum := q.wa*value(image, group, q.depthA, q.tapA, position) + q.wb*value(image, group, q.depthB, q.tapB, position)
					if sum < math.MinInt16 || sum > math.MaxInt16 {
						bad++
					}
				}
				if count.saturated += bad; bad > 0 {
					count.affected++
				}
			}
		}
	}
	return nil
}

// bytes reports whether the factors are bytes that processors without VNNI multiply in pairs.
func (l *linear) bytes() bool {
	if l.weights == nil || l.x.QMin < -128 || l.x.QMax > 255 {
		return false
	}
	for i, q := range l.weights.codes {
		if q < math.MinInt8 || q > math.MaxInt8 || l.weights.zero[l.weights.channel(i)] != 0 {
			return false
		}
	}
	return true
}

// risky lists, by output channel, the pairs that saturate for some input: in the order tap by tap, channel after channel.
func (l *linear) risky() [][]pair16 {
	w := l.weights
	own := make([][]int32, len(w.scale))
	for i, q := range w.codes {
		own[w.channel(i)] = append(own[w.channel(i)], q)
	}
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

// places says where the inputs of a sum of products lie.
type places struct {
	images, groups, positions int
	index                     func(image, group, depth, tap, position int) int // -1: padding
}

func (l *linear) locate(shape []int) (*places, error) {
	if l.node.Op != "Conv" {
		k := l.terms(shape)
		rows := tensor.Count(shape) / max(k, 1)
		p := &places{images: 1, groups: 1, positions: rows}
		p.index = func(_, _, depth, _, row int) int { return row*k + depth }
		if l.node.Gemm().TransA {
			p.index = func(_, _, depth, _, row int) int { return depth*rows + row }
		}
		return p, nil
	}
	geo, err := graph.ConvGeometry(l.node, graph.Static(shape...), graph.Static(l.weights.shape...))
	if err != nil {
		return nil, err
	}
	inside := l.offsets(geo)
	size := tensor.Count(geo.In)
	channels, depth := shape[1], l.weights.shape[1]
	p := &places{images: shape[0], groups: geo.Group, positions: tensor.Count(geo.Out)}
	p.index = func(image, group, k, tap, position int) int {
		at := inside[tap][position]
		if at < 0 {
			return -1
		}
		return (image*channels+group*depth+k)*size + int(at)
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
