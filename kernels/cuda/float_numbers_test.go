package cuda_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
)

func TestComparisonsAndConversions(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newFloatBench(t, d)
		compare := func(op cuda.Comparison, n cuda.Number, x, y cuda.Buffer, count int, want func(i int) bool) {
			t.Helper()
			out := room[uint8](b, count)
			require.NoError(t, cuda.Compare(b.s, op, n, out.Ptr, x.Ptr, y.Ptr, []int{count}, []int{1}, []int{1}))
			for i, v := range get[uint8](b, out, count) {
				require.Equal(t, want(i), v == 1, "%d of comparison %d", i, op)
			}
		}
		x, y := append(oddFloats, 1, 2), append([]float32{nan, 0, inf}, oddFloats[1:]...)
		n := min(len(x), len(y))
		compare(cuda.CompareEqual, cuda.NumberFloat32, put(b, x), put(b, y), n, func(i int) bool { return x[i] == y[i] })
		compare(cuda.CompareGreater, cuda.NumberFloat32, put(b, x), put(b, y), n, func(i int) bool { return x[i] > y[i] })
		compare(cuda.CompareLessOrEqual, cuda.NumberFloat32, put(b, x), put(b, y), n, func(i int) bool { return x[i] <= y[i] })
		p, q := []int64{1, -1 << 60, 3, math.MaxInt64}, []int64{2, 5, 3, math.MinInt64}
		compare(cuda.CompareLess, cuda.NumberInt64, put(b, p), put(b, q), 4, func(i int) bool { return p[i] < q[i] })
		compare(cuda.CompareGreaterOrEqual, cuda.NumberInt64, put(b, p), put(b, q), 4, func(i int) bool { return p[i] >= q[i] })
		u, v := []uint8{0, 0, 1, 1}, []uint8{0, 1, 0, 1}
		compare(cuda.CompareAnd, cuda.NumberBool, put(b, u), put(b, v), 4, func(i int) bool { return u[i]&v[i] == 1 })
		compare(cuda.CompareOr, cuda.NumberBool, put(b, u), put(b, v), 4, func(i int) bool { return u[i]|v[i] == 1 })
		compare(cuda.CompareXor, cuda.NumberBool, put(b, u), put(b, v), 4, func(i int) bool { return u[i]^v[i] == 1 })

		big := []int64{0, 1, -1, 300, -129, 1 << 33, -1 << 40, 16777217, math.MinInt64}
		casted(b, cuda.NumberInt64, cuda.NumberFloat32, big, func(v int64) float32 { return float32(v) })
		casted(b, cuda.NumberInt64, cuda.NumberInt32, big, func(v int64) int32 { return int32(v) })
		casted(b, cuda.NumberInt64, cuda.NumberInt8, big, func(v int64) int8 { return int8(v) })
		casted(b, cuda.NumberInt64, cuda.NumberUint16, big, func(v int64) uint16 { return uint16(v) })
		casted(b, cuda.NumberInt64, cuda.NumberBool, big, func(v int64) bool { return v != 0 })
		casted(b, cuda.NumberInt8, cuda.NumberInt64, []int8{-128, 127, 0}, func(v int8) int64 { return int64(v) })
		casted(b, cuda.NumberUint8, cuda.NumberFloat32, []uint8{0, 255, 7}, func(v uint8) float32 { return float32(v) })
		casted(b, cuda.NumberUint32, cuda.NumberInt64, []uint32{math.MaxUint32, 1}, func(v uint32) int64 { return int64(v) })
		casted(b, cuda.NumberBool, cuda.NumberFloat32, []bool{true, false}, func(v bool) float32 {
			if v {
				return 1
			}
			return 0
		})
		floats := []float32{0, -0.9, 1.9, -1.9, 127.5, 300, -300.5, 2147483520, -2147483648}
		casted(b, cuda.NumberFloat32, cuda.NumberInt64, floats, func(v float32) int64 { return int64(v) })
		casted(b, cuda.NumberFloat32, cuda.NumberInt32, floats, func(v float32) int32 { return int32(v) })
		casted(b, cuda.NumberFloat32, cuda.NumberInt8, floats, func(v float32) int8 { return int8(int32(v)) })
		casted(b, cuda.NumberFloat32, cuda.NumberBool, floats, func(v float32) bool { return v != 0 })
		outside := []float32{nan, inf, -inf, 1e20, -1e20}
		casted(b, cuda.NumberFloat32, cuda.NumberInt64, outside, func(float32) int64 { return math.MinInt64 })
		casted(b, cuda.NumberFloat32, cuda.NumberInt32, outside, func(float32) int32 { return math.MinInt32 })
	})
}

func TestIntegers(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newFloatBench(t, d)
		combined(b, cuda.NumberInt8, []int8{100, -100, 3, -128})
		combined(b, cuda.NumberUint8, []uint8{200, 100, 3, 0})
		combined(b, cuda.NumberInt16, []int16{30000, -30000, 3, 0})
		combined(b, cuda.NumberUint32, []uint32{math.MaxUint32, 1 << 31, 3, 0})
		combined(b, cuda.NumberInt32, []int32{math.MaxInt32, -1 << 30, 3, 0})
		combined(b, cuda.NumberInt64, []int64{math.MaxInt64, math.MinInt64, 1 << 40, -3})
		require.ErrorContains(t, cuda.CombineIntegers(b.s, cuda.IntegerAdd, cuda.NumberBool, 0, 0, 0, []int{1}, []int{1}, []int{1}), "no integer")
	})
}

// combined checks all pairs.
func combined[T int8 | uint8 | int16 | uint32 | int32 | int64](b *floatBench, n cuda.Number, list []T) {
	b.t.Helper()
	k := len(list)
	x, y := put(b, list), put(b, list)
	for op, f := range map[cuda.IntegerOperation]func(x, y T) T{
		cuda.IntegerAdd: func(x, y T) T { return x + y }, cuda.IntegerSub: func(x, y T) T {
			return x - y
		}, cuda.IntegerMul: func(x, y T) T { return x * y },
		cuda.IntegerMax: func(x, y T) T { return max(x, y) }, cuda.IntegerMin: func(x, y T) T { return min(x, y) },
	} {
		out := room[T](b, k*k)
		require.NoError(b.t, cuda.CombineIntegers(b.s, op, n, out.Ptr, x.Ptr, y.Ptr, []int{k, k}, []int{1, 0}, []int{0, 1}))
		for i, v := range get[T](b, out, k*k) {
			require.Equal(b.t, f(list[i/k], list[i%k]), v, "operation %d of %d and %d", op, list[i/k], list[i%k])
		}
	}
}

func casted[S, D any](b *floatBench, from, to cuda.Number, list []S, want func(S) D) {
	b.t.Helper()
	out := room[D](b, len(list))
	require.NoError(b.t, cuda.CastElements(b.s, out.Ptr, to, put(b, list).Ptr, from, len(list)))
	for i, v := range get[D](b, out, len(list)) {
		require.Equal(b.t, want(list[i]), v, "%v from %d to %d", list[i], from, to)
	}
}
