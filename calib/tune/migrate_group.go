package tune

import (
	"context"

	"qwb/graph"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/tqc"
)

const (
	// maxGroups bounds the groups of one chain: each has operators of its own.
	maxGroups = 4
	// worthGroup is the least share of the predicted error that one more group takes off, worthChain that of a chain taken apart at all.
	worthGroup, worthChain = 0.3, 0.5
)

// grouped lists the chains through depthwise convolutions that are worth being taken apart by the ranges of their channels.
//
// The prediction: channel c of a chain gives a share p_c of what its depthwise convolution hands on, E[x_c²] |w_c|², times the squared
// weights of the reader behind the chain where there is one. Rounding value v of the chain, whose channels share one step d, puts relative
// noise d²/(12 E[v_c²]) on channel c. The error of v is the sum of p_c times that; the chain's is the sum over its quantized values.
// Groups are cut for the value with the largest error; see partition.
func grouped(ctx context.Context, b *Bench) ([]*candidate, error) {
	g := b.Reference
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	var chains []rewrite.Chain
	axes, taken := map[graph.ValueID]int{}, map[graph.NodeID]bool{}
	for _, id := range order {
		var longest *rewrite.Chain
		for _, c := range rewrite.Chains(g, id) {
			if len(c.Depthwise) > 0 && b.Set.Domains[c.Depthwise[0]] == tqc.DomainInt && !taken[c.Depthwise[0]] {
				longest = &c
			}
		}
		if longest == nil {
			continue
		}
		chains = append(chains, *longest)
		for _, n := range append([]graph.NodeID{longest.At}, longest.Nodes...) {
			axes[g.Node(n).Output(0)], taken[n] = 1, true
		}
	}
	if len(chains) == 0 {
		return nil, nil
	}
	seen, err := b.observeChannels(ctx, axes)
	if err != nil {
		return nil, err
	}
	var list []*candidate
	for i := range chains {
		if c := b.groups(&chains[i], seen); c != nil {
			list = append(list, c)
		}
	}
	return list, nil
}

// groups cuts a chain; nil where that is not worth it.
func (b *Bench) groups(c *rewrite.Chain, seen map[graph.ValueID]*channelStats) *candidate {
	g := b.Reference
	share := b.shares(c, seen)
	if share == nil {
		return nil
	}
	type value struct{ width, weight []float64 }
	var values []value
	var worst struct {
		cost   float64
		costs  []float64
		groups [][][]int
	}
	for _, id := range append([]graph.NodeID{c.At}, c.Nodes...) {
		v := g.Node(id).Output(0)
		s := seen[v]
		if s == nil || v == c.Output || !b.rounded(v) {
			continue
		}
		multiple := len(s.lo) / c.Channels
		x := value{make([]float64, c.Channels), make([]float64, c.Channels)}
		for ch := range c.Channels {
			for k := range multiple {
				x.width[ch] = max(x.width[ch], s.width(ch*multiple+k))
				if e := s.squares[ch*multiple+k]; e > 0 {
					x.weight[ch] += share[ch] / e / float64(multiple)
				}
			}
		}
		values = append(values, x)
		if costs, groups := partition(x.width, x.weight, maxGroups); costs[0] > worst.cost {
			worst.cost, worst.costs, worst.groups = costs[0], costs, groups
		}
	}
	if worst.cost == 0 {
		return nil
	}
	k := enough(worst.costs, worthGroup)
	whole, apart := 0.0, 0.0
	for _, x := range values {
		whole += costOf(x.width, x.weight, worst.groups[0])
		apart += costOf(x.width, x.weight, worst.groups[k-1])
	}
	if k < 2 || apart > (1-worthChain)*whole {
		return nil
	}
	step := rewrite.Step{Kind: rewrite.Group.Name, At: g.Node(c.At).Name, Groups: worst.groups[k-1]}
	for _, id := range c.Nodes {
		step.Nodes = append(step.Nodes, g.Node(id).Name)
	}
	return &candidate{node: g.Node(c.Depthwise[0]).Name, by: step.Kind, steps: []rewrite.Step{step}, predicted: apart / whole}
}

// costOf is what partition makes small.
func costOf(width, weight []float64, groups [][]int) (cost float64) {
	for _, group := range groups {
		top, sum := 0.0, 0.0
		for _, c := range group {
			top, sum = max(top, width[c]), sum+weight[c]
		}
		cost += float64(top*top) * sum
	}
	return cost
}

// shares are the parts that the channels of a chain have in what its first depthwise convolution hands on; nil where nothing is known.
func (b *Bench) shares(c *rewrite.Chain, seen map[graph.ValueID]*channelStats) []float64 {
	g := b.Reference
	dw := g.Node(c.Depthwise[0])
	s := seen[dw.Input(0)]
	r := rewrite.ReaderOf(g, dw.ID)
	if s == nil || r == nil || r.In != c.Channels {
		return nil
	}
	share, sum := make([]float64, c.Channels), 0.0
	r.Each(func(_, i int, w []float32) {
		for _, x := range w {
			share[i] += float64(x) * float64(x) * s.squares[i]
		}
	})
	if next := b.readerOf(c.Output); next != nil && next.In%c.Channels == 0 {
		energy := make([]float64, c.Channels)
		next.Each(func(_, i int, w []float32) {
			for _, x := range w {
				energy[i/(next.In/c.Channels)] += float64(x) * float64(x)
			}
		})
		for ch := range share {
			share[ch] *= energy[ch]
		}
	}
	for _, x := range share {
		sum += x
	}
	if sum == 0 {
		return nil
	}
	for ch := range share {
		share[ch] /= sum
	}
	return share
}

// readerOf is the only reader of a value where it has weights that take its channels along axis 1.
func (b *Bench) readerOf(v graph.ValueID) *rewrite.Reader {
	u, sole := b.Reference.SoleUse(v)
	if !sole {
		return nil
	}
	r := rewrite.ReaderOf(b.Reference, u.Node)
	if r == nil || r.Value != v || r.Axis != 1 {
		return nil
	}
	return r
}

// rounded reports whether a value is quantized where it is computed or where it is read.
func (b *Bench) rounded(v graph.ValueID) bool {
	p := b.Reference.Producer(v)
	for i, y := range b.Reference.Node(p).Outputs {
		if s := b.Set.Output(p, i); y == v && s != tqc.NoSlot && b.Set.Slot(s).State().Quantizes() {
			return true
		}
	}
	for _, u := range b.Reference.Uses(v) {
		if s := b.Set.Input(u.Node, u.Index); s != tqc.NoSlot && b.Set.Slot(s).State().Quantizes() {
			return true
		}
	}
	return false
}
