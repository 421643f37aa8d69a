//go:build !nocuda && (amd64 || arm64) && (windows || (linux && !android))

package driver

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// symbol is a function of the driver library.
type symbol struct {
	name    string
	address uintptr
}

// library is the driver of this machine.
type library struct {
	getErrorName, getErrorString                                                             symbol
	initialize, driverGetVersion                                                             symbol
	deviceGetCount, deviceGet, deviceGetName, deviceGetAttribute, deviceTotalMem             symbol
	primaryCtxRetain, primaryCtxRelease, ctxSetCurrent, ctxSynchronize, memGetInfo           symbol
	moduleLoadDataEx, moduleUnload, moduleGetFunction                                        symbol
	funcGetAttribute, funcSetAttribute, occupancy                                            symbol
	memAlloc, memFree, memHostAlloc, memFreeHost                                             symbol
	memcpyHtoDAsync, memcpyDtoHAsync, memcpyDtoDAsync, memsetD8Async                         symbol
	streamCreate, streamDestroy, streamSynchronize, streamWaitEvent                          symbol
	eventCreate, eventDestroy, eventRecord, eventSynchronize, eventElapsed                   symbol
	launchKernel                                                                             symbol
	streamBeginCapture, streamEndCapture, streamIsCapturing                                  symbol
	graphInstantiateWithFlags, graphInstantiate, graphLaunch, graphDestroy, graphExecDestroy symbol

	launches sync.Pool                   // of *launchArguments
	pinning  sync.Mutex                  // held by who writes pinned
	pinned   atomic.Pointer[[]hostRange] // by address
}

// hostRange is pinned memory of the host.
type hostRange struct {
	base uintptr
	size int
}

