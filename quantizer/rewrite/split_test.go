package rewrite_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/rewrite"
)

const doubled = `input x: f32[N,3,8,8]
	output y
	const w: f32[4,3,3,3] = normal(seed=1); const b: f32[4] = normal(seed=2); const d: f32[4,1,3,3] = normal(seed=3); const e: f32[4] = normal(seed=4)
	const p: f32[5,4,1,1] = normal(seed=5); const gain: f32[4,1,1] = normal(seed=6)
	t = Conv(x, w, b) "a"
	h = HardSwish(t)
	c = Conv(h, d, e) {group=4, pads=[1, 1, 1, 1]} "dw"
	k = Mul(c, gain)
	y = Conv(k, p) "last"`

func TestDoubledChannelsKeepTheFunction(t *testing.T) {
	g := parse(t, doubled)
	after := apply(t, g, rewrite.Step{Kind: "split-channels", At: "a", Groups: [][]int{{3, 1}}})
	require.Equal(t, []int{6, 3, 3, 3}, after.Const(mustNode(t, after, "a").Inputs[1]).Shape)
	require.EqualValues(t, 6, mustNode(t, after, "dw").AttrInt("group", 1))
	before, now := g.Const(mustNode(t, g, "last").Inputs[1]).F32(), after.Const(mustNode(t, after, "last").Inputs[1]).F32()
	require.Equal(t, []float32{before[0], before[1] / 2, before[2], before[3] / 2, before[3] / 2, before[1] / 2}, now[:6])
}

func TestSplitWeightsKeepTheFunction(t *testing.T) {
	for _, at := range []string{"a", "dw", "last"} {
		g := parse(t, doubled)
		largest := func(w []float32) (m float32) {
			for _, x := range w {
				m = max(m, float32(math.Abs(float64(x))))
			}
			return m
		}
		was := largest(g.Const(mustNode(t, g, at).Inputs[1]).F32())
		after := apply(t, g, rewrite.Step{Kind: "split-weight", At: at, Vectors: map[string][]float32{"threshold": {was / 2}}})
		require.LessOrEqual(t, largest(after.Const(mustNode(t, after, at).Inputs[1]).F32()), was/2)
		require.LessOrEqual(t, largest(after.Const(mustNode(t, after, at+"/large").Inputs[1]).F32()), was/2)
		require.Len(t, mustNode(t, after, at+"/large").Inputs, 2, "one bias is enough")
	}
}

func TestSplitsThatDoNotFit(t *testing.T) {
	for why, s := range map[string]rewrite.Step{
		"cannot be doubled":   {Kind: "split-channels", At: "last", Groups: [][]int{{0}}},
		"channel 4":           {Kind: "split-channels", At: "a", Groups: [][]int{{4}}},
		"channel 2":           {Kind: "split-channels", At: "a", Groups: [][]int{{2, 2}}},
		"there has to be one": {Kind: "split-channels", At: "a"},
		"one positive number": {Kind: "split-weight", At: "a"},
		"no weight is larger": {Kind: "split-weight", At: "a", Vectors: map[string][]float32{"threshold": {100}}},
	} {
		_, err := rewrite.Apply(parse(t, doubled), []rewrite.Step{s})
		require.ErrorContains(t, err, why)
	}
}
