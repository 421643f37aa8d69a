package decode

import (
	"context"
	"fmt"
	"slices"
)

// Generate continues a prompt: it runs the prompt, then chooses one token after the other until the model ends the text or limit
// positions have been run, the prompt's included, so that at most limit+1 ids come out; 0: the context of the model. Each id that follows
// the prompt is given to emit, which may be nil; an error of emit ends the generation. It returns the ids of prompt and continuation
// without the one that ended it. The first id of a prompt is the one that begins a text.
func (e *Engine) Generate(ctx context.Context, prompt []int, limit int, s Sampling, emit func(id int) error) ([]int, error) {
	if err := s.Validate(e.Vocab); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	if limit == 0 || limit > e.Context {
		limit = e.Context
	}
	if len(prompt) == 0 || len(prompt) > limit {
		return nil, fmt.Errorf("generate: a prompt of %d tokens; there are 1 to %d", len(prompt), limit)
	}
	choose := newSampler(s)
	ids := slices.Clone(prompt)
	cache := e.NewCache()
	for next := prompt; len(ids) <= limit; next = ids[len(ids)-1:] {
		logits, err := e.prefill(ctx, cache, next)
		if err != nil {
			return nil, err
		}
		id := choose.next(logits)
		if slices.Contains(e.EOS, id) {
			break
		}
		ids = append(ids, id)
		if emit != nil {
			if err := emit(id); err != nil {
				return ids, err
			}
		}
	}
	return ids, nil
}

// prefill runs tokens in blocks and returns the logits of the last one.
func (e *Engine) prefill(ctx context.Context, cache *Cache, tokens []int) ([]float32, error) {
	for len(tokens) > blockTokens {
		if _, err := e.Forward(ctx, []Sequence{{cache, tokens[:blockTokens], 0}}); err != nil {
			return nil, err
		}
		tokens = tokens[blockTokens:]
	}
	return e.Forward(ctx, []Sequence{{cache, tokens, 1}})
}
