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

// A warpgroup's product of 64x32 by 32xN bytes: what is in shared memory where, by the figures of the manual. A swizzled matrix
// consists of patterns of 8 rows, each of 128, 64 or 32 bytes. Of a pattern of 128, in row r piece q of 16 bytes stands at q^r; of 64,
// two rows fill 128 bytes, and it stands at q^(r/2); of 32 four do, and it stands at q^(r/4). A matrix that is not swizzled consists
// of cores of 8 rows of 16 bytes.
type layout struct {
	name                    string
	mode                    uint64
	row                     int // bytes of a row
	from                    int // first byte of a row that is the matrix's
	leading, stride, offset int
}

var layouts = []layout{
	{"none", 0, 16, 0, 128, 256, 0},
	{"none, rows of cores first", 0, 16, 0, 4096, 128, 0},
	{"128", 1, 128, 0, 16, 1024, 0},
	{"128, third quarter", 1, 128, 64, 16, 1024, 0},
	{"128, in every second pattern", 1, 128, 96, 16, 2048, 1024},
	{"64", 2, 64, 0, 16, 512, 0},
	{"64, second half", 2, 64, 32, 16, 512, 0},
	{"32", 3, 32, 0, 16, 256, 0},
}

// place is where byte k of row r stands, from the matrix's memory on.
func (l *layout) place(r, k int) int {
	if l.row == 16 {
		return l.offset + r/8*l.stride + r%8*16 + k/16*l.leading + k%16
	}
	q := (l.from + k) / 16
	switch l.row {
	case 128:
		q ^= r % 8
	case 64:
		q ^= r % 8 / 2
	case 32:
		q ^= r % 8 / 4
	}
	return l.offset + r/8*l.stride + r%8*l.row + q*16 + k%16
}

func (l *layout) descriptor(base int) uint64 {
	return uint64(base+l.offset+l.from)>>4 | uint64(l.leading)>>4<<16 | uint64(l.stride)>>4<<32 | l.mode<<62
}

const (
	matrixA, matrixB = 0, 32 << 10 // in shared memory
	matrixEnd        = 160 << 10
)

// wgmmaKernel is a kernel of a warpgroup: it fills shared memory from %rd0, accumulators from behind that, makes products, and writes
// the accumulators to %rd1.
func wgmmaKernel(n, threads int, products string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `.version 8.4
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 s[];
.visible .entry k(.param .u64 k_a, .param .u64 k_b, .param .u32 k_n)
{
	.reg .pred %%p<10>; .reg .b32 %%r<60>; .reg .b64 %%rd<40>; .reg .b32 %%c<%d>;
	ld.param.u64 %%rd0, [k_a];
	ld.param.u64 %%rd1, [k_b];
	mov.u32 %%r1, %%tid.x;
	mul.wide.u32 %%rd2, %%r1, 16;
	add.s64 %%rd2, %%rd2, %%rd0;
	mov.u32 %%r2, s;
	mad.lo.u32 %%r2, %%r1, 16, %%r2;
	mov.u32 %%r3, %d;
loop:
	ld.global.v4.b32 {%%r4, %%r5, %%r6, %%r7}, [%%rd2];
	st.shared.v4.b32 [%%r2], {%%r4, %%r5, %%r6, %%r7};
	add.s64 %%rd2, %%rd2, %d;
	add.u32 %%r2, %%r2, %d;
	sub.u32 %%r3, %%r3, 1;
	setp.ne.u32 %%p1, %%r3, 0;
	@%%p1 bra loop;
	mul.wide.u32 %%rd2, %%r1, %d;
	add.s64 %%rd3, %%rd2, %%rd0;
	add.s64 %%rd4, %%rd2, %%rd1;
`, n/2, matrixEnd/threads/16, 16*threads, 16*threads, 2*n)
	for i := range n / 2 {
		fmt.Fprintf(&b, "\tld.global.b32 %%c%d, [%%rd3+%d];\n", i, matrixEnd+4*i)
	}
	b.WriteString(products)
	for i := range n / 2 {
		fmt.Fprintf(&b, "\tst.global.b32 [%%rd4+%d], %%c%d;\n", 4*i, i)
	}
	b.WriteString("\tret;\n}\n")
	return b.String()
}

