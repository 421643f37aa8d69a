package tune

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/target"
)

const residual = `
input x: f32[1,16,32,32]
const w1: f32[16,16,3,3] = normal(seed=1,std=0.1)
const b1: f32[16] = normal(seed=2,std=0.1)
const w2: f32[16,16,3,3] = normal(seed=3,std=0.1)
const b2: f32[16] = normal(seed=4,std=0.1)
c1 = Conv(x, w1, b1) {pads=[1,1,1,1]} "c1"
r1 = Relu(c1)
c2 = Conv(r1, w2, b2) {pads=[1,1,1,1]} "c2"
s = Add(c2, x)
y = Relu(s)
output y
`

// BenchmarkBlockStep is a step of learning of a residual block of 16 channels on 16 samples.
func BenchmarkBlockStep(b *testing.B) {
	var list []*exec.Sample
	for i := range 20 {
		list = append(list, &exec.Sample{Feeds: map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(i), 1, 16, 32, 32)}})
	}
	bench, _ := benchWith(b, residual, &target.TRTInt8, list, list[:16], list[16:])
	k, err := bench.blocks()
	require.NoError(b, err)
	require.Len(b, k, 1)
	p, err := bench.passage(k)
	require.NoError(b, err)
	require.NoError(b, p.run(context.Background(), k[0], p.list, true))
	l, err := p.lesson(k[0])
	require.NoError(b, err)
	feeds, r := l.feeds(), l.session.NewRunner()
	random := rand.New(rand.NewPCG(1, 2))
	b.ResetTimer()
	for n := range b.N {
		l.draw(random, feeds, l.alike())
		l.feed(feeds, false)
		out, err := r.Run(context.Background(), feeds, nil)
		require.NoError(b, err)
		l.step(out[1:], n+1, 0.5, 4608)
	}
}
