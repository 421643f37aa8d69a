package calib

import (
	"sync"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/observers"
)

// roomChunk is how many counters a file has place for: those of two dozen tensors.
const roomChunk = 1 << 20

// roomIn gives place for counters, ranges of channels and sums in files of a store, nil where there is none: those of thousands of tensors
// take more memory than the weights that they are read beside.
func roomIn(store graph.Store) observers.Room {
	if store == nil {
		return nil
	}
	var mu sync.Mutex
	var free []uint32
	return func(n int) []uint32 {
		n += n & 1 // so that all begin at an address that 8 divides
		mu.Lock()
		defer mu.Unlock()
		if n > len(free) {
			size := max(n, roomChunk)
			free = store.Keep(&tensor.Tensor{DType: tensor.Uint32, Shape: []int{size}, Data: make([]uint32, size)}).Data.([]uint32)
		}
		table := free[:n:n]
		free = free[n:]
		return table
	}
}
