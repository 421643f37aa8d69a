package driver_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/drivertest"
	"qwb/kernels/cuda/driver"
)

const ptx = `//
.version 7.0
.target sm_61
.visible .entry scale(
	.param .align 8 .b8 scale_param_0[24]
)
{
}
.visible .entry other()
{
}
`

// opened is a stub with a context, whose calls all leave their thread without one: nothing may rely on what an earlier call set.
func opened(t testing.TB, macros ...string) (*drivertest.Stub, driver.API, driver.Context) {
	t.Helper()
	s := drivertest.New(t, macros...)
	s.Set("forget", 1)
	api, err := driver.OpenFile(s.Path)
	require.NoError(t, err)
	d, err := api.DeviceGet(0)
	require.NoError(t, err)
	c, err := api.PrimaryContext(d)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, api.ReleasePrimaryContext(d))
		require.Zero(t, s.Live("contexts"))
	})
	return s, api, c
}

// is asserts what a call failed with.
func is(t *testing.T, err error, code int, text string) {
	t.Helper()
	var r *driver.Result
	require.ErrorAs(t, err, &r)
	require.Equal(t, code, r.Code)
	require.Equal(t, text, err.Error())
}

func TestDevice(t *testing.T) {
	s := drivertest.New(t, "STUB_DEVICES=2", "STUB_MAJOR=8", "STUB_MINOR=6")
	s.Set("memory", 6<<30)
	api, err := driver.OpenFile(s.Path)
	require.NoError(t, err)
	n, err := api.DeviceCount()
	require.NoError(t, err)
	require.Equal(t, 2, n)
	d, err := api.DeviceGet(1)
	require.NoError(t, err)
	name, err := api.DeviceName(d)
	require.NoError(t, err)
	require.Equal(t, "Stub 1", name)
	for a, want := range map[driver.Attribute]int{driver.ComputeCapabilityMajor: 8, driver.ComputeCapabilityMinor: 6,
		driver.Multiprocessors: 132, driver.MaxSharedPerBlockOptin: 232448} {
		got, err := api.DeviceAttribute(d, a)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = api.DeviceAttribute(d, 9999)
	is(t, err, driver.InvalidValue, "cuDeviceGetAttribute: invalid argument (CUDA_ERROR_INVALID_VALUE)")
	bytes, err := api.DeviceTotalMem(d)
	require.NoError(t, err)
	require.Equal(t, int64(6<<30), bytes)
	for _, ordinal := range []int{2, -1} {
		_, err = api.DeviceGet(ordinal)
		is(t, err, driver.InvalidDevice, "cuDeviceGet: invalid device ordinal (CUDA_ERROR_INVALID_DEVICE)")
	}
	_, err = api.PrimaryContext(7)
	is(t, err, driver.InvalidDevice, "cuDevicePrimaryCtxRetain: invalid device ordinal (CUDA_ERROR_INVALID_DEVICE)")
	require.Error(t, api.ReleasePrimaryContext(0))
}

func TestPrimaryContextIsCounted(t *testing.T) {
	s, api, c := opened(t)
	again, err := api.PrimaryContext(0)
	require.NoError(t, err)
	require.Equal(t, c, again)
	require.Equal(t, 2, s.Live("references"))
	require.NoError(t, api.ReleasePrimaryContext(0))
	require.NoError(t, api.Synchronize(c))
}

func TestCallsNeedALivingContext(t *testing.T) {
	_, api, _ := opened(t)
	_, err := api.MemAlloc(driver.Context(12345), 16)
	is(t, err, 201, "cuCtxSetCurrent: invalid device context (CUDA_ERROR_INVALID_CONTEXT)")
	_, err = api.MemAlloc(0, 16)
	is(t, err, 201, "cuMemAlloc: invalid device context (CUDA_ERROR_INVALID_CONTEXT)")
}

func TestModule(t *testing.T) {
	s, api, c := opened(t)
	m, err := api.ModuleLoad(c, []byte(ptx))
	require.NoError(t, err)
	require.Equal(t, []string{fmt.Sprintf("bytes %d", len(ptx))}, s.Log("cuModuleLoadDataEx"), "the text ends in a zero byte")
	f, err := api.ModuleFunction(c, m, "scale")
	require.NoError(t, err)
	_, err = api.ModuleFunction(c, m, "scal")
	is(t, err, driver.NotFound, "cuModuleGetFunction: named symbol not found (CUDA_ERROR_NOT_FOUND)")

	v, err := api.FunctionAttribute(c, f, driver.FunctionRegisters)
	require.NoError(t, err)
	require.Equal(t, 40, v)
	require.NoError(t, api.SetFunctionAttribute(c, f, driver.FunctionMaxDynamicShared, 100<<10))
	v, err = api.FunctionAttribute(c, f, driver.FunctionMaxDynamicShared)
	require.NoError(t, err)
	require.Equal(t, 100<<10, v)
	require.Error(t, api.SetFunctionAttribute(c, f, driver.FunctionRegisters, 1))
	require.Error(t, api.SetFunctionAttribute(c, f, driver.FunctionMaxDynamicShared, -1), "the sign arrives")

	n, err := api.MaxActiveBlocks(c, f, 256, 0)
	require.NoError(t, err)
	require.Equal(t, 8, n)
	n, err = api.MaxActiveBlocks(c, f, 256, 100<<10)
	require.NoError(t, err)
	require.Equal(t, 2, n)

	require.NoError(t, api.ModuleUnload(c, m))
	is(t, api.ModuleUnload(c, m), driver.InvalidHandle, "cuModuleUnload: invalid resource handle (CUDA_ERROR_INVALID_HANDLE)")
}

func TestModuleThatDoesNotCompile(t *testing.T) {
	_, api, c := opened(t)
	_, err := api.ModuleLoad(c, []byte("//\n.version 7.0\n\n@broken\n"))
	is(t, err, driver.InvalidPTX, "cuModuleLoadDataEx: a PTX JIT compilation failed (CUDA_ERROR_INVALID_PTX): "+
		"ptxas application ptx input, line 4; error   : Unknown symbol; ptxas fatal   : Ptx assembly aborted")
}

func TestMemory(t *testing.T) {
	s, api, c := opened(t)
	s.Set("memory", 10_000)
	p, err := api.MemAlloc(c, 4000)
	require.NoError(t, err)
	free, total, err := api.MemInfo(c)
	require.NoError(t, err)
	require.Equal(t, []int64{6000, 10_000}, []int64{free, total})
	_, err = api.MemAlloc(c, 6001)
	is(t, err, driver.OutOfMemory, "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)")
	is(t, api.MemFree(c, p+1), driver.InvalidValue, "cuMemFree: invalid argument (CUDA_ERROR_INVALID_VALUE)")
	require.NoError(t, api.MemFree(c, p))
	require.Zero(t, s.Live("buffers"))
}

func random(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestCopiesOfGoMemoryAreDone: the stub reads and writes the host's memory only when somebody waits, so that an earlier return
// would lose what the host did before it.
func TestCopiesOfGoMemoryAreDone(t *testing.T) {
	_, api, c := opened(t)
	s, err := api.StreamCreate(c)
	require.NoError(t, err)
	p, err := api.MemAlloc(c, 3000)
	require.NoError(t, err)

	want := random(1000)
	src := append([]byte(nil), want...)
	require.NoError(t, api.CopyToDevice(c, p+1000, src, s))
	clear(src)
	got := make([]byte, 1000)
	require.NoError(t, api.CopyToHost(c, got, p+1000, s))
	require.Equal(t, want, got)

	var local [16]byte // on the stack, as far as the compiler lets it
	require.NoError(t, api.CopyToHost(c, local[:], p+1000, s))
	require.Equal(t, want[:16], local[:])

	require.NoError(t, api.CopyToDevice(c, p, nil, s))
	require.NoError(t, api.CopyToHost(c, nil, p, s))
	is(t, api.CopyToDevice(c, p+2001, want, s), driver.InvalidValue, "cuMemcpyHtoDAsync: invalid argument (CUDA_ERROR_INVALID_VALUE)")
	is(t, api.CopyToHost(c, want, p+2001, s), driver.InvalidValue, "cuMemcpyDtoHAsync: invalid argument (CUDA_ERROR_INVALID_VALUE)")
}

// TestCopiesOfPinnedMemoryAreQueued: they do not wait, whatever part of the memory they are of.
func TestCopiesOfPinnedMemoryAreQueued(t *testing.T) {
	s, api, c := opened(t)
	stream, err := api.StreamCreate(c)
	require.NoError(t, err)
	p, err := api.MemAlloc(c, 1000)
	require.NoError(t, err)
	var hosts [][]byte
	for range 5 {
		h, err := api.HostAlloc(c, 1000)
		require.NoError(t, err)
		require.Len(t, h, 1000)
		hosts = append(hosts, h)
	}
	require.Equal(t, "bytes 1000 flags 1", s.Log("cuMemHostAlloc")[0])
	want := random(1000)
	for _, host := range hosts {
		for _, part := range [][2]int{{0, 1000}, {0, 1}, {999, 1000}, {300, 700}} {
			h := host[part[0]:part[1]]
			clear(h)
			require.NoError(t, api.CopyToDevice(c, p, h, stream))
			copy(h, want) // seen by the copy, which was not done yet
			require.NoError(t, api.StreamSynchronize(c, stream))
			clear(h)
			require.NoError(t, api.CopyToHost(c, h, p, stream))
			require.Equal(t, make([]byte, len(h)), h)
			require.NoError(t, api.StreamSynchronize(c, stream))
			require.Equal(t, want[:len(h)], h)
		}
	}
	for _, i := range []int{2, 0, 4, 3, 1} {
		require.NoError(t, api.HostFree(c, hosts[i]))
		is(t, api.HostFree(c, hosts[i]), driver.InvalidValue, "cuMemFreeHost: invalid argument (CUDA_ERROR_INVALID_VALUE)")
	}
	is(t, api.HostFree(c, want), driver.InvalidValue, "cuMemFreeHost: invalid argument (CUDA_ERROR_INVALID_VALUE)")
	require.Zero(t, s.Live("host"))
}

func TestWorkOnTheDevice(t *testing.T) {
	_, api, c := opened(t)
	p, err := api.MemAlloc(c, 100)
	require.NoError(t, err)
	require.NoError(t, api.SetBytes(c, p, 0xAB, 100, 0))
	require.NoError(t, api.SetBytes(c, p+10, 7, 20, 0))
	require.NoError(t, api.CopyOnDevice(c, p+50, p+5, 20, 0))
	require.NoError(t, api.SetBytes(c, p, 1, 0, 0))
	require.NoError(t, api.CopyOnDevice(c, p, p, 0, 0))
	got := make([]byte, 100)
	require.NoError(t, api.CopyToHost(c, got, p, 0))
	want := make([]byte, 100)
	for i := range want {
		want[i] = 0xAB
		if i >= 10 && i < 30 || i >= 55 && i < 70 {
			want[i] = 7
		}
	}
	require.Equal(t, want, got)
	is(t, api.SetBytes(c, p+1, 0, 100, 0), driver.InvalidValue, "cuMemsetD8Async: invalid argument (CUDA_ERROR_INVALID_VALUE)")
	is(t, api.CopyOnDevice(c, p, p+1, 100, 0), driver.InvalidValue, "cuMemcpyDtoDAsync: invalid argument (CUDA_ERROR_INVALID_VALUE)")
}

func TestStreamsAndEvents(t *testing.T) {
	stub, api, c := opened(t)
	a, err := api.StreamCreate(c)
	require.NoError(t, err)
	b, err := api.StreamCreate(c)
	require.NoError(t, err)
	require.Equal(t, []string{"flags 1", "flags 1"}, stub.Log("cuStreamCreate"))
	p, err := api.MemAlloc(c, 16)
	require.NoError(t, err)
	host, err := api.HostAlloc(c, 16)
	require.NoError(t, err)

	from, err := api.EventCreate(c, true)
	require.NoError(t, err)
	to, err := api.EventCreate(c, true)
	require.NoError(t, err)
	require.NoError(t, api.EventRecord(c, from, a))
	require.NoError(t, api.SetBytes(c, p, 1, 16, a))
	require.NoError(t, api.SetBytes(c, p, 2, 16, a))
	require.NoError(t, api.EventRecord(c, to, a))
	require.NoError(t, api.SetBytes(c, p, 3, 16, a))
	_, err = api.EventElapsed(c, from, to)
	is(t, err, 600, "cuEventElapsedTime: unknown error (CUresult 600)")

	require.NoError(t, api.StreamWaitEvent(c, b, to))
	require.NoError(t, api.CopyToHost(c, host, p, b))
	require.NoError(t, api.StreamSynchronize(c, b))
	require.EqualValues(t, 2, host[0], "b waited for the event of a, and not for what came after")
	ms, err := api.EventElapsed(c, from, to)
	require.NoError(t, err)
	require.EqualValues(t, 3, ms, "three pieces of work of a millisecond")

	require.NoError(t, api.EventRecord(c, to, a))
	require.NoError(t, api.EventSynchronize(c, to))
	require.NoError(t, api.CopyToHost(c, host, p, b))
	require.NoError(t, api.Synchronize(c))
	require.EqualValues(t, 3, host[0])

	untimed, err := api.EventCreate(c, false)
	require.NoError(t, err)
	require.NoError(t, api.EventRecord(c, untimed, a))
	require.NoError(t, api.EventSynchronize(c, untimed))
	_, err = api.EventElapsed(c, from, untimed)
	is(t, err, driver.InvalidHandle, "cuEventElapsedTime: invalid resource handle (CUDA_ERROR_INVALID_HANDLE)")

	for _, e := range []driver.Event{from, to, untimed} {
		require.NoError(t, api.EventDestroy(c, e))
		require.Error(t, api.EventDestroy(c, e))
	}
	for _, s := range []driver.Stream{a, b} {
		require.NoError(t, api.StreamDestroy(c, s))
		require.Error(t, api.StreamSynchronize(c, s))
	}
	require.Zero(t, stub.Live("streams")+stub.Live("events"))
}

func kernel(t testing.TB, api driver.API, c driver.Context) driver.Function {
	t.Helper()
	m, err := api.ModuleLoad(c, []byte(ptx))
	require.NoError(t, err)
	f, err := api.ModuleFunction(c, m, "scale")
	require.NoError(t, err)
	return f
}

// TestLaunchHandsOverAllElevenArguments: every number is another one, so that none can stand for another.
func TestLaunchHandsOverAllElevenArguments(t *testing.T) {
	stub, api, c := opened(t)
	f := kernel(t, api, c)
	s, err := api.StreamCreate(c)
	require.NoError(t, err)
	params := random(24)
	want := "scale grid 70001 502 403 block 11 13 7 shared 1234 stream 2 parameters " + hex.EncodeToString(params)
	require.NoError(t, api.Launch(c, f, driver.Dim{X: 70001, Y: 502, Z: 403}, driver.Dim{X: 11, Y: 13, Z: 7}, 1234, s, params))
	clear(params)
	require.NoError(t, api.StreamSynchronize(c, s))
	require.Equal(t, []string{want}, stub.Log("launch"))
	require.Equal(t, []string{want}, stub.Log("run"))

	for _, n := range []int{0, 1, 8, 4095, 4096} {
		params := random(n)
		require.NoError(t, api.Launch(c, f, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: 32, Y: 1, Z: 1}, 0, s, params))
		log := stub.Log("launch")
		require.True(t, strings.HasSuffix(log[len(log)-1], "parameters "+hex.EncodeToString(params)), n)
	}
	one := driver.Dim{X: 1, Y: 1, Z: 1}
	invalid := "cuLaunchKernel: invalid argument (CUDA_ERROR_INVALID_VALUE)"
	is(t, api.Launch(c, f, one, one, 0, s, make([]byte, 4097)), driver.InvalidValue, invalid)
	is(t, api.Launch(c, f, driver.Dim{X: 1, Y: 1}, one, 0, s, nil), driver.InvalidValue, invalid)
	is(t, api.Launch(c, f, driver.Dim{X: 1, Y: 65536, Z: 1}, one, 0, s, nil), driver.InvalidValue, invalid)
	is(t, api.Launch(c, f, one, driver.Dim{X: 1025, Y: 1, Z: 1}, 0, s, nil), driver.InvalidValue, invalid)
	is(t, api.Launch(c, f+8, one, one, 0, s, nil), driver.InvalidHandle,
		"cuLaunchKernel: invalid resource handle (CUDA_ERROR_INVALID_HANDLE)")
}

// TestFailureOfAKernelIsFoundLater: it belongs to whoever waits, and the context stays broken.
func TestFailureOfAKernelIsFoundLater(t *testing.T) {
	stub, api, c := opened(t)
	f := kernel(t, api, c)
	stub.Set("run_fails", driver.IllegalAddress)
	one := driver.Dim{X: 1, Y: 1, Z: 1}
	require.NoError(t, api.Launch(c, f, one, one, 0, 0, nil))
	is(t, api.Synchronize(c), driver.IllegalAddress,
		"cuCtxSynchronize: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)")
	_, err := api.MemAlloc(c, 16)
	is(t, err, driver.IllegalAddress, "cuMemAlloc: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)")
}

func TestCapture(t *testing.T) {
	for _, variant := range []struct {
		macros []string
		call   string
	}{
		{nil, "cuGraphInstantiateWithFlags"},
		{[]string{"STUB_VERSION=11000", "cuGraphInstantiateWithFlags=left_out"}, "cuGraphInstantiate"},
	} {
		t.Run(variant.call, func(t *testing.T) {
			stub, api, c := opened(t, variant.macros...)
			f := kernel(t, api, c)
			s, err := api.StreamCreate(c)
			require.NoError(t, err)
			p, err := api.MemAlloc(c, 16)
			require.NoError(t, err)
			one := driver.Dim{X: 1, Y: 1, Z: 1}

			require.NoError(t, api.BeginCapture(c, s))
			require.Equal(t, []string{"stream 2 mode 2"}, stub.Log("cuStreamBeginCapture"), "relaxed: goroutines change threads")
			require.NoError(t, api.SetBytes(c, p, 9, 16, s))
			require.NoError(t, api.Launch(c, f, one, one, 0, s, []byte{1, 2}))
			extra, err := api.MemAlloc(c, 16) // another thread may need memory meanwhile
			require.NoError(t, err)
			require.NoError(t, api.MemFree(c, extra))
			ended := make(chan driver.Graph)
			go func() { // and the capture may end on another thread
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				g, err := api.EndCapture(c, s)
				if err != nil {
					t.Error(err)
				}
				ended <- g
			}()
			g := <-ended
			require.Empty(t, stub.Log("launch"))
			require.Len(t, stub.Log("capture"), 1)

			stub.Fail(variant.call, driver.InvalidValue, 0)
			_, err = api.GraphInstantiate(c, g)
			require.ErrorContains(t, err, variant.call+": invalid argument (CUDA_ERROR_INVALID_VALUE)")
			if variant.call == "cuGraphInstantiate" {
				require.ErrorContains(t, err, ": a node is not supported")
			}
			e, err := api.GraphInstantiate(c, g)
			require.NoError(t, err)
			require.Equal(t, []string{"nodes 2"}, stub.Log(variant.call))
			require.NoError(t, api.GraphDestroy(c, g))

			got := make([]byte, 16)
			for i := range 3 {
				require.NoError(t, api.SetBytes(c, p, 0, 16, s))
				require.NoError(t, api.GraphLaunch(c, e, s))
				require.NoError(t, api.CopyToHost(c, got, p, s))
				require.EqualValues(t, 9, got[15])
				require.Len(t, stub.Log("run"), i+1)
			}
			require.NoError(t, api.GraphExecDestroy(c, e))
			is(t, api.GraphLaunch(c, e, s), driver.InvalidHandle, "cuGraphLaunch: invalid resource handle (CUDA_ERROR_INVALID_HANDLE)")
			is(t, api.GraphDestroy(c, g), driver.InvalidHandle, "cuGraphDestroy: invalid resource handle (CUDA_ERROR_INVALID_HANDLE)")
			require.Zero(t, stub.Live("graphs")+stub.Live("execs"))
		})
	}
}

// TestCaptureRefuses what a graph cannot have: a copy of memory that is Go's leaves the capture as it was, waiting spoils it.
func TestCaptureRefuses(t *testing.T) {
	_, api, c := opened(t)
	s, err := api.StreamCreate(c)
	require.NoError(t, err)
	p, err := api.MemAlloc(c, 16)
	require.NoError(t, err)
	pinned, err := api.HostAlloc(c, 16)
	require.NoError(t, err)
	require.NoError(t, api.BeginCapture(c, s))
	unsupported := "operation not permitted when stream is capturing"
	is(t, api.CopyToDevice(c, p, make([]byte, 16), s), driver.CaptureUnsupported,
		"cuMemcpyHtoDAsync: "+unsupported+": a copy of memory that is not pinned (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)")
	is(t, api.CopyToHost(c, make([]byte, 16), p, s), driver.CaptureUnsupported,
		"cuMemcpyDtoHAsync: "+unsupported+": a copy of memory that is not pinned (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)")
	require.NoError(t, api.CopyToDevice(c, p, pinned, s))
	g, err := api.EndCapture(c, s)
	require.NoError(t, err)
	require.NoError(t, api.GraphDestroy(c, g))

	require.NoError(t, api.BeginCapture(c, s))
	is(t, api.StreamSynchronize(c, s), driver.CaptureUnsupported,
		"cuStreamSynchronize: "+unsupported+" (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)")
	_, err = api.EndCapture(c, s)
	is(t, err, 901, "cuStreamEndCapture: operation failed due to a previous error during capture (CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)")
}

// TestContextsOfManyGoroutines: calls in two contexts, by more goroutines than threads would be. A call that ran in the other's
// context, or in none, would not know its handles.
func TestContextsOfManyGoroutines(t *testing.T) {
	for _, forget := range []int{0, 1} {
		stub := drivertest.New(t, "STUB_DEVICES=2")
		stub.Set("forget", forget)
		api, err := driver.OpenFile(stub.Path)
		require.NoError(t, err)
		var contexts [2]driver.Context
		var functions [2]driver.Function
		for i := range contexts {
			contexts[i], err = api.PrimaryContext(driver.Device(i))
			require.NoError(t, err)
			functions[i] = kernel(t, api, contexts[i])
		}
		require.NotEqual(t, contexts[0], contexts[1])
		const goroutines, rounds = 32, 20
		var wait sync.WaitGroup
		errs := make([]error, goroutines)
		for i := range goroutines {
			wait.Go(func() { errs[i] = work(api, contexts[i%2], functions[i%2], i, rounds) })
		}
		wait.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Len(t, stub.Log("run"), goroutines*rounds)
		for i := range contexts {
			require.NoError(t, api.ReleasePrimaryContext(driver.Device(i)))
		}
		stub.NothingLives()
	}
}

// work copies, launches and reads back, and says what went wrong.
func work(api driver.API, c driver.Context, f driver.Function, seed, rounds int) error {
	s, err := api.StreamCreate(c)
	if err != nil {
		return err
	}
	pinned, err := api.HostAlloc(c, 64)
	if err != nil {
		return err
	}
	for round := range rounds {
		p, err := api.MemAlloc(c, 64)
		if err != nil {
			return err
		}
		src := make([]byte, 64)
		binary.LittleEndian.PutUint64(src[8*(round%8):], uint64(seed)<<32|uint64(round))
		if err := api.CopyToDevice(c, p, src, s); err != nil {
			return err
		}
		runtime.Gosched()
		if err := api.Launch(c, f, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: 1, Y: 1, Z: 1}, 0, s, src[:8]); err != nil {
			return err
		}
		if err := api.CopyToHost(c, pinned, p, s); err != nil {
			return err
		}
		if err := api.StreamSynchronize(c, s); err != nil {
			return err
		}
		if string(pinned) != string(src) {
			return fmt.Errorf("goroutine %d, round %d: % x instead of % x", seed, round, pinned, src)
		}
		if err := api.MemFree(c, p); err != nil {
			return err
		}
	}
	if err := api.HostFree(c, pinned); err != nil {
		return err
	}
	return api.StreamDestroy(c, s)
}

// BenchmarkLaunch is the cost of a call with eleven arguments in a context, without the driver's own.
func BenchmarkLaunch(b *testing.B) {
	stub := drivertest.New(b)
	api, err := driver.OpenFile(stub.Path)
	require.NoError(b, err)
	c, err := api.PrimaryContext(0)
	require.NoError(b, err)
	f := kernel(b, api, c)
	params := make([]byte, 64)
	one := driver.Dim{X: 1, Y: 1, Z: 1}
	stub.Set("drop_launches", 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := api.Launch(c, f, one, one, 0, 0, params); err != nil {
			b.Fatal(err)
		}
	}
}
