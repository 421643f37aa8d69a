package tflite

import (
	"errors"
	"fmt"
	"slices"

	"qwb/internal/flatbuffer"
)

// Constants that are mostly 0 may be kept without their zeros, level by level: the axes in an order, and behind them the axes of the blocks
// into which some of them are cut. A level has all of its places, or lists those that are not empty (tensorflow/lite/kernels/internal/
// utils/sparsity_format_converter.h).

const (
	sparseOrder, sparseBlocks, sparseLevels = 0, 1, 2

	levelFormat, levelSize, levelSegmentsType, levelSegments, levelPlacesType, levelPlaces = 0, 1, 2, 3, 4, 5
)

// level is an axis of a sparse tensor. segments and places are nil where all places are there; else the places from segments[i] to
// segments[i+1] are those of the i-th one of the level above.
type level struct {
	size             int
	segments, places []int
}

// sparse is how the elements of a tensor lie: of level i along axis order[i], or along axis blocks[order[i]-rank] within a block.
type sparse struct {
	order, blocks []int
	levels        []level
}

func sparseOf(v flatbuffer.View) *sparse {
	s := &sparse{order: v.Ints(sparseOrder, 4, true), blocks: v.Ints(sparseBlocks, 4, true)}
	list := func(v flatbuffer.View, typ, slot int) []int {
		size := map[int]int{1: 4, 2: 2, 3: 1}[v.Byte(typ)]
		if size == 0 {
			return nil
		}
		return v.Child(slot).Ints(0, size, size == 4)
	}
	for _, l := range v.Views(sparseLevels) {
		at := level{size: l.I32(levelSize, 0)}
		if l.Byte(levelFormat) == 1 {
			at.segments, at.places = list(l, levelSegmentsType, levelSegments), list(l, levelPlacesType, levelPlaces)
		}
		s.levels = append(s.levels, at)
	}
	return s
}

var errSparse = errors.New("its sparsity does not fit its shape and its data")

// dense returns elements of so many bytes as they would lie with their zeros.
func (s *sparse) dense(shape []int, data []byte, size int) ([]byte, error) {
	rank := len(shape)
	if len(s.order) != len(s.levels) || len(s.order) != rank+len(s.blocks) || !slices.Equal(slices.Sorted(slices.Values(s.order)),
		upTo(len(s.order))) {
		return nil, errSparse
	}
	count := size
	for _, n := range shape {
		count *= n
	}
	out := make([]byte, count)
	block := slices.Repeat([]int{1}, rank) // of each axis
	for k, axis := range s.blocks {
		if axis < 0 || axis >= rank || s.levels[rank+k].size < 1 {
			return nil, errSparse
		}
		block[axis] *= s.levels[rank+k].size
	}
	index := make([]int, len(s.order))
	next, left := 0, (count/size+1)*len(s.order) // a damaged file may visit nothing very often
	var walk func(k, above int) error
	walk = func(k, above int) error {
		if left--; left < 0 {
			return errSparse
		}
		if k == len(s.order) {
			at := s.place(index, shape)
			if at < 0 || (next+1)*size > len(data) {
				return errSparse
			}
			copy(out[at*size:], data[next*size:][:size])
			next++
			return nil
		}
		l := &s.levels[k]
		if l.segments == nil {
			for i := range l.size {
				index[k] = i
				if err := walk(k+1, above*l.size+i); err != nil {
					return err
				}
			}
			return nil
		}
		if above+1 >= len(l.segments) || l.segments[above] < 0 || l.segments[above+1] > len(l.places) {
			return errSparse
		}
		for i := l.segments[above]; i < l.segments[above+1]; i++ {
			index[k] = l.places[i]
			if err := walk(k+1, i); err != nil {
				return err
			}
		}
		return nil
	}
	for k, axis := range s.order[:min(rank, len(s.order))] { // what levels of whole axes have, and no more
		if l := &s.levels[k]; axis >= rank || l.segments == nil && l.size != shape[axis]/block[axis] {
			return nil, errSparse
		}
	}
	if err := walk(0, 0); err != nil {
		return nil, err
	}
	if next*size != len(data) {
		return nil, fmt.Errorf("%w: %d of %d bytes are read", errSparse, next*size, len(data))
	}
	return out, nil
}

// place is the number of an element by its index at every level; -1: it is not in the shape.
func (s *sparse) place(index, shape []int) int {
	rank := len(shape)
	at := make([]int, rank)
	for k, axis := range s.order {
		if k < rank {
			at[axis] = index[k]
			continue
		}
		axis = s.blocks[axis-rank]
		at[axis] = at[axis]*s.levels[k].size + index[k]
	}
	n := 0
	for a, i := range at {
		if i < 0 || i >= shape[a] {
			return -1
		}
		n = n*shape[a] + i
	}
	return n
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
