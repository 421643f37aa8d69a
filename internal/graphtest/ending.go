package graphtest

import "context"

// Ending is a context that ends when Err has been asked Left times. It shows that something ends wherever it asks.
type Ending struct {
	context.Context
	Left int
}

// NewEnding is a context that ends at the n-th question from 0.
func NewEnding(n int) *Ending { return &Ending{context.Background(), n} }

func (e *Ending) Err() error {
	if e.Left == 0 {
		return context.Canceled
	}
	e.Left--
	return nil
}
