package cuda

import (
	"time"

	"qwb/kernels/cuda/driver"
)

// Event is a place in a stream: it has happened when all work that was put on the stream before it is done.
type Event struct {
	device *Device
	handle driver.Event
}

// NewEvent returns an event that was not recorded yet. Only with timing can it be given to Elapsed; without, it costs less.
func (d *Device) NewEvent(timing bool) (*Event, error) {
	e, err := d.api.EventCreate(d.context, timing)
	if err != nil {
		return nil, err
	}
	return &Event{device: d, handle: e}, nil
}

// Close destroys the event. Work that waits for it goes on to.
func (e *Event) Close() error { return e.device.api.EventDestroy(e.device.context, e.handle) }

// Record puts the event on a stream, and takes it away from where it was.
func (e *Event) Record(s *Stream) error {
	return e.device.api.EventRecord(e.device.context, e.handle, s.handle)
}

// Synchronize waits until the event has happened.
func (e *Event) Synchronize() error { return e.device.api.EventSynchronize(e.device.context, e.handle) }

// Elapsed returns the device's time from e to a later event. Both must have happened.
func (e *Event) Elapsed(to *Event) (time.Duration, error) {
	ms, err := e.device.api.EventElapsed(e.device.context, e.handle, to.handle)
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

// Wait makes the work that is put on s from now on wait for an event, without waiting itself.
func (s *Stream) Wait(e *Event) error {
	return s.Device.api.StreamWaitEvent(s.Device.context, s.handle, e.handle)
}
