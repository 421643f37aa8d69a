package tune

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/rewrite"
)

// Size is what a network costs: multiply-accumulates of a sample, and elements of constants that operators read, of which its bytes are a
// fixed part.
type Size struct{ MACs, Elements float64 }

// SizeOf measures a graph; dimensions that are open count as 1, and a constant once, whoever reads it under whatever name.
func SizeOf(g *graph.Graph) (s Size) {
	seen := map[*tensor.Tensor]bool{}
	for _, id := range g.Nodes() {
		n, _ := g.MACsAtLeast(id)
		s.MACs += float64(n)
		for _, v := range g.Node(id).Inputs {
			if v == graph.NoValue {
				continue
			}
			if c := g.Const(v); c != nil && c.DType == tensor.Float32 && !seen[c] {
				seen[c] = true
				s.Elements += float64(c.Len())
			}
		}
	}
	return s
}

// Room is by how much changes of structure may make a network larger: shares of the model's own, 0.05 for 5 % more.
type Room struct {
	Model       Size
	Work, Bytes float64
}

// over says what of a size is beyond the room; "" where it fits. What is added to tiny networks by vectors of channels fits by one percent
// of slack in bytes.
func (r *Room) over(s Size) string {
	work, bytes := s.MACs/max(r.Model.MACs, 1), s.Elements/max(r.Model.Elements, 1)
	switch {
	case work > 1+r.Work+1e-9:
		return fmt.Sprintf("it costs %.3g times the work of the model: --max-work %.3g allows it", work, percentOf(work))
	case bytes > 1+r.Bytes+0.01:
		return fmt.Sprintf("it costs %.3g times the bytes of the model: --max-bytes %.3g allows it", bytes, percentOf(bytes))
	}
	return ""
}

// percentOf is the smallest whole percentage that allows a factor.
func percentOf(factor float64) float64 {
	p := float64(int64(100 * (factor - 1)))
	if p < 100*(factor-1) {
		p++
	}
	return p
}

// Words say what a graph costs more than the model, "" where that is nothing.
func (s Size) Words(model Size) string {
	work, bytes := s.MACs/max(model.MACs, 1), s.Elements/max(model.Elements, 1)
	switch {
	case work <= 1.0005 && bytes <= 1.0005:
		return ""
	case work < 1.5 && bytes < 1.5:
		return fmt.Sprintf("%s work and %s bytes than the model", moreOf(work), moreOf(bytes))
	case work <= 1.0005:
		return fmt.Sprintf("%.3g times the bytes of the model, and no more work", bytes)
	case bytes <= 1.0005:
		return fmt.Sprintf("%.3g times the work of the model, and no more bytes", work)
	}
	return fmt.Sprintf("%.3g times the work and %.3g times the bytes of the model", work, bytes)
}

// moreOf writes a factor just above 1: 4 % more.
func moreOf(factor float64) string {
	if factor <= 1.0005 {
		return "no more"
	}
	return fmt.Sprintf("%.2g %% more", 100*(factor-1))
}

// affordable deals candidates, best first, into those that cost nothing and those that fit into the room that the bench has left, and says
// of the others why they are left out.
func (r *restructuring) affordable(list []*candidate) (free, paid []*candidate) {
	b := r.now
	if b.Room == nil {
		return list, nil
	}
	now := SizeOf(b.Reference)
	sum := now
	var without Size
	left, operators := 0, 0
	for _, c := range list {
		next, err := rewrite.Apply(b.Reference, c.steps)
		if err != nil {
			free = append(free, c) // the trial says what is wrong
			continue
		}
		s := SizeOf(next)
		more := Size{sum.MACs + s.MACs - now.MACs, sum.Elements + s.Elements - now.Elements}
		switch why := b.Room.over(more); {
		case s.MACs <= now.MACs && s.Elements <= 1.001*now.Elements:
			free = append(free, c)
			operators += len(next.Nodes()) - len(b.Reference.Nodes())
		case why == "":
			paid, sum = append(paid, c), more
		default:
			l := &r.report.Layers[r.index[c]]
			l.Why = "not tried: with the better ones " + why
			left++
			without.MACs, without.Elements = without.MACs+s.MACs-now.MACs, without.Elements+s.Elements-now.Elements
		}
	}
	if left > 0 {
		all := Size{sum.MACs + without.MACs, sum.Elements + without.Elements}
		b.say("%s: %d of %d changes are left out: all of them cost %s; --max-work and --max-bytes allow more than %.3g %% and %.3g %%",
			b.stage.Method, left, len(list), all.Words(b.Room.Model), 100*b.Room.Work, 100*b.Room.Bytes)
	}
	if n := len(b.Reference.Nodes()); 20*operators > n {
		b.say("%s: the changes that cost no work add up to %d operators to %d: engines take longer for them, small networks most",
			b.stage.Method, operators, n)
	}
	if words := sum.Words(b.Room.Model); len(paid) > 0 && words != "" {
		b.say("%s: %d changes are tried that cost %s", b.stage.Method, len(paid), words)
	}
	return free, paid
}

// say tells of something while tuning works.
func (b *Bench) say(format string, a ...any) {
	if b.Say != nil && !b.turn {
		b.Say(fmt.Sprintf(format, a...))
	}
}

// afforded refuses steps after which the network is too large.
func (b *Bench) afforded(steps []rewrite.Step) error {
	if b.Room == nil {
		return nil
	}
	next, err := rewrite.Apply(b.Reference, slices.Clone(steps))
	if err != nil {
		return nil // the rewrite says what is wrong
	}
	if why := b.Room.over(SizeOf(next)); why != "" {
		return fmt.Errorf("not tried: %s", why)
	}
	return nil
}
