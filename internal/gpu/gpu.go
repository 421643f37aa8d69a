// Package gpu puts together what a program offers on a GPU, for the catalog of package qwb, which knows none: backends of integer programs
// and devices of float models, on CUDA and on the interpreter of its kernels' PTX.
package gpu

import (
	"fmt"
	"strings"

	"qwb"
	"qwb/calib"
	calibgpu "qwb/calib/gpu"
	"qwb/graph/language/decode"
	decodegpu "qwb/graph/language/decode/gpu"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/emulate"
	"qwb/quantizer/program"
	programgpu "qwb/quantizer/program/gpu"
)

// devices are what can be opened, by name.
var devices = []struct {
	name string
	open func() (*cuda.Device, error)
}{
	{qwb.FloatCUDA, func() (*cuda.Device, error) {
		d, err := cuda.Open()
		if err != nil {
			return nil, fmt.Errorf("backend %s: %w", qwb.FloatCUDA, err)
		}
		return d, nil
	}},
	{qwb.FloatPTX, func() (*cuda.Device, error) { return cuda.OpenOn(emulate.Open(80, emulate.Fast), 0) }},
}

// Backends run integer programs: CUDA, and PTX, which is CUDA without a GPU. That is slow, and shows what a GPU computes.
func Backends() []program.Backend {
	return []program.Backend{programgpu.CUDA, programgpu.With(qwb.FloatPTX, devices[1].open, nil)}
}

// Open opens a device by name: a GPU, or the interpreter in its place.
func Open(name string) (*cuda.Device, error) {
	var names []string
	for _, d := range devices {
		if d.name == name {
			return d.open()
		}
		names = append(names, d.name)
	}
	return nil, qwb.Usagef("unknown backend %q: one of %s", name, strings.Join(names, ", "))
}

// OpenDevice opens a device for float models: that of qwb.Catalog.
func OpenDevice(name string) (qwb.Device, error) {
	d, err := Open(name)
	if err != nil {
		return nil, err
	}
	return device{calibgpu.On(d), decodegpu.On(d), d}, nil
}

type (
	calibration = calib.Device
	decoding    = decode.Device
)

// device implements qwb.Device.
type device struct {
	calibration
	decoding
	d *cuda.Device
}

func (d device) Label() string { return d.d.Name }
func (d device) Close() error  { return d.d.Close() }
