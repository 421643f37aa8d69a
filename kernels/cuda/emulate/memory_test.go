package emulate

import (
	"encoding/binary"
	"math"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda/driver"
)

// words runs a body on a block of threads with data at a, and returns 4 bytes per thread, what it stored at %rd9.
func words(t *testing.T, arch int, globals, body string, data []byte, threads int) []uint32 {
	d := newDevice(t, arch, Checked)
	f := d.kernel(t, ptx(arch, globals, "mad.wide.u32 %rd9, %r1, 4, %rd1;\n"+body), "k")
	out := d.alloc(t, 4*threads)
	require.NoError(t, d.Launch(d.c, f, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: uint32(threads), Y: 1, Z: 1}, 0, 0,
		params(d.upload(t, append(data, 0)), out, 77)), body)
	var got []uint32
	for p := d.download(t, out, 4*threads); len(p) > 0; p = p[4:] {
		got = append(got, binary.LittleEndian.Uint32(p))
	}
	return got
}

func TestMemory(t *testing.T) {
	data := make([]byte, 1024)
	for i := range data {
		data[i] = byte(i*37 + 11)
	}
	at := func(i int) uint32 { return binary.LittleEndian.Uint32(data[i:]) }
	const address = "mad.wide.u32 %rd2, %r1, 16, %rd0;"
	for _, c := range []struct {
		name, globals, body string
		want                func(i int) uint32
	}{
		{"bytes", "", address + "ld.global.u8 %rs1, [%rd2]; ld.global.nc.s8 %rs2, [%rd2+1]; add.s16 %rs3, %rs1, %rs2; cvt.u32.u16 %r2, %rs3;" +
			"st.global.u32 [%rd9], %r2;", func(i int) uint32 { return uint32(uint16(int(data[16*i]) + int(int8(data[16*i+1])))) }},
		{"bytes to wider registers", "", address + "ld.global.s8 %r2, [%rd2]; ld.global.u8 %r3, [%rd2+1]; ld.global.s16 %rd3, [%rd2+2];" +
			"cvt.u32.u64 %r4, %rd3; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; st.global.u32 [%rd9], %r2;", func(i int) uint32 {
			return uint32(int(int8(data[16*i])) + int(data[16*i+1]) + int(int16(binary.LittleEndian.Uint16(data[16*i+2:]))))
		}},
		{"vectors", "", address + "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd2]; st.global.v2.u16 [%rd9], {%r3, %r5};",
			func(i int) uint32 { return at(16*i+4)&65535 | at(16*i+12)<<16 }},
		{"vectors of bytes", "", address + "ld.global.v4.u8 {%rs1, %rs2, %rs3, %rs4}, [%rd2]; st.global.v4.b8 [%rd9], {%rs4, %rs3, %rs2, %rs1};",
			func(i int) uint32 { return bits.ReverseBytes32(at(16 * i)) }},
		{"64 bits", "", address + "ld.global.v2.u64 {%rd3, %rd4}, [%rd2]; shr.u64 %rd3, %rd3, 32; st.global.u32 [%rd9], %rd3;",
			func(i int) uint32 { return at(16*i + 4) }},
		{"generic addresses", ".shared .align 4 .b8 s[256];", address + "ld.u32 %r2, [%rd2+4]; mov.u64 %rd3, s; cvta.shared.u64 %rd4, %rd3;" +
			"mad.wide.u32 %rd4, %r1, 4, %rd4; st.u32 [%rd4], %r2; cvta.to.shared.u64 %rd5, %rd4; ld.shared.u32 %r3, [%rd5]; ld.u32 %r4, [%rd4];" +
			"add.u32 %r3, %r3, %r4; st.u32 [%rd9], %r3;", func(i int) uint32 { return 2 * at(16*i+4) }},
		{"local memory", "", address + `.local .align 8 .b8 d[64]; mov.u64 %rd3, d; cvta.local.u64 %rd4, %rd3; ld.global.u64 %rd5, [%rd2];
			st.local.u64 [%rd3+8], %rd5; add.u64 %rd6, %rd4, 12; ld.u32 %r2, [%rd6]; and.b32 %r3, %r1, 7; mad.wide.u32 %rd7, %r3, 4, %rd3;
			st.local.u32 [%rd7+16], %r2; ld.local.u32 %r4, [%rd7+16]; st.global.u32 [%rd9], %r4;`, func(i int) uint32 { return at(16*i + 4) }},
		{"tables", ".global .align 4 .u32 g[4] = {5, 6, 7}; .const .align 2 .b8 c[8] = {1, 0, 2, 0, 0xff, 0xff};" +
			".global .align 8 .u64 p[2] = {g, generic(g)+4}; .global .f32 f = 0f40000000;",
			`and.b32 %r2, %r1, 3; mov.u64 %rd2, g; mad.wide.u32 %rd2, %r2, 4, %rd2; ld.global.u32 %r3, [%rd2];
			mov.u64 %rd3, c; mad.wide.u32 %rd3, %r2, 2, %rd3; ld.const.s16 %r4, [%rd3]; ld.global.u64 %rd4, [p+8]; ld.u32 %r5, [%rd4];
			ld.global.f32 %f1, [f]; cvt.rni.s32.f32 %r6, %f1; mad.lo.u32 %r3, %r3, 1000, %r4; mad.lo.u32 %r3, %r3, %r5, %r6;
			st.global.u32 [%rd9], %r3;`, func(i int) uint32 {
				return ([]uint32{5, 6, 7, 0}[i%4]*1000+[]uint32{1, 2, 1<<32 - 1, 0}[i%4])*6 + 2
			}},
		{"parameters", "", "mov.b64 %rd2, k_a; ld.param.u32 %r2, [%rd2+16]; ld.param.u32 %r3, [k_a+16]; add.u32 %r2, %r2, %r3;" +
			"st.global.u32 [%rd9], %r2;", func(int) uint32 { return 2 * 77 }},
		{"addresses", "", "isspacep.global %p1, %rd0; mov.u64 %rd2, 0x500000000010; isspacep.shared %p2, %rd2; and.pred %p3, %p1, %p2;" +
			"selp.u32 %r2, 1, 0, %p3; st.global.u32 [%rd9], %r2;", func(int) uint32 { return 1 }},
		{"asynchronous copies", ".shared .align 16 .b8 s[1024];", address + `shl.b32 %r2, %r1, 4; mov.u32 %r3, s; add.u32 %r2, %r2, %r3;
			cp.async.cg.shared.global [%r2], [%rd2], 16, 6; cp.async.commit_group; cp.async.ca.shared.global [%r2+512], [%rd2+8], 8;
			cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r4, [%r2+4]; cp.async.wait_group 0; ld.shared.u32 %r5, [%r2+516];
			add.u32 %r4, %r4, %r5; st.global.u32 [%rd9], %r4;`, func(i int) uint32 { return at(16*i+4)&65535 + at(16*i+12) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, x := range words(t, 80, c.globals, c.body, data, 32) {
				require.Equal(t, c.want(i), x, "thread %d", i)
			}
		})
	}
}

