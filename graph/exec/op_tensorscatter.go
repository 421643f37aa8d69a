package exec

import (
	"fmt"

	"qwb/graph"
)

// buildTensorScatter copies a cache with an update written into it along an axis, in each sample from an index of its own on;
// beyond the end it goes on at the beginning where the mode is circular.
func buildTensorScatter(n *graph.Node, _ int64) (evalFunc, error) {
	mode, along := n.AttrStr("mode", "linear"), n.Axis()
	if mode != "linear" && mode != "circular" {
		return nil, fmt.Errorf("mode %q is not supported", mode)
	}
	return func(c *call) error {
		cache, update := c.in(0), c.in(1)
		axis, err := axisIn(along, len(cache.Shape))
		if err != nil {
			return err
		}
		fits := axis > 0 && cache.DType == update.DType && len(update.Shape) == len(cache.Shape)
		for a := 0; fits && a < len(cache.Shape); a++ {
			fits = update.Shape[a] == cache.Shape[a] || a == axis && update.Shape[a] < cache.Shape[a]
		}
		if !fits {
			return fmt.Errorf("update %s of cache %s along axis %d", update.Type(), cache.Type(), axis)
		}
		start := make([]int, cache.Shape[0])
		if c.has(2) {
			if start, err = ints(c.in(2)); err != nil {
				return err
			}
		}
		if len(start) != cache.Shape[0] {
			return fmt.Errorf("%d write indices for %d samples", len(start), cache.Shape[0])
		}
		if err := c.copyOut(0, cache, cache.Shape); err != nil {
			return err
		}
		_, size, inner := blocks(cache.Shape, axis)
		outer, length, _ := blocks(update.Shape, axis)
		index := make([]int, 0, outer*length)
		for o := range outer {
			first := start[o*len(start)/outer]
			if first < 0 || mode == "linear" && first > size-length {
				return fmt.Errorf("write index %d for an update of %d in a cache of %d", first, length, size)
			}
			for k := range length {
				index = append(index, o*size+(first%size+k)%size)
			}
		}
		storageOf(c.outs[0].t.Data).scatter(update.Data, index, inner)
		return nil
	}, nil
}
