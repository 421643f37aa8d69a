package emulate

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda/driver"
)

func code32(err error) int {
	var r *driver.Result
	if errors.As(err, &r) {
		return r.Code
	}
	return 0
}

func TestDeviceProperties(t *testing.T) {
	d := New(80)
	n, err := d.DeviceCount()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = d.DeviceGet(1)
	require.Equal(t, driver.InvalidDevice, code32(err))
	name, err := d.DeviceName(0)
	require.NoError(t, err)
	require.Equal(t, "qwb PTX interpreter, sm_80", name)
	for a, want := range map[driver.Attribute]int{driver.ComputeCapabilityMajor: 8, driver.ComputeCapabilityMinor: 0,
		driver.MaxThreadsPerBlock: 1024, driver.MaxSharedPerBlock: 48 << 10, driver.MaxSharedPerBlockOptin: 163 << 10} {
		got, err := d.DeviceAttribute(0, a)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = d.DeviceAttribute(0, 9999)
	require.Equal(t, driver.InvalidValue, code32(err))
	_, err = d.MemAlloc(1, 10)
	require.Equal(t, invalidContext, code32(err), "no context yet")
	require.Error(t, d.ReleasePrimaryContext(0))
}

func TestAllocations(t *testing.T) {
	options := Checked
	options.Memory = 1 << 20
	d := newDevice(t, 61, options)
	a, b := d.alloc(t, 1000), d.alloc(t, 1)
	require.Zero(t, a%512)
	require.GreaterOrEqual(t, uint64(b), uint64(a)+1000+gap)
	free, total, err := d.MemInfo(d.c)
	require.NoError(t, err)
	require.EqualValues(t, []int64{1<<20 - 1001, 1 << 20}, []int64{free, total})
	_, err = d.MemAlloc(d.c, 1<<20)
	require.Equal(t, driver.OutOfMemory, code32(err))
	require.Equal(t, driver.InvalidValue, code32(d.MemFree(d.c, a+512)))
	require.Equal(t, []byte{poison, poison}, d.download(t, a, 2))
	require.NoError(t, d.MemFree(d.c, a))
	require.Equal(t, driver.InvalidValue, code32(d.MemFree(d.c, a)))
	require.ErrorContains(t, d.CopyToHost(d.c, make([]byte, 4), a, 0), "freed allocation of 1000 bytes")
	require.ErrorContains(t, d.CopyToDevice(d.c, b, make([]byte, 2), 0), "not allocated")
	f := d.kernel(t, ptx(61, "", "ld.global.u8 %r2, [%rd0+8];"), "k")
	require.ErrorContains(t, d.Launch(d.c, f, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: 1, Y: 1, Z: 1}, 0, 0, params(a, a, 0)),
		"freed allocation of 1000 bytes")
}

func TestCopies(t *testing.T) {
	d := newDevice(t, 61, Checked)
	a, b := d.upload(t, []byte("abcdefgh")), d.alloc(t, 8)
	require.NoError(t, d.SetBytes(d.c, b, 'x', 4, 0))
	require.NoError(t, d.CopyOnDevice(d.c, b+1, a+3, 2, 0))
	require.Equal(t, "xdex", string(d.download(t, b, 4)))
	require.NoError(t, d.CopyOnDevice(d.c, a, b+2, 4, 0)) // of which two were never written
	f := d.kernel(t, ptx(61, "", "ld.global.u8 %r2, [%rd0+2];"), "k")
	require.ErrorContains(t, d.Launch(d.c, f, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: 1, Y: 1, Z: 1}, 0, 0, params(a, a, 0)),
		"nothing has written")
}