// TestCalls calls device functions with values, a struct and a result, one of them for some lanes only.
func TestCalls(t *testing.T) {
	const functions = `
.func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; add.u32 %a, %a, %a; st.param.b32 [r], %a; ret; }
.func (.param .b32 r) pick(.param .align 8 .b8 s[16], .param .b32 i)
{
	.reg .b32 %a<5>; .reg .b64 %d<5>; .reg .pred %p;
	.local .align 4 .b8 depot[4];
	ld.param.b32 %a1, [i];
	setp.lt.u32 %p, %a1, 2;
	@%p bra low;
	st.param.b32 [r], 9;
	ret;
low:
	mov.b64 %d1, s;
	mad.wide.u32 %d1, %a1, 8, %d1;
	ld.param.b32 %a2, [%d1];
	st.local.u32 [depot], %a2;
	{ .param .b32 p0; st.param.b32 [p0], %a2; .param .b32 q0; call.uni (q0), twice, (p0); ld.param.b32 %a3, [q0]; }
	ld.local.u32 %a4, [depot];
	add.u32 %a3, %a3, %a4;
	st.param.b32 [r], %a3;
	ret;
}`
	got := words(t, 61, functions, `
	mov.u32 %r2, 0;
	setp.ne.u32 %p1, %r1, 3;
	{ .param .align 8 .b8 p0[16]; st.param.v2.b32 [p0], {%r1, 1}; st.param.b64 [p0+8], 100; .param .b32 p1; st.param.b32 [p1], %r1;
	.param .b32 q0; st.param.b32 [q0], 55; @%p1 call (q0), pick, (p0, p1); ld.param.b32 %r2, [q0]; }
	st.global.u32 [%rd9], %r2;`, nil, 32)
	for i, x := range got {
		want := uint32(9)
		switch i {
		case 0:
			want = 0
		case 1:
			want = 300
		case 3:
			want = 55
		}
		require.Equal(t, want, x, "thread %d", i)
	}
}

