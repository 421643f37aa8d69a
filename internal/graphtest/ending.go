package graphtest

import (
	"context"
	"sync/atomic"
)

// Ending is a context that ends when Err has been asked so many times, by any goroutine. It shows that something ends wherever it asks.
type Ending struct {
	context.Context
	left atomic.Int64
}

// NewEnding is a context that ends at the n-th question from 0.
func NewEnding(n int) *Ending {
	e := &Ending{Context: context.Background()}
	e.left.Store(int64(n))
	return e
}

func (e *Ending) Err() error {
	if e.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}
