package bench

import (
	"context"
	"sync"
	"sync/atomic"

	"qwb/kernels"
	"qwb/kernels/cpu"
)

// Parallel shares pieces of work among as many goroutines as there are threads, nil for one.
func Parallel(threads int) kernels.Parallel {
	if threads <= 1 {
		return nil
	}
	return func(n int, body func(i int)) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range min(threads, n) {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
					body(i)
				}
			})
		}
		wg.Wait()
	}
}

// ComputePeak is a work that runs the fastest loop of a kind on every thread, and the number of operations it does.
func ComputePeak(f cpu.Features, k kernels.PeakKind, threads int) (w Work, ops float64, name string) {
	p := kernels.BestPeak(f, k)
	const iterations = 20_000
	threads = max(threads, 1)
	return func(context.Context) error {
		onEach(threads, func(int) { p.Compute(iterations) })
		return nil
	}, float64(p.Ops) * iterations * float64(threads), p.Name
}

// ReadPeak is a work that reads a buffer for every thread, each of bytes/threads, as often as makes 4 MiB at least; read is
// how many bytes that is.
func ReadPeak(f cpu.Features, bytes, threads int) (w Work, read float64, name string) {
	p := kernels.BestPeak(f, kernels.PeakRead)
	threads = max(threads, 1)
	n := max(bytes/4/threads, 1<<10) &^ 127
	buffers := make([][]float32, threads)
	for i := range buffers {
		buffers[i] = make([]float32, n)
		clear(buffers[i])
	}
	times := max(1, 1<<20/(n*threads))
	return func(context.Context) error {
		onEach(threads, func(i int) {
			for range times {
				p.Read(buffers[i])
			}
		})
		return nil
	}, float64(4 * n * threads * times), p.Name
}

func onEach(threads int, f func(i int)) {
	if threads == 1 {
		f(0)
		return
	}
	var wg sync.WaitGroup
	for i := range threads {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// Levels are the sizes of buffer, in bytes over all threads, that read bandwidth is measured on: they fit into the first and
// second level of most caches, into the third of some, and into none.
var Levels = []int{16 << 10, 512 << 10, 8 << 20, 256 << 20}

// Bandwidth is how fast a buffer of a size is read.
type Bandwidth struct {
	Bytes int     `json:"bytes"`
	GBps  float64 `json:"gbps"`
}

// Roof is what a machine can do at most, as measured.
type Roof struct {
	GOPS float64     // arithmetic
	Read []Bandwidth // by ascending size
}

// At returns the bandwidth for data of a size, in GB/s: that of the smallest buffer measured which is no smaller.
func (r Roof) At(bytes float64) float64 {
	for _, b := range r.Read {
		if bytes <= float64(b.Bytes) {
			return b.GBps
		}
	}
	if len(r.Read) == 0 {
		return 0
	}
	return r.Read[len(r.Read)-1].GBps
}

// Bound returns the least time for work, and whether it is memory that bounds it: the larger of operations over peak and
// bytes over bandwidth.
func (r Roof) Bound(ops, bytes float64) (seconds float64, memory bool) {
	var compute, move float64
	if r.GOPS > 0 {
		compute = ops / r.GOPS / 1e9
	}
	if bw := r.At(bytes); bw > 0 {
		move = bytes / bw / 1e9
	}
	return max(compute, move), move > compute
}