// symbols lists what is looked up in the library: under its newest name that CUDA 11.0 has.
func (l *library) symbols() []struct {
	to   *symbol
	name string
} {
	return []struct {
		to   *symbol
		name string
	}{
		{&l.getErrorName, "cuGetErrorName"},
		{&l.getErrorString, "cuGetErrorString"},
		{&l.initialize, "cuInit"},
		{&l.deviceGetCount, "cuDeviceGetCount"},
		{&l.deviceGet, "cuDeviceGet"},
		{&l.deviceGetName, "cuDeviceGetName"},
		{&l.deviceGetAttribute, "cuDeviceGetAttribute"},
		{&l.deviceTotalMem, "cuDeviceTotalMem_v2"},
		{&l.primaryCtxRetain, "cuDevicePrimaryCtxRetain"},
		{&l.primaryCtxRelease, "cuDevicePrimaryCtxRelease_v2"},
		{&l.ctxSetCurrent, "cuCtxSetCurrent"},
		{&l.ctxSynchronize, "cuCtxSynchronize"},
		{&l.memGetInfo, "cuMemGetInfo_v2"},
		{&l.moduleLoadDataEx, "cuModuleLoadDataEx"},
		{&l.moduleUnload, "cuModuleUnload"},
		{&l.moduleGetFunction, "cuModuleGetFunction"},
		{&l.funcGetAttribute, "cuFuncGetAttribute"},
		{&l.funcSetAttribute, "cuFuncSetAttribute"},
		{&l.occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor"},
		{&l.memAlloc, "cuMemAlloc_v2"},
		{&l.memFree, "cuMemFree_v2"},
		{&l.memHostAlloc, "cuMemHostAlloc"},
		{&l.memFreeHost, "cuMemFreeHost"},
		{&l.memcpyHtoDAsync, "cuMemcpyHtoDAsync_v2"},
		{&l.memcpyDtoHAsync, "cuMemcpyDtoHAsync_v2"},
		{&l.memcpyDtoDAsync, "cuMemcpyDtoDAsync_v2"},
		{&l.memsetD8Async, "cuMemsetD8Async"},
		{&l.streamCreate, "cuStreamCreate"},
		{&l.streamDestroy, "cuStreamDestroy_v2"},
		{&l.streamSynchronize, "cuStreamSynchronize"},
		{&l.streamWaitEvent, "cuStreamWaitEvent"},
		{&l.eventCreate, "cuEventCreate"},
		{&l.eventDestroy, "cuEventDestroy_v2"},
		{&l.eventRecord, "cuEventRecord"},
		{&l.eventSynchronize, "cuEventSynchronize"},
		{&l.eventElapsed, "cuEventElapsedTime"},
		{&l.launchKernel, "cuLaunchKernel"},
		{&l.streamBeginCapture, "cuStreamBeginCapture_v2"},
		{&l.streamEndCapture, "cuStreamEndCapture"},
		{&l.streamIsCapturing, "cuStreamIsCapturing"},
		{&l.graphLaunch, "cuGraphLaunch"},
		{&l.graphDestroy, "cuGraphDestroy"},
		{&l.graphExecDestroy, "cuGraphExecDestroy"},
	}
}

// libraryVariable names another driver library than the system's.
const libraryVariable = "QWB_CUDA_DRIVER"

// Open binds the NVIDIA driver of this machine, or the library that the environment names in QWB_CUDA_DRIVER, and initialises it.
// The error is one line and wraps one of the package's errors, or a *Result with the driver's own.
func Open() (API, error) {
	if path := os.Getenv(libraryVariable); path != "" {
		return OpenFile(path)
	}
	return open(libraryNames...)
}

// OpenFile is Open for the driver library in a file.
func OpenFile(path string) (API, error) { return open(path) }

// open tries names in turn. The library stays loaded: drivers are not made to be unloaded, and loading it again is cheap.
func open(names ...string) (API, error) {
	var handle uintptr
	var err error
	for _, name := range names {
		h, e := load(name)
		if e == nil {
			handle, err = h, nil
			break
		}
		if err == nil {
			err = e // of the usual name
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoDriver, err)
	}
	l := &library{}
	l.launches.New = func() any { return new(launchArguments) }
	// The version comes first: it is what a user can do something about.
	if l.driverGetVersion = find(handle, "cuDriverGetVersion"); l.driverGetVersion.address == 0 {
		return nil, lacks("cuDriverGetVersion")
	}
	version, err := l.Version()
	if err != nil {
		return nil, err
	}
	if version < MinVersion {
		return nil, fmt.Errorf("%w: it supports CUDA %s, qwb needs %s", ErrOldDriver, cudaVersion(version), cudaVersion(MinVersion))
	}
	for _, s := range l.symbols() {
		if *s.to = find(handle, s.name); s.to.address == 0 {
			return nil, lacks(s.name)
		}
	}
	// The first is of CUDA 11.4 and the only one that newer headers have.
	l.graphInstantiateWithFlags = find(handle, "cuGraphInstantiateWithFlags")
	l.graphInstantiate = find(handle, "cuGraphInstantiate_v2")
	if l.graphInstantiateWithFlags.address == 0 && l.graphInstantiate.address == 0 {
		return nil, lacks("cuGraphInstantiateWithFlags")
	}
	if err := call(l, &l.initialize, 0); err != nil {
		if r := err.(*Result); r.Code == NoDevice {
			return nil, fmt.Errorf("%w (%w)", ErrNoDevice, r)
		}
		return nil, err
	}
	return l, nil
}

func find(handle uintptr, name string) symbol { return symbol{name, lookup(handle, name)} }

func lacks(name string) error { return fmt.Errorf("%w: it lacks %s", ErrOldDriver, name) }

func cudaVersion(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// call calls a function that needs no context.
//
//go:uintptrescapes
func call(l *library, f *symbol, arguments ...uintptr) error {
	if code := invoke(f.address, arguments...); code != 0 {
		return l.result(f, code)
	}
	return nil
}

// callIn calls a function in a context. The driver keeps the current context per thread, so the goroutine stays on one thread from
// setting it to the end of the call.
//
//go:uintptrescapes
func callIn(l *library, c Context, f *symbol, arguments ...uintptr) error {
	runtime.LockOSThread()
	failed := &l.ctxSetCurrent
	code := invoke(failed.address, uintptr(c))
	if code == 0 {
		failed = f
		code = invoke(f.address, arguments...)
	}
	runtime.UnlockOSThread()
	if code != 0 {
		return l.result(failed, code)
	}
	return nil
}

// result returns the error of a code, in the driver's words.
func (l *library) result(f *symbol, code int32) *Result {
	name, _, _ := strings.Cut(f.name, "_")
	r := &Result{Code: int(code), Call: name, Name: fmt.Sprintf("CUresult %d", code), Text: "unknown error"}
	for _, t := range []struct {
		from symbol
		to   *string
	}{{l.getErrorName, &r.Name}, {l.getErrorString, &r.Text}} {
		var text *byte
		if t.from.address != 0 && invoke(t.from.address, uintptr(code), uintptr(unsafe.Pointer(&text))) == 0 && text != nil {
			*t.to = goString(text)
		}
	}
	return r
}

// goString copies a string that ends in a zero byte.
func goString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

func (l *library) Version() (int, error) {
	var v int32
	err := call(l, &l.driverGetVersion, uintptr(unsafe.Pointer(&v)))
	return int(v), err
}

func (l *library) DeviceCount() (int, error) {
	var n int32
	err := call(l, &l.deviceGetCount, uintptr(unsafe.Pointer(&n)))
	return int(n), err
}

func (l *library) DeviceGet(ordinal int) (Device, error) {
	var d Device
	err := call(l, &l.deviceGet, uintptr(unsafe.Pointer(&d)), uintptr(ordinal))
	return d, err
}

func (l *library) DeviceName(d Device) (string, error) {
	var name [256]byte
	if err := call(l, &l.deviceGetName, uintptr(unsafe.Pointer(&name)), uintptr(len(name)-1), uintptr(d)); err != nil {
		return "", err
	}
	return goString(&name[0]), nil
}

func (l *library) DeviceAttribute(d Device, a Attribute) (int, error) {
	var v int32
	err := call(l, &l.deviceGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), uintptr(d))
	return int(v), err
}

func (l *library) DeviceTotalMem(d Device) (int64, error) {
	var n uint64
	err := call(l, &l.deviceTotalMem, uintptr(unsafe.Pointer(&n)), uintptr(d))
	return int64(n), err
}

func (l *library) PrimaryContext(d Device) (Context, error) {
	var c Context
	err := call(l, &l.primaryCtxRetain, uintptr(unsafe.Pointer(&c)), uintptr(d))
	return c, err
}

func (l *library) ReleasePrimaryContext(d Device) error {
	return call(l, &l.primaryCtxRelease, uintptr(d))
}

func (l *library) MemInfo(c Context) (free, total int64, err error) {
	var f, t uint64
	err = callIn(l, c, &l.memGetInfo, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), err
}

func (l *library) Synchronize(c Context) error { return callIn(l, c, &l.ctxSynchronize) }

// Options of the PTX compiler: CUjit_option.
const (
	jitErrorLogBuffer = 5
	jitErrorLogSize   = 6
)

func (l *library) ModuleLoad(c Context, ptx []byte) (Module, error) {
	// In one allocation, which a call keeps alive by one address.
	a := new(struct {
		module  Module
		options [2]uint32
		values  [2]uintptr
		log     [8192]byte
	})
	text := append(slices.Clone(ptx), 0)
	a.options = [2]uint32{jitErrorLogBuffer, jitErrorLogSize}
	a.values = [2]uintptr{uintptr(unsafe.Pointer(&a.log)), uintptr(len(a.log) - 1)}
	err := callIn(l, c, &l.moduleLoadDataEx, uintptr(unsafe.Pointer(&a.module)), uintptr(unsafe.Pointer(&text[0])),
		uintptr(len(a.options)), uintptr(unsafe.Pointer(&a.options)), uintptr(unsafe.Pointer(&a.values)))
	if r, ok := err.(*Result); ok {
		r.Log = strings.TrimSpace(goString(&a.log[0]))
	}
	return a.module, err
}

func (l *library) ModuleUnload(c Context, m Module) error {
	return callIn(l, c, &l.moduleUnload, uintptr(m))
}

func (l *library) ModuleFunction(c Context, m Module, name string) (Function, error) {
	var f Function
	text := append([]byte(name), 0)
	err := callIn(l, c, &l.moduleGetFunction, uintptr(unsafe.Pointer(&f)), uintptr(m), uintptr(unsafe.Pointer(&text[0])))
	return f, err
}

func (l *library) FunctionAttribute(c Context, f Function, a FunctionAttribute) (int, error) {
	var v int32
	err := callIn(l, c, &l.funcGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), uintptr(f))
	return int(v), err
}

