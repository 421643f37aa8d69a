package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/ref"
)

// groupsCase is a product of m rows of activations with a matrix.
type groupsCase struct{ m, rows, cols, size, bits int }

func (c groupsCase) String() string {
	return fmt.Sprintf("%d x %d x %d in groups of %d, %d bits", c.m, c.rows, c.cols, c.size, c.bits)
}

// groups holds products of groups to the definition, sums and results bit for bit.
func (s Suite) groups(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	for _, bits := range []int{8, 4} {
		for m := 1; m < 27; m++ {
			s.groupsOf(t, rng, groupsCase{m, 16 + rng.IntN(20), 64, 32, bits})
		}
		for _, size := range []int{1, 3, 4, 8, 12, 16, 20, 24, 32, 48, 64, 96, 128} {
			for _, rows := range []int{1, 15, 16, 17, 33} {
				s.groupsOf(t, rng, groupsCase{1 + rng.IntN(3), rows, 3 * size, size, bits})
			}
			s.groupsOf(t, rng, groupsCase{8 + rng.IntN(28), 16 + rng.IntN(40), 3 * size, size, bits})
		}
		s.groupsOf(t, rng, groupsCase{3, 64, 172, 8, bits})  // groups run on from row to row
		s.groupsOf(t, rng, groupsCase{3, 14, 18, 28, bits})  // groups longer than rows
		s.groupsOf(t, rng, groupsCase{1, 70, 288, 64, bits}) // two classes of rows, with panels that are not full
		s.groupsOf(t, rng, groupsCase{5, 70, 288, 64, bits})
		s.groupsOf(t, rng, groupsCase{19, 70, 288, 64, bits})
		s.groupsOf(t, rng, groupsCase{2, 64, 172, 64, bits}) // sixteen
		s.groupsOf(t, rng, groupsCase{2, 96, 70, 6, bits})   // groups of no whole words that go on
		s.groupsOf(t, rng, groupsCase{2, 96, 7, 96, bits})   // more classes than are worth their panels
		s.groupsOf(t, rng, groupsCase{2, 300, 128, 64, bits})
		s.groupsOf(t, rng, groupsCase{13, 24, 2048, 1024, bits})
	}
}

func (s Suite) groupsOf(t *testing.T, rng *rand.Rand, c groupsCase) {
	n := c.rows * c.cols
	codes, scales := make([]int8, n), fill(n/c.size, func() float32 { return rng.Float32() - 0.5 })
	low, high := -128, 127
	if c.bits == 4 {
		low, high = -8, 7
	}
	for i := range codes {
		codes[i] = int8(low + rng.IntN(high-low+1))
		if rng.IntN(3) == 0 {
			codes[i] = int8([]int{low, high}[rng.IntN(2)])
		}
	}
	matrix := kernels.GroupMatrix{Rows: c.rows, Cols: c.cols, Size: c.size, Bits: c.bits, Read: func(q []int8, d []float32, from int) {
		copy(q, codes[from:])
		copy(d, scales[from/c.size:])
	}}
	x := s.copyOf(fill(c.m*c.cols, func() float32 { return float32(rng.NormFloat64()) }))
	if c.m > 2 {
		clear(x[c.cols : 2*c.cols]) // groups of zeros
	}
	s.groupsFloat(t, c, matrix, codes, scales, x)
	want, wantSums := groupsWanted(c, codes, scales, x)
	for i, par := range s.ways() {
		g, err := s.Table.PackGroups(par, matrix)
		require.NoError(t, err)
		require.Len(t, wantSums, c.m*g.TotalPieces())
		var rows kernels.GroupRows
		g.Prepare(&rows, par, x, c.m)
		require.True(t, g.Takes(&rows))
		dst, sums := s.Memory.New(c.m*c.rows), make([]int32, len(wantSums))
		s.Table.MulGroups(par, &rows, []kernels.GroupsProduct{{Matrix: g, Dst: dst}})
		requireSame(t, want, dst, "%v, way %d", c, i)
		twice := s.Memory.New(c.m * c.rows)
		s.Table.MulGroups(par, &rows, []kernels.GroupsProduct{{Matrix: g, Dst: dst}, {Matrix: g, Dst: twice, Sums: sums}})
		requireSame(t, want, twice, "%v with sums, way %d", c, i)
		require.Equal(t, wantSums, sums, "sums of %v, way %d", c, i)
		row, numbers := make([]float32, c.cols), make([]float32, c.cols)
		for r := range c.rows {
			g.Row(row, r)
			for k := range numbers {
				numbers[k] = float32(codes[r*c.cols+k]) * scales[(r*c.cols+k)/c.size]
			}
			requireSame(t, numbers, row, "row %d of %v", r, c)
		}
	}
	require.NoError(t, s.Memory.Check())
}

