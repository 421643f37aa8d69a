package calib_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// encoder is one layer of a transformer; the embedding of token 0, which fills up sequences, is far larger than the others.
const encoder = `
	opset 17
	input ids: i64[B,T]
	input mask: i64[B,T]
	const table: f32[8,4] = [90,-80,70,60, 1,2,-1,0, 0,1,1,-2, -1,0,2,1, 2,-1,0,1, 1,1,-1,-1, 0,-2,1,0, -1,1,0,2]
	const one: f32[] = 1; const low: f32[] = -1e9; const ax: i64[2] = [1,2]; const heads: i64[4] = [0,0,2,2]; const back: i64[3] = [0,0,4]
	const w: f32[4,4] = [1,2,0,-1, 0,1,1,0, -1,0,2,1, 1,0,0,1]
	u = Unsqueeze(mask, ax); f = Cast(u) {to=1}; inv = Sub(one, f); bias = Mul(inv, low)
	x = Gather(table, ids)
	q = MatMul(x, w); r = Reshape(q, heads); a = Transpose(r) {perm=[0,2,1,3]}; k = Transpose(r) {perm=[0,2,3,1]}
	s = MatMul(a, k); z = Add(s, bias); p = Softmax(z)
	v = MatMul(p, a); o = Transpose(v) {perm=[0,2,1,3]}; c = Reshape(o, back)
	h = Add(c, x); e = Relu(h); y = MatMul(e, w)
	output y
`

// Sequences of several lengths, as they are and filled up to one length, also several in one sample: what is observed is the same, whatever
// the batch.
func TestPaddingIsNotObserved(t *testing.T) {
	g := parse(t, encoder)
	require.Empty(t, graph.InferShapes(g))
	padding, err := graph.FindPadding(g, "")
	require.NoError(t, err)
	var alone, filled, pairs []*exec.Sample
	var last map[string]*tensor.Tensor
	for i, n := range []int{3, 5, 2, 6} {
		ids, mask := make([]int64, 6), make([]int64, 6)
		for k := range n {
			ids[k], mask[k] = int64((i*5+k*3)%7+1), 1
		}
		feeds := func(ids, mask []int64, shape ...int) map[string]*tensor.Tensor {
			return map[string]*tensor.Tensor{"ids": tensor.FromI64(ids, shape...), "mask": tensor.FromI64(mask, shape...)}
		}
		alone = append(alone, paddingSample(i, feeds(ids[:n], mask[:n], 1, n)))
		filled = append(filled, paddingSample(i, feeds(ids, mask, 1, 6)))
		if i%2 == 1 {
			pairs = append(pairs, paddingSample(i, feeds(append(last["ids"].I64(), ids...), append(last["mask"].I64(), mask...), 2, 6)))
		}
		last = feeds(ids, mask, 1, 6)
	}
	observe := func(samples []*exec.Sample, batch int, p *graph.Padding) (*calib.Stats, calib.Padded) {
		var n calib.Padded
		return run(t, g, samples, calib.Config{Padding: p, Padded: &n, Batch: batch, Threads: 2}), n
	}
	want, _ := observe(alone, 1, padding)
	all, _ := observe(filled, 1, nil)
	for _, c := range []struct {
		samples []*exec.Sample
		batch   int
	}{{filled, 1}, {filled, 3}, {pairs, 1}} {
		got, n := observe(c.samples, c.batch, padding)
		require.Equal(t, calib.Padded{Positions: 24, Padding: 8}, n)
		for _, name := range want.Names() {
			if name == "f" || name == "inv" || name == "bias" { // the mask itself
				require.Equal(t, all.Tensor(name).State.Extent(), got.Tensor(name).State.Extent(), name)
				continue
			}
			a, b := want.Tensor(name).State, got.Tensor(name).State
			require.Equal(t, a.Extent(), b.Extent(), name)
			require.Equal(t, a.Count(), b.Count(), name)
			require.NotEqual(t, a.Count(), all.Tensor(name).State.Count(), "%s: padding would have been seen", name)
		}
	}
	require.Greater(t, all.Tensor("q").State.Extent().Max, 5*want.Tensor("q").State.Extent().Max)
}

func paddingSample(i int, feeds map[string]*tensor.Tensor) *exec.Sample {
	return &exec.Sample{Name: fmt.Sprint(i), Label: -1, Feeds: feeds, Hash: data.Hash(feeds)}
}
