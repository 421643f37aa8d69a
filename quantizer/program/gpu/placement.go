package gpu

import (
	"context"
	"time"

	"qwb/graph/tensor"
	"qwb/quantizer/program"
)

// Placement implements program.OnDevice.
func (e *engine) Placement() *program.Placement {
	p := &program.Placement{Device: e.memory.dev.Name, Steps: len(e.steps)}
	for _, s := range e.steps {
		switch s.placed {
		case onDevice:
			p.OnDevice++
		case onShapes:
			p.OnShapes++
		case onHost:
			p.Host = append(p.Host, program.HostStep{Step: s.ID, Name: e.program.Name(s.ID), Op: s.Op.Name(), Reason: s.reason})
		}
	}
	return p
}

// RunTimed implements program.OnDevice.
func (e *engine) RunTimed(ctx context.Context, feeds []*tensor.Tensor) ([]*tensor.Tensor, time.Duration, error) {
	if e.planFor(feeds) == nil { // the first run of these shapes makes the plan
		if _, _, err := e.run(ctx, feeds, nil, false); err != nil {
			return nil, 0, err
		}
	}
	return e.run(ctx, feeds, nil, true)
}
