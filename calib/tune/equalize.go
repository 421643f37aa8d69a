package tune

import (
	"context"
	"math"
	"slices"

	"qwb/graph"
	"qwb/kernels/elementary"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/tqc"
)

// Equalize is cross-layer equalization (Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction",
// section 4.1): output channels of an operator are multiplied, and the weights of what reads them divided, by sqrt(r2 / r1), where r1 and
// r2 are the ranges of the channel on the two sides, relative to the range of the whole tensor; over all pairs again and again until it
// settles. It is tried in several forms on the whole graph: see equalizations.
var Equalize = Method{Name: "equalize", Doc: "balances channel ranges between two operators: one scale then fits the whole tensor better",
	Changes: []string{"structure", "biases"}, Needs: []string{"data"}, Run: equalize}

// equalization is a form of it: a channel is multiplied by down^beta / up^alpha, from its ranges behind and in front, until that is one,
// and the factors that come out are taken to a power.
type equalization struct {
	name               string
	alpha, beta, power float64
	activations        bool // ranges of activations count in front
	unbounded          bool // only where no Clip has to get bounds for each channel
	refines            bool // tried only where a form before it lowers the error
}

// equalizations are the forms that are tried. Powers other than 1/2 move more of the range to one side, as the formulas of SSD do (Meller
// et al. 2019, "Same, Same But Different"): with 1 and 0 every channel fills the range of what produces it,
// with 0 and 1 that of its readers.
var equalizations = []equalization{
	{name: "weights", alpha: 0.5, beta: 0.5, power: 1},
	{name: "weights and activations", alpha: 0.5, beta: 0.5, power: 1, activations: true},
	{name: "weights, not through bounds", alpha: 0.5, beta: 0.5, power: 1, unbounded: true},
	{name: "weights, half as far", alpha: 0.5, beta: 0.5, power: 0.5, refines: true},
	{name: "producers", alpha: 1, beta: 0, power: 1, refines: true},
	{name: "readers", alpha: 0, beta: 1, power: 1, refines: true},
}

const (
	// maxFactor bounds the factor of a channel, and one over it.
	maxFactor = 64
	// settled is the largest change of the logarithm of a factor in a round that is none.
	settled = 1e-3
	// equalizeRounds bounds the rounds.
	equalizeRounds = 40
)

