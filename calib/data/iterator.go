package data

import (
	"context"
	"io"

	"qwb/graph"
	"qwb/graph/exec"
)

// iterator loads samples ahead of its consumer. At most ahead samples are being loaded or wait to be read; where memory is
// limited it is one, until the first sample has shown how large they are. Each sample is loaded by a goroutine of its own,
// which ends when it is done, so an iterator may be dropped at any time.
type iterator struct {
	set     *Set
	ahead   int
	started int
	pending []chan loaded
	sample  func(i int) (*exec.Sample, error)
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
	it.load()
	if len(it.pending) == 0 {
		return nil, io.EOF
	}
	select {
	case r := <-it.pending[0]:
		it.pending = it.pending[1:]
		if r.err != nil {
			it.pending, it.started = nil, it.set.Len()
			return nil, r.err
		}
		if it.started == 1 && it.set.rolled == nil { // of a sequence each step takes the one before it
			it.ahead = it.set.fitting(r.sample)
		}
		it.load() // while the consumer works on this one
		return r.sample, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// load starts to load as many samples as may be ahead.
func (it *iterator) load() {
	for len(it.pending) < it.ahead && it.started < it.set.Len() {
		done := make(chan loaded, 1)
		go func(i int) {
			var s loaded
			s.err = graph.Try(func() (err error) { // decoders read what strangers wrote
				s.sample, err = it.sample(i)
				return err
			})
			done <- s
		}(it.started)
		it.pending = append(it.pending, done)
		it.started++
	}
}

// fitting returns how many samples as large as s may be ahead.
func (s *Set) fitting(sample *exec.Sample) int {
	if s.memory <= 0 {
		return s.ahead
	}
	bytes := int64(1)
	for _, t := range sample.Feeds {
		bytes += int64(t.DType.Bytes(t.Len()))
	}
	return int(min(int64(s.ahead), max(1, s.memory/bytes)))
}

func (it *iterator) Len() int { return it.set.Len() }
