package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda/driver"
)

// space is a driver's memory: addresses without bytes, of which a limited number can be taken.
type space struct {
	driver.API
	mu     sync.Mutex
	limit  int
	next   driver.Ptr
	taken  map[driver.Ptr]int
	used   int
	takes  int
	broken error // what giving back fails with
}

func newSpace(limit int) *space {
	return &space{limit: limit, next: 0x7f0000000000, taken: map[driver.Ptr]int{}}
}

func (s *space) device() *Device {
	d := &Device{api: s}
	d.pool = newPool(func(n int) (driver.Ptr, error) { return s.MemAlloc(0, n) }, func(p driver.Ptr) error { return s.MemFree(0, p) })
	return d
}

func (s *space) MemAlloc(_ driver.Context, bytes int) (driver.Ptr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes++
	if bytes <= 0 {
		return 0, &driver.Result{Code: driver.InvalidValue, Call: "cuMemAlloc", Text: "invalid argument", Name: "CUDA_ERROR_INVALID_VALUE"}
	}
	if bytes > s.limit-s.used {
		return 0, &driver.Result{Code: driver.OutOfMemory, Call: "cuMemAlloc", Text: "out of memory", Name: "CUDA_ERROR_OUT_OF_MEMORY"}
	}
	p := s.next
	s.next += driver.Ptr(multiple(bytes, 4096) + 4096) // no two segments touch
	s.taken[p] = bytes
	s.used += bytes
	return p, nil
}

func (s *space) MemFree(_ driver.Context, p driver.Ptr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.taken[p]
	if !ok {
		return fmt.Errorf("freed %#x, which was not taken", uint64(p))
	}
	delete(s.taken, p)
	s.used -= n
	return s.broken
}

// holds reports whether a buffer lies in what was taken from the driver.
func (s *space) holds(b Buffer) bool {
	for p, n := range s.taken {
		if b.Ptr >= p && b.Ptr+driver.Ptr(b.Bytes) <= p+driver.Ptr(n) {
			return true
		}
	}
	return false
}

func TestPoolCarvesAndMerges(t *testing.T) {
	s := newSpace(1 << 30)
	d := s.device()
	alloc := func(n int) Buffer {
		b, err := d.Alloc(n)
		require.NoError(t, err)
		require.Equal(t, n, b.Bytes)
		return b
	}
	require.Equal(t, Buffer{}, alloc(0))
	d.Free(Buffer{})
	require.Zero(t, s.takes)

	a, b, c := alloc(1), alloc(513), alloc(512)
	require.Equal(t, 1, s.takes, "small buffers share a segment")
	require.Equal(t, []driver.Ptr{512, 1536}, []driver.Ptr{b.Ptr - a.Ptr, c.Ptr - a.Ptr})
	require.Equal(t, PoolStats{Allocated: 2048, Reserved: 2 << 20, Peak: 2048, Buffers: 3}, d.PoolStats())

	d.Free(b)
	require.Equal(t, b.Ptr, alloc(1024).Ptr, "the hole fits best")
	d.Free(b)
	require.NotEqual(t, b.Ptr, alloc(1025).Ptr)
	d.Free(a)
	require.Equal(t, a.Ptr, alloc(1536).Ptr, "a and b are one again")

	big := alloc(5 << 20)
	require.Equal(t, 2, s.takes)
	require.Equal(t, int64(2<<20+6<<20), d.PoolStats().Reserved, "segments are multiples of 2 MiB")
	rest := alloc(1 << 20)
	require.Equal(t, 2, s.takes)
	require.Equal(t, big.Ptr+5<<20, rest.Ptr, "the rest is used")
	d.Free(big)
	require.Equal(t, big.Ptr, alloc(5<<20-smallLimit/2).Ptr)
	require.Equal(t, 2, s.takes)
	alloc(smallLimit - 512)
	require.Equal(t, 2, s.takes, "a buffer below the limit never takes of a large segment, and the small one has room")
	require.EqualValues(t, s.used, d.PoolStats().Reserved)
}

