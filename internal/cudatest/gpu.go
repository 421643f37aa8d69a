package cudatest

import (
	"sync"

	"qwb/kernels/cuda"
	"qwb/kernels/cuda/driver"
)

// kept is a GPU's driver that keeps the context and the modules of earlier tests. Each test opens a device of its own, and to make a
// context and compile modules for each takes longer than the tests themselves.
type kept struct {
	driver.API
	device  driver.Device
	mu      sync.Mutex
	modules map[string]driver.Module
}

// ModuleLoad returns what the same text gave before.
func (k *kept) ModuleLoad(c driver.Context, ptx []byte) (driver.Module, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m, ok := k.modules[string(ptx)]; ok {
		return m, nil
	}
	m, err := k.API.ModuleLoad(c, ptx)
	if err == nil {
		k.modules[string(ptx)] = m
	}
	return m, err
}

// ModuleUnload leaves the module to the next test.
func (k *kept) ModuleUnload(driver.Context, driver.Module) error { return nil }

var (
	gpuMu sync.Mutex
	gpu   *kept
)

// openGPU opens the GPU in the context of the tests before. Without a GPU it fails as cuda.Open does.
func openGPU() (*cuda.Device, error) {
	gpuMu.Lock()
	defer gpuMu.Unlock()
	if gpu == nil {
		d, err := cuda.Open()
		if err != nil {
			return nil, err
		}
		defer func() { _ = d.Close() }() // it has done nothing that could fail
		api, err := driver.Open()
		if err != nil {
			return nil, err
		}
		k := &kept{API: api, modules: map[string]driver.Module{}}
		if k.device, err = api.DeviceGet(0); err != nil {
			return nil, err
		}
		if _, err := api.PrimaryContext(k.device); err != nil { // and never released, unless it is broken
			return nil, err
		}
		gpu = k
	}
	return cuda.OpenOn(gpu, 0)
}

// forgetGPU gives up the context with its modules.
func forgetGPU() {
	gpuMu.Lock()
	defer gpuMu.Unlock()
	if gpu != nil {
		_ = gpu.ReleasePrimaryContext(gpu.device) // which is broken
		gpu = nil
	}
}
