package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// errNotTuned is what a way to compute is left out for: it does not fit, or its results are others.
var errNotTuned = errors.New("cuda: not a way to compute it")

// Tune returns op with the tile and the slices of k that are the fastest on this device: every tile computes it on random codes, and
// those whose outputs are not the same bytes as those of NewLinear's own choice are left out. Steps that are not products in tiles,
// and those whose tile is said already, come back as they are. What is found is kept for steps of the same shapes. It needs memory
// for a whole run and returns op as it is where there is none.
func (d *Device) Tune(op LinearOp) (LinearOp, error) {
	l, err := d.newLinear(op)
	if err != nil || op.Tile != "" || op.Splits != 0 || l.choice == (tuned{}) {
		return op, err
	}
	key := l.tuneKey()
	d.mu.Lock()
	found, ok := d.tuned[key]
	d.mu.Unlock()
	if !ok {
		found = d.tune(l, op)
		d.mu.Lock()
		if d.tuned == nil {
			d.tuned = map[string]tuned{}
		}
		d.tuned[key] = found
		d.mu.Unlock()
	}
	op.Tile, op.Splits = found.tile, found.splits
	return op, nil
}

// tuned is a tile and a number of slices.
type tuned struct {
	tile   string
	splits int
}

// tuneKey is all that the time of a step depends on.
func (l *Linear) tuneKey() string {
	op := &l.op
	key := fmt.Sprint(l.rows, l.channels, op.Left, op.Right, op.X.Type, op.Y.Type, l.constants.size, l.workspace, op.Adds)
	if op.Window != nil {
		key += fmt.Sprint(*op.Window)
	}
	for _, o := range op.Outputs {
		key += fmt.Sprint(o.Type, o.Scaling.Form, o.Stride)
	}
	return key
}

// tune measures. A way that fails is left out; where nothing can be measured, the choice stays.
func (d *Device) tune(l *Linear, op LinearOp) tuned {
	s, err := d.NewStream()
	if err != nil {
		return l.choice
	}
	defer s.Close()
	r := &tuneRun{device: d, stream: s}
	defer r.close()
	if r.prepare(l) != nil {
		return l.choice
	}
	best, least := l.choice, time.Duration(0)
	try := func(t tuned) {
		op := op
		op.Tile, op.Splits = t.tile, t.splits
		if took, used, err := r.measure(op); err == nil && (least == 0 || took < least) {
			best, least = used, took
		}
	}
	try(l.choice) // its outputs are what others are held to
	if least == 0 {
		return l.choice
	}
	for _, t := range Tiles() {
		if t.On(d.Arch) && t.Name != l.choice.tile {
			try(tuned{tile: t.Name})
		}
	}
	for _, splits := range []int{best.splits / 2, best.splits * 2} {
		if splits > 0 {
			try(tuned{best.tile, splits})
		}
	}
	return best
}

// tuneRun is the memory of measurements.
type tuneRun struct {
	device *Device
	stream *Stream
	args   LinearArgs
	held   []Buffer
	want   [][]byte // the ends of the outputs
}

func (r *tuneRun) close() {
	_ = r.stream.Synchronize()
	for _, b := range r.held {
		r.device.Free(b)
	}
}

// take allocates memory and fills it with random bytes, a part of which repeats.
func (r *tuneRun) take(n int, random bool) (Buffer, error) {
	if n == 0 {
		return Buffer{}, nil
	}
	b, err := r.device.Alloc(n)
	if err != nil || !random {
		if err == nil {
			r.held = append(r.held, b)
		}
		return b, err
	}
	r.held = append(r.held, b)
	part := make([]byte, min(n, 1<<16+48))
	g := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range part {
		part[i] = byte(g.Uint32())
	}
	if err := r.stream.Upload(b, part); err != nil {
		return b, err
	}
	for done := len(part); done < n; done += min(done, n-done) {
		k := min(done, n-done)
		if err := r.stream.Copy(b.Slice(done, k), b.Slice(0, k)); err != nil {
			return b, err
		}
	}
	return b, r.stream.Synchronize()
}

