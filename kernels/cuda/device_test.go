package cuda

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/internal/drivertest"
	"qwb/kernels/cuda/driver"
)

// onStub is a device of a stub driver, all of whose handles the test has to give back.
func onStub(t *testing.T, macros ...string) (*drivertest.Stub, *Device) {
	t.Helper()
	s := drivertest.New(t, macros...)
	s.Set("forget", 1)
	t.Setenv("QWB_CUDA_DRIVER", s.Path)
	d, err := Open()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, d.Close())
		s.NothingLives()
	})
	return s, d
}

func TestOpen(t *testing.T) {
	s, d := onStub(t)
	require.Equal(t, "Stub 0", d.Name)
	require.Equal(t, 90, d.Arch)
	require.True(t, d.TensorCores())
	require.Equal(t, 132, d.Multiprocessors)
	require.Equal(t, 232448, d.SharedPerBlock)
	require.EqualValues(t, 4<<30, d.Memory)
	require.Equal(t, 12080, d.DriverVersion)
	require.Equal(t, 1, s.Live("contexts"))
	require.NoError(t, d.Close())
	require.NoError(t, d.Close(), "twice")
	s.NothingLives()
	_, err := d.Alloc(1)
	require.ErrorIs(t, err, errClosed)
	_, err = d.Kernel("peak", "anything")
	require.ErrorIs(t, err, errClosed)
}

func TestOpenWithoutGPU(t *testing.T) {
	for _, c := range []struct {
		macros []string
		is     error
		text   string
	}{
		{[]string{"STUB_VERSION=10010"}, driver.ErrOldDriver, "NVIDIA driver is too old: it supports CUDA 10.1, qwb needs 11.0"},
		{[]string{"STUB_DEVICES=0"}, driver.ErrNoDevice,
			"no NVIDIA GPU found (cuInit: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE))"},
		{[]string{"STUB_MAJOR=5", "STUB_MINOR=2"}, driver.ErrOldDevice,
			"GPU is too old: Stub 0 has compute capability 5.2, qwb needs 6.1"},
		{[]string{"STUB_MAJOR=6", "STUB_MINOR=0"}, driver.ErrOldDevice,
			"GPU is too old: Stub 0 has compute capability 6.0, qwb needs 6.1"},
	} {
		t.Run(c.text, func(t *testing.T) {
			s := drivertest.New(t, c.macros...)
			t.Setenv("QWB_CUDA_DRIVER", s.Path)
			d, err := Open()
			require.Nil(t, d)
			require.ErrorIs(t, err, c.is)
			require.EqualError(t, err, c.text)
			_, err = Find()
			require.EqualError(t, err, c.text)
			s.NothingLives()
		})
	}
}

func TestFind(t *testing.T) {
	s := drivertest.New(t, "STUB_VERSION=12040", "STUB_MAJOR=12", "STUB_MINOR=1")
	s.Set("memory", 150_110_011_392)
	t.Setenv("QWB_CUDA_DRIVER", s.Path)
	f, err := Find()
	require.NoError(t, err)
	require.Equal(t, Found{Name: "Stub 0", Arch: 121, Memory: 150_110_011_392, Version: 12040}, f)
	require.Equal(t, "12.1", f.ComputeCapability())
	require.Equal(t, "12.4", f.Driver())
	require.Equal(t, "Stub 0, compute capability 12.1, 139.8 GiB, driver 12.4", f.String())
	s.NothingLives()
}

// TestOpenLeavesNothingBehind makes every call that Open makes fail in turn.
func TestOpenLeavesNothingBehind(t *testing.T) {
	for _, call := range []struct {
		name  string
		after int
	}{
		{"cuDeviceGetCount", 0}, {"cuDeviceGet", 0}, {"cuDeviceGetName", 0}, {"cuDeviceGetAttribute", 0}, {"cuDeviceGetAttribute", 1},
		{"cuDeviceGetAttribute", 2}, {"cuDeviceGetAttribute", 3}, {"cuDeviceTotalMem", 0}, {"cuDevicePrimaryCtxRetain", 0},
	} {
		t.Run(fmt.Sprint(call.name, call.after), func(t *testing.T) {
			s := drivertest.New(t)
			t.Setenv("QWB_CUDA_DRIVER", s.Path)
			s.Fail(call.name, driver.NotInitialized, call.after)
			d, err := Open()
			require.Nil(t, d)
			require.EqualError(t, err, call.name+": initialization error (CUDA_ERROR_NOT_INITIALIZED)")
			s.NothingLives()
			d, err = Open()
			require.NoError(t, err, "the next time it goes")
			require.NoError(t, d.Close())
			s.NothingLives()
		})
	}
}

