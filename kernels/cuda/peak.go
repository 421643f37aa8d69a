package cuda

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"qwb/kernels/cuda/driver"
)

// Peaks are what a device does at most, as measured by kernels that do nothing else. A multiply-add is two operations. 0 stands for
// what the device does not have.
type Peaks struct {
	MMA   float64 `json:"mma_s8_ops"`   // operations per second of mma.sync on 8-bit integers
	WGMMA float64 `json:"wgmma_s8_ops"` // of wgmma, which compute capability 9.0 alone has
	DP4A  float64 `json:"dp4a_ops"`
	FMA   float64 `json:"fma_f32_ops"`

	Copy       float64 `json:"copy_bytes"` // read and written per second by a kernel that copies
	Read       float64 `json:"read_bytes"`
	Write      float64 `json:"write_bytes"`
	DriverCopy float64 `json:"driver_copy_bytes"` // by the driver's own copy
}

// Int8 is the peak of products of 8-bit integers.
func (p Peaks) Int8() float64 { return max(p.MMA, p.WGMMA, p.DP4A) }

// peakCompute mirrors Compute of src/peak.cu.
type peakCompute struct {
	dst   driver.Ptr
	seed  uint32
	turns uint32
}

// peakMove mirrors Move of src/peak.cu.
type peakMove struct {
	src, dst driver.Ptr
	count    uint64
}

// A peakKernel is a kernel of src/peak.cu that computes.
type peakKernel struct {
	file, entry string
	ops         float64 // of a turn of a block
}

const peakThreads = 256

var (
	peakMMA   = peakKernel{"peak", "mma_s8", 8 * (peakThreads / 32) * 2 * 16 * 8 * 32}
	peakWGMMA = peakKernel{"peak_wgmma", "wgmma_s8", 16 * (peakThreads / 128) * 2 * 64 * 256 * 32}
	peakDP4A  = peakKernel{"peak", "dp4a", 16 * peakThreads * 2 * 4}
	peakFMA   = peakKernel{"peak", "fma_f32", 16 * peakThreads * 2}
)

// A peakRun says how long to measure.
type peakRun struct {
	span   time.Duration // the least that one launch takes
	rounds int
	bytes  int // that are read, written or copied
}

// MeasurePeaks measures what the device does at most. It takes about a second, and 2 GiB of the device's memory where that is less
// than a quarter of it. On an emulated device it takes a moment and the figures say nothing.
func MeasurePeaks(d *Device) (Peaks, error) {
	run := peakRun{span: 10 * time.Millisecond, rounds: 9, bytes: int(min(1<<30, d.Memory/8)) &^ 0xffff}
	if d.Emulated {
		run = peakRun{rounds: 1, bytes: 64 << 10}
	}
	return run.measure(d)
}

func (r peakRun) measure(d *Device) (p Peaks, err error) {
	s, err := d.NewStream()
	if err != nil {
		return p, err
	}
	var buffers [2]Buffer
	defer func() {
		err = errors.Join(err, s.Synchronize(), s.Close())
		for _, b := range buffers {
			d.Free(b)
		}
	}()
	for i := range buffers {
		if buffers[i], err = d.Alloc(r.bytes); err != nil {
			return p, err
		}
	}
	if err := r.move(s, buffers[0], buffers[1], &p); err != nil {
		return p, err
	}
	return p, r.compute(s, buffers[1], &p)
}

// compute measures the kernels that compute.
func (r peakRun) compute(s *Stream, dst Buffer, p *Peaks) error {
	for _, w := range []struct {
		peakKernel
		to  *float64
		has bool
	}{
		{peakDP4A, &p.DP4A, true},
		{peakFMA, &p.FMA, true},
		{peakMMA, &p.MMA, s.Device.TensorCores()},
		{peakWGMMA, &p.WGMMA, s.Device.Arch == 90 && s.Device.DriverVersion >= 12000}, // ISA 8.0
	} {
		if !w.has {
			continue
		}
		speed, err := r.speed(s, w.peakKernel, dst)
		if err != nil {
			return err
		}
		*w.to = speed
	}
	return nil
}

