package calib

import (
	"fmt"
	"sync"

	"qwb/quantizer/tqc"
)

// Memo keeps the ranges that methods gave, for callers that render one graph from one set of statistics many times with other
// nodes in float, as a search does. The zero value is ready; it may be shared by goroutines.
type Memo struct {
	mu    sync.Mutex
	tried map[memoKey][]trial
	masks *masks
}

// memoKey is everything a range depends on beside graph and statistics.
type memoKey struct {
	values     string
	asked      tqc.Observer
	config     tqc.Config
	percentile float64
}

func (a *activation) memoKey(percentile float64) memoKey {
	return memoKey{fmt.Sprint(a.values), a.asked, a.slot.Config, percentile}
}

// find returns what was tried for a key, nil if nothing was. A nil Memo remembers nothing.
func (m *Memo) find(k memoKey) []trial {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tried[k]
}

func (m *Memo) keep(k memoKey, tried []trial) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tried == nil {
		m.tried = map[memoKey][]trial{}
	}
	m.tried[k] = tried
}

// maskedBy returns the masks of the graph, found once for all callers.
func (m *Memo) maskedBy(find func() *masks) *masks {
	if m == nil {
		return find()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.masks == nil {
		m.masks = find()
	}
	return m.masks
}
