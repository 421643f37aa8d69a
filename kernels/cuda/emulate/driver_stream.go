package emulate

import "qwb/kernels/cuda/driver"

// capture is a graph that is being recorded: what would have been done, in order.
type capture struct {
	origin *stream
	work   []func() error
	joined map[*stream]int // streams that take part: how much work there was when the origin last waited for them
	last   map[*stream]int // and when they last added some
}

type graph struct{ work []func() error }

// executable is a graph that can be launched.
type executable struct{ work []func() error }

// stream begins a call with a context and returns the stream of a handle, nil for the default one.
func (d *Driver) stream(call string, c driver.Context, s driver.Stream) (*stream, error) {
	if s == 0 {
		return nil, d.enter(call, c)
	}
	return handle[*stream](d, call, c, uintptr(s))
}

// onStream does some work, or records it where the stream is being captured. host is memory of the host that the work uses.
func (d *Driver) onStream(call string, c driver.Context, s driver.Stream, host []byte, work func() error) error {
	st, err := d.stream(call, c, s)
	if err != nil {
		return err
	}
	d.mu.Lock()
	var into *capture
	if st != nil {
		into = st.capture
	}
	d.mu.Unlock()
	if into == nil {
		return work()
	}
	if host != nil && !d.isPinned(host) {
		return failure(call, captureUnsupported, "memory of the host in a graph must be pinned")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	into.work = append(into.work, work)
	into.last[st] = len(into.work)
	return nil
}

func (d *Driver) StreamCreate(c driver.Context) (driver.Stream, error) {
	if err := d.enter("cuStreamCreate", c); err != nil {
		return 0, err
	}
	return driver.Stream(d.add(&stream{})), nil
}

func (d *Driver) StreamDestroy(c driver.Context, s driver.Stream) error {
	const call = "cuStreamDestroy"
	_, err := destroy[*stream](d, call, c, uintptr(s))
	return err
}

func (d *Driver) StreamSynchronize(c driver.Context, s driver.Stream) error {
	const call = "cuStreamSynchronize"
	st, err := d.stream(call, c, s)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if st != nil && st.capture != nil {
		return failure(call, captureUnsupported, "the stream is being captured")
	}
	return nil
}

func (d *Driver) StreamWaitEvent(c driver.Context, s driver.Stream, e driver.Event) error {
	const call = "cuStreamWaitEvent"
	st, err := d.stream(call, c, s)
	if err != nil {
		return err
	}
	ev, err := handle[*event](d, call, c, uintptr(e))
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case ev.capture == nil && (st == nil || st.capture == nil): // what was recorded is done
	case ev.capture == nil || st == nil || st.capture != nil && st.capture != ev.capture:
		return failure(call, captureUnsupported, "the event is not of the capture that the stream is in")
	default:
		cp := ev.capture
		if st.capture == nil { // the stream joins the capture
			st.capture = cp
			cp.last[st] = len(cp.work)
		}
		if st == cp.origin {
			cp.joined[ev.stream] = max(cp.joined[ev.stream], ev.mark)
		}
	}
	return nil
}

func (d *Driver) EventCreate(c driver.Context, timing bool) (driver.Event, error) {
	if err := d.enter("cuEventCreate", c); err != nil {
		return 0, err
	}
	return driver.Event(d.add(&event{timing: timing})), nil
}

func (d *Driver) EventDestroy(c driver.Context, e driver.Event) error {
	const call = "cuEventDestroy"
	_, err := destroy[*event](d, call, c, uintptr(e))
	return err
}

func (d *Driver) EventRecord(c driver.Context, e driver.Event, s driver.Stream) error {
	const call = "cuEventRecord"
	st, err := d.stream(call, c, s)
	if err != nil {
		return err
	}
	ev, err := handle[*event](d, call, c, uintptr(e))
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ev.capture = nil
	if st != nil && st.capture != nil {
		ev.capture, ev.stream, ev.mark = st.capture, st, len(st.capture.work)
		return nil
	}
	ev.recorded, ev.at = true, d.counted
	return nil
}

func (d *Driver) EventSynchronize(c driver.Context, e driver.Event) error {
	const call = "cuEventSynchronize"
	ev, err := handle[*event](d, call, c, uintptr(e))
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if ev.capture != nil {
		return failure(call, captureUnsupported, "the event is of a capture")
	}
	return nil
}

// EventElapsed counts: a million instructions of warps take a millisecond.
func (d *Driver) EventElapsed(c driver.Context, from, to driver.Event) (float32, error) {
	const call = "cuEventElapsedTime"
	a, err := handle[*event](d, call, c, uintptr(from))
	if err != nil {
		return 0, err
	}
	b, err := handle[*event](d, call, c, uintptr(to))
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !a.timing || !b.timing || !a.recorded || !b.recorded {
		return 0, failure(call, driver.InvalidHandle, "an event is not recorded, or not made for timing")
	}
	return float32(float64(b.at-a.at) / 1e6), nil
}

func (d *Driver) BeginCapture(c driver.Context, s driver.Stream) error {
	const call = "cuStreamBeginCapture"
	st, err := d.stream(call, c, s)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case st == nil:
		return failure(call, captureUnsupported, "the default stream cannot be captured")
	case st.capture != nil:
		return failure(call, illegalState, "the stream is being captured already")
	}
	st.capture = &capture{origin: st, joined: map[*stream]int{}, last: map[*stream]int{}}
	return nil
}

func (d *Driver) EndCapture(c driver.Context, s driver.Stream) (driver.Graph, error) {
	const call = "cuStreamEndCapture"
	st, err := d.stream(call, c, s)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	if st == nil || st.capture == nil || st.capture.origin != st {
		d.mu.Unlock()
		return 0, failure(call, illegalState, "no capture was begun on this stream")
	}
	cp := st.capture
	unjoined := false
	for other, last := range cp.last {
		unjoined = unjoined || other != st && cp.joined[other] < last
		other.capture = nil
	}
	st.capture = nil
	d.mu.Unlock()
	if unjoined {
		return 0, failure(call, captureUnjoined, "a stream took part that the first one has not waited for")
	}
	return driver.Graph(d.add(&graph{cp.work})), nil
}

func (d *Driver) GraphInstantiate(c driver.Context, g driver.Graph) (driver.GraphExec, error) {
	const call = "cuGraphInstantiate"
	gr, err := handle[*graph](d, call, c, uintptr(g))
	if err != nil {
		return 0, err
	}
	return driver.GraphExec(d.add(&executable{gr.work})), nil
}

func (d *Driver) GraphLaunch(c driver.Context, g driver.GraphExec, s driver.Stream) error {
	const call = "cuGraphLaunch"
	x, err := handle[*executable](d, call, c, uintptr(g))
	if err != nil {
		return err
	}
	return d.onStream(call, c, s, nil, func() error {
		for _, work := range x.work {
			if err := work(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *Driver) GraphDestroy(c driver.Context, g driver.Graph) error {
	const call = "cuGraphDestroy"
	_, err := destroy[*graph](d, call, c, uintptr(g))
	return err
}

func (d *Driver) GraphExecDestroy(c driver.Context, g driver.GraphExec) error {
	const call = "cuGraphExecDestroy"
	_, err := destroy[*executable](d, call, c, uintptr(g))
	return err
}
