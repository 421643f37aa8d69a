package program

import (
	"context"
	"errors"
	"slices"
	"time"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Placement says where the steps of a program ran in the last run.
type Placement struct {
	Device   string // its name; nothing for the processor that runs everything
	Steps    int
	OnDevice int
	OnShapes int // that compute nothing but shapes and indices: on the host, once for a set of input shapes
	Host     []HostStep
}

// HostStep is a step that the reference computed, for which a backend has no kernel of its own.
type HostStep struct {
	Step   lower.StepID
	Name   string // as Program.Name has it
	Op     string
	Reason string
}

// Placed is what engines have beside Engine that leave steps to the reference.
type Placed interface {
	// Placement says where the steps ran in the last run, or the last RunStep of each; nil where there is nothing to say.
	Placement() *Placement
}

// OnDevice is what the engines of backends with a device have beside Engine.
type OnDevice interface {
	Placed
	// RunTimed is Run without a hook, with the time that the device took from the first step to the last: without the way of the inputs
	// to it and that of the outputs back.
	RunTimed(ctx context.Context, feeds []*tensor.Tensor) ([]*tensor.Tensor, time.Duration, error)
}

// Placement says where the steps ran in the last run, or the last RunStep of each. It is nil for the reference, and for backends without
// a device that ran all steps by kernels of their own.
func (e *Executor) Placement() *Placement {
	if d, ok := e.engine.(Placed); ok {
		return d.Placement()
	}
	return nil
}

// errNoDevice is what backends say that have none.
var errNoDevice = errors.New("run: the backend has no device")

// RunTimed is Run, once more, with the time that the device took from the first step to the last: without the way of the inputs to
// it and that of the outputs back. It is an error for backends without a device.
func (e *Executor) RunTimed(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, time.Duration, error) {
	d, ok := e.engine.(OnDevice)
	if !ok {
		return nil, 0, errNoDevice
	}
	list, err := Feeds(e.program, feeds)
	if err != nil {
		return nil, 0, err
	}
	return d.RunTimed(ctx, list)
}

// Slow says why a backend whose kernels are for tensors of 8 bits leaves a step to the reference.
// own says that it has a row for the operation.
func Slow(p *lower.Program, s *lower.Step, own bool) string {
	if !own {
		return "no kernel for " + s.Op.Name()
	}
	for _, id := range append(slices.Clone(s.Inputs), s.Outputs...) {
		if id == lower.NoTensor || !p.Tensors[id].Quantized() || p.Tensors[id].DType.Bits() == 8 {
			continue
		}
		if p.Tensors[id].Encoding.QMin < 0 {
			return "int16 activations"
		}
		return "uint16 activations"
	}
	return "no fast kernel"
}