// TestControl runs lanes on ways of their own: loops of different lengths, jumps by an index, early ends.
func TestControl(t *testing.T) {
	collatz := words(t, 61, "", `
	add.u32 %r2, %r1, 1;
	mov.u32 %r3, 0;
again:
	setp.eq.u32 %p1, %r2, 1;
	@%p1 bra done;
	and.b32 %r4, %r2, 1;
	setp.eq.u32 %p2, %r4, 0;
	@%p2 bra even;
	mad.lo.u32 %r2, %r2, 3, 1;
	bra next;
even:
	shr.u32 %r2, %r2, 1;
next:
	add.u32 %r3, %r3, 1;
	bra again;
done:
	bar.sync 0;
	st.global.u32 [%rd9], %r3;`, nil, 64)
	for i, x := range collatz {
		want := uint32(0)
		for n := i + 1; n != 1; want++ {
			n = choose(n%2 == 0, n/2, 3*n+1)
		}
		require.Equal(t, want, x)
	}
	jumps := words(t, 61, "", `
	and.b32 %r2, %r1, 3;
	ways: .branchtargets a, b, c, a;
	brx.idx %r2, ways;
a:	mov.u32 %r3, 1; bra end;
b:	mov.u32 %r3, 2; bra end;
c:	mov.u32 %r3, 3; st.global.u32 [%rd9], %r3; exit;
end:
	{ .reg .b32 %r3x; mov.u32 %r3x, 10; add.u32 %r3, %r3, %r3x; }
	st.global.u32 [%rd9], %r3;`, nil, 32)
	for i, x := range jumps {
		require.Equal(t, []uint32{11, 12, 3, 11}[i%4], x)
	}
}

