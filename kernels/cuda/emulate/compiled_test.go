package emulate

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda/driver"
)

// runCompiled runs the kernel of TestCompiledKernel, and compares.
func runCompiled(t *testing.T, arch int, text string) {
	const n, blocks, number = 256, 4, 1234567
	codes := [8]int8{1, -2, 3, -4, 5, -6, 7, -128}
	table := [5]int32{3, -1, 4, -1, 5}
	r := rand.New(rand.NewPCG(7, 8))
	in := make([]int32, n)
	var data []byte
	for i := range in {
		in[i] = int32(r.Uint32()) >> r.IntN(32)
		data = binary.LittleEndian.AppendUint32(data, uint32(in[i]))
	}
	d := newDevice(t, arch, Checked)
	f := d.kernel(t, text, "k")
	src, out, real := d.upload(t, data), d.alloc(t, 4*n), d.alloc(t, 8*n)
	p := binary.LittleEndian.AppendUint64(nil, uint64(src))
	p = binary.LittleEndian.AppendUint64(p, uint64(out))
	p = binary.LittleEndian.AppendUint64(p, uint64(real))
	p = binary.LittleEndian.AppendUint32(p, number)
	for _, c := range codes {
		p = append(p, byte(c))
	}
	p = append(p, 0, 0, 0, 0)
	require.NoError(t, d.Launch(d.c, f, driver.Dim{X: blocks, Y: 1, Z: 1}, driver.Dim{X: n / blocks, Y: 1, Z: 1}, 0, 0, p))
	outs, reals := d.download(t, out, 4*n), d.download(t, real, 8*n)
	for i, v := range in {
		j := int(uint32(v) % 6)
		x := in[i/64*64+(i%64+j)&63] * table[j%5]
		switch x & 7 {
		case 0:
			x += 11
		case 1:
			x ^= 0x55
		case 2:
			x *= 3
		case 3:
			x >>= 2
		case 4:
			x = -x
		case 5:
			x = int32(uint32(x) / 7)
		case 6:
			x %= 13
		}
		b := int64(x) * int64(v)
		var mixed int64
		if x < 0 {
			mixed = b * int64(codes[x&7])
		} else {
			if x > math.MaxInt32-2 {
				continue // a+2 overflows, which C++ does not define
			}
			mixed = b<<3/int64(x+1) - int64(number%(x+2))
		}
		require.Equal(t, int32(mixed>>1)+1, int32(binary.LittleEndian.Uint32(outs[4*i:])), "sm_%d thread %d", arch, i)
		want := float64(x)/3 + float64(float32(float32(v)*float32(0.1)))
		require.Equal(t, want, math.Float64frombits(binary.LittleEndian.Uint64(reals[8*i:])), "sm_%d thread %d", arch, i)
	}
}
