package exec

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// moved is move by definition: index by index.
func moved(m move, dst, src []float32) {
	var visit func(a, d, s int)
	visit = func(a, d, s int) {
		if a == len(m.shape) {
			dst[d] = src[s]
			return
		}
		for i := range m.shape[a] {
			visit(a+1, d+i*m.dst[a], s+i*m.src[a])
		}
	}
	visit(0, m.dstOff, m.srcOff)
}

func TestMovesOfEveryOrderOfAxes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		rank := 1 + rng.IntN(4)
		m := move{shape: make([]int, rank), dst: make([]int, rank), src: make([]int, rank)}
		for a := range m.shape {
			m.shape[a] = 1 + rng.IntN(4)
		}
		strides := func(to []int, gap int) int { // memory order is a random permutation of the axes, the lines apart
			step := 1
			for i, a := range rng.Perm(rank) {
				to[a] = step
				step *= m.shape[a]
				if i == 0 {
					step += gap
				}
			}
			return step
		}
		n := max(strides(m.dst, rng.IntN(3)), strides(m.src, rng.IntN(3)))
		m.dstOff, m.srcOff = rng.IntN(3), rng.IntN(3)
		src := make([]float32, n+8)
		for i := range src {
			src[i] = float32(i + 1)
		}
		got, want := make([]float32, len(src)), make([]float32, len(src))
		m.run(serial, got, src)
		moved(m, want, src)
		require.Equal(t, want, got, "%+v", m)
	}
}

func TestNeighboursOnBothSidesComeLast(t *testing.T) {
	// One part of a Concat along channels, both channels last: [channels, pixels] with strides 1 and the number of channels.
	m := move{shape: []int{64, 100}, dst: []int{1, 128}, src: []int{1, 64}}.simplify()
	require.Equal(t, move{shape: []int{100, 64}, dst: []int{128, 1}, src: []int{64, 1}}, m)
}
