package tune

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"qwb/graph"
	"qwb/quantizer/overlay"
	"qwb/quantizer/passes"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/tqc"
)

// Saved is what tuning goes on from after it was interrupted: the same methods on the same bench with Resume end in the same bytes.
type Saved struct {
	Limit   float64   `json:"limit"` // of the work
	Spent   float64   `json:"spent"`
	Reports []*Report `json:"reports"` // of the methods that are done
	Layers  []Layer   `json:"layers"`  // of the one under way, as far as it has come
	// Lesson is how far the block behind those is learnt; nil where that has not begun, or nothing learns.
	Lesson *Lesson `json:"lesson,omitempty"`
	// Begin is what differed from the reference when the method under way began, Now what does after Layers.
	Begin, Now *overlay.Overlay `json:"-"`
	// BeginChosen and NowChosen are the scales of activations at those places.
	BeginChosen []Chosen `json:"begin_chosen,omitempty"`
	NowChosen   []Chosen `json:"now_chosen,omitempty"`
	// Turns is the same of the halves that take turns, where they do; nothing of the method under way is kept then.
	Turns []Turn `json:"turns,omitempty"`
}

// Turn is what differed from the reference when the method under way began, of one half that fits.
type Turn struct {
	Begin  *overlay.Overlay `json:"-"`
	Chosen []Chosen         `json:"chosen,omitempty"`
}

// point is a place in the work at which it can be taken up.
type point struct {
	begin, now changes
	turns      []changes
	reports    []*Report
	layers     []Layer
	lesson     func() *Lesson // as it is now; nil where nothing is being learnt
	spent      float64
}

// changes is what tuning changes.
type changes struct {
	reference *graph.Graph
	steps     []rewrite.Step
	graph     *graph.Graph
	set       *tqc.Set
	frozen    map[graph.NodeID]bool
	chosen    []Chosen
}

func (b *Bench) changed() changes {
	return changes{b.Reference, b.Steps, b.Graph.Clone(), b.Set, maps.Clone(b.Frozen), b.Chosen}
}

// pass remembers a place in the work, and offers it to Save.
func (b *Bench) pass(layers []Layer, last bool) error {
	if b.Save == nil || b.point == nil {
		return nil
	}
	p := b.point
	p.now, p.layers, p.spent = b.changed(), slices.Clone(layers), b.Work.Spent
	return b.offer(last)
}

// offer gives Save the last place that was remembered.
func (b *Bench) offer(last bool) error {
	if b.Save == nil || b.point == nil {
		return nil
	}
	p := b.point
	return b.Save(last, func() *Saved {
		s := &Saved{Limit: b.Work.Limit, Spent: p.spent, Reports: p.reports, Layers: p.layers, Begin: b.differs(p.begin), Now: b.differs(p.now),
			BeginChosen: p.begin.chosen, NowChosen: p.now.chosen}
		if p.lesson != nil {
			s.Lesson = p.lesson()
		}
		for _, f := range p.turns {
			s.Turns = append(s.Turns, Turn{b.differs(f), f.chosen})
		}
		return s
	})
}

// differs is the overlay of a state.
func (b *Bench) differs(s changes) *overlay.Overlay {
	of := *b
	of.Reference, of.Steps, of.Graph, of.Set, of.Frozen = s.reference, s.steps, s.graph, s.set, s.frozen
	return of.Overlay(s.set, nil)
}

// restore makes the bench what it was when an overlay was made of it, with scales of activations that were chosen.
func (b *Bench) restore(ctx context.Context, o *overlay.Overlay, chosen []Chosen) error {
	if !sameSteps(o.Steps, b.Steps) {
		if err := b.float(ctx); err != nil { // outputs are held against those of the first reference
			return err
		}
		next, err := b.rewritten(ctx, o.Steps)
		if err != nil {
			return err
		}
		*b = *next
	}
	g, set, frozen := b.Reference.Clone(), b.first.Clone(), map[graph.NodeID]bool{}
	var nodes []graph.NodeID
	for i := range o.Entries {
		e := &o.Entries[i]
		id, ok := g.LookupNode(e.Node)
		if !ok || overlay.TensorHash(g.Const(g.Node(id).Input(e.Input))) != e.Base {
			return fmt.Errorf("%s is of another model", e.At())
		}
		g.SetConst(g.Node(id).Inputs[e.Input], e.Value)
		if len(e.Scale) == 0 {
			continue
		}
		s := set.Input(id, e.Input)
		if s == tqc.NoSlot || !e.Freezes(&set.Slot(s).Config) {
			return fmt.Errorf("%s is quantized otherwise", e.At())
		}
		if err := set.Render(s, tqc.Params{Scale: e.Scale, ZeroPoint: e.ZeroPoint}); err != nil {
			return err
		}
		frozen[id], nodes = true, append(nodes, id)
	}
	if _, err := passes.SolveBiasOf(g, set, nodes); err != nil {
		return err
	}
	for _, c := range chosen {
		if int(c.Slot) >= set.NumSlots() || c.Slot < 0 || set.Root(c.Slot) != c.Slot {
			return fmt.Errorf("slot %d is none with a scale of its own", c.Slot)
		}
		if err := set.Render(c.Slot, c.Params); err != nil {
			return err
		}
	}
	if len(chosen) > 0 {
		if _, err := passes.SolveBias(g, set); err != nil {
			return err
		}
	}
	b.Graph, b.Set, b.Frozen, b.Chosen = g, set, frozen, chosen
	return nil
}

// String says how far it had come.
func (s *Saved) String() string {
	text := fmt.Sprintf("%d methods and %d operators of the next are done", len(s.Reports), len(s.Layers))
	if s.Lesson != nil {
		text += fmt.Sprintf(", and %d steps", s.Lesson.Step)
	}
	return text
}
