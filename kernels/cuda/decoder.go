package cuda

import (
	"fmt"

	"qwb/kernels/cuda/driver"
)

// KeyBlock is how many positions a block of keys has in a cache: its capacity is a multiple of it.
const KeyBlock = 32

// Place says where a row of a pass of a language model belongs. It lies in device memory as it is here.
type Place struct {
	Cache    driver.Ptr // see CacheBytes
	Position int32
	Capacity int32 // of the cache, in positions
}

// PlaceBytes is the size of a Place.
const PlaceBytes = 16

// Heads is the shape of the attention of one layer.
type Heads struct {
	Queries, Shared int // heads of queries, and of keys and values
	Dim             int // of a head
	Layer           int
}

// CacheBytes is the size of a cache of keys and values.
func CacheBytes(layers int, h Heads, capacity int) int {
	return 4 * 2 * layers * h.Shared * capacity * h.Dim
}

type headsParams struct{ heads, shared, dim, layer int32 }

func (h Heads) params() headsParams {
	return headsParams{int32(h.Queries), int32(h.Shared), int32(h.Dim), int32(h.Layer)}
}

func (h Heads) check(n int, q, k, v, places Buffer) error {
	if h.Dim < 2 || h.Dim%2 != 0 || h.Shared < 1 || h.Queries%h.Shared != 0 || q.Bytes < 4*n*h.Queries*h.Dim ||
		min(k.Bytes, v.Bytes) < 4*n*h.Shared*h.Dim || places.Bytes < n*PlaceBytes {
		return fmt.Errorf("cuda: heads %+v of %d rows do not fit their buffers", h, n)
	}
	return nil
}

type rotateParams struct {
	q, k, v, cos, sin, places driver.Ptr
	h                         headsParams
	step, apart               int32
}

const decoderThreads = 128

// Rotary is the tables of rotary embeddings on the device: Dim/2 float32 for each position. Halves pairs an element with the one half a
// head apart, instead of its neighbour.
type Rotary struct {
	Cos, Sin Buffer
	Halves   bool
}

// Rotate turns the n rows of queries in place, and puts the keys, turned, and the values into the caches of their places. The tables must
// reach all positions, and the caches must have room for them.
func Rotate(s *Stream, q, k, v, places Buffer, n int, h Heads, r Rotary) error {
	if err := h.check(n, q, k, v, places); err != nil {
		return err
	}
	p := rotateParams{q.Ptr, k.Ptr, v.Ptr, r.Cos.Ptr, r.Sin.Ptr, places.Ptr, h.params(), 2, 1}
	if r.Halves {
		p.step, p.apart = 1, int32(h.Dim/2)
	}
	return launchFile(s, "decoder", "rotate", driver.Dim{X: uint32(n), Y: 1, Z: 1}, decoderThreads, 0, &p)
}

type attendParams struct {
	q, y, places driver.Ptr
	h            headsParams
	scale        float32
	rows         int32
}

// Attend writes what the heads of n rows of queries attend to: softmax(keys * q * scale) * values over the positions up to their own.
// longest is the largest of them, plus one; where a block has no shared memory for so many scores it is an error.
func Attend(s *Stream, y, q, places Buffer, n int, h Heads, scale float32, longest int) error {
	if err := h.check(n, q, Buffer{Bytes: 4 * n * h.Shared * h.Dim}, Buffer{Bytes: 4 * n * h.Shared * h.Dim}, places); err != nil {
		return err
	}
	if y.Bytes < 4*n*h.Queries*h.Dim {
		return fmt.Errorf("cuda: results of heads %+v of %d rows do not fit %d bytes", h, n, y.Bytes)
	}
	if most := AttendMost(s.Device, h); longest > most {
		return fmt.Errorf("cuda: %d positions are more than the %d that %s attends to at once", longest, most, s.Device.Name)
	}
	p := attendParams{q.Ptr, y.Ptr, places.Ptr, h.params(), scale, int32(n)}
	return launchFile(s, "decoder", "attend", driver.Dim{X: uint32(h.Queries), Y: uint32(n), Z: 1}, decoderThreads, 4*(h.Dim+longest), &p)
}

// AttendMost is the largest number of positions that Attend takes.
func AttendMost(d *Device, h Heads) int { return (d.SharedPerBlock-attendStatic)/4 - h.Dim }

// attendStatic is the static shared memory of attend, rounded up.
const attendStatic = 1 << 10

type pairwiseParams struct {
	x, y      driver.Ptr
	n, period uint64
}

func pairwise(s *Stream, entry string, x, y Buffer, n, period int) error {
	if x.Bytes < 4*n || period < 1 && n > 0 || y.Bytes < 4*period {
		return fmt.Errorf("cuda: %d and %d elements are not in %d and %d bytes", n, period, x.Bytes, y.Bytes)
	}
	p := pairwiseParams{x.Ptr, y.Ptr, uint64(n), uint64(period)}
	return launchFile(s, "decoder", entry, driver.Dim{X: uint32((n + 255) / 256), Y: 1, Z: 1}, 256, 0, &p)
}

// AddTo adds y to n float32 of x, again and again where y has only period elements.
func AddTo(s *Stream, x, y Buffer, n, period int) error {
	return pairwise(s, "add_to", x, y, n, period)
}

// SwiGLU writes swish(x) * y to n float32 of x.
func SwiGLU(s *Stream, x, y Buffer, n int) error { return pairwise(s, "swiglu", x, y, n, max(n, 1)) }

type pickRowsParams struct {
	from, ids, to driver.Ptr
	cols          int32
	_             int32
}

// PickRows copies the n rows of cols float32 that int32 ids name.
func PickRows(s *Stream, to, from, ids Buffer, n, cols int) error {
	if to.Bytes < 4*n*cols || ids.Bytes < 4*n {
		return fmt.Errorf("cuda: %d rows of %d elements do not fit their buffers", n, cols)
	}
	p := pickRowsParams{from: from.Ptr, ids: ids.Ptr, to: to.Ptr, cols: int32(cols)}
	return launchFile(s, "decoder", "pick_rows", driver.Dim{X: uint32(n), Y: 1, Z: 1}, 256, 0, &p)
}
