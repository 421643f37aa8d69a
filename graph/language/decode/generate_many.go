package decode

import (
	"context"
	"fmt"
	"slices"

	"qwb/internal/arrange"
)

// Many says how GenerateMany continues prompts.
type Many struct {
	Limit    int // positions of each, its prompt included, as Generate counts them; 0: the context of the model
	Sampling     // each prompt draws as if it were alone
	Width    int // sequences that are in memory at once, at least one; never changes a result
	// Done is given the ids of each prompt with its continuation as it ends, in any order.
	Done func(i int, ids []int) error
}

const (
	manyRows   = 512 // tokens that run at once
	manyWorth  = 16  // tokens that are worth waiting for another sequence to have run them
	manyBefore = 1   // a sequence runs at least its last token itself, for the logits
)

// CacheBytes is how much memory the cache of a sequence of so many positions takes.
func (e *Engine) CacheBytes(positions int) int64 {
	room := (int64(positions) + cacheBlock - 1) / cacheBlock * cacheBlock
	return int64(e.Layers) * int64(e.KVHeads) * room * int64(e.HeadDim+blocks(e.HeadDim)) * 4
}

// GenerateMany continues each of several prompts as Generate does, with the same result, several at once. What prompts have in common at
// their beginnings is run once and its keys and values are copied (not on a device); shared is how many tokens did not run for that. Caches
// are in one piece and not in pages: sums over positions go on from one page to the next.
func (e *Engine) GenerateMany(ctx context.Context, prompts [][]int, m Many) (shared int, err error) {
	if err := m.Validate(e.Vocab); err != nil {
		return 0, fmt.Errorf("generate: %w", err)
	}
	if m.Limit == 0 || m.Limit > e.Context {
		m.Limit = e.Context
	}
	g := &many{Many: m, engine: e, prompts: prompts, queue: make([]int, len(prompts))}
	for i, p := range prompts {
		if g.queue[i] = i; len(p) == 0 || len(p) > m.Limit {
			return 0, fmt.Errorf("generate: prompt %d has %d tokens; there are 1 to %d", i+1, len(p), m.Limit)
		}
	}
	arrange.Stable(g.queue, func(a, b int) int { return slices.Compare(prompts[a], prompts[b]) })
	for {
		for len(g.queue) > 0 && len(g.live) < max(m.Width, 1) && g.start() {
		}
		if len(g.live) == 0 {
			return g.shared, nil
		}
		if err := g.step(ctx); err != nil {
			return g.shared, err
		}
	}
}

// many is the state of GenerateMany.
type many struct {
	Many
	engine  *Engine
	prompts [][]int
	queue   []int // prompts to begin with, like ones side by side
	live    []*continued
	spare   []*continued // that ended; their caches hold what they had
	shared  int

	batch  []Sequence
	chosen []*continued // whose logits the batch gives, in order
}

// continued is a prompt that is being continued. What its cache holds are the first of ids.
type continued struct {
	index  int
	prompt int
	ids    []int
	cache  *Cache
	choose *sampler
}

// start begins with the next prompt, and reports whether it did: not where another sequence is about to run what both begin with.
func (g *many) start() bool {
	prompt := g.prompts[g.queue[0]]
	var from *continued
	have, soon := 0, 0
	for _, s := range slices.Concat(g.live, g.spare) {
		if g.engine.device != nil {
			break // caches are not copied there
		}
		n := common(prompt, s.ids)
		soon = max(soon, min(n, s.prompt))
		if n = min(n, s.cache.length, len(prompt)-manyBefore); n > have {
			from, have = s, n
		}
	}
	if soon >= have+manyWorth {
		return false
	}
	s := &continued{index: g.queue[0], prompt: len(prompt), ids: slices.Clone(prompt), choose: newSampler(g.Sampling)}
	if at := slices.Index(g.spare, from); at >= 0 {
		s.cache, g.spare = from.cache, slices.Delete(g.spare, at, at+1)
	} else if n := len(g.spare); n > 0 {
		s.cache, g.spare = g.spare[0].cache, g.spare[1:]
	} else {
		s.cache = g.engine.NewCache()
		if g.engine.device == nil {
			s.cache.reserve(g.Limit)
		}
	}
	if from != nil {
		s.cache.take(from.cache, have)
	} else {
		s.cache.Clear()
	}
	g.shared += have
	g.queue, g.live = g.queue[1:], append(g.live, s)
	return true
}

// common is how many ids two texts begin with alike.
func common(a, b []int) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// step runs the tokens that come next, and chooses those behind them.
func (g *many) step(ctx context.Context) error {
	g.batch, g.chosen = g.batch[:0], g.chosen[:0]
	rows := 0
	for _, s := range g.live {
		next := s.ids[s.cache.length:]
		next = next[:min(len(next), manyRows-rows)]
		if len(next) == 0 {
			break
		}
		q := Sequence{Cache: s.cache, Tokens: next}
		if s.cache.length+len(next) == len(s.ids) {
			q.Want, g.chosen = 1, append(g.chosen, s)
		}
		g.batch, rows = append(g.batch, q), rows+len(next)
	}
	logits, err := g.engine.Forward(ctx, g.batch)
	if err != nil {
		return err
	}
	for i, s := range g.chosen {
		id := s.choose.next(logits[i*g.engine.Vocab:][:g.engine.Vocab])
		ended := slices.Contains(g.engine.EOS, id)
		if !ended {
			s.ids = append(s.ids, id)
		}
		if !ended && len(s.ids) <= g.Limit {
			continue
		}
		g.live = slices.DeleteFunc(g.live, func(o *continued) bool { return o == s })
		g.spare = append(g.spare, s)
		if err := g.Done(s.index, slices.Clone(s.ids)); err != nil {
			return err
		}
	}
	return nil
}