// TestCloseSaysOnce what failed before: every call says it from then on.
func TestCloseSaysOnce(t *testing.T) {
	s := drivertest.New(t)
	t.Setenv("QWB_CUDA_DRIVER", s.Path)
	d, err := Open()
	require.NoError(t, err)
	_, err = d.Alloc(100)
	require.NoError(t, err)
	stream, err := d.NewStream()
	require.NoError(t, err)
	s.Set("run_fails", driver.IllegalAddress)
	require.NoError(t, launchPeak(d, stream))
	require.EqualError(t, d.Close(), "cuCtxSynchronize: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)")
	s.NothingLives()
}

// entry returns an entry point of the committed kernels.
func entry(t testing.TB) (file, name string) {
	t.Helper()
	text, err := ptxFor("peak", 80)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), ".entry ")
	require.True(t, ok)
	return "peak", rest[:strings.IndexAny(rest, "(\n")]
}

func launchPeak(d *Device, s *Stream) error {
	text, err := ptxFor("peak", 80)
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), ".entry ")
	k, err := d.Kernel("peak", rest[:strings.IndexAny(rest, "(\n")])
	if err != nil {
		return err
	}
	p := struct{ A, B int32 }{1, -2}
	return Launch(s, k, driver.Dim{X: 2, Y: 1, Z: 1}, driver.Dim{X: 32, Y: 1, Z: 1}, 0, &p)
}

func TestKernel(t *testing.T) {
	s, d := onStub(t)
	file, name := entry(t)
	k, err := d.Kernel(file, name)
	require.NoError(t, err)
	again, err := d.Kernel(file, name)
	require.NoError(t, err)
	require.Same(t, k, again)
	require.Equal(t, 1, s.Live("modules"))
	_, err = d.Kernel(file, "nothing")
	require.EqualError(t, err, "cuda: peak.nothing: cuModuleGetFunction: named symbol not found (CUDA_ERROR_NOT_FOUND)")
	_, err = d.Kernel("nothing", "nothing")
	require.Error(t, err)

	stream, err := d.NewStream()
	require.NoError(t, err)
	require.NoError(t, launchPeak(d, stream))
	require.NoError(t, stream.Close())
	require.Equal(t, []string{name + " grid 2 1 1 block 32 1 1 shared 0 stream 2 parameters 01000000feffffff"}, s.Log("run"))
}

// TestSharedMemory: 48 KiB for static and dynamic together are free; beyond, the driver has to be told.
func TestSharedMemory(t *testing.T) {
	s, d := onStub(t)
	stream, err := d.NewStream()
	require.NoError(t, err)
	k, err := d.Kernel(entry(t))
	require.NoError(t, err)
	one := driver.Dim{X: 1, Y: 1, Z: 1}
	var p struct{ A int32 }
	for _, shared := range []int{0, 47 << 10, 48 << 10, 100 << 10, 10} {
		require.NoError(t, Launch(stream, k, one, one, shared, &p))
	}
	require.Equal(t, []string{"8 49152", "8 102400"}, s.Log("cuFuncSetAttribute"))
	err = Launch(stream, k, one, one, 228<<10, &p)
	require.ErrorContains(t, err, ": 233472 bytes of shared memory: cuFuncSetAttribute: invalid argument (CUDA_ERROR_INVALID_VALUE)")
	require.NoError(t, stream.Close())
}

func TestBufferSlice(t *testing.T) {
	b := Buffer{Ptr: 1000, Bytes: 100}
	require.Equal(t, Buffer{Ptr: 1040, Bytes: 60}, b.Slice(40, 60))
	require.Equal(t, Buffer{Ptr: 1100}, b.Slice(100, 0))
	for _, c := range [][2]int{{-1, 1}, {0, -1}, {0, 101}, {101, 0}, {1, 100}, {math.MaxInt, 1}, {1, math.MaxInt},
		{math.MaxInt, math.MaxInt}} {
		require.Panics(t, func() { b.Slice(c[0], c[1]) }, c)
	}
}

