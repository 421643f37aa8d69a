package emulate

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda/driver"
)

// launch runs the body of a kernel with memory of so many bytes at a, which are written, and at b, which are not.
func launchBody(t *testing.T, options Options, globals, body string, bytes, threads, shared int) error {
	d := newDevice(t, 80, options)
	f := d.kernel(t, ptx(80, globals, body), "k")
	require.NoError(t, d.SetFunctionAttribute(d.c, f, driver.FunctionMaxDynamicShared, shared))
	return d.Launch(d.c, f, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: uint32(threads), Y: 1, Z: 1}, shared, 0,
		params(d.upload(t, make([]byte, bytes)), d.alloc(t, bytes), bytes))
}

const staticShared = ".shared .align 16 .b8 s[1024];"

// mine sets %r3 to the thread's word of shared memory, and %r4 to that of the next thread, of 64.
const mine = `
	mov.u32 %r2, s;
	shl.b32 %r3, %r1, 2;
	add.u32 %r3, %r3, %r2;
	add.u32 %r4, %r1, 1;
	and.b32 %r4, %r4, 63;
	shl.b32 %r4, %r4, 2;
	add.u32 %r4, %r4, %r2;
`

// next is as mine, but the next thread is of the same warp.
const next = `
	mov.u32 %r2, s;
	shl.b32 %r3, %r1, 2;
	add.u32 %r3, %r3, %r2;
	add.u32 %r4, %r1, 1;
	and.b32 %r4, %r4, 31;
	shl.b32 %r4, %r4, 2;
	add.u32 %r4, %r4, %r2;
`

const asyncCopy4 = `
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd3, %rd3, %rd0;
	cp.async.ca.shared.global [%r3], [%rd3], 4;
	cp.async.commit_group;
`