func equalize(ctx context.Context, b *Bench) (*Report, error) {
	ways, err := b.ways()
	if err != nil {
		return nil, err
	}
	if len(ways) == 0 {
		return &Report{Layers: []Layer{}, Note: "no factor of a channel could move from one operator to another"}, nil
	}
	e := newEqualizer(b, ways)
	if err := e.observe(ctx); err != nil {
		return nil, err
	}
	var list []structural
	for _, form := range equalizations {
		s := e.structure(form)
		if len(s.Steps) > 0 && !slices.ContainsFunc(list, func(o structural) bool { return sameSteps(o.Steps, s.Steps) }) {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return &Report{Layers: []Layer{}, Note: "the channels have equal ranges already"}, nil
	}
	return b.restructure(ctx, list)
}

// ways finds the ways between quantized operators along which factors of channels can move, each once, in graph order.
func (b *Bench) ways() ([]*rewrite.Way, error) {
	order, err := b.Reference.Order()
	if err != nil {
		return nil, err
	}
	var list []*rewrite.Way
	done := map[graph.NodeID]bool{}
	for _, id := range order {
		if done[id] || b.Set.Domains[id] != tqc.DomainInt || rewrite.ReaderOf(b.Reference, id) == nil {
			continue
		}
		w, _ := rewrite.CanScale(b.Reference, id)
		if w == nil || len(w.Consumers) == 0 {
			continue
		}
		for _, e := range w.Producers {
			if whole(e.Channel) { // another member of the group with the same channels has the same way
				done[e.Node] = true
			}
		}
		list = append(list, w)
	}
	return list, nil
}

// whole reports whether all channels have a factor.
func whole(channel []int) bool { return !slices.Contains(channel, -1) }

type equalizer struct {
	b      *Bench
	ways   []*rewrite.Way
	ranges map[graph.NodeID]*ranges // nil: the operator has no quantized weight
	seen   map[graph.NodeID][]float64
}

func newEqualizer(b *Bench, ways []*rewrite.Way) *equalizer {
	return &equalizer{b: b, ways: ways, ranges: map[graph.NodeID]*ranges{}, seen: map[graph.NodeID][]float64{}}
}

// observe takes the largest values of the channels that the consumers read, over the fitting samples, in float.
func (e *equalizer) observe(ctx context.Context) error {
	axes, reads := map[graph.ValueID]int{}, map[graph.NodeID]graph.ValueID{}
	for _, w := range e.ways {
		for _, c := range w.Consumers {
			if r := rewrite.ReaderOf(e.b.Reference, c.Node); r != nil {
				axes[r.Value], reads[c.Node] = r.Axis, r.Value
			}
		}
	}
	seen, err := e.b.observeChannels(ctx, axes)
	if err != nil {
		return err
	}
	for id, v := range reads {
		if s := seen[v]; s != nil {
			list := make([]float64, len(s.lo))
			for c := range list {
				list[c] = math.Max(math.Abs(float64(s.lo[c])), math.Abs(float64(s.hi[c])))
			}
			e.seen[id] = list
		}
	}
	return nil
}

// structure settles the factors of all ways in one form.
func (e *equalizer) structure(form equalization) structural {
	for _, r := range e.ranges {
		if r != nil {
			for i := range r.out {
				r.out[i] = 1
			}
			for i := range r.in {
				r.in[i] = 1
			}
		}
	}
	factors := make([][]float64, len(e.ways))
	for k, w := range e.ways {
		factors[k] = slices.Repeat([]float64{1}, w.Channels)
	}
	for range equalizeRounds {
		moved := 0.0
		for k, w := range e.ways {
			if !form.unbounded || len(w.Bounded) == 0 {
				moved = max(moved, e.pair(w, factors[k], form))
			}
		}
		if moved < settled {
			break
		}
	}
	s := structural{By: form.name, Refines: form.refines}
	for k, w := range e.ways {
		scale, plain := make([]float32, w.Channels), true
		for c, f := range factors[k] {
			scale[c] = float32(elementary.Pow(f, form.power))
			plain = plain && math.Abs(math.Log(f)) < settled
		}
		if !plain {
			e.add(&s, &rewrite.Scale, w, scale)
		}
	}
	return s
}

// add adds the step that multiplies the channels of a way.
func (e *equalizer) add(s *structural, kind *rewrite.Kind, w *rewrite.Way, scale []float32) {
	at := e.b.Reference.Node(w.At).Name
	s.Steps = append(s.Steps, rewrite.Step{Kind: kind.Name, At: at, Vectors: map[string][]float32{"scale": scale}})
	s.Nodes = append(s.Nodes, at)
}

// pair moves the factors of one way toward where both sides have the same ranges, and returns the largest change of a logarithm.
func (e *equalizer) pair(w *rewrite.Way, factors []float64, form equalization) (moved float64) {
	up, down := make([]float64, w.Channels), make([]float64, w.Channels)
	weighted, shared := false, false // something on that side has one scale for several channels
	for _, p := range w.Producers {
		if r := e.of(p.Node); r != nil {
			if out := r.outputs(); out != nil {
				weighted = true
				gather(up, out, p.Channel)
			}
		}
	}
	for _, c := range w.Consumers {
		r := e.of(c.Node)
		if r == nil {
			continue
		}
		if in := r.inputs(); in != nil {
			shared = true
			gather(down, in, c.Channel)
		}
		if seen := e.seen[c.Node]; seen != nil && (form.activations || !weighted) {
			now, most := make([]float64, len(seen)), 0.0
			for i, x := range seen {
				if now[i] = x; c.Channel[i] >= 0 {
					now[i] *= factors[c.Channel[i]]
				}
				most = max(most, now[i])
			}
			gather(up, relative(now, most), c.Channel)
		}
	}
	alpha, beta := form.alpha, form.beta
	if !shared { // nobody behind minds: what is in front can have what it wants
		if alpha == 0 {
			return 0
		}
		down, alpha = slices.Repeat([]float64{1}, w.Channels), 1
	}
	for c := range factors {
		f := elementary.Pow(down[c], beta) / elementary.Pow(up[c], alpha)
		if !(up[c] > 0 && down[c] > 0) || !(f > 0) || f-f != 0 {
			continue // a channel of no range
		}
		next := min(max(factors[c]*f, 1.0/maxFactor), maxFactor)
		f = next / factors[c]
		moved = max(moved, math.Abs(math.Log(f)))
		factors[c] = next
		e.multiply(w, c, f)
	}
	return moved
}

// multiply notes that a channel of a way is multiplied.
func (e *equalizer) multiply(w *rewrite.Way, channel int, f float64) {
	for _, p := range w.Producers {
		if r := e.of(p.Node); r != nil {
			for o, c := range p.Channel {
				if c == channel {
					r.out[o] *= f
				}
			}
		}
	}
	for _, q := range w.Consumers {
		if r := e.of(q.Node); r != nil {
			for i, c := range q.Channel {
				if c == channel {
					r.in[i] /= f
				}
			}
		}
	}
}

// gather takes the largest of the channels that belong to one of a step.
func gather(to, from []float64, channel []int) {
	for i, c := range channel {
		if c >= 0 {
			to[c] = max(to[c], from[i])
		}
	}
}