func TestKernelThatDoesNotCompile(t *testing.T) {
	s, d := onStub(t)
	file, name := entry(t)
	s.Fail("cuModuleLoadDataEx", driver.InvalidPTX, 0)
	_, err := d.Kernel(file, name)
	require.EqualError(t, err, "cuda: peak: cuModuleLoadDataEx: a PTX JIT compilation failed (CUDA_ERROR_INVALID_PTX)")
	_, err = d.Kernel(file, name)
	require.NoError(t, err)
}

func TestStreamCopies(t *testing.T) {
	_, d := onStub(t)
	s, err := d.NewStream()
	require.NoError(t, err)
	a, err := d.Alloc(1000)
	require.NoError(t, err)
	b, err := d.Alloc(1000)
	require.NoError(t, err)
	pinned, err := d.HostAlloc(1000)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 1000), pinned.Bytes())
	for i := range pinned.Bytes() {
		pinned.Bytes()[i] = byte(i)
	}
	require.NoError(t, s.Upload(a, pinned.Bytes()))
	require.NoError(t, s.Copy(b.Slice(500, 500), a.Slice(0, 500)))
	require.NoError(t, s.Fill(b.Slice(0, 500), 5))
	got := make([]byte, 1000)
	require.NoError(t, s.Download(got, b))
	require.EqualValues(t, []byte{5, 5, 0, 1}, []byte{got[0], got[499], got[500], got[501]})
	require.ErrorContains(t, s.Upload(a, make([]byte, 1001)), "1001 bytes for a buffer of 1000")
	require.ErrorContains(t, s.Download(make([]byte, 1001), a), "1001 bytes from a buffer of 1000")

	require.NoError(t, pinned.Close())
	require.NoError(t, pinned.Close(), "twice")
	require.Nil(t, pinned.Bytes())
	for _, n := range []int{0, -1} {
		_, err = d.HostAlloc(n)
		require.EqualError(t, err, fmt.Sprintf("cuda: %d bytes of pinned memory", n))
	}
	require.NoError(t, s.Close())
}

func TestEvents(t *testing.T) {
	_, d := onStub(t)
	a, err := d.NewStream()
	require.NoError(t, err)
	b, err := d.NewStream()
	require.NoError(t, err)
	buffer, err := d.Alloc(16)
	require.NoError(t, err)
	host, err := d.HostAlloc(16)
	require.NoError(t, err)
	from, err := d.NewEvent(true)
	require.NoError(t, err)
	to, err := d.NewEvent(true)
	require.NoError(t, err)
	require.NoError(t, from.Record(a))
	require.NoError(t, a.Fill(buffer, 1))
	require.NoError(t, a.Fill(buffer, 2))
	require.NoError(t, to.Record(a))
	require.NoError(t, a.Fill(buffer, 3))
	require.NoError(t, b.Wait(to))
	require.NoError(t, b.Download(host.Bytes(), buffer))
	require.NoError(t, b.Synchronize())
	require.EqualValues(t, 2, host.Bytes()[0])
	require.NoError(t, to.Synchronize())
	elapsed, err := from.Elapsed(to)
	require.NoError(t, err)
	require.Equal(t, 3*time.Millisecond, elapsed)
	untimed, err := d.NewEvent(false)
	require.NoError(t, err)
	require.NoError(t, untimed.Record(a))
	require.NoError(t, untimed.Synchronize())
	_, err = from.Elapsed(untimed)
	require.Error(t, err)
	for _, close := range []func() error{from.Close, to.Close, untimed.Close, host.Close, a.Close, b.Close} {
		require.NoError(t, close())
	}
}

