package cuda

import (
	"errors"

	"qwb/kernels/cuda/driver"
)

// Graph is work that was recorded once and is launched as a whole, which costs the host one call.
type Graph struct {
	device *Device
	exec   driver.GraphExec
}

// Capture records what work puts on the stream, without running it. Buffers and pinned memory that it names must stay while the
// graph is used. What cannot be captured is refused: waiting for the stream, and copies of memory that is not pinned. Kernels
// should have been asked for before, and memory allocated.
func (s *Stream) Capture(work func() error) (*Graph, error) {
	api, c := s.Device.api, s.Device.context
	if err := api.BeginCapture(c, s.handle); err != nil {
		return nil, err
	}
	ended := false
	defer func() {
		if !ended { // work panics: the stream must not go on recording
			if g, err := api.EndCapture(c, s.handle); err == nil {
				_ = api.GraphDestroy(c, g)
			}
		}
	}()
	failed := work()
	ended = true
	g, err := api.EndCapture(c, s.handle)
	if failed != nil {
		if err == nil {
			err = api.GraphDestroy(c, g)
		} else {
			err = nil // the capture is invalid because of what failed
		}
		return nil, errors.Join(failed, err)
	}
	if err != nil {
		return nil, err
	}
	exec, err := api.GraphInstantiate(c, g)
	if err := errors.Join(err, api.GraphDestroy(c, g)); err != nil {
		if exec != 0 {
			err = errors.Join(err, api.GraphExecDestroy(c, exec))
		}
		return nil, err
	}
	return &Graph{device: s.Device, exec: exec}, nil
}

// Launch puts the recorded work on a stream, of the same device but not necessarily the one that recorded it. One launch of a
// graph begins when the one before is done.
func (g *Graph) Launch(s *Stream) error {
	return g.device.api.GraphLaunch(g.device.context, g.exec, s.handle)
}

// Close destroys the graph. A launch that is under way is finished.
func (g *Graph) Close() error { return g.device.api.GraphExecDestroy(g.device.context, g.exec) }