// speed finds out how many turns take long enough, and measures them.
func (r peakRun) speed(s *Stream, pk peakKernel, dst Buffer) (float64, error) {
	k, err := s.Device.Kernel(pk.file, pk.entry)
	if err != nil {
		return 0, err
	}
	blocks, err := r.blocks(s, k, 4*peakThreads, dst)
	if err != nil {
		return 0, err
	}
	p := peakCompute{dst: dst.Ptr, seed: 1, turns: 4}
	launch := func() error {
		return Launch(s, k, driver.Dim{X: blocks, Y: 1, Z: 1}, driver.Dim{X: peakThreads, Y: 1, Z: 1}, 0, &p)
	}
	for {
		took, err := s.Time(launch)
		if err != nil {
			return 0, err
		}
		if took >= r.span || p.turns > 1<<24 {
			break
		}
		p.turns *= 2
	}
	seconds, err := r.median(s, launch)
	return pk.ops * float64(p.turns) * float64(blocks) / seconds, err
}

// blocks is how many blocks fill the device, each of which needs so many bytes of dst.
func (r peakRun) blocks(s *Stream, k *Kernel, bytes int, dst Buffer) (uint32, error) {
	if s.Device.Emulated {
		return 1, nil
	}
	n, err := s.Device.api.MaxActiveBlocks(s.Device.context, k.function, peakThreads, 0)
	if err != nil {
		return 0, err
	}
	if n < 1 {
		return 0, fmt.Errorf("cuda: %s does not fit on a multiprocessor", k.Name)
	}
	return uint32(min(n*s.Device.Multiprocessors, dst.Bytes/bytes)), nil
}

// move measures the kernels that move memory.
func (r peakRun) move(s *Stream, src, dst Buffer, p *Peaks) error {
	for _, buffer := range []Buffer{src, dst} {
		if err := s.Fill(buffer, 0x5a); err != nil {
			return err
		}
	}
	for _, w := range []struct {
		entry string
		bytes int
		to    *float64
	}{{"copy", 2 * r.bytes, &p.Copy}, {"read", r.bytes, &p.Read}, {"write", r.bytes, &p.Write}} {
		k, err := s.Device.Kernel("peak", w.entry)
		if err != nil {
			return err
		}
		blocks, err := r.blocks(s, k, 16*peakThreads, dst)
		if err != nil {
			return err
		}
		args := peakMove{src: src.Ptr, dst: dst.Ptr, count: uint64(r.bytes / 16)}
		seconds, err := r.median(s, func() error {
			return Launch(s, k, driver.Dim{X: blocks, Y: 1, Z: 1}, driver.Dim{X: peakThreads, Y: 1, Z: 1}, 0, &args)
		})
		if err != nil {
			return err
		}
		*w.to = float64(w.bytes) / seconds
	}
	seconds, err := r.median(s, func() error { return s.Copy(dst, src) })
	p.DriverCopy = 2 * float64(r.bytes) / seconds
	return err
}

// median is the middle of several timings in seconds, after two runs that do not count.
func (r peakRun) median(s *Stream, f func() error) (float64, error) {
	for range min(2, r.rounds-1) {
		if err := f(); err != nil {
			return 0, err
		}
	}
	var all []time.Duration
	for range r.rounds {
		took, err := s.Time(f)
		if err != nil {
			return 0, err
		}
		all = append(all, took)
	}
	slices.Sort(all)
	return max(all[len(all)/2], 1).Seconds(), nil
}

// Time waits for what is on the stream, runs f, which puts work on it, and returns how long that took by the device's clock.
func (s *Stream) Time(f func() error) (took time.Duration, err error) {
	var events [2]*Event
	for i := range events {
		if events[i], err = s.Device.NewEvent(true); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, events[i].Close()) }()
	}
	if err := s.Synchronize(); err != nil {
		return 0, err
	}
	if err := events[0].Record(s); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	if err := events[1].Record(s); err != nil {
		return 0, err
	}
	if err := events[1].Synchronize(); err != nil {
		return 0, err
	}
	return events[0].Elapsed(events[1])
}
