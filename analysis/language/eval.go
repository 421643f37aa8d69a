package language

import (
	"context"
	"errors"
	"fmt"
	"io"

	"qwb/graph/exec"
	"qwb/graph/language/decode"
)

// Passage is one text to score.
type Passage struct {
	Name string // where it comes from, for messages
	IDs  []int  // the first one begins the text, the others are scored: there are at least two
	Cut  bool   // the text goes on
}

// Passages gives texts one after the other, and io.EOF after the last one.
type Passages func(ctx context.Context) (*Passage, error)

// Config says how Eval works.
type Config struct {
	Model   *decode.Engine
	Float   *decode.Engine      // what Model is held against, another engine; nil: nothing
	Rows    int                 // tokens that run at once, 0 for as many as pay; never changes a result
	Threads int                 // that score, at least one; never changes a result
	Keep    int                 // tokens, the first ones, whose scores are in the result; only against Float
	Each    func(s Score) error // is shown every sequence, in order; may be nil
}

const (
	logitBytes = 64 << 20 // about what the logits of a batch take, for each engine
	mostRows   = 512      // beyond it products become no faster
)

// batchRows is how many tokens run at once.
func batchRows(vocab int) int { return min(max(logitBytes/(4*vocab), 16), mostRows) }

// Eval scores texts, several in one forward pass, and long ones in several. Whatever the number of texts, it holds the logits of
// one batch of tokens, and the keys and values of the texts in it. Results do not depend on how texts fall into batches.
func Eval(ctx context.Context, texts Passages, cfg Config) (*Result, error) {
	r := &textRun{cfg: cfg, texts: texts, engines: []*decode.Engine{cfg.Model}, total: tally{against: cfg.Float != nil},
		scorer: rowScorer{par: exec.Parallel(max(cfg.Threads, 1))}}
	if cfg.Float != nil {
		if cfg.Float.Vocab != cfg.Model.Vocab {
			return nil, fmt.Errorf("eval: models with vocabularies of %d and %d tokens cannot be compared", cfg.Model.Vocab, cfg.Float.Vocab)
		}
		r.engines = append(r.engines, cfg.Float)
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
	out.PerToken = r.per
	return out, nil
}

// textRun is the state between batches.
type textRun struct {
	cfg     Config
	texts   Passages
	ended   bool
	engines []*decode.Engine // the model, then the float one
	total   tally
	scorer  rowScorer

	open  []*openText // begun and not finished, in order
	kept  int         // tokens whose scores are kept
	per   []TokenScore
	spare []*openText // finished, kept for the memory of their caches
	batch []decode.Sequence
	next  []int // the ids that follow those of the batch
}

// openText is a text that is being scored.
type openText struct {
	*Passage
	caches []*decode.Cache // of each engine
	at     int             // how many ids have been run
	take   int             // how many of them run in the batch
	tokens []TokenScore    // that are kept
	score  Score
}

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
	*t = openText{Passage: p, caches: t.caches, score: Score{Name: p.Name, Tokens: len(p.IDs) - 1}}
	for i, e := range r.engines {
		if i == len(t.caches) {
			t.caches = append(t.caches, decode.NewCache(&e.Config))
		}
		t.caches[i].Clear()
	}
	return t, nil
}

// run runs the batch and scores its tokens.
func (r *textRun) run(ctx context.Context) error {
	r.next = r.next[:0]
	for _, t := range r.open {
		r.next = append(r.next, t.IDs[t.at+1:][:t.take]...)
	}
	var logits [2][]float32
	for i, e := range r.engines {
		r.batch = r.batch[:0]
		for _, t := range r.open {
			r.batch = append(r.batch, decode.Sequence{Cache: t.caches[i], Tokens: t.IDs[t.at:][:t.take], Want: t.take})
		}
		var err error
		if logits[i], err = e.Forward(ctx, r.batch); err != nil {
			return r.name(err)
		}
	}
	rows, err := r.scorer.score(logits[0], logits[1], r.next)
	if err != nil {
		return r.name(err)
	}
	for _, t := range r.open {
		for i, row := range rows[:t.take] {
			if t.score.add(row); r.kept < r.cfg.Keep && r.cfg.Float != nil {
				r.kept++
				t.tokens = append(t.tokens, TokenScore{Sequence: t.Name, Before: t.IDs[t.at+i], ID: t.IDs[t.at+i+1], NLL: row.nll,
					FloatNLL: row.floatNLL, Change: row.nll - row.floatNLL, KL: row.kl, Flip: row.flip})
			}
		}
		rows = rows[t.take:]
		t.at += t.take
	}
	return r.finish()
}

// finish hands out the texts that have been scored to their ends: all but perhaps the last one.
func (r *textRun) finish() error {
	done := len(r.open)
	if last := r.open[done-1]; last.at < len(last.IDs)-1 {
		done--
	}
	for _, t := range r.open[:done] {
		r.total.add(t.score, t.Cut)
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
