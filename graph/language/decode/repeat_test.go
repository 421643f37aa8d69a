package decode_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/graph/language/decode"
)

func TestRepetitionIsFound(t *testing.T) {
	repeat := func(head []int, circle []int, n int) (ids []int) {
		ids = append(ids, head...)
		for i := range n {
			ids = append(ids, circle[i%len(circle)])
		}
		return ids
	}
	for _, c := range []struct {
		name   string
		ids    []int
		prompt int
		want   *decode.Repetition
	}{
		{"one token", repeat([]int{1, 5, 6}, []int{9}, 20), 1, &decode.Repetition{From: 3, Period: 1, Times: 20}},
		{"a sentence, cut", repeat([]int{1, 5}, []int{7, 8, 9, 10, 11, 12}, 26), 2, &decode.Repetition{From: 2, Period: 6, Times: 4}},
		{"two times only", repeat([]int{1}, []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 20), 1, nil},
		{"too short", repeat([]int{1, 2}, []int{7, 8}, 14), 2, nil},
		{"in the prompt alone", repeat([]int{1}, []int{7}, 30), 25, nil},
		{"it went on", append(repeat([]int{1}, []int{7}, 30), 8), 1, nil},
		{"nothing", nil, 0, nil},
	} {
		assert.Equal(t, c.want, decode.FindRepetition(c.ids, c.prompt), c.name)
	}
}
