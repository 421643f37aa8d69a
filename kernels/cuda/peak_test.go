package cuda_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/driver"
)

func TestMeasurePeaks(t *testing.T) {
	cudatest.On(t, []int{61, 80, 90}, func(t *testing.T, d *cuda.Device) {
		p, err := cuda.MeasurePeaks(d)
		require.NoError(t, err)
		for _, v := range []float64{p.DP4A, p.FMA, p.Copy, p.Read, p.Write, p.DriverCopy} {
			assert.Positive(t, v)
			assert.False(t, math.IsInf(v, 0))
		}
		assert.Equal(t, d.TensorCores(), p.MMA > 0)
		assert.Equal(t, d.Arch == 90 && d.DriverVersion >= 12000, p.WGMMA > 0)
		assert.Equal(t, max(p.MMA, p.WGMMA, p.DP4A), p.Int8())
		assert.Zero(t, d.PoolStats().Buffers, "memory is given back")
		if !d.Emulated {
			t.Logf("%+v", p)
			assert.Greater(t, p.Read, p.Copy/4, "no figure is out of all proportion")
			assert.Greater(t, p.Int8(), p.FMA)
		}
	})
}

// mixed is mix of peak.cu.
func mixed(x uint32) uint32 {
	x = (x ^ x>>16) * 0x7feb352d
	x = (x ^ x>>15) * 0x846ca68b
	return x ^ x>>16
}

// The kernels compute what they are to measure: no compiler left the work out.
func TestPeakKernelsCompute(t *testing.T) {
	cudatest.On(t, []int{61, 80, 90}, func(t *testing.T, d *cuda.Device) {
		const threads, seed, turns = 256, 7, 3
		run := func(file, entry string) []uint32 {
			t.Helper()
			s, err := d.NewStream()
			require.NoError(t, err)
			k, err := d.Kernel(file, entry)
			require.NoError(t, err)
			b, err := d.Alloc(4 * threads)
			require.NoError(t, err)
			defer d.Free(b)
			p := struct {
				dst         driver.Ptr
				seed, turns uint32
			}{b.Ptr, seed, turns}
			require.NoError(t, cuda.Launch(s, k, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: threads, Y: 1, Z: 1}, 0, &p))
			raw := make([]byte, 4*threads)
			require.NoError(t, s.Download(raw, b))
			require.NoError(t, s.Synchronize())
			require.NoError(t, s.Close())
			out := make([]uint32, threads)
			for i := range out {
				out[i] = binary.LittleEndian.Uint32(raw[4*i:])
			}
			return out
		}
		dp4a, fma := make([]uint32, threads), make([]uint32, threads)
		for i := range uint32(threads) {
			first := mixed(seed + i)
			var all int32
			for j := range uint32(16) {
				var sum int32
				for b := range 4 {
					sum += int32(int8(first>>(8*b))) * int32(int8((first+j)>>(8*b)))
				}
				all ^= turns * sum
			}
			dp4a[i] = uint32(all)
			x := float32(first>>8) * 0x1p-24
			var total float32
			for j := range 16 {
				sum := float32(x + float32(j))
				for range turns {
					sum = float32(math.FMA(float64(sum), float64(x), 1)) // exact in float64 but for the sum's last bits
				}
				total = float32(total + sum)
			}
			fma[i] = math.Float32bits(total)
		}
		assert.Equal(t, dp4a, run("peak", "dp4a"))
		for i, v := range run("peak", "fma_f32") {
			assert.InEpsilon(t, math.Float32frombits(fma[i]), math.Float32frombits(v), 1e-6, "thread %d", i)
		}
		if d.TensorCores() {
			assert.Equal(t, mmaSums(seed, turns, threads), run("peak", "mma_s8"))
		}
		if d.Arch == 90 {
			assert.Equal(t, wgmmaSums(seed, turns), run("peak_wgmma", "wgmma_s8"))
		}
	})
}