func TestLaunchLimits(t *testing.T) {
	d := newDevice(t, 80, Checked)
	text := ptx(80, ".extern .shared .align 16 .b8 dyn[];", `
	.shared .align 4 .b8 own[100];
	st.shared.u8 [own+99], 1;
	mov.u32 %r2, %dynamic_smem_size;
	mov.u32 %r3, dyn;
	add.u32 %r3, %r3, %r2;
	@!%p0 st.shared.u8 [%r3+-1], 1;`)
	f := d.kernel(t, text, "k")
	one, threads := driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: 32, Y: 1, Z: 1}
	launch := func(grid, block driver.Dim, shared int, p []byte) int {
		return code32(d.Launch(d.c, f, grid, block, shared, 0, p))
	}
	p := params(0, 0, 0)
	require.Zero(t, launch(one, threads, 4096, p))
	require.Equal(t, driver.InvalidValue, launch(one, threads, 48<<10, p), "static and dynamic memory are too much together")
	static, err := d.FunctionAttribute(d.c, f, driver.FunctionStaticShared)
	require.NoError(t, err)
	require.Equal(t, 100, static)
	require.NoError(t, d.SetFunctionAttribute(d.c, f, driver.FunctionMaxDynamicShared, 100<<10))
	require.Zero(t, launch(one, threads, 100<<10, p))
	require.Error(t, d.SetFunctionAttribute(d.c, f, driver.FunctionMaxDynamicShared, 163<<10))
	require.Equal(t, driver.InvalidValue, launch(driver.Dim{}, threads, 0, p))
	require.Equal(t, driver.InvalidValue, launch(driver.Dim{X: 1, Y: 65536, Z: 1}, threads, 0, p))
	require.Equal(t, driver.InvalidValue, launch(one, driver.Dim{X: 1025, Y: 1, Z: 1}, 0, p))
	require.Equal(t, driver.InvalidValue, launch(one, driver.Dim{X: 32, Y: 32, Z: 2}, 0, p))
	require.Equal(t, driver.InvalidValue, launch(one, threads, 0, p[:16]))
	blocks, err := d.MaxActiveBlocks(d.c, f, 128, 50<<10)
	require.NoError(t, err)
	require.Equal(t, 3, blocks)
	blocks, err = d.MaxActiveBlocks(d.c, f, 512, 0)
	require.NoError(t, err)
	require.Equal(t, 3, blocks)
	blocks, err = d.MaxActiveBlocks(d.c, f, 2048, 0)
	require.NoError(t, err)
	require.Zero(t, blocks)
	local, err := d.FunctionAttribute(d.c, f, driver.FunctionLocalSize)
	require.NoError(t, err)
	require.Zero(t, local)
	_, err = d.FunctionAttribute(d.c, f, 77)
	require.Error(t, err)
	_, err = d.FunctionAttribute(d.c, driver.Function(1), driver.FunctionRegisters)
	require.Equal(t, driver.InvalidHandle, code32(err))
}

func TestMaxThreadsOfAKernel(t *testing.T) {
	d := newDevice(t, 61, Checked)
	const text = `.version 6.0
.target sm_61
.address_size 64
.visible .entry k() .reqntid 64, 1, 1 { ret; }
.visible .entry m() .maxntid 64, 1, 1 { ret; }`
	one := driver.Dim{X: 1, Y: 1, Z: 1}
	k, m := d.kernel(t, text, "k"), d.kernel(t, text, "m")
	require.NoError(t, d.Launch(d.c, k, one, driver.Dim{X: 64, Y: 1, Z: 1}, 0, 0, nil))
	require.Error(t, d.Launch(d.c, k, one, driver.Dim{X: 32, Y: 1, Z: 1}, 0, 0, nil))
	require.NoError(t, d.Launch(d.c, m, one, driver.Dim{X: 32, Y: 1, Z: 1}, 0, 0, nil))
	require.Error(t, d.Launch(d.c, m, one, driver.Dim{X: 65, Y: 1, Z: 1}, 0, 0, nil))
}

