package exec

import (
	"sync"

	"qwb/graph/tensor"
)

// maxPacks is how many tensors derived from a node's constants are kept. The float weights, and those that a simulator and
// an analysis put in their place, alternate.
const maxPacks = 4

// packCache keeps what was derived from constant tensors, by their pointers. It is safe for concurrent use.
type packCache struct {
	mu      sync.Mutex
	entries []packEntry // most recently used first
}

type packEntry struct {
	key   *tensor.Tensor
	value any
}

// keep remembers what was derived from t. Two goroutines may derive the same at the same time.
func (p *packCache) keep(t *tensor.Tensor, v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.entries) == maxPacks {
		p.entries = p.entries[:maxPacks-1]
	}
	p.entries = append(p.entries, packEntry{})
	copy(p.entries[1:], p.entries)
	p.entries[0] = packEntry{t, v}
}

// find returns what was derived from t.
func (p *packCache) find(t *tensor.Tensor) (any, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, e := range p.entries {
		if e.key == t {
			copy(p.entries[1:i+1], p.entries[:i])
			p.entries[0] = e
			return e.value, true
		}
	}
	return nil, false
}
