package program

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/lower"
)

// Several products in one multiplication give the sums of the plain loop, whatever the codes: random ones, and those that fill a lane most.
func TestColumnsAreThePlainLoop(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name        string
		most, right int32
		lanes       int
	}{{"bytes", 255, 255, 3}, {"signed bytes", 128, 127, 3}, {"16 bits by 8", 65535, 255, 2}, {"16 bits", 65535, 65535, 1}} {
		t.Run(c.name, func(t *testing.T) {
			for _, fill := range []func(most int32) int32{
				func(most int32) int32 { return rng.Int32N(2*most+1) - most },
				func(most int32) int32 { return most },
				func(most int32) int32 { return -most },
				func(most int32) int32 { return most * (1 - 2*rng.Int32N(2)) },
			} {
				for _, n := range []int{1, 2, 3, 5, 6, 7, 13} {
					for _, k := range []int{1, 2, 33, 700} {
						list, rows := make([][]int32, n), newLeftRows(k)
						const used = 5
						list[0] = make([]int32, k)
						list[0][0] = c.right // so that the number of lanes is known
						for j := range list {
							if list[j] == nil {
								list[j] = make([]int32, k)
							}
							for p := range list[j] {
								if j > 0 || p > 0 {
									list[j][p] = fill(c.right)
								}
							}
						}
						for i, row := range rows.list[:used] {
							for p := range row {
								if row[p] = fill(c.most); n > 5 && rng.IntN(3) == 0 { // with zeros, as behind a Relu
									row[p] = 0
								}
							}
							rows.list[used+i][0] = 1 // of a block before
						}
						columns := newColumns(list, int64(c.most))
						require.Equal(t, c.lanes, columns.lanes)
						got := make([]int64, n*used)
						columns.times(got, used, 1, rows, used)
						for j, column := range list {
							for i, row := range rows.list[:used] {
								want := int64(0)
								for p, q := range column {
									want += int64(q) * int64(row[p])
								}
								require.Equal(t, want, got[j*used+i], "%d columns of %d", n, k)
							}
						}
					}
				}
			}
		})
	}
	require.Equal(t, int64(255), reach(&lower.Encoding{QMin: 0, QMax: 255}))
	require.Equal(t, int64(255), reach(&lower.Encoding{QMin: -128, QMax: 127, ZeroPoint: -128}))
	require.Equal(t, int64(138), reach(&lower.Encoding{QMin: -127, QMax: 127, ZeroPoint: 10}))
	require.Equal(t, int64(65535), reach(&lower.Encoding{QMin: 0, QMax: 65535}))
}
