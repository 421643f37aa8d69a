package calib_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/observers"
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

// Moments of rows that a mask leaves out are not taken, whatever the fixed point was made of.
func TestPaddingIsInNoMoments(t *testing.T) {
	g := parse(t, encoder)
	require.Empty(t, graph.InferShapes(g))
	var alone, filled []*exec.Sample
	for i, n := range []int{3, 5, 2} {
		ids, mask := make([]int64, 6), make([]int64, 6)
		for k := range n {
			ids[k], mask[k] = int64((i*5+k*3)%7+1), 1
		}
		for _, length := range []int{n, 6} {
			s := paddingSample(i, map[string]*tensor.Tensor{"ids": tensor.FromI64(ids[:length], 1, length),
				"mask": tensor.FromI64(mask[:length], 1, length)})
			for s.Hash = [32]byte{byte(i)}; exec.HeldOut(s.Hash); s.Hash[1]++ {
			}
			if s.Mask = "mask"; length == n {
				alone = append(alone, s)
			} else {
				filled = append(filled, s)
			}
		}
	}
	stats := run(t, g, alone, calib.Config{})
	moments := func(samples []*exec.Sample) (list []*observers.Gram) {
		passes, _, err := calib.GramPasses(g, stats, 1<<30, 2, func(string) bool { return false })
		require.NoError(t, err)
		require.Len(t, passes, 1)
		_, err = calib.RunGrams(context.Background(), g, passes[0], &exec.InMemory{Samples: samples}, calib.GramSamples{}, nil, 2, nil)
		require.NoError(t, err)
		for _, op := range passes[0] {
			list = append(list, op.Gram)
		}
		return list
	}
	want, got := moments(alone), moments(filled)
	require.NotEmpty(t, want)
	for i, w := range want {
		require.Equal(t, w.Count, got[i].Count)
		require.Equal(t, w.Mean(0), got[i].Mean(0))
		require.Equal(t, w.H(0), got[i].H(0))
	}
	for _, s := range filled {
		s.Mask = ""
	}
	require.NotEqual(t, want[0].Count, moments(filled)[0].Count)
}

func paddingSample(i int, feeds map[string]*tensor.Tensor) *exec.Sample {
	return &exec.Sample{Name: fmt.Sprint(i), Label: -1, Feeds: feeds, Hash: data.Hash(feeds)}
}
