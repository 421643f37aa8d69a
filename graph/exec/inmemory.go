package exec

import (
	"context"
	"io"
)

// InMemory is a data set that was read already: an iterator over Samples, in their order. The zero value is an empty one.
type InMemory struct {
	Samples []*Sample
	at      int
}

// Next returns the next sample, io.EOF behind the last.
func (m *InMemory) Next(context.Context) (*Sample, error) {
	if m.at == len(m.Samples) {
		return nil, io.EOF
	}
	m.at++
	return m.Samples[m.at-1], nil
}

// Len is the number of all samples, those included that were returned already.
func (m *InMemory) Len() int { return len(m.Samples) }