func TestPoolGivesBack(t *testing.T) {
	s := newSpace(1 << 30)
	d := s.device()
	a, err := d.Alloc(3 << 20)
	require.NoError(t, err)
	b, err := d.Alloc(100)
	require.NoError(t, err)
	d.Free(a)
	require.Equal(t, 6<<20, s.used, "kept")
	require.NoError(t, d.TrimPool())
	require.Equal(t, 2<<20, s.used, "the segment of b stays")
	require.Equal(t, PoolStats{Allocated: 512, Reserved: 2 << 20, Peak: 3<<20 + 512, Buffers: 1}, d.PoolStats())
	d.Free(b)
	s.broken = errors.New("the driver is gone")
	require.ErrorIs(t, d.TrimPool(), s.broken)
	require.Zero(t, d.PoolStats().Reserved)
}

func TestPoolOutOfMemory(t *testing.T) {
	s := newSpace(20 << 20)
	d := s.device()
	var keep []Buffer
	for _, n := range []int{4 << 20, 4 << 20, 4 << 20, 4 << 20, 100} {
		b, err := d.Alloc(n)
		require.NoError(t, err)
		keep = append(keep, b)
	}
	for _, i := range []int{0, 2, 3} {
		d.Free(keep[i])
	}
	b, err := d.Alloc(12 << 20)
	require.NoError(t, err, "three segments of 4 MiB are of no use for it, and go back")
	require.EqualValues(t, 4<<20+2<<20+12<<20, s.used)

	_, err = d.Alloc(12 << 20)
	var r *driver.Result
	require.ErrorAs(t, err, &r)
	require.Equal(t, driver.OutOfMemory, r.Code)
	require.EqualError(t, err, "cuda: no 12582912 bytes of device memory (buffers have 16777728, the pool 18874368): "+
		"cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)")
	takes := s.takes
	_, err = d.Alloc(4 << 20)
	require.Error(t, err)
	require.Equal(t, takes+1, s.takes, "nothing is cached that could go back: one try")
	d.Free(b)
	_, err = d.Alloc(12 << 20)
	require.NoError(t, err)

	for _, n := range []int{-1, math.MinInt, math.MaxInt, math.MaxInt - segmentRound + 1} {
		_, err = d.Alloc(n)
		require.EqualError(t, err, fmt.Sprintf("cuda: a buffer of %d bytes", n))
	}
	_, err = d.Alloc(math.MaxInt - segmentRound)
	require.ErrorAs(t, err, &r)
}

func TestPoolRefusesWhatItDidNotGive(t *testing.T) {
	d := newSpace(1 << 30).device()
	b, err := d.Alloc(1000)
	require.NoError(t, err)
	require.Panics(t, func() { d.Free(b.Slice(512, 10)) })
	d.Free(b)
	require.Panics(t, func() { d.Free(b) })
	_, err = d.Alloc(1000)
	require.NoError(t, err, "and goes on")
}

// TestPoolOfAnEmulatedDevice: its checks see an access beyond a buffer, or to a freed one, only if each is an allocation.
func TestPoolOfAnEmulatedDevice(t *testing.T) {
	s := newSpace(10_000)
	d := s.device()
	d.Emulated = true
	a, err := d.Alloc(1001)
	require.NoError(t, err)
	b, err := d.Alloc(7)
	require.NoError(t, err)
	require.Equal(t, map[driver.Ptr]int{a.Ptr: 1001, b.Ptr: 7}, s.taken)
	d.Free(a)
	require.Equal(t, map[driver.Ptr]int{b.Ptr: 7}, s.taken)
	require.Equal(t, PoolStats{Allocated: 7, Reserved: 7, Peak: 1008, Buffers: 1}, d.PoolStats())
	require.NoError(t, d.pool.close())
	require.Empty(t, s.taken)
}

func TestPoolClose(t *testing.T) {
	s := newSpace(1 << 30)
	d := s.device()
	var last Buffer
	for _, n := range []int{100, 3 << 20, 200, 9 << 20} {
		b, err := d.Alloc(n)
		require.NoError(t, err)
		last = b
	}
	d.Free(last)
	require.NoError(t, d.pool.close())
	require.Empty(t, s.taken)
	_, err := d.Alloc(1)
	require.ErrorIs(t, err, errClosed)
	d.Free(last)
	require.NoError(t, d.TrimPool())
	require.NoError(t, d.pool.close())
}

