package cuda

import (
	"errors"
	"fmt"
	"sync"

	"qwb/kernels/cuda/driver"
)

// Device is one GPU with its context, its loaded modules and its memory. It may be used by several goroutines; a Stream of it by
// one at a time.
type Device struct {
	api     driver.API
	device  driver.Device
	context driver.Context

	Name            string
	Arch            int // compute capability, 90 for 9.0
	Multiprocessors int
	SharedPerBlock  int // bytes a block may ask for
	Memory          int64
	DriverVersion   int
	Emulated        bool // no GPU: PTX is interpreted
	// MeasureTiles makes NewLinear take the fastest tile that it finds by measuring, instead of the one that a model of the device says.
	// It is set before anything else is asked of the device; what is computed is the same.
	MeasureTiles bool

	mu      sync.Mutex
	modules map[string]driver.Module
	kernels map[string]*Kernel
	tuned   map[string]tuned
	pool    *pool
	closed  bool
}

// Closed reports whether the device was closed: what belonged to it is gone then.
func (d *Device) Closed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

var errClosed = errors.New("cuda: the device is closed")

// Kernel is an entry point of a loaded module.
type Kernel struct {
	Name     string // FILE.ENTRY
	function driver.Function
	allowed  int // bytes of dynamic shared memory that it may have; at first what its static memory leaves of 48 KiB
}

// allow lets a kernel have more dynamic shared memory than it may have at first.
func (d *Device) allow(k *Kernel, shared int) error {
	if shared == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if shared <= k.allowed {
		return nil
	}
	if err := d.api.SetFunctionAttribute(d.context, k.function, driver.FunctionMaxDynamicShared, shared); err != nil {
		return err
	}
	k.allowed = shared
	return nil
}

// OpenOn returns a device of a driver, by its ordinal.
func OpenOn(api driver.API, ordinal int) (*Device, error) {
	d := &Device{api: api, modules: map[string]driver.Module{}, kernels: map[string]*Kernel{}}
	if err := d.describe(ordinal); err != nil {
		return nil, err
	}
	var err error
	if d.context, err = api.PrimaryContext(d.device); err != nil {
		return nil, err
	}
	if e, ok := api.(interface{ Emulated() bool }); ok {
		d.Emulated = e.Emulated()
	}
	d.pool = newPool(func(bytes int) (driver.Ptr, error) { return api.MemAlloc(d.context, bytes) },
		func(p driver.Ptr) error { return api.MemFree(d.context, p) })
	return d, nil
}

// describe asks for what the device is. Nothing has to be given back.
func (d *Device) describe(ordinal int) error {
	var err error
	if d.device, err = d.api.DeviceGet(ordinal); err != nil {
		return err
	}
	if d.Name, err = d.api.DeviceName(d.device); err != nil {
		return err
	}
	var major, minor int
	for _, a := range []struct {
		attribute driver.Attribute
		to        *int
	}{
		{driver.ComputeCapabilityMajor, &major}, {driver.ComputeCapabilityMinor, &minor},
		{driver.Multiprocessors, &d.Multiprocessors}, {driver.MaxSharedPerBlockOptin, &d.SharedPerBlock},
	} {
		if *a.to, err = d.api.DeviceAttribute(d.device, a.attribute); err != nil {
			return err
		}
	}
	d.Arch = 10*major + minor
	if d.Arch < ptxArchs[0] {
		return fmt.Errorf("%w: %s has compute capability %s, qwb needs %s", driver.ErrOldDevice, d.Name, dotted(d.Arch, 10),
			dotted(ptxArchs[0], 10))
	}
	if d.Memory, err = d.api.DeviceTotalMem(d.device); err != nil {
		return err
	}
	d.DriverVersion, err = d.api.Version()
	return err
}

// Close gives everything back to the driver: modules, all memory, buffers in use too, and the context. Streams, events, graphs and
// pinned memory are to be closed before.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	// What earlier work failed with is reported by every call from then on; it is worth one line.
	err := d.api.Synchronize(d.context)
	rest := []error{d.pool.close()}
	for _, m := range d.modules {
		rest = append(rest, d.api.ModuleUnload(d.context, m))
	}
	clear(d.modules)
	clear(d.kernels)
	rest = append(rest, d.api.ReleasePrimaryContext(d.device))
	if err != nil {
		return err
	}
	return errors.Join(rest...)
}

// TensorCores reports whether the device multiplies 8-bit matrices by mma.sync (compute capability 8.0 and later). Kernels for the
// others use dp4a.
func (d *Device) TensorCores() bool { return d.Arch >= 80 }

// Kernel returns an entry point of ptx/FILE.sm_XX.ptx.gz, which is compiled when it is first asked for.
func (d *Device) Kernel(file, entry string) (*Kernel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	name := file + "." + entry
	if k := d.kernels[name]; k != nil {
		return k, nil
	}
	m, ok := d.modules[file]
	if !ok {
		text, err := ptxFor(file, d.Arch)
		if err != nil {
			return nil, err
		}
		if m, err = d.api.ModuleLoad(d.context, text); err != nil {
			return nil, fmt.Errorf("cuda: %s: %w", file, err)
		}
		d.modules[file] = m
	}
	f, err := d.api.ModuleFunction(d.context, m, entry)
	if err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", name, err)
	}
	k := &Kernel{Name: name, function: f}
	if k.allowed, err = d.api.FunctionAttribute(d.context, f, driver.FunctionMaxDynamicShared); err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", name, err)
	}
	d.kernels[name] = k
	return k, nil
}