// TestPlantedFaults plants what each check looks for, and next to it the right program.
func TestPlantedFaults(t *testing.T) {
	for _, c := range []struct {
		name, globals, body string
		threads             int
		code                int    // 0: it is right
		want                string // part of the message
	}{
		{"within memory", "", "ld.global.u32 %r2, [%rd0+252];", 1, 0, ""},
		{"behind the end", "", "mad.wide.u32 %rd2, %r1, 4, %rd0; ld.global.u32 %r2, [%rd2+132];", 32, driver.IllegalAddress,
			"line 12: ld.global.u32 %r2, [%rd2+132];: block (0,0,0) thread (31,0,0): 4 bytes at 0x700000000100 " +
				"are not allocated: 0 bytes behind the end of allocation of 256 bytes at 0x700000000000"},
		{"half behind the end", "", "ld.global.v2.u32 {%r2, %r3}, [%rd0+252];", 1, misaligned, "not aligned to 8"},
		{"before the beginning", "", "ld.global.u32 %r2, [%rd0+-4];", 1, driver.IllegalAddress, "not allocated"},
		{"null", "", "mov.u64 %rd2, 0; st.u32 [%rd2], %r1;", 1, driver.IllegalAddress, "4 bytes at 0x0 are not allocated"},
		{"not aligned", "", "ld.global.u32 %r2, [%rd0+2];", 1, misaligned, "is not aligned to 4 bytes"},
		{"vector not aligned", "", "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd0+8];", 1, misaligned, "is not aligned to 16 bytes"},
		{"unwritten", "", "ld.global.u8 %r2, [%rd1+3];", 1, driver.LaunchFailed,
			"reads byte 0x700000001203, which nothing has written: allocation of 256 bytes at 0x700000001200"},
		{"partly written", "", "st.global.u8 [%rd1+3], %r1; ld.global.u32 %r2, [%rd1];", 1, driver.LaunchFailed, "which nothing has written"},
		{"written", "", "st.global.u32 [%rd1+4], %r1; ld.global.u8 %r2, [%rd1+7];", 1, 0, ""},
		{"constant memory", ".const .align 4 .b8 c[4] = {1, 2, 3, 4};", "mov.u64 %rd2, c; st.global.u32 [%rd2], %r1;", 1, driver.IllegalAddress,
			"writes to constant memory"},
		{"parameters", "", "st.param.u32 [k_n], %r1;", 1, driver.IllegalAddress, "parameters"},
		{"behind the parameters", "", "ld.param.u32 %r2, [k_n+4];", 1, driver.IllegalAddress, "parameter address 0x14; there are 20"},
		{"behind local memory", "", ".local .b8 l[8]; mov.u64 %rd2, l; st.local.u32 [%rd2+8], %r1;", 1, driver.IllegalAddress,
			"4 bytes at local address 0x8; a thread has 8"},
		{"unwritten local memory", "", ".local .b8 l[8]; st.local.u32 [l], %r1; ld.local.u32 %r2, [l+4];", 1, driver.LaunchFailed,
			"nothing has written: local memory"},
		{"trap", "", "trap;", 1, driver.LaunchFailed, "trap"},

		{"shared memory", staticShared, mine + "st.shared.u32 [%r3], %r1; bar.sync 0; ld.shared.u32 %r5, [%r4];", 64, 0, ""},
		{"behind shared memory", staticShared, "st.shared.u32 [s+1024], %r1;", 1, driver.IllegalAddress,
			"4 bytes at shared address 0x400; the block has 1024 (1024 static, 0 dynamic)"},
		{"unwritten shared memory", staticShared, "ld.shared.u32 %r2, [s];", 1, driver.LaunchFailed, "nothing has written: shared memory"},
		{"read without a barrier", staticShared, mine + "st.shared.u32 [%r3], %r1; ld.shared.u32 %r5, [%r4];", 64, driver.LaunchFailed,
			"with no barrier in between"},
		{"write without a barrier", staticShared, mine + `st.shared.u32 [%r3], %r1; bar.sync 0; ld.shared.u32 %r5, [%r4];
			st.shared.u32 [%r3], %r5;`, 64, driver.LaunchFailed, "writes shared byte 0x4, which was read by thread (0,0,0)"},
		{"write behind a barrier", staticShared, mine + `st.shared.u32 [%r3], %r1; bar.sync 0; ld.shared.u32 %r5, [%r4]; bar.sync 0;
			st.shared.u32 [%r3], %r5;`, 64, 0, ""},
		{"two writers", staticShared, mine + "st.shared.u32 [s], %r1;", 64, driver.LaunchFailed, "race: writes shared byte 0x0"},
		{"two writers of one value", staticShared, mine + "st.shared.u32 [s], 7;", 64, 0, ""},
		{"neighbouring bytes", staticShared, "mov.u32 %r2, s; add.u32 %r2, %r2, %r1; st.shared.u8 [%r2], %r1; ld.shared.u8 %r3, [%r2];", 64, 0,
			""},
		{"a byte in another's word", staticShared, `mov.u32 %r2, s; add.u32 %r2, %r2, %r1; st.shared.u8 [%r2], %r1; setp.eq.u32 %p1, %r1, 36;
			@%p1 ld.shared.u32 %r3, [s+36];`, 64, driver.LaunchFailed, "reads shared byte 0x25, which was written by thread (37,0,0)"},
		{"within a warp", staticShared, next + "st.shared.u32 [%r3], %r1; ld.shared.u32 %r5, [%r4];", 32, driver.LaunchFailed, "no barrier"},
		{"within a warp, synchronised", staticShared, next + `st.shared.u32 [%r3], %r1; bar.warp.sync -1; ld.shared.u32 %r5, [%r4];
			bar.warp.sync -1; st.shared.u32 [%r3], %r5;`, 32, 0, ""},
		{"warps are not synchronised", staticShared, mine + `st.shared.u32 [%r3], 1; bar.sync 0; st.shared.u32 [%r3], %r1; bar.warp.sync -1;
			ld.shared.u32 %r5, [%r4];`, 64,
			driver.LaunchFailed, "no barrier"},
		{"atomics do not race", staticShared, `setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [s], 0; bar.sync 0; red.shared.add.u32 [s], 1;
			bar.sync 0; ld.shared.u32 %r2, [s];`, 64, 0, ""},
		{"an atomic and a read", staticShared, `setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [s], 0; bar.sync 0; ld.shared.u32 %r2, [s];
			red.shared.add.u32 [s], 1;`, 64, driver.LaunchFailed, "race: changes"},

		{"copy", staticShared, next + asyncCopy4 + "cp.async.wait_group 0; ld.shared.u32 %r5, [%r3];", 32, 0, ""},
		{"copy without a wait", staticShared, next + asyncCopy4 + "ld.shared.u32 %r5, [%r3];", 32, driver.LaunchFailed,
			"to which a cp.async copies that nothing has waited for"},
		{"copy with too weak a wait", staticShared, next + asyncCopy4 + "cp.async.wait_group 1; ld.shared.u32 %r5, [%r3];", 32,
			driver.LaunchFailed, "nothing has waited for"},
		{"copy without a commit", staticShared, next + `cp.async.ca.shared.global [%r3], [%rd0], 4; cp.async.wait_group 0;
			ld.shared.u32 %r5, [%r3];`, 32, driver.LaunchFailed, "nothing has waited for"},
		{"copy and wait_all", staticShared, next + `cp.async.ca.shared.global [%r3], [%rd0], 4; cp.async.wait_all;
			ld.shared.u32 %r5, [%r3];`, 32, 0, ""},
		{"copy without a barrier", staticShared, next + asyncCopy4 + "cp.async.wait_group 0; ld.shared.u32 %r5, [%r4];", 32,
			driver.LaunchFailed, "no barrier"},
		{"copy onto what is being read", staticShared, mine + `st.shared.u32 [%r3], %r1; bar.sync 0; ld.shared.u32 %r5, [%r4];
			cp.async.ca.shared.global [%r3], [%rd0], 4;`, 64, driver.LaunchFailed, "was read by"},
		{"copy from beyond", staticShared, "cp.async.cg.shared.global [s], [%rd0+256], 16;", 1, driver.IllegalAddress, "not allocated"},
		{"copy of nothing from beyond", staticShared, `cp.async.cg.shared.global [s], [%rd0+256], 16, 0; cp.async.wait_all;
			ld.shared.u32 %r2, [s];`, 1, 0, ""},
		{"copy to an odd address", staticShared, "cp.async.cg.shared.global [s+8], [%rd0], 16;", 1, misaligned, "aligned to 16"},

		{"barrier of some lanes", "", "setp.lt.u32 %p1, %r1, 7; @%p1 bar.sync 0;", 32, driver.LaunchFailed, "of which lanes 7-31 have ended"},
		{"barriers at two places", "", "setp.lt.u32 %p1, %r1, 7; @%p1 bra other; bar.sync 0; bra end; other: bar.sync 0; end:", 32,
			driver.LaunchFailed, "diverged: lanes 7-31 wait here for the others of the warp, lanes 0-6 at line"},
		{"barrier that ended warps miss", "", "setp.lt.u32 %p1, %r1, 32; @%p1 bra end; bar.sync 0; end:", 64, driver.LaunchFailed,
			"barrier 0 waits for 32 threads of 64"},
		{"lanes come to a barrier on two ways", "", `setp.lt.u32 %p1, %r1, 7; @%p1 bra other; add.u32 %r2, %r1, 1; both: bar.sync 0; bra end;
			other: add.u32 %r2, %r1, 2; bra both; end:`, 64, 0, ""},
		{"matrix product of some lanes", "", `mov.u32 %r2, 0; setp.lt.u32 %p1, %r1, 16;
			@%p1 mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r3, %r4}, {%r2}, {%r2}, {%r2, %r2};`, 32, driver.LaunchFailed,
			"waits for lanes 16-31, which have ended"},
		{"matrix product of half a warp", "", `mov.u32 %r2, 0;
			mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r3, %r4}, {%r2}, {%r2}, {%r2, %r2};`, 16, driver.LaunchFailed, "needs 32 lanes"},
		{"shuffle of some lanes", "", "setp.lt.u32 %p1, %r1, 16; @%p1 shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;", 32, driver.LaunchFailed,
			"which have ended"},
		{"shuffle from a lane that is not there", "", "setp.lt.u32 %p1, %r1, 16; @%p1 shfl.sync.idx.b32 %r2, %r1, 20, 31, 0xffff;", 32,
			driver.LaunchFailed, "takes the value of lane 20, which does not take part"},
		{"shuffle of a mask", "", "setp.lt.u32 %p1, %r1, 16; @%p1 shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffff;", 32, 0, ""},
		{"a lane outside its mask", "", "shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffff;", 32, driver.LaunchFailed, "not in its own mask"},
		{"no end", "", "again: bra again;", 1, launchTimeout, "more than 100000 instructions"},
		{"no end of one lane", "", "again: setp.eq.u32 %p1, %r1, 5; @%p1 bra again;", 32, launchTimeout, "more than 100000 instructions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := Checked
			options.Budget = 100000
			err := launchBody(t, options, c.globals, c.body, 256, c.threads, 0)
			if c.code == 0 {
				require.NoError(t, err)
				return
			}
			var r *driver.Result
			require.True(t, errors.As(err, &r), "%v", err)
			require.Equal(t, c.code, r.Code, "%v", err)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "kernel k: line ")
		})
	}
}

