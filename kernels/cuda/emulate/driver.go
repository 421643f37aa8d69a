package emulate

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"sync"
	"unsafe"

	"qwb/kernels/cuda/driver"
)

// What the device says of itself.
const (
	version         = 12040
	multiprocessors = 16
	maxThreadsPerSM = 1536
	sharedPerBlock  = 48 << 10
	registersPerSM  = 65536
	maxBlocksPerSM  = 16
	maxGrid         = 65535 // of the second and third direction
)

// Driver is a driver.API with one device. Everything is done when a call returns; an error of a kernel is that of its launch, and of
// every later call until the context is released, as with a real one.
type Driver struct {
	arch    int
	options Options
	memory  *memory
	atomics sync.Mutex

	mu       sync.Mutex
	retained int
	next     uintptr
	handles  map[uintptr]any
	lost     *driver.Result // what the context failed with
	counted  int64          // instructions of warps run so far
}

var _ driver.API = (*Driver)(nil)

// Emulated says that there is no device.
func (d *Driver) Emulated() bool { return true }

// kernel is what a function handle stands for.
type kernel struct {
	*program
	ptx     uint32 // checksum of its module
	dynamic int    // most dynamic shared memory it may be launched with
}

type stream struct{ capture *capture }

type event struct {
	recorded bool
	at       int64
	timing   bool
	capture  *capture
	stream   *stream
	mark     int
}

func (d *Driver) Version() (int, error)     { return version, nil }
func (d *Driver) DeviceCount() (int, error) { return 1, nil }

func (d *Driver) DeviceGet(ordinal int) (driver.Device, error) {
	if ordinal != 0 {
		return 0, failure("cuDeviceGet", driver.InvalidDevice, "device %d of 1", ordinal)
	}
	return 0, nil
}

func (d *Driver) DeviceName(driver.Device) (string, error) {
	return fmt.Sprintf("qwb PTX interpreter, sm_%d", d.arch), nil
}

// sharedOptin is how much shared memory a block may have at most.
func (d *Driver) sharedOptin() int {
	switch {
	case d.arch >= 90:
		return 227 << 10
	case d.arch >= 80:
		return 163 << 10
	}
	return 48 << 10
}

func (d *Driver) sharedPerSM() int {
	switch {
	case d.arch >= 90:
		return 228 << 10
	case d.arch >= 80:
		return 164 << 10
	}
	return 96 << 10
}

func (d *Driver) DeviceAttribute(_ driver.Device, a driver.Attribute) (int, error) {
	switch a {
	case driver.MaxThreadsPerBlock:
		return 1024, nil
	case driver.MaxSharedPerBlock:
		return sharedPerBlock, nil
	case driver.ClockRate, driver.MemoryClockRate:
		return 1000000, nil
	case driver.Multiprocessors:
		return multiprocessors, nil
	case driver.MemoryBusWidth:
		return 64, nil
	case driver.L2CacheSize:
		return 4 << 20, nil
	case driver.MaxThreadsPerSM:
		return maxThreadsPerSM, nil
	case driver.ComputeCapabilityMajor:
		return d.arch / 10, nil
	case driver.ComputeCapabilityMinor:
		return d.arch % 10, nil
	case driver.MaxSharedPerSM:
		return d.sharedPerSM(), nil
	case driver.MaxSharedPerBlockOptin:
		return d.sharedOptin(), nil
	}
	return 0, failure("cuDeviceGetAttribute", driver.InvalidValue, "attribute %d", a)
}

func (d *Driver) DeviceTotalMem(driver.Device) (int64, error) { return d.memory.total, nil }

const theContext driver.Context = 1

func (d *Driver) PrimaryContext(driver.Device) (driver.Context, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retained++
	return theContext, nil
}

func (d *Driver) ReleasePrimaryContext(driver.Device) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.retained == 0 {
		return failure("cuDevicePrimaryCtxRelease", invalidContext, "the context is not retained")
	}
	if d.retained--; d.retained == 0 { // everything in the context goes with it
		d.lost = nil
		d.handles = map[uintptr]any{}
		d.memory = newMemory(d.options.Memory)
	}
	return nil
}

