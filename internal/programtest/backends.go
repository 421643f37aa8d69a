// Package programtest is what tests of backends for integer programs share: the list of backends, programs to run on them, and the
// comparison with the reference.
package programtest

import (
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/emulate"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/program/gpu"
)

// PTX is the GPU's backend on an interpreted device.
var PTX = gpu.With("ptx", func() (*cuda.Device, error) { return cuda.OpenOn(emulate.Open(80, emulate.Fast), 0) }, nil)

// Available lists the backends that run on this machine, the reference first.
func Available() []program.Backend {
	list := []program.Backend{program.Reference, cpu.Backend}
	if gpu.CUDA.Missing() == nil {
		list = append(list, gpu.CUDA)
	}
	return append(list, PTX)
}