func TestWarpInstructions(t *testing.T) {
	for _, c := range []struct {
		body string
		want func(i int) uint32
	}{
		{"shfl.sync.bfly.b32 %r2, %r1, 5, 31, -1;", func(i int) uint32 { return uint32(i ^ 5) }},
		{"shfl.sync.down.b32 %r2|%p1, %r1, 3, 31, -1; @!%p1 add.u32 %r2, %r2, 100;", func(i int) uint32 {
			return uint32(choose(i+3 < 32, i+3, i+100))
		}},
		{"shfl.sync.up.b32 %r2|%p1, %r1, 3, 0, -1; @!%p1 add.u32 %r2, %r2, 100;", func(i int) uint32 {
			return uint32(choose(i >= 3, i-3, i+100))
		}},
		{"shfl.sync.down.b32 %r2, %r1, 3, 0x1807, -1;", func(i int) uint32 { return uint32(choose(i%8+3 < 8, i+3, i)) }},
		{"shfl.sync.idx.b32 %r2, %r1, 9, 0x1807, -1;", func(i int) uint32 { return uint32(i/8*8 + 1) }},
		{"shfl.sync.idx.b32 %r2, %r1, 31, 31, -1;", func(i int) uint32 { return 31 }},
		{"and.b32 %r3, %r1, 3; setp.eq.u32 %p1, %r3, 1; vote.sync.ballot.b32 %r2, %p1, -1;", func(i int) uint32 { return 0x22222222 }},
		{"setp.lt.u32 %p1, %r1, 32; vote.sync.all.pred %p2, %p1, -1; selp.u32 %r2, 1, 0, %p2;", func(i int) uint32 { return 1 }},
		{"setp.eq.u32 %p1, %r1, 31; vote.sync.any.pred %p2, !%p1, -1; vote.sync.uni.pred %p3, %p1, -1; selp.u32 %r2, 1, 0, %p2;" +
			"@%p3 add.u32 %r2, %r2, 2;", func(i int) uint32 { return 1 }},
		{"and.b32 %r3, %r1, 3; match.any.sync.b32 %r2, %r3, -1;", func(i int) uint32 { return 0x11111111 << (i % 4) }},
		{"mov.u32 %r3, 5; match.all.sync.b32 %r2|%p1, %r3, -1; @%p1 sub.u32 %r2, %r2, 1;", func(i int) uint32 { return 1<<32 - 2 }},
		{"redux.sync.add.u32 %r2, %r1, -1;", func(i int) uint32 { return 31 * 16 }},
		{"sub.u32 %r3, %r1, 16; redux.sync.min.s32 %r2, %r3, -1;", func(i int) uint32 { return 1<<32 - 16 }},
		{"sub.u32 %r3, %r1, 16; redux.sync.max.u32 %r2, %r3, -1;", func(i int) uint32 { return 1<<32 - 1 }},
		{"shl.b32 %r3, 1, %r1; redux.sync.or.b32 %r2, %r3, -1;", func(i int) uint32 { return 1<<32 - 1 }},
		{"mov.u32 %r2, 0; setp.lt.u32 %p1, %r1, 5; @%p1 activemask.b32 %r2;", func(i int) uint32 { return choose(i < 5, uint32(31), 0) }},
		{"mov.u32 %r2, %lanemask_lt;", func(i int) uint32 { return 1<<i - 1 }},
		{"mov.u32 %r2, %lanemask_ge;", func(i int) uint32 { return ^uint32(1<<i - 1) }},
		{"setp.lt.u32 %p1, %r1, 5; bar.red.popc.u32 %r2, 0, %p1;", func(i int) uint32 { return 5 }},
		{"setp.lt.u32 %p1, %r1, 5; bar.red.or.pred %p2, 0, %p1; bar.red.and.pred %p3, 0, %p1; selp.u32 %r2, 1, 0, %p2;" +
			"@%p3 add.u32 %r2, %r2, 2;", func(i int) uint32 { return 1 }},
		{"shl.b32 %r3, %r1, 4; and.b32 %r4, %r3, 16; shfl.sync.bfly.b32 %r2, %r4, 1, 31, -1; membar.cta; fence.acq_rel.gpu; bar.warp.sync -1;",
			func(i int) uint32 { return uint32(choose(i%2 == 0, 16, 0)) }},
	} {
		got := words(t, 80, "", c.body+"st.global.u32 [%rd9], %r2;", nil, 32)
		for i, x := range got {
			require.Equal(t, c.want(i), x, "%s lane %d", c.body, i)
		}
	}
	old := words(t, 61, "", "shfl.bfly.b32 %r2, %r1, 1, 31; vote.ballot.b32 %r3, %p1; st.global.u32 [%rd9], %r2;", nil, 32)
	require.Equal(t, uint32(31), old[30])
}

