package tflite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A matrix [4,6] in blocks of 2 x 2: one block in the first row of blocks, two in the second.
func blocks() *sparse {
	return &sparse{order: []int{0, 1, 2, 3}, blocks: []int{0, 1},
		levels: []level{{size: 2}, {size: 3, segments: []int{0, 1, 3}, places: []int{1, 0, 2}},
			{size: 2}, {size: 2}}}
}

func TestSparseConstants(t *testing.T) {
	got, err := blocks().dense([]int{4, 6}, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 1)
	require.NoError(t, err)
	require.Equal(t, []byte{
		0, 0, 1, 2, 0, 0,
		0, 0, 3, 4, 0, 0,
		5, 6, 0, 0, 9, 10,
		7, 8, 0, 0, 11, 12}, got)

	// Rows with their places, the columns outermost; two bytes each.
	s := &sparse{order: []int{1, 0}, levels: []level{{size: 3}, {size: 2, segments: []int{0, 1, 1, 3}, places: []int{1, 0, 1}}}}
	got, err = s.dense([]int{2, 3}, []byte{1, 1, 2, 2, 3, 3}, 2)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0, 0, 2, 2, 1, 1, 0, 0, 3, 3}, got)
}

func TestDamagedSparsity(t *testing.T) {
	data := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	for what, change := range map[string]func(s *sparse){
		"an order that names an axis twice":   func(s *sparse) { s.order[1] = 0 },
		"a level too few":                     func(s *sparse) { s.levels = s.levels[:3] },
		"a place beyond the shape":            func(s *sparse) { s.levels[1].places[0] = 3 },
		"a place below 0":                     func(s *sparse) { s.levels[1].places[0] = -1 },
		"segments beyond the places":          func(s *sparse) { s.levels[1].segments[2] = 9 },
		"a segment too few":                   func(s *sparse) { s.levels[1].segments = s.levels[1].segments[:2] },
		"fewer elements than data":            func(s *sparse) { s.levels[1].segments[2] = 2 },
		"more elements than data":             func(s *sparse) { s.levels[1].segments, s.levels[1].places = []int{0, 2, 4}, []int{0, 1, 0, 2} },
		"a block of no axis":                  func(s *sparse) { s.blocks[1] = 2 },
		"a block of size 0":                   func(s *sparse) { s.levels[2].size = 0 },
		"another number of blocks":            func(s *sparse) { s.levels[0].size = 3 },
		"a place that is visited without end": func(s *sparse) { s.levels[3] = level{segments: make([]int, 1<<20), places: []int{0}} },
	} {
		s := blocks()
		change(s)
		_, err := s.dense([]int{4, 6}, data, 1)
		require.ErrorIs(t, err, errSparse, what)
	}
}