func TestGraph(t *testing.T) {
	s, d := onStub(t)
	stream, err := d.NewStream()
	require.NoError(t, err)
	other, err := d.NewStream()
	require.NoError(t, err)
	buffer, err := d.Alloc(16)
	require.NoError(t, err)
	host, err := d.HostAlloc(16)
	require.NoError(t, err)
	g, err := stream.Capture(func() error {
		for i := range 100 { // which the scheduler spreads over threads
			if err := stream.Fill(buffer, byte(i)); err != nil {
				return err
			}
			runtime.Gosched()
		}
		if err := launchPeak(d, stream); err != nil {
			return err
		}
		return stream.Download(host.Bytes(), buffer)
	})
	require.NoError(t, err)
	require.Zero(t, s.Live("graphs"), "only what can be launched stays")
	require.Empty(t, s.Log("run"))
	for _, on := range []*Stream{stream, other} {
		host.Bytes()[15] = 0
		require.NoError(t, g.Launch(on))
		require.NoError(t, on.Synchronize())
		require.EqualValues(t, 99, host.Bytes()[15])
	}
	require.Len(t, s.Log("run"), 2)
	require.NoError(t, g.Close())
	require.NoError(t, host.Close())
	require.NoError(t, stream.Close())
	require.NoError(t, other.Close())
}

// TestGraphThatFails: the stream goes on, and nothing is left, whatever failed.
func TestGraphThatFails(t *testing.T) {
	s, d := onStub(t)
	stream, err := d.NewStream()
	require.NoError(t, err)
	buffer, err := d.Alloc(16)
	require.NoError(t, err)
	goes := func() {
		t.Helper()
		got := make([]byte, 16)
		require.NoError(t, stream.Fill(buffer, 8))
		require.NoError(t, stream.Download(got, buffer))
		require.EqualValues(t, 8, got[0])
		require.Zero(t, s.Live("graphs")+s.Live("execs"))
	}
	fill := func() error { return stream.Fill(buffer, 1) }

	broken := errors.New("broken")
	_, err = stream.Capture(func() error { return errors.Join(fill(), broken) })
	require.ErrorIs(t, err, broken)
	goes()
	_, err = stream.Capture(func() error { return stream.Upload(buffer, make([]byte, 16)) })
	require.ErrorContains(t, err, "memory that is not pinned")
	goes()
	_, err = stream.Capture(stream.Synchronize)
	require.EqualError(t, err, "cuStreamSynchronize: operation not permitted when stream is capturing (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)")
	goes()
	_, err = stream.Capture(func() error { _ = stream.Synchronize(); return nil })
	require.ErrorContains(t, err, "cuStreamEndCapture: operation failed due to a previous error during capture")
	goes()
	require.PanicsWithValue(t, "bug", func() { _, _ = stream.Capture(func() error { panic("bug") }) })
	goes()
	for _, call := range []string{"cuStreamBeginCapture", "cuGraphInstantiateWithFlags", "cuGraphDestroy"} {
		s.Fail(call, driver.OutOfMemory, 0)
		_, err = stream.Capture(fill)
		require.EqualError(t, err, call+": out of memory (CUDA_ERROR_OUT_OF_MEMORY)")
		if call != "cuGraphDestroy" { // which then could not be destroyed
			goes()
		}
	}
	require.Zero(t, s.Live("execs"))
	require.NoError(t, stream.Close())
}

// TestHandlesThatAreNotMade are errors, without a half-made value.
func TestHandlesThatAreNotMade(t *testing.T) {
	s, d := onStub(t)
	s.Fail("cuStreamCreate", driver.OutOfMemory, 0)
	stream, err := d.NewStream()
	require.Error(t, err)
	require.Nil(t, stream)
	s.Fail("cuEventCreate", driver.OutOfMemory, 0)
	event, err := d.NewEvent(true)
	require.Error(t, err)
	require.Nil(t, event)
	s.Fail("cuMemHostAlloc", driver.OutOfMemory, 0)
	pinned, err := d.HostAlloc(1 << 20)
	require.EqualError(t, err, "cuda: no 1048576 bytes of pinned memory: cuMemHostAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)")
	require.Nil(t, pinned)
}

// TestDeviceMemoryRunsOut in the driver itself.
func TestDeviceMemoryRunsOut(t *testing.T) {
	s, d := onStub(t)
	s.Set("memory", 8<<20)
	a, err := d.Alloc(5 << 20)
	require.NoError(t, err)
	d.Free(a)
	_, err = d.Alloc(7 << 20)
	require.NoError(t, err, "what the pool kept went back")
	_, err = d.Alloc(1)
	require.ErrorContains(t, err, "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)")
}
