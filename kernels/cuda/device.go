package cuda

import (
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

	mu      sync.Mutex
	modules map[string]driver.Module
	kernels map[string]*Kernel
}

// Kernel is an entry point of a loaded module.
type Kernel struct {
	Name     string // FILE.ENTRY
	function driver.Function
}

// OpenOn returns a device of a driver, by its ordinal.
func OpenOn(api driver.API, ordinal int) (*Device, error) {
	d := &Device{api: api, modules: map[string]driver.Module{}, kernels: map[string]*Kernel{}}
	var err error
	if d.device, err = api.DeviceGet(ordinal); err != nil {
		return nil, err
	}
	if d.Name, err = api.DeviceName(d.device); err != nil {
		return nil, err
	}
	var major, minor int
	for a, to := range map[driver.Attribute]*int{driver.ComputeCapabilityMajor: &major, driver.ComputeCapabilityMinor: &minor,
		driver.Multiprocessors: &d.Multiprocessors, driver.MaxSharedPerBlockOptin: &d.SharedPerBlock} {
		if *to, err = api.DeviceAttribute(d.device, a); err != nil {
			return nil, err
		}
	}
	d.Arch = 10*major + minor
	if d.Memory, err = api.DeviceTotalMem(d.device); err != nil {
		return nil, err
	}
	if d.DriverVersion, err = api.Version(); err != nil {
		return nil, err
	}
	if d.context, err = api.PrimaryContext(d.device); err != nil {
		return nil, err
	}
	return d, nil
}

// Close gives everything back to the driver.
func (d *Device) Close() error { return d.api.ReleasePrimaryContext(d.device) }

// TensorCores reports whether the device multiplies 8-bit matrices by mma.sync (compute capability 8.0 and later). Kernels for the
// others use dp4a.
func (d *Device) TensorCores() bool { return d.Arch >= 80 }

// Kernel returns an entry point of ptx/FILE.sm_XX.ptx, which is compiled when it is first asked for.
func (d *Device) Kernel(file, entry string) (*Kernel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
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
	d.kernels[name] = k
	return k, nil
}
