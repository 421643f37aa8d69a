package exec_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// Keys that no query may look at are left out of the products. The result is, bit for bit, that of a mask which hides them after all
// products were computed: a causal attention, one with padding, and one that shows its scores, in which nothing is left out.
func TestAttentionLeavesOutHiddenKeys(t *testing.T) {
	for _, queries := range []int{1, 70, 300} {
		for _, keys := range []int{300, 310} {
			q := graphtest.Normal(1, 2, 4, queries, 16)
			k, v := graphtest.Normal(2, 2, 2, keys, 16), graphtest.Normal(3, 2, 2, keys, 24)
			mask, valid := tensor.New(tensor.Bool, 2, 1, queries, keys), tensor.New(tensor.Int64, 2)
			copy(valid.Data.([]int64), []int64{int64(keys), int64(max(queries, 140))})
			for i := range mask.Len() {
				b, row, key := i/keys/queries, i/keys%queries, i%keys
				n := int(valid.Data.([]int64)[b])
				mask.Data.([]bool)[i] = key <= row+n-queries && key < n
			}
			for _, text := range []string{
				"y = Attention(q, k, v, _, _, _, n) {is_causal=1}",
				"y, _, _, s = Attention(q, k, v, _, _, _, n) {is_causal=1}",
			} {
				head := fmt.Sprintf("opset 24; input q: %s; input k: %s; input v: %s; input m: %s; input n: %s; ", q.Type(), k.Type(), v.Type(),
					mask.Type(), valid.Type())
				feeds := map[string]*tensor.Tensor{"q": q, "k": k, "v": v, "m": mask, "n": valid}
				var got [2]*tensor.Tensor
				for i, node := range []string{text, "y = Attention(q, k, v, m)"} {
					s, err := exec.NewPoisoned(graphtest.Parse(t, head+node+"; output y"), exec.Options{Threads: 2})
					require.NoError(t, err)
					out, err := s.NewRunner().Run(context.Background(), feeds, nil)
					require.NoError(t, err)
					got[i] = out[0]
				}
				for i, x := range got[0].F32() {
					require.Equal(t, math.Float32bits(got[1].F32()[i]), math.Float32bits(x), "%s: element %d of %d queries, %d keys", text, i,
						queries, keys)
				}
			}
		}
	}
}