// TestChecksThatAreOff: what is only undefined runs through, and gives something.
func TestChecksThatAreOff(t *testing.T) {
	options := Fast
	require.NoError(t, launchBody(t, options, "", "ld.global.u8 %r2, [%rd1+3];", 256, 32, 0))
	require.NoError(t, launchBody(t, options, staticShared, mine+"st.shared.u32 [%r3], %r1; ld.shared.u32 %r5, [%r4];", 256, 64, 0))
	require.Error(t, launchBody(t, options, "", "ld.global.u8 %r2, [%rd1+256];", 256, 32, 0))
}

// TestFaultIsThatOfTheFirstBlock, however many run at once.
func TestFaultIsThatOfTheFirstBlock(t *testing.T) {
	for _, workers := range []int{1, 2, 7} {
		options := Checked
		options.Workers = workers
		d := newDevice(t, 80, options)
		f := d.kernel(t, ptx(80, "", "mov.u32 %r2, %ctaid.x; setp.ge.u32 %p1, %r2, 5; @%p1 trap;"), "k")
		err := d.Launch(d.c, f, driver.Dim{X: 40, Y: 1, Z: 1}, driver.Dim{X: 32, Y: 1, Z: 1}, 0, 0, params(0, 0, 0))
		require.ErrorContains(t, err, "block (5,0,0)")
		require.ErrorContains(t, d.Synchronize(d.c), "block (5,0,0)", "the context is lost")
		_, err = d.MemAlloc(d.c, 1)
		require.Error(t, err)
		require.NoError(t, d.ReleasePrimaryContext(0))
		c, err := d.PrimaryContext(0)
		require.NoError(t, err)
		require.NoError(t, d.Synchronize(c), "a new context works")
	}
}

