package analysis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/shard"
)

// collector runs samples through workers and puts together what each gives.
type collector[T any] struct {
	stage    string       // names the errors
	threads  int          // samples at a time, 0 for one
	graph    *graph.Graph // that runs, and what it is run for: threads are as many as fit into memory, see exec.Fit; nil for any
	work     exec.Work
	progress func(done int) // may be nil; calls do not overlap
	// worker makes what one goroutine uses. All are made before the first sample is read. index is the place of a sample in the data.
	worker func() func(ctx context.Context, index int, s *exec.Sample) (T, error)
	// then, which may be nil, adds what a sample gave to what all give, in any order: not in a part of a run, which keeps it as it is.
	then func(index int, r *T)
	// Samples before the first one are counted in their places; deal is of all.
	from int
	// join adds a range of a sample to the first one.
	join  func(all *T, more T, r int) error
	deal  shard.Deal
	kinds []any // what interfaces in a T hold

	mu       sync.Mutex // guards what follows
	results  []T
	done     int
	failed   error
	failedAt int
}

// run returns the results in the order of the data. It fails with the error of the first sample, in that order, that cannot be
// read or used, and where there are no samples. Samples are handed out in order and those handed out are finished, so that the
// error does not depend on threads either. A collector runs once. In a part of a run it ends with shard.ErrDone, and where parts are put
// together results are theirs.
func (c *collector[T]) run(ctx context.Context, samples exec.Iterator) ([]T, error) {
	type job struct {
		index  int
		sample *exec.Sample
	}
	if c.deal.IsMerge() {
		return c.gather(ctx)
	}
	samples, err := c.fit(ctx, samples)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.stage, err)
	}
	jobs := make(chan job)
	var steps chan job // of sequences: each step needs what the one before left, so that one worker has them all
	var workers sync.WaitGroup
	start := func(jobs <-chan job) {
		work := c.worker()
		workers.Add(1)
		go func() {
			defer workers.Done()
			for j := range jobs {
				var r T
				err := graph.Try(func() (err error) {
					at := c.place(j.index)
					r, err = shard.Unit(c.deal.Run, c.unit(at, c.deal.Range(at)), true, func() (T, error) { return work(ctx, at, j.sample) }, c.kinds...)
					if err == nil && c.then != nil && !c.deal.IsPart() {
						c.then(at, &r)
					}
					return err
				})
				if err != nil {
					c.fail(j.index, fmt.Errorf("%s: sample %s: %w", c.stage, j.sample.Name, err))
				} else {
					c.put(j.index, r)
				}
			}
		}()
	}
	for range max(c.threads, 1) {
		start(jobs)
	}
	for i := 0; ctx.Err() == nil && !c.stopped(); i++ {
		s, err := samples.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			c.fail(i, fmt.Errorf("%s: %w", c.stage, err))
			break
		}
		if s.Sequence == nil {
			jobs <- job{i, s}
			continue
		}
		if steps == nil {
			steps = make(chan job)
			start(steps)
		}
		steps <- job{i, s}
	}
	close(jobs)
	if steps != nil {
		close(steps)
	}
	workers.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case c.failed != nil:
		return nil, c.failed
	case c.deal.IsPart() && c.deal.Len > 0:
		return nil, c.deal.Done()
	case len(c.results) == 0:
		return nil, fmt.Errorf("%s: the data set is empty", c.stage)
	}
	return c.results, nil
}

// place is where the i-th sample that is run stands among all.
func (c *collector[T]) place(i int) int {
	if c.deal.IsPart() {
		return c.deal.Places[i]
	}
	return c.from + i
}

// unit is what the result of a sample, or of one of its ranges, is called in a part.
func (c *collector[T]) unit(place, r int) string {
	if c.deal.Ranges > 1 {
		return fmt.Sprintf("%s, sample %d, range %d", c.stage, place, r)
	}
	return fmt.Sprintf("%s, sample %d", c.stage, place)
}

// gather returns what the parts of a run have.
func (c *collector[T]) gather(ctx context.Context) ([]T, error) {
	for i := range c.deal.Len - c.from {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r, err := shard.Unit[T](c.deal.Run, c.unit(c.from+i, 0), false, nil, c.kinds...)
		for k := 1; k < c.deal.Ranges && err == nil; k++ {
			var more T
			if more, err = shard.Unit[T](c.deal.Run, c.unit(c.from+i, k), false, nil, c.kinds...); err == nil {
				err = c.join(&r, more, k)
			}
		}
		if err != nil {
			return nil, err
		}
		if c.then != nil {
			c.then(c.from+i, &r)
		}
		c.put(i, r)
	}
	return c.results, nil
}

// fit lets as many samples run at a time as fit into memory, judged by the first one. It returns the samples from the first on.
func (c *collector[T]) fit(ctx context.Context, samples exec.Iterator) (exec.Iterator, error) {
	if c.graph == nil || exec.MemoryOf(ctx) == 0 {
		return samples, nil
	}
	s, err := samples.Next(ctx)
	if err == nil {
		c.work.Threads = c.threads
		c.threads, _, err = exec.Fit(ctx, c.graph, s.Feeds, c.work, 0)
		return &first{Iterator: samples, sample: s}, err
	}
	return &first{Iterator: samples, err: err}, nil
}

func (c *collector[T]) put(index int, r T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.results) <= index {
		var none T
		c.results = append(c.results, none)
	}
	c.results[index] = r
	c.done++
	if c.progress != nil {
		c.progress(c.done)
	}
}

func (c *collector[T]) fail(index int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil || index < c.failedAt {
		c.failed, c.failedAt = err, index
	}
}

func (c *collector[T]) stopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed != nil
}
