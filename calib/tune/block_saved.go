package tune

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// Lesson is how far a block, or the network, is learnt: what an interrupted run goes on from.
type Lesson struct {
	Step   int       `json:"step"`             // how many are done
	First  float64   `json:"first"`            // the error before the first
	Least  float64   `json:"least"`            // that of Best
	Weigh  []float64 `json:"weigh"`            // see lesson
	Random []byte    `json:"random,omitempty"` // what chooses goes on from
	Values []float32 `json:"-"`                // all that moves
	Best   []float32 `json:"-"`                // those with the least error so far
}

// numbers are all that moves.
func (l *lesson) numbers() [][]float32 {
	var list [][]float32
	of := func(value []float32, a *mover) { list = append(list, value, a.first, a.second) }
	for i, s := range l.weights {
		of(s.v, &s.mover)
		if b := l.biases[i]; b != nil {
			of(b.value, &b.mover)
		}
	}
	for _, b := range l.norms {
		of(b.value, &b.mover)
	}
	for _, s := range l.scales {
		of(s.log, &s.mover)
	}
	return list
}

func (l *lesson) values() []float32 { return slices.Concat(l.numbers()...) }

func (l *lesson) restore(all []float32) {
	for _, x := range l.numbers() {
		all = all[copy(x, all):]
	}
}

// at is the lesson as it is between two steps.
func (l *lesson) at(now *Lesson) *Lesson {
	found := *now
	found.Values = l.values()
	return &found
}

// begin measures what there is before the first step, or goes on from where an interrupted run was.
func (l *lesson) begin(ctx context.Context, r *exec.Runner, feeds map[string]*tensor.Tensor, samples []*traveller,
	source *rand.PCG) (*Lesson, error) {
	if was := l.p.taught; was != nil {
		l.p.taught = nil
		n := len(l.values())
		if len(was.Values) != n || len(was.Best) != n || len(was.Weigh) != len(l.k.exits) || source.UnmarshalBinary(was.Random) != nil {
			return nil, fmt.Errorf(
				"the interrupted run learnt %d numbers at %d exits, there are %d at %d", len(was.Values), len(was.Weigh), n, len(l.k.exits))
		}
		l.restore(was.Values)
		l.weigh = was.Weigh
		return was, nil
	}
	e, err := l.error(ctx, r, feeds, samples)
	return &Lesson{First: e, Least: e, Weigh: l.weigh, Best: l.values()}, err
}

// learning offers Save how far a lesson is; nil when it is over.
func (b *Bench) learning(state func() *Lesson) error {
	if b.Save == nil || b.point == nil {
		return nil
	}
	if b.point.lesson = state; state == nil {
		return nil
	}
	return b.offer(false)
}
