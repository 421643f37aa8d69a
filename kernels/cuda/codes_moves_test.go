package cuda_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
)

func TestGatherCodes(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newBench(t, d, 11)
		for _, e := range []cuda.Element{cuda.Int8, cuda.Uint8, cuda.Int16, cuda.Uint16, cuda.Float32} {
			for _, size := range []int{1, 2, 3, 4, 8, 16, 48} {
				const n = 40
				src := make([]byte, n*size*e.Size())
				for i := range src {
					src[i] = byte(b.r.Uint32())
				}
				starts := make([]int32, 30)
				for i := range starts {
					starts[i] = int32(b.r.IntN(n) * size)
					if i%5 == 4 {
						starts[i] = -1
					} else if size > 2 && size%2 == 1 {
						starts[i] = int32(b.r.IntN((n - 1) * size))
					}
				}
				runs, err := cuda.NewRuns(starts, size, e.Size())
				require.NoError(t, err)
				dst := b.room(len(starts)*size*e.Size(), 0)
				fill := b.r.Int32()
				require.NoError(t, cuda.GatherCodes(b.s, dst, b.put(src, 0), b.put(runs.Table, 0), e, &runs, fill))
				var want []byte
				for _, f := range starts {
					for k := range size {
						if f < 0 {
							want = append(want, rawCodes(e, []int32{fill})...)
						} else {
							want = append(want, src[(int(f)+k)*e.Size():][:e.Size()]...)
						}
					}
				}
				require.Equal(t, want, b.get(dst), "%s: runs of %d", e, size)
			}
		}
	})
	runs, err := cuda.NewRuns([]int32{0, 32, -1}, 16, 2)
	require.NoError(t, err)
	require.Equal(t, cuda.Runs{Unit: 16, Size: 2, Count: 3, Table: rawCodes(cuda.Int32, []int32{0, 4, -1})}, runs)
	_, err = cuda.NewRuns([]int32{-2}, 1, 1)
	require.ErrorContains(t, err, "from element -2")
	_, err = cuda.NewRuns(nil, 1, 3)
	require.ErrorContains(t, err, "elements of 3 bytes")
}

// Runs in regular steps need no table: transposes, parts, repetitions, reversals.
func TestGatherCodesInSteps(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newBench(t, d, 13)
		for _, c := range []struct {
			sizes, steps []int // of the result, in an input of 6,000 elements
			size         int
			table        bool
			first        int
		}{
			{[]int{4, 30}, []int{-40, 1}, 1, false, 160},                                                       // lines from the last on
			{[]int{30}, []int{-1}, 1, false, 29},                                                               // reversed
			{[]int{5, 12, 20}, []int{240, 1, 12}, 1, false, 480},                                               // a part, turned
			{[]int{5, 12, 20}, []int{240, 1, 12}, 1, false, 7},                                                 // the same, not aligned
			{[]int{2, 3, 20, 8}, []int{480, 8, 24, 1}, 1, false, 0},                                            // heads
			{[]int{2, 3, 20, 8}, []int{480, 8, 24, 1}, 8, false, 0},                                            // the same, by runs
			{[]int{2, 3, 8, 20}, []int{480, 8, 1, 24}, 1, false, 0},                                            // heads, turned
			{[]int{3, 16, 68}, []int{16, 1, 48}, 1, false, 0},                                                  // turned, aligned
			{[]int{5, 7}, []int{1, 5}, 1, false, 0},                                                            // turned, odd
			{[]int{4, 1, 30}, []int{40, 0, 1}, 1, false, 0},                                                    // a part
			{[]int{4, 3, 30}, []int{40, 0, 1}, 1, false, 0},                                                    // repeated
			{[]int{3, 5, 4}, []int{100, 2, 20}, 1, false, 0},                                                   // every second
			{[]int{2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, []int{1100, 500, 230, 110, 50, 23, 11, 5, 2, 1}, 1, true, 0}, // too many axes
		} {
			for _, e := range []cuda.Element{cuda.Uint8, cuda.Int16, cuda.Float32} {
				src := make([]byte, 6000*e.Size())
				for i := range src {
					src[i] = byte(b.r.Uint32())
				}
				var from []int32
				for i := range count(c.sizes) {
					at := c.first
					for a := len(c.sizes) - 1; a >= 0; a-- {
						at += i % c.sizes[a] * c.steps[a]
						i /= c.sizes[a]
					}
					from = append(from, int32(at))
				}
				starts := []int32{}
				for i := 0; i < len(from); i += c.size {
					starts = append(starts, from[i])
				}
				runs, err := cuda.NewRuns(starts, c.size, e.Size())
				require.NoError(t, err)
				require.Equal(t, c.table, len(runs.Table) > 0, "%v", c)
				var table cuda.Buffer
				if c.table {
					table = b.put(runs.Table, 0)
				}
				dst := b.room(len(from)*e.Size(), 0)
				require.NoError(t, cuda.GatherCodes(b.s, dst, b.put(src, 0), table, e, &runs, 0))
				var want []byte
				for _, f := range from {
					want = append(want, src[int(f)*e.Size():][:e.Size()]...)
				}
				require.Equal(t, want, b.get(dst), "%s: %v", e, c)
			}
		}
	})
}

func TestTurnCodes(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newBench(t, d, 12)
		for _, e := range []cuda.Element{cuda.Int8, cuda.Uint16, cuda.Float32, cuda.Int64} {
			for _, s := range [][3]int{{1, 1, 1}, {2, 3, 49}, {1, 64, 36}, {2, 68, 132}, {1, 66, 70}, {3, 33, 5}, {0, 2, 2}} {
				size := e.Size()
				src := make([]byte, count(s[:])*size)
				for i := range src {
					src[i] = byte(b.r.Uint32())
				}
				want := make([]byte, len(src))
				for i := range count(s[:]) {
					k, r, c := i/(s[1]*s[2]), i/s[2]%s[1], i%s[2]
					copy(want[(k*s[1]*s[2]+c*s[1]+r)*size:], src[i*size:][:size])
				}
				for _, off := range []int{0, size} {
					dst := b.room(len(src), off)
					require.NoError(t, cuda.TurnCodes(b.s, dst, b.put(src, off), e, s[0], s[1], s[2]))
					require.Equal(t, want, b.get(dst), "%s: %v", e, s)
				}
			}
		}
		require.ErrorContains(t, cuda.TurnCodes(b.s, b.room(5, 0), b.room(6, 0), cuda.Int8, 1, 2, 3), "5 bytes for 6")
		require.ErrorContains(t, cuda.TurnCodes(b.s, b.room(5, 0), b.room(6, 0), cuda.Int8, 1, 2, math.MaxInt32), "2^31")
	})
	require.Equal(t, "element(9)", fmt.Sprint(cuda.Element(9)))
}