// mmaSums is what mma_s8 leaves, from the places that the language gives the elements of its operands.
func mmaSums(seed uint32, turns int32, threads int) []uint32 {
	out := make([]uint32, threads)
	for warp := 0; warp < threads; warp += 32 {
		word := func(lane int, i uint32, of func(a, b uint32) uint32) uint32 {
			return mixed(of(mixed(seed+uint32(warp+lane)), i))
		}
		add := func(a, b uint32) uint32 { return a + b }
		xor := func(a, b uint32) uint32 { return a ^ b }
		var a [2][16][32]int8
		var b [4][32][8]int8
		for lane := range 32 {
			group, place := lane/4, lane%4
			for i := range uint32(8) {
				wa, wb := word(lane, i, add), word(lane, i, xor)
				for byte := range 4 {
					a[i/4][group+8*int(i%2)][16*int(i%4/2)+4*place+byte] = int8(wa >> (8 * byte))
					b[i/2][16*int(i%2)+4*place+byte][group] = int8(wb >> (8 * byte))
				}
			}
		}
		for lane := range 32 {
			var all int32
			for i := range 2 {
				for j := range 4 {
					for r := range 4 {
						row, column := lane/4+8*(r/2), lane%4*2+r%2
						var sum int32
						for k := range 32 {
							sum += int32(a[i][row][k]) * int32(b[j][k][column])
						}
						all ^= turns * sum
					}
				}
			}
			out[warp+lane] = uint32(all)
		}
	}
	return out
}

// wgmmaSums is what wgmma_s8 leaves: every warpgroup multiplies its 64 rows of 128 bytes by the 256 rows behind both, as often as
// there are turns, four times each.
func wgmmaSums(seed uint32, turns int32) []uint32 {
	var memory [48 << 10]byte
	for i := 0; i < len(memory); i += 4 {
		binary.LittleEndian.PutUint32(memory[i:], mixed(seed+uint32(i/4)))
	}
	// Rows are swizzled: piece q of 16 bytes of row r stands at piece q ^ r%8.
	at := func(matrix, row, k int) int32 { return int32(int8(memory[matrix+128*row+16*(k/16^row%8)+k%16])) }
	out := make([]uint32, 256)
	for thread := range out {
		group, warp, lane := thread/128, thread/32%4, thread%32
		var all int32
		for j := range 32 {
			for r := range 4 {
				row, column := 16*warp+lane/4+8*(r/2), 8*j+2*(lane%4)+r%2
				var sum int32
				for k := range 128 {
					sum += at(8192*group, row, k) * at(16384, column, k)
				}
				all ^= 4 * turns * sum
			}
		}
		out[thread] = uint32(all)
	}
	return out
}

func TestPeakKernelsMove(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		const threads, pieces = 256, 3*4*256 + 100
		s, err := d.NewStream()
		require.NoError(t, err)
		src := make([]byte, 16*pieces)
		for i := range src {
			src[i] = byte(mixed(uint32(i)))
		}
		from, err := d.Alloc(len(src))
		require.NoError(t, err)
		to, err := d.Alloc(len(src))
		require.NoError(t, err)
		require.NoError(t, s.Upload(from, src))
		run := func(entry string, n int) []byte {
			t.Helper()
			k, err := d.Kernel("peak", entry)
			require.NoError(t, err)
			p := struct {
				src, dst driver.Ptr
				count    uint64
			}{from.Ptr, to.Ptr, pieces}
			require.NoError(t, cuda.Launch(s, k, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: threads, Y: 1, Z: 1}, 0, &p))
			out := make([]byte, n)
			require.NoError(t, s.Download(out, to))
			require.NoError(t, s.Synchronize())
			return out
		}
		assert.Equal(t, src, run("copy", len(src)))
		read := make([]byte, 16*threads)
		for i, v := range src {
			read[i%len(read)] ^= v
		}
		assert.Equal(t, read, run("read", len(read)))
		written := make([]byte, len(src))
		for i := 0; i < len(written); i += 4 {
			binary.LittleEndian.PutUint32(written[i:], uint32(i/16%threads))
		}
		assert.Equal(t, written, run("write", len(src)))
		d.Free(from)
		d.Free(to)
		require.NoError(t, s.Close())
	})
}