// groupsFloat holds products of groups and floats to the definition.
func (s Suite) groupsFloat(t *testing.T, c groupsCase, matrix kernels.GroupMatrix, codes []int8, scales, x []float32) {
	var want []float32
	for i := range c.m {
		for r := range c.rows {
			at := r * c.cols
			want = append(want, ref.DotGroupsFloat(codes[at:][:c.cols], scales[at/c.size:], x[i*c.cols:][:c.cols], c.size, at%c.size))
		}
	}
	matrix.Float = true
	for i, par := range s.ways() {
		matrix.Plain = i == 3
		g, err := s.Table.PackGroups(par, matrix)
		require.NoError(t, err)
		var rows kernels.GroupRows
		g.Prepare(&rows, par, x, c.m)
		dst := s.Memory.New(c.m * c.rows)
		s.Table.MulGroups(par, &rows, []kernels.GroupsProduct{{Matrix: g, Dst: dst}})
		requireSame(t, want, dst, "%v times floats, way %d", c, i)
	}
}

// groupsWanted is the product by the definition.
func groupsWanted(c groupsCase, codes []int8, scales, x []float32) (want []float32, sums []int32) {
	for i := range c.m {
		q, d := make([]int8, c.cols), make([]float32, (c.cols+c.size-1)/c.size)
		ref.QuantizeRow(q, d, x[i*c.cols:][:c.cols], c.size)
		for r := range c.rows {
			at := r * c.cols
			of := make([]int32, ref.Pieces(c.cols, c.size, at%c.size))
			want = append(want, ref.DotGroups(codes[at:][:c.cols], scales[at/c.size:], q, d, c.size, at%c.size, of))
			sums = append(sums, of...)
		}
	}
	return want, sums
}

// quantizeGroups holds the quantization of activations to the definition, seen through a matrix that picks out single elements.
func (s Suite) quantizeGroups(t *testing.T) {
	const size, cols = 32, 64
	eye := kernels.GroupMatrix{Rows: cols, Cols: cols, Size: size, Read: func(q []int8, d []float32, from int) {
		clear(q)
		for i := range q {
			if at := from + i; at/cols == at%cols {
				q[i] = 1
			}
		}
		for i := range d {
			d[i] = 1
		}
	}}
	g, err := s.Table.PackGroups(nil, eye)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(9, 2))
	for round := range 300 {
		var x []float32
		switch round % 3 {
		case 0:
			x = ordinary(rng, 3*cols)
		case 1:
			x = extreme(rng, 3*cols)
		default: // codes on ties: the scale is a power of two
			x = fill(3*cols, func() float32 { return float32(rng.IntN(509)-254) / 4 })
			for i := 0; i < len(x); i += size {
				x[i] = 127. / 2
			}
		}
		x = s.copyOf(x)
		var rows kernels.GroupRows
		g.Prepare(&rows, nil, x, 3)
		dst := make([]float32, 3*cols)
		s.Table.MulGroups(nil, &rows, []kernels.GroupsProduct{{Matrix: g, Dst: dst}})
		for i := range 3 {
			q, d := make([]int8, cols), make([]float32, cols/size)
			ref.QuantizeRow(q, d, x[i*cols:][:cols], size)
			want := make([]float32, cols)
			for k, c := range q {
				other := float32(0) * d[1-k/size]
				want[k] = float32(c)*d[k/size] + other
			}
			requireSame(t, want, dst[i*cols:][:cols], "round %d row %d", round, i)
		}
		require.NoError(t, s.Memory.Check())
	}
}

