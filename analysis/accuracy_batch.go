package analysis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// batched is an iterator that runs samples through forwards in groups, before it hands them on one at a time.
type batched struct {
	samples  exec.Iterator
	n        int
	forwards []Forward // nil for what does not run
	waiting  []*exec.Sample
	end      error // of samples
	tried    bool

	mu   sync.Mutex // guards outs
	outs map[*exec.Sample][][]*tensor.Tensor
}

// Next implements exec.Iterator.
func (b *batched) Next(ctx context.Context) (*exec.Sample, error) {
	for len(b.waiting) < b.n && b.end == nil && (len(b.waiting) == 0 || !b.has(b.waiting[0])) {
		s, err := b.samples.Next(ctx)
		if err != nil {
			b.end = err
			break
		}
		b.waiting = append(b.waiting, s)
	}
	if len(b.waiting) == 0 {
		return nil, b.end
	}
	s := b.waiting[0]
	if !b.has(s) {
		if err := b.run(ctx); err != nil {
			return nil, err
		}
	}
	b.waiting = b.waiting[1:]
	return s, nil
}

// Len implements exec.Iterator.
func (b *batched) Len() int { return b.samples.Len() }

func (b *batched) has(s *exec.Sample) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outs[s] != nil
}

// take returns what forward k gave for a sample.
func (b *batched) take(k int) func(context.Context, *exec.Sample) ([]*tensor.Tensor, error) {
	if b.forwards[k] == nil {
		return nil
	}
	return func(_ context.Context, s *exec.Sample) ([]*tensor.Tensor, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		out := b.outs[s][k]
		if b.outs[s][k] = nil; !slices.ContainsFunc(b.outs[s], func(o []*tensor.Tensor) bool { return o != nil }) {
			delete(b.outs, s)
		}
		return out, nil
	}
}

// run runs the samples that wait, together. Of the first group every sample is run alone too: where that gives something else, the
// graph mixes the samples of a batch.
func (b *batched) run(ctx context.Context) error {
	group := b.waiting
	feeds := map[string]*tensor.Tensor{}
	for _, name := range slices.Sorted(maps.Keys(group[0].Feeds)) {
		parts := make([]*tensor.Tensor, len(group))
		for i, s := range group {
			if parts[i] = s.Feeds[name]; parts[i] == nil {
				return fmt.Errorf("batch: input %q is missing", name)
			}
		}
		var err error
		if feeds[name], err = tensor.Join(parts); err != nil {
			return fmt.Errorf("batch: input %q: %w", name, err)
		}
	}
	outs := make([][][]*tensor.Tensor, len(group))
	for i := range outs {
		outs[i] = make([][]*tensor.Tensor, len(b.forwards))
	}
	for k, f := range b.forwards {
		if f == nil {
			continue
		}
		all, err := f(ctx, feeds)
		if err != nil {
			return fmt.Errorf("batch of %d: %w", len(group), err)
		}
		for i := range group {
			for _, t := range all {
				part, err := t.Part(i, len(group))
				if err != nil {
					return fmt.Errorf("batch: %w", err)
				}
				outs[i][k] = append(outs[i][k], part)
			}
		}
		for i, s := range group {
			if b.tried {
				break
			}
			alone, err := f(ctx, s.Feeds)
			if err != nil {
				return err
			}
			for o, t := range alone {
				if !tensor.Equal(t, outs[i][k][o]) {
					return errors.New("batch: an output depends on the other samples of a batch; run them one at a time")
				}
			}
		}
	}
	b.tried = true
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, s := range group {
		b.outs[s] = outs[i]
	}
	return nil
}

// one makes a forward of single samples what a classifier calls.
func one(f Forward) func(context.Context, *exec.Sample) ([]*tensor.Tensor, error) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, s *exec.Sample) ([]*tensor.Tensor, error) { return f(ctx, s.Feeds) }
}
