package language

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"qwb/graph/exec"
	"qwb/graph/language/decode"
)

// Passage is one text to score.
type Passage struct {
	Name  string // where it comes from, for messages
	IDs   []int  // the first one begins the text, the others are scored: there are at least two
	First int    // the first id that is scored; 0: 1
	Cut   bool   // the text goes on
}

// Passages gives texts one after the other, and io.EOF after the last one.
type Passages func(ctx context.Context) (*Passage, error)

// Config says how Eval works.
type Config struct {
	Model *decode.Engine
	// Float is what Model is held against, with a cache of float32; nil: nothing. Where it is Model itself, what is seen is its cache.
	Float *decode.Engine
	// Base is what Model is held against in place of Float: the probabilities of the same tokens in a file; nil: nothing.
	Base *LogProbs
	// Cache holds Model against itself with a cache of float32, too.
	Cache   bool
	Rows    int // tokens that run at once, 0 for as many as pay; never changes a result
	Threads int // that score, at least one; never changes a result
	Keep    int // tokens, the first ones, whose scores are in the result; only against Float

	// These are shown every sequence, every scored token, and the logits it is scored by, in order; they may be nil.
	Each   func(s Score) error
	Token  func(s TokenScore) error
	Logits func(row []float32) error
}

// against reports whether the model is held against another one.
func (c *Config) against() bool { return c.Float != nil || c.Base != nil }

const (
	logitBytes = 64 << 20 // about what the logits of a batch take, for each engine
	mostRows   = 512      // beyond it products become no faster
)

// batchRows is how many tokens run at once.
func batchRows(vocab int) int { return min(max(logitBytes/(4*vocab), 16), mostRows) }

// Eval scores texts, several in one forward pass, and long ones in several. Whatever the number of texts, it holds the logits of
// one batch of tokens, and the keys and values of the texts in it. Results do not depend on how texts fall into batches.
func Eval(ctx context.Context, texts Passages, cfg Config) (*Result, error) {
	par := exec.Parallel(max(cfg.Threads, 1))
	r := &textRun{cfg: cfg, texts: texts, total: tally{against: cfg.against()}, cache: tally{against: true},
		scorer: rowScorer{par: par, base: cfg.Base != nil}, cacheScorer: rowScorer{par: par}}
	r.sides = []*side{{engine: cfg.Model, cache: cfg.Model.NewCache}}
	add := func(e *decode.Engine) {
		r.sides = append(r.sides, &side{engine: e, cache: func() *decode.Cache { return decode.NewCache(&e.Config) }})
	}
	if cfg.Float != nil {
		if cfg.Float.Vocab != cfg.Model.Vocab {
			return nil, fmt.Errorf("eval: models with vocabularies of %d and %d tokens cannot be compared", cfg.Model.Vocab, cfg.Float.Vocab)
		}
		add(cfg.Float)
	}
	if cfg.Cache {
		add(cfg.Model)
	}
	if r.cfg.Rows == 0 {
		r.cfg.Rows = batchRows(cfg.Model.Vocab)
	}
	for {
		n, err := r.gather(ctx)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		if err := r.run(ctx); err != nil {
			return nil, err
		}
	}
	if r.total.sequences == 0 {
		return nil, errors.New("eval: there is no text")
	}
	out := r.total.result()
	if cfg.Cache {
		out.CacheChange = r.cache.changed()
	}
	out.PerToken = r.per
	return out, nil
}

// textRun is the state between batches.
type textRun struct {
	cfg   Config
	texts Passages
	ended bool
	sides []*side // the model, the float one, the model with a cache of float32, where they are asked for

	total, cache        tally
	scorer, cacheScorer rowScorer

	open  []*openText // begun and not finished, in order
	kept  int         // tokens whose scores are kept
	per   []TokenScore
	spare []*openText // finished, kept for the memory of their caches
	batch []decode.Sequence
	next  []int // the ids that follow those of the batch
}

// side is an engine with its kind of cache.
type side struct {
	engine *decode.Engine
	cache  func() *decode.Cache
	logits []float32 // of the batch
	kept   []float32
}

// openText is a text that is being scored.
type openText struct {
	*Passage
	caches []*decode.Cache // of each side
	at     int             // how many ids have been run
	take   int             // how many of them run in the batch
	tokens []TokenScore    // that are kept
	score  Score
	cache  Score // against the model's own cache of float32
}

// scored is how many of the tokens of the batch are followed by ids that are scored: the last ones.
func (t *openText) scored() int { return max(0, min(t.take, t.at+t.take+1-t.First)) }

// gather decides what the next batch consists of and returns how many tokens that is: what is left of the open texts, and new texts
// until the batch is full.
func (r *textRun) gather(ctx context.Context) (int, error) {
	n := 0
	for i := 0; n < r.cfg.Rows; i++ {
		if i == len(r.open) {
			t, err := r.begin(ctx)
			if err != nil {
				return 0, err
			}
			if t == nil {
				break
			}
			r.open = append(r.open, t)
		}
		t := r.open[i]
		t.take = min(r.cfg.Rows-n, len(t.IDs)-1-t.at)
		n += t.take
	}
	return n, nil
}

