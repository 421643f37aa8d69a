package arrange_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/arrange"
)

func TestStableIsThatOfSlices(t *testing.T) {
	type pair struct{ key, place int }
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 200 {
		list := make([]pair, n)
		for i := range list {
			list[i] = pair{r.IntN(9), i}
		}
		want := slices.Clone(list)
		compare := func(a, b pair) int { return cmp.Compare(b.key, a.key) }
		slices.SortStableFunc(want, compare)
		arrange.Stable(list, compare)
		require.Equal(t, want, list)
	}
}