// TestGraphs records what happens on two streams, which meet by events, and runs it twice.
func TestGraphs(t *testing.T) {
	d := newDevice(t, 61, Checked)
	f := d.kernel(t, ptx(61, "", "ld.global.u32 %r2, [%rd0]; mad.lo.u32 %r2, %r2, %r0, 1; st.global.u32 [%rd0], %r2;"), "k")
	a := d.upload(t, make([]byte, 4))
	one := driver.Dim{X: 1, Y: 1, Z: 1}
	stream := func() driver.Stream {
		s, err := d.StreamCreate(d.c)
		require.NoError(t, err)
		return s
	}
	event := func() driver.Event {
		e, err := d.EventCreate(d.c, false)
		require.NoError(t, err)
		return e
	}
	s, side, fork, join := stream(), stream(), event(), event()
	require.NoError(t, d.BeginCapture(d.c, s))
	require.Error(t, d.BeginCapture(d.c, s))
	p := params(a, 0, 3)
	require.NoError(t, d.Launch(d.c, f, one, one, 0, s, p))
	p[16] = 9 // the parameters were read
	require.NoError(t, d.EventRecord(d.c, fork, s))
	require.NoError(t, d.StreamWaitEvent(d.c, side, fork))
	require.NoError(t, d.Launch(d.c, f, one, one, 0, side, p))
	require.NoError(t, d.EventRecord(d.c, join, side))
	require.NoError(t, d.StreamWaitEvent(d.c, s, join))
	require.Equal(t, captureUnsupported, code32(d.StreamSynchronize(d.c, s)))
	require.Equal(t, captureUnsupported, code32(d.EventSynchronize(d.c, join)))
	require.Equal(t, captureUnsupported, code32(d.CopyToHost(d.c, make([]byte, 4), a, s)), "the memory is not pinned")
	host, err := d.HostAlloc(d.c, 8)
	require.NoError(t, err)
	require.NoError(t, d.CopyToHost(d.c, host[4:], a, s))
	g, err := d.EndCapture(d.c, s)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 4), d.download(t, a, 4), "nothing has run")
	x, err := d.GraphInstantiate(d.c, g)
	require.NoError(t, err)
	require.NoError(t, d.GraphDestroy(d.c, g))
	require.NoError(t, d.GraphLaunch(d.c, x, side))
	require.Equal(t, []byte{10, 0, 0, 0}, host[4:]) // (0*3+1)*9+1
	require.NoError(t, d.GraphLaunch(d.c, x, s))
	require.Equal(t, []byte{(10*3+1)*9 + 1 - 256, 1, 0, 0}, host[4:])
	require.NoError(t, d.GraphExecDestroy(d.c, x))
	require.Equal(t, driver.InvalidHandle, code32(d.GraphLaunch(d.c, x, s)))
	require.NoError(t, d.HostFree(d.c, host))

	require.NoError(t, d.BeginCapture(d.c, s))
	require.NoError(t, d.EventRecord(d.c, fork, s))
	require.NoError(t, d.StreamWaitEvent(d.c, side, fork))
	require.NoError(t, d.Launch(d.c, f, one, one, 0, side, p))
	_, err = d.EndCapture(d.c, s)
	require.Equal(t, captureUnjoined, code32(err))
	require.NoError(t, d.StreamSynchronize(d.c, side), "the capture is over")
	_, err = d.EndCapture(d.c, s)
	require.Error(t, err)
	require.Error(t, d.BeginCapture(d.c, 0))
}

