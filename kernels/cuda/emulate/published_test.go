package emulate

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda/driver"
)

// Results of instructions as others publish them. Who wrote them runs them on GPUs:
//
//	ZLUDA        github.com/vosen/ZLUDA, ptx/src/test/spirv_run/mod.rs at 041242b3 and the PTX beside it: tests for NVIDIA's and AMD's GPUs
//	SYCLomatic   github.com/oneapi-src/SYCLomatic-test, features/feature_case/asm: asm_arith.cu at 5a8d8eaa, asm_prmt.cu at b9da2dbd
//	PTX ISA      NVIDIA's manual: the rules of shfl, and of cvt for NaN and what is too large
//
// Only operands and results are theirs.

func bitsOf(x float32) uint32 { return math.Float32bits(x) }

func TestPublishedResults(t *testing.T) {
	const nan = 0x7fc00000
	for _, c := range []struct {
		source, body  string
		a, b, c, want uint32
	}{
		{"SYCLomatic", "dp4a.s32.s32 %r9, %r2, %r3, %r4;", 1<<32 - 1190208646, 231822748, 1361188354, 1361171428},
		{"SYCLomatic", "dp4a.s32.u32 %r9, %r2, %r3, %r4;", 851192907, 4159889898, 1<<32 - 1560201465, 1<<32 - 1560178121},
		{"SYCLomatic", "dp4a.u32.s32 %r9, %r2, %r3, %r4;", 908604347, 1279608234, 1<<32 - 1450969803, 1<<32 - 1450975502},
		{"SYCLomatic", "dp4a.u32.u32 %r9, %r2, %r3, %r4;", 3065883002, 1618319527, 3160878852, 3160964499},
		{"SYCLomatic", "prmt.b32 %r9, %r2, 0, 0x3210;", 0x12345678, 0, 0, 0x12345678},
		{"SYCLomatic", "prmt.b32.f4e %r9, %r2, %r3, 1;", 0x12345678, 0x64646464, 0, 0x64123456},
		{"SYCLomatic", "prmt.b32.b4e %r9, %r2, %r3, 1;", 0x12345678, 0x64646464, 0, 0x64647856},
		{"SYCLomatic", "prmt.b32.rc8 %r9, %r2, %r3, 2;", 0x12345678, 0x64646464, 0, 0x34343434},
		{"SYCLomatic", "prmt.b32.ecl %r9, %r2, %r3, 1;", 0x12345678, 0x64646464, 0, 0x12345656},
		{"SYCLomatic", "prmt.b32.ecr %r9, %r2, %r3, 1;", 0x12345678, 0x64646464, 0, 0x56565678},
		{"SYCLomatic", "prmt.b32.rc16 %r9, %r2, %r3, 1;", 0x12345678, 0x64646464, 0, 0x12341234},
		{"ZLUDA prmt", "prmt.b32 %r9, %r2, %r3, 30212;", 0x70c507d6, 0x6fbd4b5c, 0, 0x6fbdd65c},
		{"ZLUDA prmt_slow", "prmt.b32 %r9, %r2, %r3, %r4;", 0x70c507d6, 0x6fbd4b5c, 30212, 0x6fbdd65c},
		{"ZLUDA cvt_rni", "cvt.rni.f32.f32 %r9, %r2;", bitsOf(9.5), 0, 0, bitsOf(10)},
		{"ZLUDA cvt_rni", "cvt.rni.f32.f32 %r9, %r2;", bitsOf(10.5), 0, 0, bitsOf(10)},
		{"ZLUDA cvt_rzi", "cvt.rzi.f32.f32 %r9, %r2;", bitsOf(-13.8), 0, 0, bitsOf(-13)},
		{"ZLUDA cvt_rzi", "cvt.rzi.f32.f32 %r9, %r2;", bitsOf(12.9), 0, 0, bitsOf(12)},
		{"ZLUDA cvt_rni_u16_f32", "cvt.rni.u16.f32 %rs1, %r2; cvt.u32.u16 %r9, %rs1;", 0x477fff80, 0, 0, 65535},
		{"ZLUDA cvt_sat_s_u", "cvt.sat.u32.s32 %r9, %r2;", 1<<32 - 1, 0, 0, 0},
		{"ZLUDA cvt_s16_s8", "cvt.s32.s8 %r9, %r2;", 0x139231c2, 0, 0, 0xffffffc2},
		{"ZLUDA clz", "clz.b32 %r9, %r2;", 0b00000101_00101101_00010011_10101011, 0, 0, 5},
		{"ZLUDA bfe", "bfe.u32 %r9, %r2, %r3, %r4;", 0b11111000_11000001_00100010_10100000, 16, 8, 0b11000001},
		{"ZLUDA abs", "abs.s32 %r9, %r2;", 1 << 31, 0, 0, 1 << 31},
		{"ZLUDA add_s32_sat", "add.sat.s32 %r9, %r2, %r3;", 1 << 31, 1<<32 - 1, 0, 1 << 31},
		{"ZLUDA shr", "shr.s32 %r9, %r2, 1;", 1<<32 - 2, 0, 0, 1<<32 - 1},
		{"ZLUDA shf_l", "shf.l.wrap.b32 %r9, %r2, %r3, %r4;", 0x12345678, 0x9abcdef0, 12, 0xcdef0123},
		{"ZLUDA shf_r", "shf.r.wrap.b32 %r9, %r2, %r3, %r4;", 0x12345678, 0x9abcdef0, 12, 0xef012345},
		{"ZLUDA shf_l_clamp", "shf.l.clamp.b32 %r9, %r2, %r3, %r4;", 0x12345678, 0x9abcdef0, 44, 0x12345678},
		{"ZLUDA shf_r_clamp", "shf.r.clamp.b32 %r9, %r2, %r3, %r4;", 0x12345678, 0x9abcdef0, 44, 0x9abcdef0},
		{"ZLUDA shf_l_wrap", "shf.l.wrap.b32 %r9, %r2, %r3, %r4;", 0x12345678, 0x9abcdef0, 44, 0xcdef0123},
		{"ZLUDA shf_r_wrap", "shf.r.wrap.b32 %r9, %r2, %r3, %r4;", 0x12345678, 0x9abcdef0, 44, 0xef012345},
		{"ZLUDA mul_non_ftz", "mul.rn.f32 %r9, %r2, %r3;", 0x80400000, 0x3f000000, 0, 0x80200000},
		{"ZLUDA fma", "fma.rn.f32 %r9, %r2, %r3, %r4;", bitsOf(2), bitsOf(3), bitsOf(5), bitsOf(11)},
		{"ZLUDA div_noftz", "div.rn.f32 %r9, %r2, %r3;", 0x16a2028d, 0x5e89f6ae, 0, 0x26},
		{"ZLUDA setp_gt", "setp.gt.f32 %p1, %r2, %r3; selp.b32 %r9, 1, 0, %p1;", nan, bitsOf(1), 0, 0},
		{"ZLUDA setp_leu", "setp.leu.f32 %p1, %r2, %r3; selp.b32 %r9, 1, 0, %p1;", bitsOf(1), nan, 0, 1},
		{"ZLUDA setp_nan", "setp.nan.f32 %p1, %r2, %r3; selp.b32 %r9, 1, 0, %p1;", bitsOf(0.5), nan, 0, 1},
		{"ZLUDA setp_nan", "setp.nan.f32 %p1, %r2, %r3; selp.b32 %r9, 1, 0, %p1;", bitsOf(0.5), bitsOf(0.5), 0, 0},
		{"ZLUDA setp_num", "setp.num.f32 %p1, %r2, %r3; selp.b32 %r9, 1, 0, %p1;", nan, bitsOf(0.5), 0, 0},
		{"ZLUDA copysign", "copysign.f32 %r9, %r2, %r3;", 0x0bda2a2c, 0xe31a8fd7, 0, 0x631a8fd7},
		{"PTX ISA", "cvt.rni.s32.f32 %r9, %r2;", nan, 0, 0, 0},
		{"PTX ISA", "cvt.rni.s32.f32 %r9, %r2;", bitsOf(3e9), 0, 0, 1<<31 - 1},
		{"PTX ISA", "cvt.rzi.s32.f32 %r9, %r2;", bitsOf(-3e9), 0, 0, 1 << 31},
		{"PTX ISA", "cvt.rni.u32.f32 %r9, %r2;", bitsOf(-1), 0, 0, 0},
		{"PTX ISA", "cvt.rzi.s64.f32 %rd9, %r2; shr.u64 %rd8, %rd9, 32; cvt.u32.u64 %r9, %rd8;", nan, 0, 0, 1 << 31},
		{"PTX ISA", "min.f32 %r9, %r2, %r3;", nan, bitsOf(1), 0, bitsOf(1)},
		{"PTX ISA", "lop3.b32 %r9, %r2, %r3, %r4, 0x1a;", 0xf0, 0xcc, 0xaa, 0x1a}, // immLut is the function of these three
		{"PTX ISA", "lop3.b32 %r9, %r2, %r3, %r4, 0x80;", 0xf0, 0xcc, 0xaa, 0x80},
	} {
		got := lanesOf(t, 80, c.body, [][3]uint32{{c.a, c.b, c.c}})
		require.Equal(t, c.want, got[0], "%s: %s", c.source, c.body)
	}
}

