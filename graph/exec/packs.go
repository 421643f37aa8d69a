package exec

import (
	"maps"
	"slices"
	"sync"
	"weak"

	"qwb/graph/tensor"
	"qwb/kernels"
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

// keep remembers what was derived from t, in place of anything else that was, and returns it, or what another goroutine has derived
// meanwhile where same says that it will do.
func (p *packCache) keep(t *tensor.Tensor, v any, same func(any) bool) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		if e.key == t && same(e.value) {
			return e.value
		}
	}
	p.entries = slices.DeleteFunc(p.entries, func(e packEntry) bool { return e.key == t })
	p.entries = slices.Insert(p.entries[:min(len(p.entries), maxPacks-1)], 0, packEntry{t, v})
	return v
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

// Forget gives up what is kept of constants in forms that kernels read; it is made again when it is needed. Runs may be under way.
func (s *Session) Forget() {
	for i := range s.steps {
		p := &s.steps[i].packs
		p.mu.Lock()
		p.entries = nil
		p.mu.Unlock()
		for _, sub := range s.steps[i].subs {
			sub.Forget()
		}
	}
}

// sharedProducts lets the products that read one constant, such as weights that the layers of a network share, pack it once. What no step
// keeps any more goes. It is safe for concurrent use.
type sharedProducts struct {
	mu   sync.Mutex
	list map[productKey]weak.Pointer[kernels.GemmF32]
}

// productKey is everything that a packed right-hand side depends on.
type productKey struct {
	t     weak.Pointer[tensor.Tensor]
	k, n  int
	trans bool
}

// find returns what was packed, nil if nobody has it.
func (s *sharedProducts) find(key productKey) *kernels.GemmF32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list[key].Value()
}

// keep remembers what was packed. Two goroutines may pack the same at the same time. Those that are gone are forgotten when there are many
// more than each of the steps keeps.
func (s *sharedProducts) keep(key productKey, g *kernels.GemmF32, steps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		s.list = map[productKey]weak.Pointer[kernels.GemmF32]{}
	}
	if len(s.list) > 2*maxPacks*(steps+8) {
		maps.DeleteFunc(s.list, func(_ productKey, g weak.Pointer[kernels.GemmF32]) bool { return g.Value() == nil })
	}
	s.list[key] = weak.Make(g)
}