// TestPoolRandomly allocates and frees at random, in a memory that is too small for all of it.
func TestPoolRandomly(t *testing.T) {
	refused := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := newSpace(64 << 20)
		d := s.device()
		var live []Buffer
		for range 600 {
			if r.IntN(5) < 2 && len(live) > 0 {
				i := r.IntN(len(live))
				d.Free(live[i])
				live = slices.Delete(live, i, i+1)
			} else {
				n := 1 + r.IntN(1<<(1+r.IntN(24)))
				b, err := d.Alloc(n)
				if err != nil {
					var e *driver.Result
					require.ErrorAs(t, err, &e)
					refused++
					continue
				}
				require.Equal(t, n, b.Bytes)
				live = append(live, b)
			}
			if r.IntN(100) == 0 {
				require.NoError(t, d.TrimPool())
			}
			checkPool(t, s, d, live)
		}
		for _, b := range live {
			d.Free(b)
		}
		for _, free := range d.pool.free {
			for _, b := range free {
				require.True(t, b.prev == nil && b.next == nil && s.taken[b.ptr] == b.size, "all of a segment is one block again")
			}
		}
		require.Equal(t, len(s.taken), len(d.pool.free[0])+len(d.pool.free[1]))
		require.NoError(t, d.TrimPool())
		require.Empty(t, s.taken)
		stats := d.PoolStats()
		require.Zero(t, stats.Allocated+stats.Reserved)
		require.Zero(t, stats.Buffers)
	}
	require.Positive(t, refused, "memory never ran out")
}

// checkPool holds that no buffers overlap, that all lie in memory of the driver, and that the pool's books are right.
func checkPool(t *testing.T, s *space, d *Device, live []Buffer) {
	t.Helper()
	sorted := slices.SortedFunc(slices.Values(live), func(a, b Buffer) int { return cmp.Compare(a.Ptr, b.Ptr) })
	for i, b := range sorted {
		require.True(t, s.holds(b))
		require.Zero(t, b.Ptr%blockRound)
		require.True(t, i == 0 || sorted[i-1].Ptr+driver.Ptr(sorted[i-1].Bytes) <= b.Ptr, "buffers overlap")
	}
	sum := 0
	for _, b := range d.pool.live {
		sum += b.size
	}
	stats := d.PoolStats()
	require.EqualValues(t, sum, stats.Allocated)
	require.Len(t, live, stats.Buffers)
	require.LessOrEqual(t, stats.Allocated, stats.Peak)
	for _, free := range d.pool.free {
		require.True(t, slices.IsSortedFunc(free, bySize))
		for _, b := range free {
			sum += b.size
			require.False(t, b.taken)
			require.True(t, b.next == nil || b.next.taken, "two free neighbours")
			require.True(t, b.prev == nil || b.prev.taken, "two free neighbours")
		}
	}
	require.Equal(t, s.used, sum, "taken from the driver, and neither free nor in a buffer")
	require.EqualValues(t, s.used, stats.Reserved)
}

func TestPoolOfManyGoroutines(t *testing.T) {
	s := newSpace(1 << 30)
	d := s.device()
	var owners sync.Map // of addresses
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 9))
			for range 300 {
				b, err := d.Alloc(1 + r.IntN(4<<20))
				if err != nil {
					t.Error(err)
					return
				}
				if other, taken := owners.LoadOrStore(b.Ptr, g); taken {
					t.Errorf("%#x belongs to %d and %v", uint64(b.Ptr), g, other)
				}
				if r.IntN(20) == 0 {
					if err := d.TrimPool(); err != nil {
						t.Error(err)
					}
				}
				d.PoolStats()
				owners.Delete(b.Ptr)
				d.Free(b)
			}
		})
	}
	wait.Wait()
	require.NoError(t, d.TrimPool())
	require.Empty(t, s.taken)
}
