package cuda_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/driver"
)

func TestMoves(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newFloatBench(t, d)
		testMoves[uint8](b)
		testMoves[uint16](b)
		testMoves[uint32](b)
		testMoves[uint64](b)
		require.ErrorContains(t, cuda.MoveElements(b.s, 0, 0, 3, []int{1}, []int{1}, []int{1}), "3 bytes")
	})
}

func testMoves[T uint8 | uint16 | uint32 | uint64](b *floatBench) {
	t := b.t
	size := int(unsafe.Sizeof(T(0)))
	x := make([]T, 2*35*40)
	for i := range x {
		x[i] = T(i*2654435761 + 1)
	}
	in := put(b, x)
	check := func(what string, n int, want func(i int) T, launch func(dst driver.Ptr) error) {
		t.Helper()
		out := room[T](b, n)
		require.NoError(t, launch(out.Ptr))
		list := make([]T, n)
		for i := range list {
			list[i] = want(i)
		}
		assert.Equal(t, list, get[T](b, out, n), "%s of %d bytes", what, size)
	}
	check("layout", len(x), func(i int) T { return x[i/1400*1400+i%35*40+i/35%40] }, func(dst driver.Ptr) error {
		return cuda.MoveElements(b.s, dst, in.Ptr, size, []int{2, 35, 40}, []int{1400, 1, 35}, []int{1400, 40, 1})
	})
	check("reverse", 35, func(i int) T { return x[40*(34-i)] }, func(dst driver.Ptr) error {
		return cuda.MoveElements(b.s, dst, in.Ptr+driver.Ptr(34*40*size), size, []int{35}, []int{1}, []int{-40})
	})
	check("repeat", 12, func(i int) T { return x[i%3] }, func(dst driver.Ptr) error {
		return cuda.MoveElements(b.s, dst, in.Ptr, size, []int{2, 2, 3}, []int{6, 3, 1}, []int{0, 0, 1})
	})
	check("gap", 10, func(i int) T {
		if i%5 == 4 {
			return 0
		}
		return x[i/5*4+i%5]
	}, func(dst driver.Ptr) error {
		return cuda.MoveElements(b.s, dst, in.Ptr, size, []int{2, 4}, []int{5, 1}, []int{4, 1})
	})
	table := put(b, []int32{40, -1, 0, 3, 2, -5, 1})
	fill := T(0xfe)
	check("pick", 12, func(i int) T {
		a, c := []int{40, -1, 0}[i/4], []int{3, 2, -1, 1}[i%4]
		if a < 0 || c < 0 {
			return fill
		}
		return x[a+c]
	}, func(dst driver.Ptr) error {
		return cuda.PickElements(b.s, dst, in.Ptr, table.Ptr, size, []int{3, 4}, uint64(fill))
	})
	fault := put(b, []uint32{0})
	for _, wide := range []bool{false, true} {
		index := put(b, []int32{4, -1, 0})
		if wide {
			index = put(b, []int64{4, -1, 0})
		}
		check("gather", 2*3*40, func(i int) T { return x[i/120*1400+[]int{4, 34, 0}[i/40%3]*40+i%40] }, func(dst driver.Ptr) error {
			return cuda.GatherRows(b.s, dst, in.Ptr, index.Ptr, fault.Ptr, size, 2, 35, 40, 3, wide)
		})
	}
	require.Equal(t, []uint32{0}, get[uint32](b, fault, 1))
	check("gather outside", 40, func(i int) T { return x[i] }, func(dst driver.Ptr) error {
		return cuda.GatherRows(b.s, dst, in.Ptr, put(b, []int32{35}).Ptr, fault.Ptr, size, 1, 35, 40, 1, false)
	})
	require.Equal(t, []uint32{1}, get[uint32](b, fault, 1))
	check("select", 6, func(i int) T { return []T{x[0], x[11]}[i%2] }, func(dst driver.Ptr) error {
		return cuda.Select(b.s, dst, put(b, []uint8{1, 0}).Ptr, in.Ptr, in.Ptr+driver.Ptr(10*size), size, []int{3, 2}, []int{0, 1},
			[]int{0, 1}, []int{0, 1})
	})
}

func TestBlend(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newFloatBench(t, d)
		x := someFloats(rand.New(rand.NewPCG(10, 1)), 2*3*5, false)
		index, weight := []int32{0, 1, 2, -1, -1, -1, 1, 2}, []float32{0.25, 0.75, 1, 0, 0, 0, 0.1, 0.9}
		want := make([]float32, 2*4*5)
		for i := range want {
			o, k, e := i/20, i/5%4, i%5
			if k == 2 {
				want[i] = -7
				continue
			}
			for j := range 2 {
				if at := index[2*k+j]; at >= 0 {
					want[i] += float32(x[(o*3+int(at))*5+e] * weight[2*k+j])
				}
			}
		}
		out := room[float32](b, len(want))
		require.NoError(t, cuda.FloatBlend(b.s, out.Ptr, put(b, x).Ptr, put(b, index).Ptr, put(b, weight).Ptr, 2, 3, 5, 4, 2, -7))
		sameFloats(t, want, get[float32](b, out, len(want)))
	})
}
