package gpu_test

import (
	"fmt"
	"unsafe"

	"qwb/kernels/cuda/driver"
)

// fakeDriver is a device without arithmetic: it has memory, copies and streams that do their work at once, and no kernels.
type fakeDriver struct {
	driver.API
	memory map[driver.Ptr][]byte
	next   driver.Ptr
	live   int  // streams, events, graphs and pinned buffers
	idle   bool // kernels do nothing, instead of failing
}

func newFake() *fakeDriver { return &fakeDriver{memory: map[driver.Ptr][]byte{}, next: 1 << 20} }

func (f *fakeDriver) Version() (int, error)                       { return 12000, nil }
func (f *fakeDriver) DeviceCount() (int, error)                   { return 1, nil }
func (f *fakeDriver) DeviceGet(i int) (driver.Device, error)      { return 0, nil }
func (f *fakeDriver) DeviceName(driver.Device) (string, error)    { return "fake", nil }
func (f *fakeDriver) DeviceTotalMem(driver.Device) (int64, error) { return 1 << 30, nil }
func (f *fakeDriver) DeviceAttribute(_ driver.Device, a driver.Attribute) (int, error) {
	return map[driver.Attribute]int{driver.ComputeCapabilityMajor: 9, driver.Multiprocessors: 132, driver.MaxSharedPerBlock: 48 << 10,
		driver.MaxSharedPerBlockOptin: 227 << 10, driver.MaxSharedPerSM: 228 << 10, driver.MaxThreadsPerBlock: 1024, driver.MaxThreadsPerSM: 2048,
		driver.L2CacheSize: 50 << 20, driver.ClockRate: 1980000}[a], nil
}
func (f *fakeDriver) PrimaryContext(driver.Device) (driver.Context, error)     { return 1, nil }
func (f *fakeDriver) ReleasePrimaryContext(driver.Device) error                { return nil }
func (f *fakeDriver) StreamCreate(driver.Context) (driver.Stream, error)       { f.live++; return 1, nil }
func (f *fakeDriver) StreamDestroy(driver.Context, driver.Stream) error        { f.live--; return nil }
func (f *fakeDriver) StreamSynchronize(driver.Context, driver.Stream) error    { return nil }
func (f *fakeDriver) BeginCapture(driver.Context, driver.Stream) error         { return nil }
func (f *fakeDriver) MemInfo(driver.Context) (int64, int64, error)             { return 1 << 30, 1 << 30, nil }
func (f *fakeDriver) Synchronize(driver.Context) error                         { return nil }
func (f *fakeDriver) ModuleLoad(driver.Context, []byte) (driver.Module, error) { return 1, nil }
func (f *fakeDriver) ModuleUnload(driver.Context, driver.Module) error         { return nil }
func (f *fakeDriver) ModuleFunction(driver.Context, driver.Module, string) (driver.Function, error) {
	return 1, nil
}
func (f *fakeDriver) SetFunctionAttribute(driver.Context, driver.Function, driver.FunctionAttribute, int) error {
	return nil
}

func (f *fakeDriver) Launch(driver.Context, driver.Function, driver.Dim, driver.Dim, int, driver.Stream, []byte) error {
	if f.idle {
		return nil
	}
	return &driver.Result{Code: driver.LaunchFailed, Name: "CUDA_ERROR_LAUNCH_FAILED", Text: "unspecified launch failure",
		Call: "cuLaunchKernel"}
}

func (f *fakeDriver) MemAlloc(_ driver.Context, n int) (driver.Ptr, error) {
	p := f.next
	f.memory[p] = make([]byte, n)
	f.next += driver.Ptr(n+4095) &^ 4095
	return p, nil
}

func (f *fakeDriver) MemFree(_ driver.Context, p driver.Ptr) error {
	delete(f.memory, p)
	return nil
}

func (f *fakeDriver) HostAlloc(_ driver.Context, n int) ([]byte, error) {
	f.live++
	return unsafe.Slice((*byte)(unsafe.Pointer(&make([]uint64, (n+7)/8)[0])), n), nil
}

func (f *fakeDriver) HostFree(driver.Context, []byte) error { f.live--; return nil }

// at returns the memory from p on.
func (f *fakeDriver) at(p driver.Ptr) ([]byte, error) {
	for base, m := range f.memory {
		if p >= base && p < base+driver.Ptr(len(m)) {
			return m[p-base:], nil
		}
	}
	return nil, fmt.Errorf("no memory at %#x", uint64(p))
}

func (f *fakeDriver) CopyToDevice(_ driver.Context, dst driver.Ptr, src []byte, _ driver.Stream) error {
	m, err := f.at(dst)
	copy(m[:len(src)], src)
	return err
}

func (f *fakeDriver) CopyToHost(_ driver.Context, dst []byte, src driver.Ptr, _ driver.Stream) error {
	m, err := f.at(src)
	copy(dst, m[:len(dst)])
	return err
}

func (f *fakeDriver) CopyOnDevice(_ driver.Context, dst, src driver.Ptr, n int, _ driver.Stream) error {
	to, err := f.at(dst)
	if err != nil {
		return err
	}
	from, err := f.at(src)
	if err != nil {
		return err
	}
	copy(to[:n], from[:n])
	return nil
}

func (f *fakeDriver) SetBytes(_ driver.Context, dst driver.Ptr, value byte, n int, _ driver.Stream) error {
	m, err := f.at(dst)
	if err != nil {
		return err
	}
	for i := range m[:n] {
		m[i] = value
	}
	return nil
}

func (f *fakeDriver) FunctionAttribute(_ driver.Context, _ driver.Function, a driver.FunctionAttribute) (int, error) {
	if a == driver.FunctionMaxThreads {
		return 1024, nil
	}
	return 0, nil
}

func (f *fakeDriver) EndCapture(driver.Context, driver.Stream) (driver.Graph, error) {
	f.live++
	return 1, nil
}
func (f *fakeDriver) GraphDestroy(driver.Context, driver.Graph) error { f.live--; return nil }
func (f *fakeDriver) GraphInstantiate(driver.Context, driver.Graph) (driver.GraphExec, error) {
	f.live++
	return 1, nil
}
func (f *fakeDriver) GraphExecDestroy(driver.Context, driver.GraphExec) error           { f.live--; return nil }
func (f *fakeDriver) GraphLaunch(driver.Context, driver.GraphExec, driver.Stream) error { return nil }