// TestEventsCount: time is counted in instructions.
func TestEventsCount(t *testing.T) {
	d := newDevice(t, 61, Checked)
	f := d.kernel(t, ptx(61, "", ""), "k")
	s, err := d.StreamCreate(d.c)
	require.NoError(t, err)
	var e [2]driver.Event
	for i := range e {
		e[i], err = d.EventCreate(d.c, true)
		require.NoError(t, err)
		if i == 1 {
			_, err = d.EventElapsed(d.c, e[0], e[1])
			require.Error(t, err, "not recorded")
			one := driver.Dim{X: 1, Y: 1, Z: 1}
			require.NoError(t, d.Launch(d.c, f, one, one, 0, s, params(0, 0, 0)))
		}
		require.NoError(t, d.EventRecord(d.c, e[i], s))
	}
	ms, err := d.EventElapsed(d.c, e[0], e[1])
	require.NoError(t, err)
	require.InDelta(t, 5e-6, ms, 1e-9)
	require.NoError(t, d.EventDestroy(d.c, e[0]))
	require.NoError(t, d.StreamDestroy(d.c, s))
	require.Equal(t, driver.InvalidHandle, code32(d.StreamSynchronize(d.c, s)))
}

// manyCalls is functions of which each calls the one before twice.
func manyCalls() string {
	text := ".func f0() { ret; }\n"
	for i := range 20 {
		text += fmt.Sprintf(".func f%d() { call f%d; call f%d; ret; }\n", i+1, i, i)
	}
	return text
}

// TestModuleErrors: what cannot be run is said when the module is loaded.
func TestModuleErrors(t *testing.T) {
	d := newDevice(t, 61, Checked)
	for _, c := range []struct{ text, want string }{
		{"", "this is not PTX"},
		{ptx(80, "", ""), "the PTX is for sm_80, the device is sm_61"},
		{ptx(61, "", "elect.sync %r2|%p1, -1;"), "k: line 12: instruction elect.sync is not supported: elect.sync %r2|%p1, -1;"},
		{ptx(61, "", "add.rn.s32 %r2, %r1, %r1;"), "line 12: add.rn.s32 %r2, %r1, %r1;: modifier .rn is not supported here"},
		{ptx(61, "", "add.s32 %r2, %r1;"), "2 operands"},
		{ptx(61, "", "add.s32 %r2, %r1, %nope;"), "%nope is not declared"},
		{ptx(61, "", "add.s32 %r2, %r1, %rd1;"), "register %rd1 has the wrong width"},
		{ptx(61, "", "bra nowhere;"), "nowhere is no label"},
		{ptx(61, "", "x: x:"), "label x stands twice"},
		{ptx(61, "", "ld.global.u32 %r2, %rd0;"), "the address is missing its brackets"},
		{ptx(61, "", "setp.hi.s32 %p1, %r1, %r2;"), "no comparison hi of this type"},
		{ptx(61, "", "call f;"), "function f is not defined"},
		{ptx(61, ".func f() { call f; ret; }", "call f;"), "recursion is not supported: f calls f"},
		{ptx(61, manyCalls(), "call f20;"), "more than 4096 calls"},
		{ptx(61, "", "{ .reg .b32 %a<131072>; }"), "more than 131072 registers"},
		{ptx(61, ".global .u8 g[2] = {1, 2, 3};", ""), "more initial values than elements"},
		{ptx(61, ".extern .global .u8 g[2];", ""), "g is not defined in this module"},
		{ptx(61, "", "@%p1 [;"), "expected a name"},
		{ptx(61, ".func f() { .huh; }", ""), "directive .huh is not supported"},
		{ptx(61, "", "{ add.s32 %r1, %r1, %r1;"), "a block has no end"},
		{ptx(61, ".tex .u32 t;", ""), "directive .tex is not supported"},
	} {
		_, err := d.ModuleLoad(d.c, []byte(c.text))
		require.Equal(t, driver.InvalidPTX, code32(err), "%s", c.text)
		require.ErrorContains(t, err, c.want)
	}
	m, err := d.ModuleLoad(d.c, append([]byte(ptx(61, ".global .u32 g = 3;", "ld.global.u32 %r2, [g];")), 0))
	require.NoError(t, err)
	_, err = d.ModuleFunction(d.c, m, "other")
	require.Equal(t, driver.NotFound, code32(err))
	before, _, err := d.MemInfo(d.c)
	require.NoError(t, err)
	require.NoError(t, d.ModuleUnload(d.c, m))
	after, _, err := d.MemInfo(d.c)
	require.NoError(t, err)
	require.EqualValues(t, 4, after-before)
}