// TestPublishedShuffles: of 64 threads each gives its number to one three lanes away, or takes lane 12's; a thread whose lane is out of
// range keeps its own and adds 1000. The fifth and sixth follow the manual's rule for segments: of eight lanes, with the last as bound.
func TestPublishedShuffles(t *testing.T) {
	up := []uint32{1000, 1001, 1002}
	var down, butterfly, index []uint32
	for i := range uint32(warpSize) {
		if i >= 3 {
			up = append(up, i-3)
			down = append(down, i)
		}
		butterfly = append(butterfly, i/4*4+[]uint32{3, 2, 1, 0}[i%4])
		index = append(index, 12)
	}
	down = append(down, 1029, 1030, 1031)
	const keep = "; @!%p1 add.u32 %r2, %r2, 1000;"
	for _, c := range []struct {
		body string
		want []uint32 // of the first warp
	}{
		{"shfl.sync.up.b32 %r2|%p1, %r1, 3, 0, -1" + keep, up},
		{"shfl.sync.down.b32 %r2|%p1, %r1, 3, 31, -1" + keep, down},
		{"shfl.sync.bfly.b32 %r2|%p1, %r1, 3, 31, -1" + keep, butterfly},
		{"shfl.sync.idx.b32 %r2|%p1, %r1, 12, 31, -1" + keep, index},
		{"shfl.sync.down.b32 %r2|%p1, %r1, 6, 0x1807, -1" + keep, []uint32{6, 7, 1002, 1003, 1004, 1005, 1006, 1007, 14, 15, 1010, 1011,
			1012, 1013, 1014, 1015, 22, 23, 1018, 1019, 1020, 1021, 1022, 1023, 30, 31, 1026, 1027, 1028, 1029, 1030, 1031}},
		{"shfl.sync.bfly.b32 %r2|%p1, %r1, 8, 0x1807, -1" + keep, []uint32{1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 0, 1, 2, 3, 4, 5, 6,
			7, 1016, 1017, 1018, 1019, 1020, 1021, 1022, 1023, 16, 17, 18, 19, 20, 21, 22, 23}},
	} {
		d := newDevice(t, 80, Checked)
		f := d.kernel(t, ptx(80, "", c.body+"\n\tmul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd2, %rd1; st.global.u32 [%rd2], %r2;"), "k")
		out := d.alloc(t, 4*2*warpSize)
		require.NoError(t, d.Launch(d.c, f, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: 2 * warpSize, Y: 1, Z: 1}, 0, 0, params(out, out, 0)))
		got := d.download(t, out, 4*2*warpSize)
		for i := range 2 * warpSize {
			require.Equal(t, c.want[i%warpSize]+uint32(i/warpSize*warpSize), uint32(got[4*i])|uint32(got[4*i+1])<<8, "%s, thread %d", c.body, i)
		}
	}
}
