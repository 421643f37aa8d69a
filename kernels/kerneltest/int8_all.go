package kerneltest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
)

// several checks that outputs which share the sums of one product store what each of them stores alone.
func (s Suite) several(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 10))
	for _, size := range [][2]int{{1, 1}, {29, 33}, {17, 81}} {
		for range 20 {
			x := s.newSums(rng, size[0], size[1], true)
			residual := codes(rng, x.m*x.n, false)
			outputs := func() (kernels.StoreAll, [][]byte, []float32) {
				a, b, r := s.Memory.NewBytes(x.m*x.n), s.Memory.NewBytes(x.m*x.n), s.Memory.New(x.m*x.n)
				return kernels.StoreAll{
					&kernels.StoreScaled{Dst: a, Ldd: x.n, Residual: residual, Ldr: x.n, Scale: randomScale(rand.New(rand.NewPCG(1, 2)), x.n)},
					&kernels.StoreScaled{Dst: b, Ldd: x.n, Scale: randomScale(rand.New(rand.NewPCG(3, 4)), x.n)},
					&kernels.StoreF32{Dst: r, Ldd: x.n, Scale: randomScale(rand.New(rand.NewPCG(5, 6)), x.n)},
				}, [][]byte{a, b}, r
			}
			alone, wantCodes, wantReal := outputs()
			for _, o := range alone {
				x.run(nil, o)
			}
			for _, par := range s.ways() {
				together, gotCodes, gotReal := outputs()
				x.run(par, together)
				require.Equal(t, wantCodes, gotCodes)
				requireSame(t, wantReal, gotReal, "real numbers of %d x %d", x.m, x.n)
				requireSame(t, wantReal, s.blocks(par, x, alone[2].(*kernels.StoreF32).Scale), "blocks of %d x %d", x.m, x.n)
			}
			require.NoError(t, s.Memory.Check())
		}
	}
}

// blocks returns the real numbers of a product that come in blocks, which overwrite their memory.
func (s Suite) blocks(par kernels.Parallel, x sums, scale kernels.Scale) []float32 {
	real := s.Memory.New(x.m * x.n)
	x.run(par, &kernels.StoreBlocks{Scale: scale, Done: func(b *kernels.Block) {
		for i := range b.Rows {
			copy(real[(b.Row+i)*x.n+b.Col:][:b.Cols], b.Real[i*b.Stride:])
		}
		clear(b.Real)
	}})
	return real
}