func TestAtomics(t *testing.T) {
	const threads = 96
	d := newDevice(t, 80, Checked)
	f := d.kernel(t, ptx(80, ".shared .align 8 .b8 s[16];", `
	mov.u32 %r2, %ctaid.x;
	mad.lo.u32 %r3, %r2, 96, %r1;
	atom.global.add.u32 %r4, [%rd1], 1;
	red.global.add.u64 [%rd1+8], 3;
	cvt.rn.f32.u32 %f1, %r3;
	red.global.add.f32 [%rd1+16], %f1;
	sub.u32 %r5, %r3, 100;
	red.global.min.s32 [%rd1+20], %r5;
	red.global.max.u32 [%rd1+24], %r3;
	and.b32 %r6, %r1, 31;
	shl.b32 %r6, 1, %r6;
	red.global.or.b32 [%rd1+28], %r6;
	atom.global.inc.u32 %r7, [%rd1+32], 9;
again:
	ld.relaxed.gpu.global.u32 %r8, [%rd1+36];
	add.u32 %r9, %r8, 2;
	atom.global.cas.b32 %r10, [%rd1+36], %r8, %r9;
	setp.ne.u32 %p1, %r10, %r8;
	@%p1 bra again;
	setp.eq.u32 %p2, %r1, 0;
	@%p2 st.shared.u64 [s], 0;
	bar.sync 0;
	atom.shared.add.u64 %rd5, [s], 1;
	atom.shared.exch.b32 %r11, [s+4], 0;
	bar.sync 0;
	@!%p2 bra end;
	ld.shared.u32 %r12, [s];
	red.add.u32 [%rd1+40], %r12;
end:`), "k")
	const blocks = 8
	b := d.upload(t, make([]byte, 64))
	require.NoError(t, d.Launch(d.c, f, driver.Dim{X: blocks, Y: 1, Z: 1}, driver.Dim{X: threads, Y: 1, Z: 1}, 0, 0, params(0, b, 0)))
	p := d.download(t, b, 64)
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(p[i:]) }
	const n = blocks * threads
	require.EqualValues(t, n, word(0))
	require.EqualValues(t, 3*n, binary.LittleEndian.Uint64(p[8:]))
	require.Equal(t, float32(n*(n-1)/2), math.Float32frombits(word(16)))
	require.Equal(t, int32(-100), int32(word(20)))
	require.EqualValues(t, n-1, word(24))
	require.EqualValues(t, uint32(1<<32-1), word(28))
	require.EqualValues(t, n%10, word(32))
	require.EqualValues(t, 2*n, word(36))
	require.EqualValues(t, n, word(40))
}

// TestSpecialRegisters are a thread's place in a grid of three directions.
func TestSpecialRegisters(t *testing.T) {
	d := newDevice(t, 61, Checked)
	f := d.kernel(t, ptx(61, "", `
	mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y; mov.u32 %r6, %ntid.z;
	mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mov.u32 %r9, %ctaid.z; mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y;
	mad.lo.u32 %r12, %r9, %r11, %r8;
	mad.lo.u32 %r12, %r12, %r10, %r7;
	mad.lo.u32 %r12, %r12, %r6, %r3;
	mad.lo.u32 %r12, %r12, %r5, %r2;
	mad.lo.u32 %r12, %r12, %r4, %r1;
	mad.wide.u32 %rd2, %r12, 4, %rd1;
	mov.u64 %rd3, %clock64;
	st.global.u32 [%rd2], %r12;`), "k")
	const n = 2 * 3 * 4 * 5 * 3 * 2
	out := d.alloc(t, 4*n)
	require.NoError(t, d.Launch(d.c, f, driver.Dim{X: 2, Y: 3, Z: 4}, driver.Dim{X: 5, Y: 3, Z: 2}, 0, 0, params(0, out, 0)))
	p := d.download(t, out, 4*n)
	for i := range n {
		require.EqualValues(t, i, binary.LittleEndian.Uint32(p[4*i:]))
	}
}
