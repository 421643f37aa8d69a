package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"qwb/kernels/cuda"
)

// DeviceCase is one kernel on one shape, to be timed on a GPU.
type DeviceCase struct {
	Kind  string // gemm, conv, depthwise, ...
	Shape string
	Ops   float64 // operations of one run, a multiply-add being two; elements for what multiplies nothing
	Bytes float64 // read and written at least
	Bound DeviceBound
	Batch int    // images, 0 where there is no such thing
	Mode  string // int8 or fp32
	Small bool   // for devices that are emulated
	// Prepare uploads what the kernel needs; the work may be captured.
	Prepare func(s *cuda.Stream) (*DeviceWork, error)
}

// Name is the kind and the shape.
func (c DeviceCase) Name() string { return c.Kind + " " + c.Shape }

// DeviceBound is what limits a kernel.
type DeviceBound string

const (
	BoundInt8  DeviceBound = "int8"  // products of 8-bit integers
	BoundFloat DeviceBound = "float" // multiply-adds of float32
	BoundCopy  DeviceBound = "copy"  // the bandwidth of copying
)

// Of returns the limit of what a case does in a second, in operations or bytes.
func (b DeviceBound) Of(p cuda.Peaks) float64 {
	switch b {
	case BoundInt8:
		return p.Int8()
	case BoundFloat:
		return p.FMA
	}
	return p.Copy
}

// Amount is what a case does in one run, in the unit of its limit.
func (c DeviceCase) Amount() float64 {
	if c.Bound == BoundCopy {
		return c.Bytes
	}
	return c.Ops
}

// DeviceWork is a kernel with its memory.
type DeviceWork struct {
	device  *cuda.Device
	buffers []cuda.Buffer
	Run     func(s *cuda.Stream) error
	Note    string // how it is computed
}

// Close gives the memory back. The work has to be done.
func (w *DeviceWork) Close() {
	for _, b := range w.buffers {
		w.device.Free(b)
	}
	w.buffers = nil
}

// alloc returns memory that Close gives back.
func (w *DeviceWork) alloc(bytes int) (cuda.Buffer, error) {
	b, err := w.device.Alloc(bytes)
	if err == nil {
		w.buffers = append(w.buffers, b)
	}
	return b, err
}

// upload returns memory with these bytes, again and again where there is room for more.
func (w *DeviceWork) upload(s *cuda.Stream, bytes int, pattern []byte) (cuda.Buffer, error) {
	b, err := w.alloc(bytes)
	if err != nil {
		return b, err
	}
	first := min(bytes, len(pattern))
	if err := s.Upload(b, pattern[:first]); err != nil {
		return b, err
	}
	for n := first; n < bytes; {
		more := min(n, bytes-n)
		if err := s.Copy(b.Slice(n, more), b.Slice(0, more)); err != nil {
			return b, err
		}
		n += more
	}
	return b, s.Synchronize()
}

// DeviceTime says how a work was timed on a device.
type DeviceTime struct {
	Seconds  float64 `json:"seconds"` // median of one run
	Min      float64 `json:"min_seconds"`
	Max      float64 `json:"max_seconds"`
	Rounds   int     `json:"rounds"`
	Launches int     `json:"launches"` // of the work in a round
}

// MeasureDevice times a work by the device's clock. It is captured so often that a round fills the span, so that the time of launching
// does not count; the first rounds are not counted.
func MeasureDevice(ctx context.Context, s *cuda.Stream, rounds int, span time.Duration,
	work func(*cuda.Stream) error) (t DeviceTime, err error) {
	if err := work(s); err != nil { // kernels are loaded, attributes set
		return t, err
	}
	if err := s.Synchronize(); err != nil {
		return t, err
	}
	once, err := s.Time(func() error { return work(s) })
	if err != nil {
		return t, err
	}
	t.Launches = int(min(max(span/max(once, time.Microsecond), 1), 1000))
	if s.Device.Emulated {
		t.Launches = 1
	}
	g, err := s.Capture(func() error {
		for range t.Launches {
			if err := work(s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	var all []float64
	for i := range rounds + 1 {
		if err := ctx.Err(); err != nil {
			return t, err
		}
		took, err := s.Time(func() error { return g.Launch(s) })
		if err != nil {
			return t, err
		}
		if i > 0 {
			all = append(all, took.Seconds()/float64(t.Launches))
		}
	}
	t.Rounds, t.Seconds, t.Min, t.Max = rounds, Median(all), slices.Min(all), slices.Max(all)
	return t, nil
}