// FuzzParse: whatever the text, loading gives an error or a module.
func FuzzParse(f *testing.F) {
	f.Add(ptx(61, staticShared, mine+"ld.global.v2.u32 {%r2, %r3}, [%rd0+8]; @!%p1 bra x; x: bar.sync 0;"))
	f.Add(ptx(80, ".global .align 8 .u64 p[2] = {p, generic(p)+8};", "{ .reg .f32 %q<3>; fma.rn.f32 %q1, %q2, 0f3F800000, -1.5; }"))
	f.Add(ptx(80, ".func (.param .b32 r) f(.param .b32 a) { ret; }", "{.param .b32 x, y; call (x), f, (y); } ways: .branchtargets a; a:"))
	f.Add(".version 00 .shared .align 1 .b8 A[0];.entry A(.param .b64 A00,.param .b32 A){.reg .pred x;x:}")
	files, err := filepath.Glob("../ptx/p*.sm_80.ptx.gz")
	require.NoError(f, err)
	for _, file := range files {
		if text, err := unpacked(file); err == nil && len(text) < 20000 {
			f.Add(string(text))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		src, err := parse(text)
		if err != nil {
			return
		}
		mem := newMemory(1 << 24)
		m, err := newModule(src, mem)
		if err != nil {
			return
		}
		for _, fn := range src.funcs {
			_, _ = m.program(fn.name)
		}
		m.unload(mem)
	})
}

// TestCompiledKernel compiles a kernel from C++ that uses much of what a compiler makes of it: switches, local arrays, calls, tables,
// doubles, division; and compares with the same in Go.
func TestCompiledKernel(t *testing.T) {
	const compiler = "clang-19"
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("no %s", compiler)
	}
	const source = `
typedef long long s64;
struct P { const int *in; int *out; double *real; int n; signed char codes[8]; };
__attribute__((constant)) short table[5] = {3, -1, 4, -1, 5};
__attribute__((device)) int total = 1;
__attribute__((noinline, device)) s64 mix(const P &p, int a, s64 b) {
  if (a < 0) return b * p.codes[a & 7];
  return (b << 3) / (a + 1) - p.n % (a + 2);
}
extern "C" __attribute__((global)) void k(P p) {
  __attribute__((shared)) static int s[64];
  int t = __nvvm_read_ptx_sreg_tid_x(), i = t + 64 * __nvvm_read_ptx_sreg_ctaid_x();
  s[t] = p.in[i];
  __nvvm_bar_sync(0);
  int local[6];
  for (int j = 0; j < 6; j++) local[j] = s[(t + j) & 63] * table[j % 5];
  int x = local[(unsigned)p.in[i] % 6];
  switch (x & 7) {
    case 0: x += 11; break;
    case 1: x ^= 0x55; break;
    case 2: x *= 3; break;
    case 3: x >>= 2; break;
    case 4: x = -x; break;
    case 5: x = (int)((unsigned)x / 7u); break;
    case 6: x %= 13; break;
  }
  p.out[i] = (int)(mix(p, x, (s64)x * p.in[i]) >> 1) + total;
  p.real[i] = (double)x / 3.0 + (float)p.in[i] * 0.1f;
}`
	dir := t.TempDir()
	file := filepath.Join(dir, "k.cu")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o644))
	for arch, level := range map[int]string{61: "-O3", 80: "-O0"} {
		cmd := exec.Command(compiler, "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", fmt.Sprintf("--cuda-gpu-arch=sm_%d", arch),
			"-std=c++17", level, "-ffp-contract=off", "-S", "-o", "-", file)
		text, err := cmd.Output()
		require.NoError(t, err)
		runCompiled(t, arch, string(text))
	}
}
