package open

import (
	"fmt"

	"qwb/calib"
	"qwb/graph/language/decode"
	"qwb/internal/work/fault"
)

// Backends of calibrate: what runs the float model.
const (
	FloatCPU  = "cpu"
	FloatCUDA = "cuda"
	FloatPTX  = "ptx" // the kernels for a GPU, interpreted
)

// OpenDevice opens what a language model runs on, nil for the processor. It is to be closed after the engines on it.
func (p *Project) OpenDevice(backend string) (Device, error) {
	if err := CheckFloatBackend(backend); err != nil || backend == "" || backend == FloatCPU {
		return nil, err
	}
	return p.Catalog.Device(backend)
}

// CheckFloatBackend says that a language model cannot be run on a backend. Empty is the processor.
func CheckFloatBackend(name string) error {
	if name == "" || name == FloatCPU || name == FloatCUDA || name == FloatPTX {
		return nil
	}
	return fault.Usagef("unknown backend %q of a checkpoint: one of %s, %s, %s", name, FloatCPU, FloatCUDA, FloatPTX)
}

// Device is what float models run on in place of the processor: calibration and language models.
type Device interface {
	calib.Device
	decode.Device
	Label() string // its name, for people
	Close() error
}

func (c *Catalog) Device(backend string) (Device, error) {
	if c.OpenDevice == nil {
		return nil, fmt.Errorf("backend %s: this program runs on the processor only", backend)
	}
	return c.OpenDevice(backend)
}
