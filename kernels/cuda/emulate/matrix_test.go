package emulate

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda/driver"
)

// code is a byte as a number of its type.
func code(x byte, signed bool) int64 {
	if signed {
		return int64(int8(x))
	}
	return int64(x)
}

// fragment says which elements of an M x K matrix A, a K x N matrix B and an M x N matrix C lane holds in byte (or word) i, as the
// manual's figures do.
type fragment struct {
	name    string
	m, n, k int
	a       func(lane, i int) (row, col int)
	b       func(lane, i int) (row, col int)
	c       func(lane, i int) (row, col int)
}

func pick(is bool, x, y int) int {
	if is {
		return x
	}
	return y
}

var fragments = []fragment{
	{"m16n8k32", 16, 8, 32,
		func(lane, i int) (int, int) {
			return lane>>2 + pick(i < 4 || i >= 8 && i < 12, 0, 8), lane%4*4 + i&3 + pick(i < 8, 0, 16)
		},
		func(lane, i int) (int, int) { return lane%4*4 + i&3 + pick(i < 4, 0, 16), lane >> 2 },
		func(lane, i int) (int, int) { return lane>>2 + pick(i < 2, 0, 8), lane%4*2 + i&1 }},
	{"m16n8k16", 16, 8, 16,
		func(lane, i int) (int, int) { return lane>>2 + pick(i < 4, 0, 8), lane%4*4 + i&3 },
		func(lane, i int) (int, int) { return lane%4*4 + i, lane >> 2 },
		func(lane, i int) (int, int) { return lane>>2 + pick(i < 2, 0, 8), lane%4*2 + i&1 }},
	{"m8n8k16", 8, 8, 16,
		func(lane, i int) (int, int) { return lane >> 2, lane%4*4 + i },
		func(lane, i int) (int, int) { return lane%4*4 + i, lane >> 2 },
		func(lane, i int) (int, int) { return lane >> 2, lane%4*2 + i }},
}

func names(reg string, first, n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%%%s%d", reg, first+i))
	}
	return "{" + strings.Join(out, ", ") + "}"
}

func TestMatrixProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range fragments {
		for _, types := range [][2]bool{{true, true}, {true, false}, {false, true}, {false, false}} {
			for _, extreme := range []int{0, 1, 2, 3} {
				for _, sat := range []string{"", ".satfinite"} {
					testProduct(t, r, f, types, extreme, sat)
				}
			}
		}
	}
}

func testProduct(t *testing.T, r *rand.Rand, f fragment, signed [2]bool, extreme int, sat string) {
	words := [3]int{f.m * f.k / 128, f.n * f.k / 128, f.m * f.n / 32}
	per := words[0] + words[1] + words[2]
	code8 := map[bool]string{true: "s8", false: "u8"}
	var body strings.Builder
	fmt.Fprintf(&body, "mad.lo.u32 %%r2, %%r1, %d, 0; cvt.u64.u32 %%rd2, %%r2; add.s64 %%rd2, %%rd2, %%rd0;\n", 4*per)
	for i := range per {
		fmt.Fprintf(&body, "ld.global.b32 %%r%d, [%%rd2+%d];\n", 10+i, 4*i)
	}
	fmt.Fprintf(&body, "mma.sync.aligned.%s.row.col%s.s32.%s.%s.s32 %s, %s, %s, %s;\n", f.name, sat, code8[signed[0]], code8[signed[1]],
		names("r", 30, words[2]), names("r", 10, words[0]), names("r", 10+words[0], words[1]), names("r", 10+words[0]+words[1], words[2]))
	fmt.Fprintf(&body, "mad.wide.u32 %%rd3, %%r1, %d, %%rd1;\n", 4*words[2])
	for i := range words[2] {
		fmt.Fprintf(&body, "st.global.b32 [%%rd3+%d], %%r%d;\n", 4*i, 30+i)
	}

	d := newDevice(t, 80, Checked)
	k := d.kernel(t, ptx(80, "", body.String()), "k")
	data := make([]byte, 4*per*warpSize)
	for i := range data {
		data[i] = []byte{byte(r.Uint32()), 0x80, 0xff, 0x7f}[extreme]
	}
	a, b, c := map[[2]int]int64{}, map[[2]int]int64{}, map[[2]int]int64{}
	for lane := range warpSize {
		row := data[4*per*lane:]
		for i := range 4 * words[0] {
			m, k := f.a(lane, i)
			a[[2]int{m, k}] = code(row[i], signed[0])
		}
		for i := range 4 * words[1] {
			k, n := f.b(lane, i)
			b[[2]int{k, n}] = code(row[4*words[0]+i], signed[1])
		}
		for i := range words[2] {
			m, n := f.c(lane, i)
			c[[2]int{m, n}] = int64(int32(binary.LittleEndian.Uint32(row[4*(words[0]+words[1]+i):])))
		}
	}
	require.Len(t, a, f.m*f.k)
	require.Len(t, b, f.k*f.n)
	require.Len(t, c, f.m*f.n)
	out := d.alloc(t, 4*words[2]*warpSize)
	require.NoError(t, d.Launch(d.c, k, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: 32, Y: 1, Z: 1}, 0, 0, params(d.upload(t, data), out, 0)))
	got := d.download(t, out, 4*words[2]*warpSize)
	for lane := range warpSize {
		for i := range words[2] {
			m, n := f.c(lane, i)
			want := c[[2]int{m, n}]
			for k := range f.k {
				want += a[[2]int{m, k}] * b[[2]int{k, n}]
			}
			if sat != "" {
				want = min(max(want, -1<<31), 1<<31-1)
			}
			require.Equal(t, int32(want), int32(binary.LittleEndian.Uint32(got[4*(words[2]*lane+i):])), "%s %v row %d column %d", f.name,
				signed, m, n)
		}
	}
}

