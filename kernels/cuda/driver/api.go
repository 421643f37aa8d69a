// Package driver is the part of the CUDA driver API that qwb uses, as a Go interface. Open binds it to the libcuda of this machine
// at run time, without cgo; package emulate implements it by interpreting PTX. Nothing above this package knows which of them it has.
//
// Functions have the meaning, and errors the codes and texts, of the CUDA driver API reference; asynchronous ones may return before
// their work is done, and what failed in it is reported by a later call on the same context.
//
// Unstable: it may change without notice.
package driver

import "strings"

// Ptr is an address in device memory; 0 is none.
type Ptr uint64

// Handles of the driver; 0 is none, which as a Stream is the default stream.
type (
	Device    int32
	Context   uintptr
	Module    uintptr
	Function  uintptr
	Stream    uintptr
	Event     uintptr
	Graph     uintptr
	GraphExec uintptr
)

// Dim is a number of blocks or threads in each direction.
type Dim struct{ X, Y, Z uint32 }

// Count returns the product.
func (d Dim) Count() int { return int(d.X) * int(d.Y) * int(d.Z) }

// Attribute is a property of a device: CUdevice_attribute.
type Attribute int32

// The attributes that are asked for, by the driver's numbers.
const (
	MaxThreadsPerBlock     Attribute = 1
	MaxSharedPerBlock      Attribute = 8
	ClockRate              Attribute = 13 // kHz
	Multiprocessors        Attribute = 16
	MemoryClockRate        Attribute = 36 // kHz
	MemoryBusWidth         Attribute = 37 // bits
	L2CacheSize            Attribute = 38
	MaxThreadsPerSM        Attribute = 39
	ComputeCapabilityMajor Attribute = 75
	ComputeCapabilityMinor Attribute = 76
	MaxSharedPerSM         Attribute = 81
	MaxSharedPerBlockOptin Attribute = 97
)

// FunctionAttribute is a property of a kernel: CUfunction_attribute.
type FunctionAttribute int32

// The attributes that are asked for or set, by the driver's numbers.
const (
	FunctionMaxThreads       FunctionAttribute = 0
	FunctionStaticShared     FunctionAttribute = 1
	FunctionLocalSize        FunctionAttribute = 3
	FunctionRegisters        FunctionAttribute = 4
	FunctionMaxDynamicShared FunctionAttribute = 8 // may be set
)

// API is one driver. Its methods may be called by any goroutine; calls on one stream are made by one goroutine at a time. Every
// method that works in a context takes it and makes it current for the call.
type API interface {
	// Version returns the newest CUDA that the driver supports, 12040 for 12.4.
	Version() (int, error)
	DeviceCount() (int, error)
	DeviceGet(ordinal int) (Device, error)
	DeviceName(Device) (string, error)
	DeviceAttribute(Device, Attribute) (int, error)
	DeviceTotalMem(Device) (int64, error)

	PrimaryContext(Device) (Context, error) // retained
	ReleasePrimaryContext(Device) error
	MemInfo(Context) (free, total int64, err error)
	Synchronize(Context) error

	// ModuleLoad compiles PTX text. The error carries the compiler's log.
	ModuleLoad(c Context, ptx []byte) (Module, error)
	ModuleUnload(Context, Module) error
	ModuleFunction(c Context, m Module, name string) (Function, error)
	FunctionAttribute(Context, Function, FunctionAttribute) (int, error)
	SetFunctionAttribute(Context, Function, FunctionAttribute, int) error
	// MaxActiveBlocks is the occupancy: blocks of so many threads and so much dynamic shared memory that fit on a multiprocessor.
	MaxActiveBlocks(c Context, f Function, threads, shared int) (int, error)

	MemAlloc(c Context, bytes int) (Ptr, error)
	MemFree(Context, Ptr) error
	// HostAlloc returns pinned memory of the host, as a slice that is not Go's to free or move.
	HostAlloc(c Context, bytes int) ([]byte, error)
	HostFree(Context, []byte) error
	// Copies are asynchronous where the host side is pinned, which must then stay as it is until the stream has come there. Of other
	// memory the copy is done when the call returns, and cannot be captured.
	CopyToDevice(c Context, dst Ptr, src []byte, s Stream) error
	CopyToHost(c Context, dst []byte, src Ptr, s Stream) error
	CopyOnDevice(c Context, dst, src Ptr, bytes int, s Stream) error
	SetBytes(c Context, dst Ptr, value byte, bytes int, s Stream) error

	StreamCreate(Context) (Stream, error)
	StreamDestroy(Context, Stream) error
	StreamSynchronize(Context, Stream) error
	StreamWaitEvent(Context, Stream, Event) error
	EventCreate(c Context, timing bool) (Event, error)
	EventDestroy(Context, Event) error
	EventRecord(Context, Event, Stream) error
	EventSynchronize(Context, Event) error
	// EventElapsed is the time between two recorded events, in milliseconds.
	EventElapsed(c Context, from, to Event) (float32, error)

	// Launch starts a kernel. params is the kernel's whole parameter space, laid out as PTX declares it; it is read before Launch
	// returns.
	Launch(c Context, f Function, grid, block Dim, shared int, s Stream, params []byte) error

	// BeginCapture makes the stream record what is launched on it instead of running it, until EndCapture.
	BeginCapture(Context, Stream) error
	EndCapture(Context, Stream) (Graph, error)
	GraphInstantiate(Context, Graph) (GraphExec, error)
	GraphLaunch(Context, GraphExec, Stream) error
	GraphDestroy(Context, Graph) error
	GraphExecDestroy(Context, GraphExec) error
}

// Result is a CUresult other than success: what a driver call failed with.
type Result struct {
	Code int    // of CUresult
	Name string // CUDA_ERROR_OUT_OF_MEMORY
	Text string // the driver's own words
	Call string // cuMemAlloc
	Log  string // of the PTX compiler, for ModuleLoad
}

// Codes that callers tell apart.
const (
	InvalidValue    = 1
	OutOfMemory     = 2
	NotInitialized  = 3
	NoDevice        = 100
	InvalidDevice   = 101
	InvalidPTX      = 218
	UnsupportedPTX  = 222 // of a version that the driver does not know
	InvalidHandle   = 400
	NotFound        = 500
	IllegalAddress  = 700
	LaunchResources = 701
	LaunchFailed    = 719

	CaptureUnsupported = 900
)

// Error formats r as cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY), in one line.
func (r *Result) Error() string {
	s := r.Call + ": " + r.Text + " (" + r.Name + ")"
	if r.Log != "" {
		s += ": " + strings.Join(strings.FieldsFunc(r.Log, func(c rune) bool { return c == '\n' || c == '\r' || c == 0 }), "; ")
	}
	return s
}