// groupsMisuse: what cannot be multiplied is refused.
func (s Suite) groupsMisuse(t *testing.T) {
	read := func([]int8, []float32, int) {}
	for text, m := range map[string]kernels.GroupMatrix{
		"codes of 5 bits":                       {Rows: 1, Cols: 32, Size: 32, Bits: 5, Read: read},
		"groups of 5 do not divide":             {Rows: 1, Cols: 32, Size: 5, Read: read},
		"groups of 0 do not divide":             {Rows: 1, Cols: 32, Read: read},
		"groups of 131072 elements; the sum of": {Rows: 1, Cols: 1 << 17, Size: 1 << 17, Read: read},
	} {
		_, err := s.Table.PackGroups(nil, m)
		assert.ErrorContains(t, err, text)
	}
	g, err := s.Table.PackGroups(nil, kernels.GroupMatrix{Rows: 16, Cols: 32, Size: 32, Read: read})
	require.NoError(t, err)
	h, err := s.Table.PackGroups(nil, kernels.GroupMatrix{Rows: 16, Cols: 32, Size: 16, Read: read})
	require.NoError(t, err)
	var rows kernels.GroupRows
	g.Prepare(&rows, nil, make([]float32, 32), 1)
	assert.False(t, h.Takes(&rows))
	assert.Panics(t, func() { s.Table.MulGroups(nil, &rows, []kernels.GroupsProduct{{Matrix: h, Dst: make([]float32, 16)}}) })
	assert.Panics(t, func() { s.Table.MulGroups(nil, &rows, []kernels.GroupsProduct{{Matrix: g, Dst: make([]float32, 15)}}) })
	assert.Panics(t, func() { g.Prepare(&rows, nil, make([]float32, 31), 1) })
	f, err := s.Table.PackGroups(nil, kernels.GroupMatrix{Rows: 16, Cols: 32, Size: 32, Float: true, Read: read})
	require.NoError(t, err)
	assert.False(t, f.Takes(&rows))
	f.Prepare(&rows, nil, make([]float32, 32), 1)
	assert.Panics(t, func() {
		s.Table.MulGroups(nil, &rows, []kernels.GroupsProduct{{Matrix: f, Dst: make([]float32, 16), Sums: make([]int32, 16)}})
	})
}

// combine holds weighted sums of vectors to the definition.
func (s Suite) combine(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 3))
	for blocks := 1; blocks < 11; blocks++ {
		for _, n := range []int{0, 1, 2, 3, 7, 8, 48, 65} {
			for _, d := range []data{ordinary, extreme} {
				s.combineOf(t, rng, d, kernels.Combination{Rows: 1 + rng.IntN(9), N: n, Grow: rng.IntN(2) == 0, Blocks: blocks})
			}
		}
	}
	one := kernels.Combination{Dst: make([]float32, 16), S: make([]float32, 2), M: make([]float32, 32), Rows: 1, N: 2, Blocks: 1, Step: 16}
	s.Table.Combine(one)
	for _, spoil := range []func(c *kernels.Combination){
		func(c *kernels.Combination) { c.Dst = c.Dst[:15] },
		func(c *kernels.Combination) { c.S = c.S[:1] },
		func(c *kernels.Combination) { c.M = c.M[:31] },
		func(c *kernels.Combination) { c.Rows, c.Grow = 2, true },
	} {
		c := one
		spoil(&c)
		assert.Panics(t, func() { s.Table.Combine(c) })
	}
}

func (s Suite) combineOf(t *testing.T, rng *rand.Rand, d data, c kernels.Combination) {
	most := c.N
	if c.Grow {
		most += c.Rows - 1
	}
	c.Step, c.BlockStep = kernels.CombineBlock+rng.IntN(3), 80*(kernels.CombineBlock+3)
	c.StepS, c.StepDst = most+rng.IntN(3), 16*c.Blocks+rng.IntN(3)
	c.S = s.copyOf(d(rng, (c.Rows-1)*c.StepS+most))
	c.M = s.copyOf(d(rng, max(0, (c.Blocks-1)*c.BlockStep+(most-1)*c.Step+kernels.CombineBlock)))
	c.Dst = s.Memory.New((c.Rows-1)*c.StepDst + 16*c.Blocks)
	for i := range c.Dst {
		c.Dst[i] = float32(math.NaN())
	}
	s.Table.Combine(c)
	for r := range c.Rows {
		n := c.N
		if c.Grow {
			n += r
		}
		want := make([]float32, 16*c.Blocks)
		for b := range c.Blocks {
			if n > 0 {
				ref.Combine(want[16*b:][:16], c.S[r*c.StepS:][:n], c.M[b*c.BlockStep:], c.Step)
			}
		}
		requireSame(t, want, c.Dst[r*c.StepDst:][:len(want)], "row %d of %d, %d blocks of %d", r, c.Rows, c.Blocks, n)
	}
	require.NoError(t, s.Memory.Check())
}