// TestLdmatrix loads matrices whose elements are numbers, plain and transposed, by one, two and four.
func TestLdmatrix(t *testing.T) {
	for _, count := range []int{1, 2, 4} {
		for _, trans := range []bool{false, true} {
			got := loadedMatrices(t, count, trans)
			for lane := range warpSize {
				for i := range count {
					for half := range 2 {
						row, col := lane/4, lane%4*2+half // of matrix i
						if trans {
							row, col = col, row
						}
						require.Equal(t, 64*i+8*row+col, got(lane, i, half), "lane %d register %d", lane, i)
					}
				}
			}
		}
	}
}

// loadedMatrices loads that many matrices by ldmatrix, whose elements are counted on, row by row. It returns which element is in a half of
// register i of a lane.
func loadedMatrices(t *testing.T, count int, trans bool) func(lane, i, half int) int {
	suffix := map[bool]string{true: ".trans"}[trans]
	body := fmt.Sprintf(`
	mov.u32 %%r2, s;
	shl.b32 %%r3, %%r1, 4;
	add.u32 %%r2, %%r2, %%r3;
	mul.wide.u32 %%rd2, %%r3, 1;
	add.s64 %%rd2, %%rd2, %%rd0;
	ld.global.v4.b32 {%%r4, %%r5, %%r6, %%r7}, [%%rd2];
	st.shared.v4.b32 [%%r2], {%%r4, %%r5, %%r6, %%r7};
	bar.sync 0;
	ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s, [%%r2];
	mad.wide.u32 %%rd3, %%r1, %d, %%rd1;
`, count, suffix, names("r", 10, count), 4*count)
	for i := range count {
		body += fmt.Sprintf("st.global.b32 [%%rd3+%d], %%r%d;\n", 4*i, 10+i)
	}
	d := newDevice(t, 80, Checked)
	k := d.kernel(t, ptx(80, ".shared .align 16 .b8 s[512];", body), "k")
	data := make([]byte, 512)
	for i := 0; i < len(data); i += 2 {
		binary.LittleEndian.PutUint16(data[i:], uint16(i/2*257))
	}
	out := d.alloc(t, 4*count*warpSize)
	require.NoError(t, d.Launch(d.c, k, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: 32, Y: 1, Z: 1}, 0, 0,
		params(d.upload(t, data), out, 0)))
	got := d.download(t, out, 4*count*warpSize)
	return func(lane, i, half int) int {
		x := binary.LittleEndian.Uint16(got[4*(count*lane+i)+2*half:])
		require.Equal(t, x>>8, x&255)
		return int(x & 255)
	}
}
