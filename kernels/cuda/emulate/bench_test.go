package emulate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda/driver"
)

// The bodies of loops that run n times.
var loops = []struct{ name, body string }{
	{"arithmetic", `
	mad.lo.s32 %r4, %r4, %r1, %r3;
	add.s32 %r5, %r4, %r5;
	xor.b32 %r6, %r5, %r4;
	shl.b32 %r7, %r6, 3;
	add.s64 %rd4, %rd4, %rd1;
	fma.rn.f32 %f1, %f2, %f3, %f1;
	add.rn.f32 %f4, %f1, %f4;`},
	{"shared", `
	st.shared.u32 [%r9], %r4;
	ld.shared.u32 %r5, [%r9];
	st.shared.v4.u32 [%r10], {%r4, %r5, %r6, %r7};
	ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r10];`},
	{"global", `
	st.global.u32 [%rd9], %r4;
	ld.global.u32 %r5, [%rd9];
	ld.global.u8 %rs1, [%rd9];
	st.global.v4.u32 [%rd10], {%r4, %r5, %r6, %r7};
	ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd10];`},
	{"mma", `
	mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r20, %r21, %r22, %r23}, {%r4, %r5, %r6, %r7}, {%r30, %r31}, {%r20, %r21, %r22, %r23};`},
	{"ldmatrix", `
	ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r10];`},
	{"dp4a", `
	dp4a.s32.s32 %r20, %r4, %r5, %r20;
	dp4a.s32.s32 %r21, %r4, %r5, %r21;`},
	{"select", `
	setp.lt.s32 %p1, %r4, %r5;
	selp.b32 %r6, %r4, %r5, %p1;
	max.s32 %r7, %r6, -128;
	min.s32 %r7, %r7, 127;
	cvt.rn.f32.s32 %f1, %r7;
	cvt.rni.f32.f32 %f2, %f1;
	cvt.rzi.s32.f32 %r8, %f2;
	cvt.s32.s8 %r11, %r8;
	cvt.u64.u32 %rd5, %r11;
	mul.wide.s32 %rd6, %r8, %r8;
	shr.s64 %rd7, %rd6, 7;
	setp.lt.f32 %p2, %f1, %f2;
	selp.f32 %f3, %f1, %f2, %p2;
	bfe.s32 %r12, %r8, 8, 8;
	prmt.b32 %r13, %r8, %r12, 0x3340;`},
}

func BenchmarkInstructions(b *testing.B) {
	for _, l := range loops {
		text := ptx(80, ".shared .align 16 .b8 s[16384];", `
	shl.b32 %r10, %r1, 4;
	mov.u32 %r11, s;
	add.s32 %r10, %r10, %r11;
	shl.b32 %r12, %r1, 2;
	add.s32 %r9, %r11, %r12;
	add.s32 %r9, %r9, 8192;
	mul.wide.u32 %rd10, %r1, 16;
	add.s64 %rd10, %rd10, %rd0;
	mul.wide.u32 %rd9, %r1, 4;
	add.s64 %rd9, %rd9, %rd1;
	st.shared.v4.u32 [%r10], {%r10, %r9, %r1, %r12};
	bar.sync 0;
	mov.u32 %r2, 0;
loop:`+l.body+`
	add.s32 %r2, %r2, 1;
	setp.lt.u32 %p0, %r2, %r0;
	@%p0 bra loop;`)
		for _, mode := range []struct {
			name    string
			options Options
		}{{"checked", Checked}, {"fast", Fast}} {
			b.Run(l.name+"/"+mode.name, func(b *testing.B) {
				o := mode.options
				o.Workers, o.Budget = 1, 0
				d := newDevice(b, 80, o)
				f := d.kernel(b, text, "k")
				x, y := d.upload(b, make([]byte, 1<<14)), d.upload(b, make([]byte, 1<<14))
				b.ResetTimer()
				require.NoError(b, d.Launch(d.c, f, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: 64, Y: 1, Z: 1}, 0, 0, params(x, y, b.N)))
				b.ReportMetric(float64(d.counted)*warpSize/b.Elapsed().Seconds()/1e6, "Mlanes/s")
			})
		}
	}
}