// begin returns the next text, nil where there is none.
func (r *textRun) begin(ctx context.Context) (*openText, error) {
	if r.ended {
		return nil, nil
	}
	p, err := r.texts(ctx)
	if errors.Is(err, io.EOF) {
		r.ended = true
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(p.IDs) < 2 {
		return nil, fmt.Errorf("eval: %s: %d tokens, there is nothing to score", p.Name, len(p.IDs))
	}
	t := &openText{}
	if last := len(r.spare) - 1; last >= 0 {
		t, r.spare = r.spare[last], r.spare[:last]
	}
	p.First = max(p.First, 1)
	score := Score{Name: p.Name, Tokens: len(p.IDs) - p.First}
	*t = openText{Passage: p, caches: t.caches, score: score, cache: score}
	for i, s := range r.sides {
		if i == len(t.caches) {
			t.caches = append(t.caches, s.cache())
		}
		t.caches[i].Clear()
	}
	return t, nil
}

// forward runs the batch on all sides.
func (r *textRun) forward(ctx context.Context) error {
	for i, s := range r.sides {
		r.batch = r.batch[:0]
		for _, t := range r.open {
			r.batch = append(r.batch, decode.Sequence{Cache: t.caches[i], Tokens: t.IDs[t.at:][:t.take], Want: t.scored()})
		}
		logits, err := s.engine.Forward(ctx, r.batch)
		if err != nil {
			return err
		}
		if s.logits = logits; slices.ContainsFunc(r.sides[i+1:], func(o *side) bool { return o.engine == s.engine }) {
			s.kept = append(s.kept[:0], logits...) // the engine will overwrite them
			s.logits = s.kept
		}
	}
	return nil
}

// run runs the batch and scores its tokens.
func (r *textRun) run(ctx context.Context) error {
	r.next = r.next[:0]
	for _, t := range r.open {
		end := t.at + t.take + 1
		r.next = append(r.next, t.IDs[end-t.scored():end]...)
	}
	if err := r.forward(ctx); err != nil {
		return r.name(err)
	}
	rows, cache, err := r.scores()
	if err != nil {
		return r.name(err)
	}
	for _, t := range r.open {
		n := t.scored()
		for i, row := range rows[:n] {
			if t.score.add(row); cache != nil {
				t.cache.add(cache[i])
			}
			if err := r.token(t, t.at+t.take+1-n+i, row); err != nil {
				return err
			}
		}
		if rows = rows[n:]; cache != nil {
			cache = cache[n:]
		}
		t.at += t.take
	}
	return r.finish()
}

// scores are those of the ids that follow the batch, and of the cache where it is asked for.
func (r *textRun) scores() (rows, cache []rowScore, err error) {
	if len(r.next) == 0 {
		return nil, nil, nil
	}
	logits, vocab := r.sides[0].logits, r.cfg.Model.Vocab
	var float []float32
	switch {
	case r.cfg.Base != nil:
		if float, err = r.cfg.Base.next(len(r.next)); err != nil {
			return nil, nil, err
		}
	case r.cfg.Float != nil:
		float = r.sides[1].logits
	}
	if rows, err = r.scorer.score(logits, float, r.next); err == nil && r.cfg.Cache {
		cache, err = r.cacheScorer.score(logits, r.sides[len(r.sides)-1].logits, r.next)
	}
	for i := 0; err == nil && r.cfg.Logits != nil && i < len(r.next); i++ {
		err = r.cfg.Logits(logits[i*vocab:][:vocab])
	}
	return rows, cache, err
}

// token keeps the score of an id and shows it.
func (r *textRun) token(t *openText, at int, row rowScore) error {
	keep := r.kept < r.cfg.Keep && r.cfg.against()
	if !keep && r.cfg.Token == nil {
		return nil
	}
	s := TokenScore{Sequence: t.Name, Position: at, Before: t.IDs[at-1], ID: t.IDs[at], NLL: row.nll}
	if r.cfg.against() {
		s.FloatNLL, s.Change, s.KL, s.Flip = row.floatNLL, row.nll-row.floatNLL, row.kl, row.flip
	}
	if keep {
		r.kept++
		t.tokens = append(t.tokens, s)
	}
	if r.cfg.Token == nil {
		return nil
	}
	return r.cfg.Token(s)
}

// finish hands out the texts that have been scored to their ends: all but perhaps the last one.
func (r *textRun) finish() error {
	done := len(r.open)
	if last := r.open[done-1]; last.at < len(last.IDs)-1 {
		done--
	}
	for _, t := range r.open[:done] {
		r.total.add(t.score, t.Cut)
		r.cache.add(t.cache, t.Cut)
		r.per = append(r.per, t.tokens...)
		if r.cfg.Each != nil {
			if err := r.cfg.Each(t.score); err != nil {
				return err
			}
		}
		r.spare = append(r.spare, t)
	}
	r.open = append(r.open[:0], r.open[done:]...)
	return nil
}

// name says in which texts something happened.
func (r *textRun) name(err error) error {
	first, last := r.open[0].Name, r.open[len(r.open)-1].Name
	if first != last {
		first += " to " + last
	}
	return fmt.Errorf("eval: %s: %w", first, err)
}
