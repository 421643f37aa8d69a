package cuda

import (
	"fmt"

	"qwb/kernels/cuda/driver"
)

// Open returns the first GPU of this machine; CUDA_VISIBLE_DEVICES says which that is. The error is one line that says what is
// missing, and wraps one of the driver's errors.
func Open() (*Device, error) {
	api, err := openDriver()
	if err != nil {
		return nil, err
	}
	return OpenOn(api, 0)
}

// openDriver returns a driver that has a device.
func openDriver() (driver.API, error) {
	api, err := driver.Open()
	if err != nil {
		return nil, err
	}
	n, err := api.DeviceCount()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, driver.ErrNoDevice
	}
	return api, nil
}

// Found is the GPU that Open takes.
type Found struct {
	Name    string
	Arch    int // compute capability, 90 for 9.0
	Memory  int64
	Version int // newest CUDA that the driver supports, 12040 for 12.4
}

// Find looks for a GPU without taking it: no context is made, so that it is quick. It fails where Open does.
func Find() (Found, error) {
	api, err := openDriver()
	if err != nil {
		return Found{}, err
	}
	return find(api)
}

func find(api driver.API) (Found, error) {
	d := &Device{api: api}
	if err := d.describe(0); err != nil {
		return Found{}, err
	}
	return Found{Name: d.Name, Arch: d.Arch, Memory: d.Memory, Version: d.DriverVersion}, nil
}

// ComputeCapability returns 9.0 of 90.
func (f Found) ComputeCapability() string { return dotted(f.Arch, 10) }

// Driver returns the newest CUDA that the driver supports, 12.4.
func (f Found) Driver() string { return dotted(f.Version/10, 100) }

// String returns NVIDIA H200, compute capability 9.0, 139.8 GiB, driver 12.8.
func (f Found) String() string {
	return fmt.Sprintf("%s, compute capability %s, %.1f GiB, driver %s", f.Name, f.ComputeCapability(), float64(f.Memory)/(1<<30), f.Driver())
}

func dotted(n, base int) string { return fmt.Sprintf("%d.%d", n/base, n%base) }