// prepare makes room for inputs and outputs.
func (r *tuneRun) prepare(l *Linear) (err error) {
	op := &l.op
	x, y := op.Left.Rows*op.Left.Cols*matricesIn(op.Left.Stack), 0
	if op.Window != nil {
		x = op.Window.InLen()
	} else if l.moving {
		y = op.Right.Rows * op.Right.Cols * matricesIn(op.Right.Stack)
	}
	if r.args.X, err = r.take(x*op.X.Type.Size(), true); err != nil {
		return err
	}
	if r.args.Right, err = r.take(y*op.Y.Type.Size(), true); err != nil {
		return err
	}
	if op.Adds {
		if r.args.Residual, err = r.take(l.rows*l.channels*op.Residual.Size(), true); err != nil {
			return err
		}
	}
	for _, o := range op.Outputs {
		b, err := r.take(l.rows*max(o.Stride, l.channels)*o.Type.Size(), false)
		if err != nil {
			return err
		}
		r.args.Outputs = append(r.args.Outputs, b)
	}
	return nil
}

// measure returns how long one way takes, and which it is. Outputs begin as zeros, so that bytes between rows are the same too.
func (r *tuneRun) measure(op LinearOp) (took time.Duration, used tuned, err error) {
	const runs, rounds = 10, 3 // the shortest round counts
	l, err := r.device.newLinear(op)
	if err != nil {
		return 0, used, err
	}
	args := r.args
	held := len(r.held)
	defer func() {
		_ = r.stream.Synchronize()
		for _, b := range r.held[held:] {
			r.device.Free(b)
		}
		r.held = r.held[:held]
	}()
	constants := l.Constants()
	if args.Constants, err = r.take(len(constants), false); err != nil {
		return 0, used, err
	}
	if args.Workspace, err = r.take(l.WorkspaceBytes(), false); err != nil {
		return 0, used, err
	}
	if err := r.stream.Upload(args.Constants, constants); err != nil {
		return 0, used, err
	}
	for _, b := range args.Outputs {
		if err := r.stream.Fill(b, 0); err != nil {
			return 0, used, err
		}
	}
	if err := l.Launch(r.stream, args); err != nil {
		return 0, used, err
	}
	if err := r.compare(); err != nil {
		return 0, used, err
	}
	from, err := r.device.NewEvent(true)
	if err != nil {
		return 0, used, err
	}
	defer from.Close()
	to, err := r.device.NewEvent(true)
	if err != nil {
		return 0, used, err
	}
	defer to.Close()
	// As a graph: launched one by one, short kernels would wait for the host, and all take the same.
	g, err := r.stream.Capture(func() error {
		for range runs {
			if err := l.Launch(r.stream, args); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, used, err
	}
	defer func() { _ = g.Close() }()
	for range rounds {
		err := errors.Join(from.Record(r.stream), g.Launch(r.stream), to.Record(r.stream), r.stream.Synchronize())
		if err != nil {
			return 0, used, err
		}
		once, err := from.Elapsed(to)
		if err != nil {
			return 0, used, err
		}
		if once = max(once, 1); took == 0 || once < took {
			took = once
		}
	}
	return took, l.choice, nil
}

// compare holds the outputs to those of the first way: the first and the last megabyte.
func (r *tuneRun) compare() error {
	const most = 1 << 20
	var got [][]byte
	for _, b := range r.args.Outputs {
		n := min(b.Bytes, most)
		first, last := make([]byte, n), make([]byte, n)
		if err := errors.Join(r.stream.Download(first, b), r.stream.Download(last, b.Slice(b.Bytes-n, n)), r.stream.Synchronize()); err != nil {
			return err
		}
		got = append(got, first, last)
	}
	if r.want == nil {
		r.want = got
		return nil
	}
	for i := range got {
		if !bytes.Equal(got[i], r.want[i]) {
			return errNotTuned
		}
	}
	return nil
}