// enter checks the context of a call, and whether it still works.
func (d *Driver) enter(call string, c driver.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c != theContext || d.retained == 0 {
		return failure(call, invalidContext, "context %d", c)
	}
	if d.lost != nil {
		r := *d.lost
		r.Call = call
		return &r
	}
	return nil
}

// add makes a handle.
func (d *Driver) add(x any) uintptr {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next += 16
	d.handles[d.next] = x
	return d.next
}

// handle begins a call with a context, as enter does, and returns what a handle stands for.
func handle[T any](d *Driver, call string, c driver.Context, h uintptr) (x T, err error) {
	if err = d.enter(call, c); err != nil {
		return x, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	x, ok := d.handles[h].(T)
	if !ok {
		return x, failure(call, driver.InvalidHandle, "handle %#x", h)
	}
	return x, nil
}

// destroy begins a call with a context and forgets a handle.
func destroy[T any](d *Driver, call string, c driver.Context, h uintptr) (T, error) {
	x, err := handle[T](d, call, c, h)
	if err == nil {
		d.mu.Lock()
		delete(d.handles, h)
		d.mu.Unlock()
	}
	return x, err
}

func (d *Driver) MemInfo(c driver.Context) (free, total int64, err error) {
	if err := d.enter("cuMemGetInfo", c); err != nil {
		return 0, 0, err
	}
	d.memory.mu.Lock()
	defer d.memory.mu.Unlock()
	return d.memory.total - d.memory.used, d.memory.total, nil
}

func (d *Driver) Synchronize(c driver.Context) error { return d.enter("cuCtxSynchronize", c) }

func (d *Driver) ModuleLoad(c driver.Context, ptx []byte) (driver.Module, error) {
	const call = "cuModuleLoadDataEx"
	if err := d.enter(call, c); err != nil {
		return 0, err
	}
	text, _, _ := bytes.Cut(ptx, []byte{0})
	m, err := load(string(text), d.arch, d.memory)
	if err != nil {
		return 0, failure(call, driver.InvalidPTX, "%v", err)
	}
	if d.options.Omissions != nil {
		m.sum = crc32.ChecksumIEEE([]byte(text))
	}
	return driver.Module(d.add(m)), nil
}

func (d *Driver) ModuleUnload(c driver.Context, h driver.Module) error {
	const call = "cuModuleUnload"
	m, err := destroy[*module](d, call, c, uintptr(h))
	if err == nil {
		m.unload(d.memory)
	}
	return err
}

func (d *Driver) ModuleFunction(c driver.Context, h driver.Module, name string) (driver.Function, error) {
	const call = "cuModuleGetFunction"
	m, err := handle[*module](d, call, c, uintptr(h))
	if err != nil {
		return 0, err
	}
	p, err := m.program(name)
	if err != nil {
		return 0, failure(call, driver.InvalidPTX, "%v", err)
	}
	if p == nil {
		return 0, failure(call, driver.NotFound, "%s", name)
	}
	return driver.Function(d.add(&kernel{program: p, ptx: m.sum, dynamic: sharedPerBlock - p.shared})), nil
}

func (d *Driver) FunctionAttribute(c driver.Context, h driver.Function, a driver.FunctionAttribute) (int, error) {
	const call = "cuFuncGetAttribute"
	k, err := handle[*kernel](d, call, c, uintptr(h))
	if err != nil {
		return 0, err
	}
	switch a {
	case driver.FunctionMaxThreads:
		return k.maxThreads, nil
	case driver.FunctionStaticShared:
		return k.program.shared, nil
	case driver.FunctionLocalSize:
		return k.frame, nil
	case driver.FunctionRegisters:
		return k.registers(), nil
	case driver.FunctionMaxDynamicShared:
		return k.dynamic, nil
	}
	return 0, failure(call, driver.InvalidValue, "attribute %d", a)
}

// registers estimates the registers of a thread: what is live at once, and a few more.
func (p *program) registers() int { return max(16, min(align(p.pressure+6, 8), 255)) }

func (d *Driver) SetFunctionAttribute(c driver.Context, h driver.Function, a driver.FunctionAttribute, value int) error {
	const call = "cuFuncSetAttribute"
	k, err := handle[*kernel](d, call, c, uintptr(h))
	if err != nil {
		return err
	}
	if a != driver.FunctionMaxDynamicShared || value < 0 || value+k.program.shared > d.sharedOptin() {
		return failure(call, driver.InvalidValue, "attribute %d to %d: static shared memory %d, the most of a block %d", a, value,
			k.program.shared, d.sharedOptin())
	}
	k.dynamic = value
	return nil
}

func (d *Driver) MaxActiveBlocks(c driver.Context, h driver.Function, threads, shared int) (int, error) {
	const call = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
	k, err := handle[*kernel](d, call, c, uintptr(h))
	if err != nil {
		return 0, err
	}
	if threads < 1 || shared < 0 {
		return 0, failure(call, driver.InvalidValue, "%d threads, %d bytes", threads, shared)
	}
	if threads > k.maxThreads || shared > k.dynamic {
		return 0, nil
	}
	warps := (threads + warpSize - 1) / warpSize
	n := min(maxBlocksPerSM, maxThreadsPerSM/(warps*warpSize), registersPerSM/(warps*align(k.registers()*warpSize, 256)))
	if bytes := k.program.shared + shared; bytes > 0 {
		n = min(n, d.sharedPerSM()/align(bytes, 256))
	}
	return n, nil
}

func (d *Driver) MemAlloc(c driver.Context, bytes int) (driver.Ptr, error) {
	const call = "cuMemAlloc"
	if err := d.enter(call, c); err != nil {
		return 0, err
	}
	if bytes <= 0 {
		return 0, failure(call, driver.InvalidValue, "%d bytes", bytes)
	}
	a := d.memory.allocate(bytes, "")
	if a == nil {
		return 0, failure(call, driver.OutOfMemory, "%d bytes", bytes)
	}
	return driver.Ptr(a.base), nil
}

func (d *Driver) MemFree(c driver.Context, p driver.Ptr) error {
	const call = "cuMemFree"
	if err := d.enter(call, c); err != nil {
		return err
	}
	if !d.memory.free(uint64(p)) {
		return failure(call, driver.InvalidValue, "nothing is allocated at %#x", uint64(p))
	}
	return nil
}

// pinned is memory of the host that HostAlloc gave.
type pinned struct{ data []byte }

func (d *Driver) HostAlloc(c driver.Context, bytes int) ([]byte, error) {
	const call = "cuMemHostAlloc"
	if err := d.enter(call, c); err != nil {
		return nil, err
	}
	if bytes <= 0 {
		return nil, failure(call, driver.InvalidValue, "%d bytes", bytes)
	}
	data := make([]byte, bytes)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handles[hostAddress(data)] = &pinned{data}
	return data, nil
}

func hostAddress(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }

func (d *Driver) HostFree(c driver.Context, p []byte) error {
	const call = "cuMemFreeHost"
	_, err := destroy[*pinned](d, call, c, hostAddress(p))
	return err
}

// isPinned reports whether a slice is part of memory that HostAlloc gave.
func (d *Driver) isPinned(p []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := hostAddress(p)
	for _, x := range d.handles {
		if h, ok := x.(*pinned); ok && at >= hostAddress(h.data) && at+uintptr(len(p)) <= hostAddress(h.data)+uintptr(len(h.data)) {
			return true
		}
	}
	return false
}

func (d *Driver) CopyToDevice(c driver.Context, dst driver.Ptr, src []byte, s driver.Stream) error {
	const call = "cuMemcpyHtoDAsync"
	if len(src) == 0 {
		return d.enter(call, c)
	}
	return d.onStream(call, c, s, src, func() error {
		a, at, err := d.memory.span(dst, len(src))
		if err != nil || a.readOnly {
			return failure(call, driver.InvalidValue, "destination: %v", err)
		}
		copy(a.data[at:], src)
		fill(a.written[at:at+len(src)], stateWritten)
		return nil
	})
}

func (d *Driver) CopyToHost(c driver.Context, dst []byte, src driver.Ptr, s driver.Stream) error {
	const call = "cuMemcpyDtoHAsync"
	if len(dst) == 0 {
		return d.enter(call, c)
	}
	return d.onStream(call, c, s, dst, func() error {
		a, at, err := d.memory.span(src, len(dst))
		if err != nil {
			return failure(call, driver.InvalidValue, "source: %v", err)
		}
		copy(dst, a.data[at:])
		return nil
	})
}

func (d *Driver) CopyOnDevice(c driver.Context, dst, src driver.Ptr, bytes int, s driver.Stream) error {
	const call = "cuMemcpyDtoDAsync"
	if bytes < 0 {
		return failure(call, driver.InvalidValue, "%d bytes", bytes)
	}
	return d.onStream(call, c, s, nil, func() error {
		from, i, err := d.memory.span(src, bytes)
		if err != nil {
			return failure(call, driver.InvalidValue, "source: %v", err)
		}
		to, k, err := d.memory.span(dst, bytes)
		if err != nil || to.readOnly {
			return failure(call, driver.InvalidValue, "destination: %v", err)
		}
		copy(to.data[k:k+bytes], from.data[i:i+bytes])
		copy(to.written[k:k+bytes], from.written[i:i+bytes])
		return nil
	})
}

func (d *Driver) SetBytes(c driver.Context, dst driver.Ptr, value byte, bytes int, s driver.Stream) error {
	const call = "cuMemsetD8Async"
	if bytes < 0 {
		return failure(call, driver.InvalidValue, "%d bytes", bytes)
	}
	return d.onStream(call, c, s, nil, func() error {
		a, at, err := d.memory.span(dst, bytes)
		if err != nil || a.readOnly {
			return failure(call, driver.InvalidValue, "destination: %v", err)
		}
		fill(a.data[at:at+bytes], value)
		fill(a.written[at:at+bytes], stateWritten)
		return nil
	})
}

func (d *Driver) Launch(c driver.Context, f driver.Function, grid, block driver.Dim, shared int, s driver.Stream, params []byte) error {
	const call = "cuLaunchKernel"
	k, err := handle[*kernel](d, call, c, uintptr(f))
	if err != nil {
		return err
	}
	switch {
	case grid.X == 0 || grid.Y == 0 || grid.Z == 0 || grid.X > 1<<31-1 || grid.Y > maxGrid || grid.Z > maxGrid:
		return failure(call, driver.InvalidValue, "%s: a grid of %d x %d x %d blocks", k.name, grid.X, grid.Y, grid.Z)
	case block.X == 0 || block.Y == 0 || block.Z == 0 || block.X > 1024 || block.Y > 1024 || block.Z > 64 || block.Count() > 1024:
		return failure(call, driver.InvalidValue, "%s: a block of %d x %d x %d threads", k.name, block.X, block.Y, block.Z)
	case block.Count() > k.maxThreads:
		return failure(call, driver.InvalidValue, "%s: a block of %d threads, the kernel is made for %d", k.name, block.Count(), k.maxThreads)
	case k.required[0] != 0 && k.required != [3]int{int(block.X), int(block.Y), int(block.Z)}:
		return failure(call, driver.InvalidValue, "%s: a block of %d x %d x %d threads, the kernel requires %v", k.name, block.X, block.Y,
			block.Z, k.required)
	case shared < 0 || shared > k.dynamic:
		return failure(call, driver.InvalidValue, "%s: %d bytes of dynamic shared memory, %d are allowed", k.name, shared, k.dynamic)
	case block.Count()*k.registers() > registersPerSM:
		return failure(call, driver.LaunchResources, "%s: %d threads of %d registers", k.name, block.Count(), k.registers())
	case len(params) != k.params:
		return failure(call, driver.InvalidValue, "%s: %d bytes of parameters, the kernel has %d", k.name, len(params), k.params)
	}
	kept := bytes.Clone(params)
	static := k.program.shared
	if k.dynamicAlign > 0 {
		static = align(static, k.dynamicAlign)
	}
	return d.onStream(call, c, s, nil, func() error {
		l := &launch{program: k.program, grid: grid, block: block, params: kept, shared: static + shared, dynamic: shared,
			options: &d.options, memory: *d.memory.list.Load(), atomics: &d.atomics}
		run := l.run
		if o := d.options.Omissions; o != nil {
			run = func() *fault { return o.run(l, k.ptx) }
		}
		fault := run()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.counted += l.done.Load()
		if fault == nil {
			return nil
		}
		r := failure(call, fault.code, "%v", fault)
		d.lost = r
		return r
	})
}
