package program

import (
	"context"
	"errors"
	"time"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Placement says where the steps of a program ran in the last run.
type Placement struct {
	Device   string // its name
	Steps    int
	OnDevice int
	OnShapes int // that compute nothing but shapes and indices: on the host, once for a set of input shapes
	Host     []HostStep
}

// HostStep is a step that the reference computed on the host, between steps on the device.
type HostStep struct {
	Step   lower.StepID
	Name   string // as Program.Name has it
	Op     string
	Reason string
}

// OnDevice is what the engines of backends with a device have beside Engine.
type OnDevice interface {
	// Placement says where the steps ran in the last run, or the last RunStep of each.
	Placement() *Placement
	// RunTimed is Run without a hook, with the time that the device took from the first step to the last: without the way of the inputs
	// to it and that of the outputs back.
	RunTimed(ctx context.Context, feeds []*tensor.Tensor) ([]*tensor.Tensor, time.Duration, error)
}

// Placement says where the steps ran in the last run, or the last RunStep of each. It is nil for backends without a device.
func (e *Executor) Placement() *Placement {
	if d, ok := e.engine.(OnDevice); ok {
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
	list, err := e.feeds(feeds)
	if err != nil {
		return nil, 0, err
	}
	return d.RunTimed(ctx, list)
}