// TestBlockcheck: blocks that meet in global memory, and others that atomics keep apart.
func TestBlockcheck(t *testing.T) {
	const own = "mov.u32 %r2, %ctaid.x; shl.b32 %r3, %r2, 2; cvt.u64.u32 %rd2, %r3; add.s64 %rd2, %rd2, %rd0; "
	for _, c := range []struct{ name, body, want string }{
		{"own words", own + "ld.global.u32 %r4, [%rd2]; st.global.u32 [%rd2], %r2;", ""},
		{"own bytes of one word", own + "cvt.u64.u32 %rd3, %r2; add.s64 %rd3, %rd0, %rd3; ld.global.u8 %r4, [%rd3]; st.global.u8 [%rd3], 7;", ""},
		{"one value", own + "st.global.u32 [%rd0], 5;", ""},
		{"a neighbour's", own + "st.global.u32 [%rd2], 9; setp.ne.u32 %p1, %r2, 0; @%p1 ld.global.u32 %r4, [%rd2+-4];",
			"reads byte 0x700000000000, which was written by block (0,0,0)"},
		{"a neighbour's before it writes", own + "ld.global.u32 %r4, [%rd2+4]; st.global.u32 [%rd2], 9;",
			"which was read by block (0,0,0) in the same"},
		{"two writers", own + "st.global.u32 [%rd0], %r2;", "writes byte 0x700000000000, which was written by block (0,0,0)"},
		{"atomics", own + "atom.global.add.u32 %r5, [%rd0+128], 1; st.global.u32 [%rd2+4], 9; ld.global.u32 %r4, [%rd2];", ""},
	} {
		options := Checked
		options.Blockcheck = true
		d := newDevice(t, 61, options)
		f := d.kernel(t, ptx(61, "", c.body), "k")
		a := d.upload(t, make([]byte, 256))
		err := d.Launch(d.c, f, driver.Dim{X: 4, Y: 1, Z: 1}, driver.Dim{X: 1, Y: 1, Z: 1}, 0, 0, params(a, a, 0))
		if c.want == "" {
			require.NoError(t, err, c.name)
			continue
		}
		require.ErrorContains(t, err, c.want, c.name)
	}
}

// TestRaceNotesAreForgotten: after very many barriers the counter of segments begins anew.
func TestRaceNotesAreForgotten(t *testing.T) {
	var b block
	b.race.init(8)
	b.race.segment = maxSegment - 3
	w := &warp{b: &b}
	b.warps = []*warp{w}
	for range 10 {
		b.race.barrier(&b)
		require.GreaterOrEqual(t, w.segment, b.race.since)
		require.Equal(t, b.race.segment, w.segment)
	}
	require.Less(t, b.race.segment, uint32(10))
}

func TestLaneList(t *testing.T) {
	require.Equal(t, "0-3,7,30-31", laneList(0xc000008f))
	require.Equal(t, fmt.Sprintf("%d-%d", 0, 31), laneList(allLanes))
}
