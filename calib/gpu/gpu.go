// Package gpu calibrates on an NVIDIA GPU: a graph runs there, and kernels count what observers want to know of its tensors, with the
// statistics of the processor, bit for bit, where the device computes the same.
//
// Unstable: it may change without notice.
package gpu

import (
	"context"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/device"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
)

type onDevice struct{ *cuda.Device }

// On is a device for calib.Config.
func On(d *cuda.Device) calib.Device { return onDevice{d} }

// MemoryBytes implements calib.Device.
func (d onDevice) MemoryBytes() int64 { return d.Memory }

// OpenGraph implements calib.Device.
func (d onDevice) OpenGraph(g *graph.Graph, threads int) (calib.DeviceGraph, error) {
	s, err := device.New(g, d.Device, device.Options{Host: exec.Options{Threads: threads}})
	if err != nil {
		return nil, err
	}
	return &session{s}, nil
}

// session implements calib.DeviceGraph.
type session struct{ *device.Session }

func (s *session) Show(ctx context.Context, feeds map[string]*tensor.Tensor, wants func(v graph.ValueID) bool,
	show func(v graph.ValueID, t *tensor.Tensor) error) error {
	_, err := s.Run(ctx, feeds, &device.Taps{Wants: wants, Tap: func(st *cuda.Stream, v device.Value) error {
		if v.DType != tensor.Float32 {
			return nil
		}
		t, err := v.Download(st)
		if err != nil {
			return err
		}
		return show(v.ID, t)
	}})
	return err
}

func (s *session) Observe(w *calib.Watch) calib.DeviceObserver {
	return &observer{watch: w, session: s.Session, tallies: make([]*tally, w.Limit()), shapes: make([][]int, w.Limit())}
}
