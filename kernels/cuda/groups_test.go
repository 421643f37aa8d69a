package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
	"qwb/kernels/ref"
)

// Products of matrices in groups are those of package ref to the bit, for few and for many rows of activations.
func TestMulGroups(t *testing.T) {
	for _, c := range []struct{ rows, cols, size, bits, n int }{
		{130, 96, 32, 8, 1}, {130, 96, 32, 8, 5}, {130, 96, 32, 8, 70}, {3, 192, 96, 8, 17}, {129, 128, 128, 8, 16}, {5, 64, 64, 8, 20},
		{33, 48, 16, 8, 18}, {9, 20, 4, 8, 3}, {7, 6, 3, 8, 2}, {8, 24, 32, 8, 2}, {34, 64, 32, 4, 18}, {6, 48, 8, 4, 5}, {4, 12, 6, 4, 2},
	} {
		t.Run(fmt.Sprintf("%dx%d in %ds of %d bits by %d", c.rows, c.cols, c.size, c.bits, c.n), func(t *testing.T) {
			g := groupsCase{random: rand.New(rand.NewPCG(uint64(c.rows), uint64(c.n))), rows: c.rows, cols: c.cols, size: c.size,
				bits: c.bits, n: c.n}
			g.fill()
			cudatest.Each(t, g.run)
		})
	}
}

type groupsCase struct {
	random                    *rand.Rand
	rows, cols, size, bits, n int
	codes                     []int8
	scales, x                 []float32
}

func (g *groupsCase) fill() {
	most := 127
	if g.bits == 4 {
		most = 7
	}
	for range g.rows * g.cols {
		g.codes = append(g.codes, int8(g.random.IntN(2*most+1)-most))
	}
	for range g.rows * g.cols / g.size {
		g.scales = append(g.scales, g.random.Float32())
	}
	for range g.n * g.cols {
		g.x = append(g.x, float32(g.random.NormFloat64()))
	}
	if g.n > 1 { // of a group that is not finite no sum is, and one of zeros is 0
		g.x[g.cols] = float32(math.NaN())
		clear(g.x[:min(g.size, g.cols)])
	}
}

// run compares the products with codes, and those with floats.
func (g *groupsCase) run(t *testing.T, d *cuda.Device) {
	perRow := (g.cols + g.size - 1) / g.size
	xCodes, xScales := make([]int8, len(g.x)), make([]float32, g.n*perRow)
	for i := range g.n {
		ref.QuantizeRow(xCodes[i*g.cols:][:g.cols], xScales[i*perRow:][:perRow], g.x[i*g.cols:][:g.cols], g.size)
	}
	packed := append([]int8(nil), g.codes...)
	if g.bits == 4 {
		packed = cuda.PackGroups4(packed)
	}
	b := newFloatBench(t, d)
	x := put(b, g.x)
	m := &cuda.GroupMatrix{Codes: put(b, packed), Scales: put(b, g.scales), Rows: g.rows, Cols: g.cols, Size: g.size, Bits: g.bits}
	in := cuda.GroupRows{Codes: room[int8](b, len(g.x)), Scales: room[float32](b, len(xScales)), N: g.n}
	require.NoError(t, cuda.QuantizeGroups(b.s, in, x, g.cols, g.size))
	require.Equal(t, xCodes, get[int8](b, in.Codes, len(xCodes)))
	sameFloats(t, xScales, get[float32](b, in.Scales, len(xScales)))
	y := room[float32](b, g.n*g.rows)
	require.NoError(t, cuda.MulGroups(b.s, y, m, in))
	got := get[float32](b, y, g.n*g.rows)
	require.NoError(t, cuda.MulGroups(b.s, y, m, cuda.GroupRows{Floats: x, N: g.n}))
	floats := get[float32](b, y, len(got))
	want, wantFloats := make([]float32, len(got)), make([]float32, len(got))
	for i := range g.n {
		for r := range g.rows {
			from := r * g.cols
			w, ws := g.codes[from:][:g.cols], g.scales[from/g.size:]
			want[i*g.rows+r] = ref.DotGroups(w, ws, xCodes[i*g.cols:][:g.cols], xScales[i*perRow:][:perRow], g.size, from%g.size, nil)
			wantFloats[i*g.rows+r] = ref.DotGroupsFloat(w, ws, g.x[i*g.cols:][:g.cols], g.size, from%g.size)
		}
	}
	sameFloats(t, want, got)
	sameFloats(t, wantFloats, floats)
}