// accumulator is the element that a thread of a warpgroup has in register i.
func accumulator(thread, i int) (row, col int) {
	return thread/32*16 + thread%32/4 + i/2%2*8, i/4*8 + thread%4*2 + i%2
}

// wgmma is one product.
func wgmma(n int, types string, a, b string, adds string) string {
	return fmt.Sprintf("\twgmma.mma_async.sync.aligned.m64n%dk32.s32.%s %s, %s, %s, %s;\n", n, types, names("c", 0, n/2), a, b, adds)
}

const (
	wgmmaBegin = "\tfence.proxy.async.shared::cta;\n\tbar.sync 0;\n\twgmma.fence.sync.aligned;\n"
	wgmmaEnd   = "\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n"
)

func (d device) runWgmma(t *testing.T, text string, data []byte, threads, out int) ([]byte, error) {
	t.Helper()
	k := d.kernel(t, text, "k")
	require.NoError(t, d.SetFunctionAttribute(d.c, k, driver.FunctionMaxDynamicShared, matrixEnd))
	to := d.alloc(t, out)
	err := d.Launch(d.c, k, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: uint32(threads), Y: 1, Z: 1}, matrixEnd, 0,
		params(d.upload(t, data), to, 0))
	if err != nil {
		return nil, err
	}
	return d.download(t, to, out), nil
}

// TestWarpgroupProducts compares products with plain loops, over layouts, shapes, types and how sums are begun.
func TestWarpgroupProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	types := []string{"s8.s8", "u8.s8", "s8.u8", "u8.u8"}
	for i, l := range layouts {
		for j, n := range []int{8, 24, 64, 128, 256} {
			if n == 256 && l.stride > 1024 {
				continue // more than the memory of this test
			}
			testWgmma(t, r, l, layouts[(i+j)%len(layouts)], n, types[(i+j)%4], j%3 != 0, "")
		}
	}
	for _, name := range types {
		for _, extreme := range []string{"s8.s8 128", "255", "127"} {
			testWgmma(t, r, layouts[2], layouts[2], 16, name, true, extreme)
		}
	}
}

func testWgmma(t *testing.T, r *rand.Rand, la, lb layout, n int, types string, adds bool, extreme string) {
	t.Helper()
	if n == 256 && lb.stride > 1024 {
		lb = layouts[2]
	}
	data := make([]byte, matrixEnd+128*2*n)
	for i := range data {
		data[i] = byte(r.Uint32())
		switch {
		case i >= matrixEnd || extreme == "":
		case extreme == "255":
			data[i] = 255
		case extreme == "127":
			data[i] = 127
		default:
			data[i] = 128
		}
	}
	mode := "1"
	if !adds {
		mode = "%p2"
	}
	text := wgmmaKernel(n, 128, fmt.Sprintf("\tmov.u64 %%rd5, %d;\n\tmov.u64 %%rd6, %d;\n\tsetp.ne.u32 %%p2, %%r1, %%r1;\n",
		la.descriptor(matrixA), lb.descriptor(matrixB))+wgmmaBegin+wgmma(n, types, "%rd5", "%rd6", mode)+wgmmaEnd)
	got, err := newDevice(t, 90, Checked).runWgmma(t, text, data, 128, 128*2*n)
	require.NoError(t, err, "%s by %s", la.name, lb.name)
	for thread := range 128 {
		for i := range n / 2 {
			row, col := accumulator(thread, i)
			want := int64(0)
			if adds {
				want = int64(int32(binary.LittleEndian.Uint32(data[matrixEnd+thread*2*n+4*i:])))
			}
			for k := range 32 {
				want += code(data[matrixA+la.place(row, k)], types[0] == 's') * code(data[matrixB+lb.place(col, k)], types[3] == 's')
			}
			require.Equal(t, int32(want), int32(binary.LittleEndian.Uint32(got[thread*2*n+4*i:])), "%s by %s, %s, n %d: row %d column %d",
				la.name, lb.name, types, n, row, col)
		}
	}
}

