package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/kerneltest"
)

// Products in a batch have the bits that they have alone, whatever their sizes, and a batch allocates nothing in the long run.
func TestBatch(t *testing.T) {
	for isa, table := range kerneltest.Tables(cpu.Detect()) {
		t.Run(isa, func(t *testing.T) {
			const m, k = 301, 70
			a := make([]float32, m*k)
			fill(a, 1)
			var products []*kernels.GemmF32
			var want, got [][]float32
			for i, n := range []int{5, 64, 0, 200, 33} {
				b := make([]float32, k*n)
				fill(b, uint32(i+2))
				g := table.PackGemmF32(b, k, n, n, false)
				products = append(products, g)
				alone := make([]float32, m*n)
				g.Run(nil, alone, n, a, k, m, kernels.Epilogue{Act: kernels.Relu})
				want, got = append(want, alone), append(got, make([]float32, m*n))
			}
			s := square(14, 35, 48, 1, 2, 1)
			w, src := make([]float32, s.WeightLen()), make([]float32, s.InLen())
			fill(w, 11)
			fill(src, 12)
			conv := table.PackConvF32(w, s)
			require.True(t, conv.Batches(s))
			alone := make([]float32, s.OutLen())
			conv.Run(nil, alone, src, s, new([]float32), kernels.Epilogue{})
			want, got = append(want, alone), append(got, make([]float32, s.OutLen()))
			var batch kernels.Batch
			for _, par := range []kernels.Parallel{nil, kerneltest.Threads(2), kerneltest.Threads(7)} {
				for i, g := range products {
					clear(got[i])
					_, n := g.Size()
					g.AddTo(&batch, got[i], n, a, k, m, kernels.Epilogue{Act: kernels.Relu})
				}
				clear(got[len(products)])
				conv.AddTo(&batch, got[len(products)], s.M, src, s, kernels.Epilogue{})
				require.Equal(t, 5, batch.Len(), "a product without columns does not wait")
				batch.Run(par)
				require.Zero(t, batch.Len())
				require.Equal(t, want, got)
			}
		})
	}
	grouped := square(8, 4, 4, 3, 1, 1)
	require.False(t, kernels.Select(cpu.Features{}).PackConvF32(make([]float32, grouped.WeightLen()), grouped).Batches(grouped),
		"it is padded")
}
