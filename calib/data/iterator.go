package data

import (
	"context"
	"io"

	"qwb/graph/exec"
)

// iterator loads samples ahead of its consumer. At most ahead samples are being loaded or waiting; each is loaded by a
// goroutine of its own that ends when it is done, so an iterator may be dropped at any time.
type iterator struct {
	set     *Set
	ahead   int
	started int
	pending []chan loaded
}

type loaded struct {
	sample *exec.Sample
	err    error
}

// Next returns the next sample in order, io.EOF behind the last one. After any other error the iteration is over.
func (it *iterator) Next(ctx context.Context) (*exec.Sample, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for len(it.pending) < it.ahead && it.started < it.set.Len() {
		done := make(chan loaded, 1)
		go func(i int) {
			s, err := it.set.Sample(i)
			done <- loaded{s, err}
		}(it.started)
		it.pending = append(it.pending, done)
		it.started++
	}
	if len(it.pending) == 0 {
		return nil, io.EOF
	}
	select {
	case r := <-it.pending[0]:
		it.pending = it.pending[1:]
		if r.err != nil {
			it.pending, it.started = nil, it.set.Len()
		}
		return r.sample, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (it *iterator) Len() int { return it.set.Len() }