// TestWarpgroupChains: products follow each other on the same accumulators, in two groups, of which the first is waited for while the
// second is under way; two warpgroups have factors of their own.
func TestWarpgroupChains(t *testing.T) {
	const n, threads = 32, 256
	r := rand.New(rand.NewPCG(5, 6))
	l := layouts[2]
	data := make([]byte, matrixEnd+threads*2*n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	body := fmt.Sprintf("\tshr.u32 %%r10, %%r1, 7;\n\tmul.wide.u32 %%rd5, %%r10, %d;\n\tadd.s64 %%rd5, %%rd5, %d;\n\tmov.u64 %%rd6, %d;\n",
		8192>>4, l.descriptor(matrixA), l.descriptor(matrixB)) + wgmmaBegin
	for k := range 4 {
		body += wgmma(n, "s8.s8", "%rd5", "%rd6", "1") + "\tadd.s64 %rd5, %rd5, 2;\n\tadd.s64 %rd6, %rd6, 2;\n"
		if k == 1 {
			body += "\twgmma.commit_group.sync.aligned;\n"
		}
	}
	body += "\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 1;\n\twgmma.wait_group.sync.aligned 0;\n"
	got, err := newDevice(t, 90, Checked).runWgmma(t, wgmmaKernel(n, threads, body), data, threads, threads*2*n)
	require.NoError(t, err)
	for thread := range threads {
		for i := range n / 2 {
			row, col := accumulator(thread, i)
			want := int32(binary.LittleEndian.Uint32(data[matrixEnd+thread*2*n+4*i:]))
			for k := range 128 {
				want += int32(code(data[matrixA+l.place(row, k)], true) * code(data[matrixB+l.place(col, k)], true))
			}
			require.Equal(t, want, int32(binary.LittleEndian.Uint32(got[thread*2*n+4*i:])), "row %d column %d", row, col)
		}
	}
}

// TestWarpgroupFaults plants what a device would not say.
func TestWarpgroupFaults(t *testing.T) {
	const n = 16
	l := layouts[2]
	product := wgmma(n, "s8.s8", "%rd5", "%rd6", "1")
	good := fmt.Sprintf("\tmov.u64 %%rd5, %d;\n\tmov.u64 %%rd6, %d;\n", l.descriptor(matrixA), l.descriptor(matrixB)) + wgmmaBegin + product +
		wgmmaEnd
	data := make([]byte, matrixEnd+256*2*n)
	for i := range data {
		data[i] = byte(i * 7)
	}
	run := func(body string) ([]byte, error) {
		return newDevice(t, 90, Checked).runWgmma(t, wgmmaKernel(n, 128, body), data, 128, 128*2*n)
	}
	replaced := func(old, new string) string {
		require.Equal(t, 1, strings.Count(good, old), old)
		return strings.Replace(good, old, new, 1)
	}
	right, err := run(good)
	require.NoError(t, err)

	const (
		fence   = "\tfence.proxy.async.shared::cta;\n"
		barrier = "\tbar.sync 0;\n"
		begin   = "\twgmma.fence.sync.aligned;\n"
		commit  = "\twgmma.commit_group.sync.aligned;\n"
		wait    = "\twgmma.wait_group.sync.aligned 0;\n"
	)
	first := "\tmov.u32 %r2, s;\n\tadd.u32 %r2, %r2, 32768;\n\tsetp.eq.u32 %p3, %r1, 0;\n"
	copied := first + "\tmad.wide.u32 %rd7, %r1, 16, %rd0;\n\t@%p3 cp.async.cg.shared.global [%r2], [%rd7], 16;\n"
	for _, c := range []struct{ name, body, fault string }{
		{"shared memory is not fenced", replaced(fence, ""), "no fence.proxy.async before a barrier"},
		{"fenced behind the barrier", replaced(fence+barrier, barrier+fence), "no fence.proxy.async before a barrier"},
		{"no barrier", replaced(barrier, ""), "which nothing has written"},
		{"written after the fence", replaced(barrier, first+"\t@%p3 st.shared.b32 [%r2], %r1;\n"+barrier), "no fence.proxy.async"},
		{"registers are not fenced", replaced(begin, ""), "accumulator 0 was written with no wgmma.fence since"},
		{"registers written after the fence", replaced(product, "\tadd.u32 %c3, %c3, 1;\n"+product), "accumulator 3 was written with no"},
		{"written while under way", replaced(commit, "\tadd.u32 %c3, %c3, 1;\n"+commit), "accumulator 3 was written while"},
		{"written by a warp while it reads", replaced(wait, first+"\t@%p3 st.shared.b32 [%r2], %r1;\n"+wait), "while it was under way"},
		{"written by another warp while it reads", replaced(wait, first+"\tsetp.eq.u32 %p3, %r1, 127;\n"+barrier+
			"\t@%p3 st.shared.b32 [%r2], %r1;\n"+barrier+wait), "while it was under way"},
		{"written with no barrier behind the wait", good + first + "\t@%p3 st.shared.b32 [%r2], %r1;\n", "race"},
		{"a copy that is under way", replaced(fence, copied+"\tcp.async.commit_group;\n"+fence), "to which a cp.async copies"},
		{"a copy fenced before it is waited for", replaced(fence, copied+"\tcp.async.commit_group;\n"+fence+"\tcp.async.wait_group 0;\n"),
			"no fence.proxy.async before a barrier"},
		{"a copy begins while it reads", replaced(commit, commit+barrier+copied), "to which a cp.async copies"},
		{"another shape on the same accumulators", replaced(commit, wgmma(8, "s8.s8", "%rd5", "%rd6", "1")+commit), "of another shape"},
		{"another descriptor in one warp", replaced(begin, begin+"\tsetp.ge.u32 %p3, %r1, 96;\n\t@%p3 add.s64 %rd6, %rd6, 2;\n"),
			"is not that of the others of its warpgroup"},
		{"another descriptor in one lane", replaced(begin, begin+"\tsetp.eq.u32 %p3, %r1, 5;\n\t@%p3 add.s64 %rd6, %rd6, 2;\n"),
			"lanes do not agree on a descriptor"},
		{"a warp without the product", replaced(begin, begin+"\tsetp.ge.u32 %p3, %r1, 96;\n\t@%p3 bra over;\n") + "over:\n",
			"others of its warpgroup with 1"},
		{"begins within a pattern", replaced(begin, begin+"\tadd.s64 %rd6, %rd6, 8;\n"), "not in the first row of a pattern"},
		{"goes over a row's end", replaced(begin, begin+"\tadd.s64 %rd6, %rd6, 7;\n"), "before the end of a row"},
		{"lies behind the end", replaced(begin, begin+"\tadd.s64 %rd6, %rd6, 8192;\n"), "at shared address"},
	} {
		_, err := run(c.body)
		require.ErrorContains(t, err, c.fault, c.name)
	}
	// Products come late: without a wait, or without a commit, the sums are not there.
	for _, body := range []string{replaced(wait, ""), replaced(commit, ""), replaced(wait, "\twgmma.wait_group.sync.aligned 1;\n")} {
		got, err := run(body)
		require.NoError(t, err)
		require.NotEqual(t, right, got)
	}
	_, err = newDevice(t, 90, Checked).runWgmma(t, wgmmaKernel(n, 64, good), data, 64, 64*2*n)
	require.ErrorContains(t, err, "in no group of four")
}

// TestWarpgroupTargets: sm_90a is for compute capability 9.0 and no other, and what it has no other PTX has.
func TestWarpgroupTargets(t *testing.T) {
	text := wgmmaKernel(16, 128, "\tmov.u64 %rd5, 0;\n"+wgmmaBegin+wgmma(16, "u8.s8", "%rd5", "%rd5", "1")+wgmmaEnd)
	for _, c := range []struct {
		arch       int
		old, fresh string
		fault      string
	}{
		{90, "", "", ""},
		{80, "", "", "the PTX is for sm_90a"},
		{100, "", "", "the PTX is for sm_90a"},
		{90, "sm_90a", "sm_90", "needs sm_90a"},
		{90, ".version 8.4", ".version 8.0", "needs PTX ISA 8.4"},
		{90, "m64n16k32", "m64n20k32", "not supported"},
		{90, "%c7}", "%c6}", "stands twice"},
		{90, ", %c7}", "}", "7 registers, not 8"},
		{90, "wait_group.sync.aligned 0", "wait_group.sync.aligned %r1", "no constant"},
	} {
		d := newDevice(t, c.arch, Checked)
		_, err := d.ModuleLoad(d.c, []byte(strings.Replace(text, c.old, c.fresh, 1)))
		if c.fault == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.fault)
	}
}