func (l *library) SetFunctionAttribute(c Context, f Function, a FunctionAttribute, v int) error {
	return callIn(l, c, &l.funcSetAttribute, uintptr(f), uintptr(a), uintptr(v))
}

func (l *library) MaxActiveBlocks(c Context, f Function, threads, shared int) (int, error) {
	var n int32
	err := callIn(l, c, &l.occupancy, uintptr(unsafe.Pointer(&n)), uintptr(f), uintptr(threads), uintptr(shared))
	return int(n), err
}

func (l *library) StreamCreate(c Context) (Stream, error) {
	const nonBlocking = 1 // towards the default stream
	var s Stream
	err := callIn(l, c, &l.streamCreate, uintptr(unsafe.Pointer(&s)), nonBlocking)
	return s, err
}

func (l *library) StreamDestroy(c Context, s Stream) error {
	return callIn(l, c, &l.streamDestroy, uintptr(s))
}

func (l *library) StreamSynchronize(c Context, s Stream) error {
	return callIn(l, c, &l.streamSynchronize, uintptr(s))
}

func (l *library) StreamWaitEvent(c Context, s Stream, e Event) error {
	return callIn(l, c, &l.streamWaitEvent, uintptr(s), uintptr(e), 0)
}

func (l *library) EventCreate(c Context, timing bool) (Event, error) {
	const disableTiming = 2
	flags := uintptr(disableTiming)
	if timing {
		flags = 0
	}
	var e Event
	err := callIn(l, c, &l.eventCreate, uintptr(unsafe.Pointer(&e)), flags)
	return e, err
}

func (l *library) EventDestroy(c Context, e Event) error {
	return callIn(l, c, &l.eventDestroy, uintptr(e))
}

func (l *library) EventRecord(c Context, e Event, s Stream) error {
	return callIn(l, c, &l.eventRecord, uintptr(e), uintptr(s))
}

func (l *library) EventSynchronize(c Context, e Event) error {
	return callIn(l, c, &l.eventSynchronize, uintptr(e))
}

func (l *library) EventElapsed(c Context, from, to Event) (float32, error) {
	var ms float32
	err := callIn(l, c, &l.eventElapsed, uintptr(unsafe.Pointer(&ms)), uintptr(from), uintptr(to))
	return ms, err
}
