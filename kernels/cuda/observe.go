package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"qwb/kernels/cuda/driver"
	"qwb/kernels/ref"
)

// A Tally is what kernels keep of a tensor that they observe, in device memory of TallyBytes: all zeros before the first
// observation. Its counters have 32 bits: a tally that has seen TallyLimit values has to be read and cleared.
//
// One observation is ObserveExtremes, ObserveSettle and ObserveCount on one stream; extremes alone need no more than the first,
// and no table.

// TallyLimit is up to how many values a tally may see.
const TallyLimit = math.MaxUint32

// TallyOctaves is how many octaves its table keeps apart: the largest one and those below it.
const TallyOctaves = 21

const (
	tallyHeader = 64
	tallySide   = 1 + TallyOctaves*ref.BinsPerOctave
	tallyTable  = ref.BinZeros + 2*tallySide
)

// TallyBytes is the size of a tally without ranges per channel; one of extremes alone has no table.
func TallyBytes(table bool) int {
	if !table {
		return tallyHeader
	}
	return tallyHeader + 4*tallyTable
}

// ChannelBytes is the size of the extremes of channels, which like a tally are zero at first.
func ChannelBytes(channels int) int { return 8 * channels }

// Tally is a tally as read from device memory.
type Tally struct {
	Halves   [2][2]float32 // minimum and maximum of the samples of either half; +Inf and -Inf where there are none
	Infinite [2]uint64     // positive, negative
	Ties     uint64        // of ObserveLeaders
	// Low is the lowest exponent of a float32 that Table keeps apart; Table is that of kernels.Meter.Count with TallyOctaves octaves,
	// nil where there is none.
	Low   int
	Table []uint32
}

// ReadTally decodes a tally.
func ReadTally(b []byte) Tally {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
	t := Tally{Low: max(int(word(0))-(TallyOctaves-1), 1), Ties: binary.LittleEndian.Uint64(b[40:])}
	for half := range t.Halves {
		t.Halves[half][0], t.Halves[half][1] = extremes(word(8+8*half), word(12+8*half))
	}
	for sign := range t.Infinite {
		t.Infinite[sign] = binary.LittleEndian.Uint64(b[24+8*sign:])
	}
	if len(b) > tallyHeader {
		t.Table = make([]uint32, tallyTable)
		for i := range t.Table {
			t.Table[i] = word(tallyHeader + 4*i)
		}
	}
	return t
}

// ReadChannels decodes extremes of channels: minimum and maximum of each.
func ReadChannels(b []byte) [][2]float32 {
	list := make([][2]float32, len(b)/8)
	for i := range list {
		list[i][0], list[i][1] = extremes(binary.LittleEndian.Uint32(b[8*i:]), binary.LittleEndian.Uint32(b[8*i+4:]))
	}
	return list
}

// extremes decodes the ranks of -minimum and maximum: see rank in src/observe.cuh.
func extremes(below, above uint32) (lo, hi float32) {
	if above == 0 {
		return float32(math.Inf(1)), float32(math.Inf(-1))
	}
	value := func(rank uint32) float32 {
		if rank>>31 != 0 {
			return math.Float32frombits(rank ^ 1<<31)
		}
		return math.Float32frombits(^rank)
	}
	return 0 - value(below), value(above)
}

// TallySamples says how the elements of several samples lie in memory: sample after sample, each of Size elements, which are runs of
// Inner elements of one channel, of the channels 0 to Channels-1 again and again. Without channels Channels is 0.
type TallySamples struct {
	Count, Size, Channels, Inner int
}

type lookParams struct {
	x, tally, channels, nan, half driver.Ptr
	inner, runs                   uint64
	count, samples                uint32
	width, pieces                 uint32
}

// Launch geometry of the kernels in src/observe.cu.
const (
	lookThreads   = 256 // threads of extremes_of_runs and extremes_of_rows
	settleThreads = 512
	countThreads  = 512
	leaderThreads = 128

	runPiece     = 16 << 10  // elements of a run that a block looks at
	rowsPerLook  = 32        // rows that a thread looks at
	nearLeast    = 128 << 10 // values from which on blocks count some octaves in shared memory
	nearElements = 32 << 10  // of such a block at least
	farElements  = 2 << 10   // of a block that counts in global memory
	lookGridZ    = 65535
)

// ObserveExtremes widens a tally by the finite elements of x, and channels too, where there are any. half has a uint32 for each sample, 0
// or 1. nan has a counter for each sample, a uint32 to which the number of its NaN is added.
func ObserveExtremes(s *Stream, tally, channels, nan, half, x Buffer, shape TallySamples) error {
	if err := shape.check(x); err != nil {
		return err
	}
	if tally.Bytes < tallyHeader || channels.Bytes < ChannelBytes(shape.Channels) || nan.Bytes < 4*shape.Count || half.Bytes < 4*shape.Count {
		return fmt.Errorf("cuda: a tally of %d bytes with channels of %d, counters of NaN of %d and halves of %d do not serve %+v", tally.Bytes,
			channels.Bytes, nan.Bytes, half.Bytes, shape)
	}
	if shape.Count == 0 || shape.Size == 0 {
		return nil
	}
	p := lookParams{x: x.Ptr, tally: tally.Ptr, nan: nan.Ptr, half: half.Ptr, samples: uint32(shape.Count), pieces: 1, count: 1,
		inner: uint64(shape.Size), runs: 1}
	if shape.Channels > 0 {
		p.channels, p.count, p.inner = channels.Ptr, uint32(shape.Channels), uint64(shape.Inner)
		if shape.Channels == 1 {
			p.inner = uint64(shape.Size)
		}
		p.runs = uint64(shape.Size) / p.inner
	}
	z := uint32(min(shape.Count, lookGridZ))
	if p.inner == 1 && p.count > 1 {
		p.width = min(uint32(1)<<bits.Len32(p.count-1), lookThreads)
		rows := p.runs / uint64(p.count)
		grid := driver.Dim{X: uint32(piecesOf(rows, rowsPerLook*lookThreads/uint64(p.width))), Y: (p.count + p.width - 1) / p.width, Z: z}
		return observe(s, "extremes_of_rows", grid, lookThreads, 0, &p)
	}
	p.width = min(uint32(1)<<(bits.Len64(p.inner)-1), lookThreads)
	p.pieces = uint32(piecesOf(p.inner, runPiece))
	blocks := piecesOf(p.runs*uint64(p.pieces), uint64(lookThreads/p.width))
	return observe(s, "extremes_of_runs", driver.Dim{X: uint32(blocks), Y: 1, Z: z}, lookThreads, 0, &p)
}

func (p TallySamples) check(x Buffer) error {
	if p.Count < 0 || p.Size < 0 || p.Channels < 0 || p.Channels > 0 && (p.Inner < 1 || p.Size%(p.Channels*p.Inner) != 0) ||
		p.Channels > 65535*lookThreads || uint64(p.Size) > TallyLimit {
		return fmt.Errorf("cuda: samples cannot be %+v", p)
	}
	if x.Bytes != 4*p.Count*p.Size {
		return fmt.Errorf("cuda: %d samples of %d elements are not in %d bytes", p.Count, p.Size, x.Bytes)
	}
	return nil
}

func piecesOf(n, by uint64) uint64 { return (n + by - 1) / by }

// ObserveSettle makes room in a table for the extremes of its tally: values that are too far below the largest are no longer kept apart.
func ObserveSettle(s *Stream, tally Buffer) error {
	if tally.Bytes != TallyBytes(true) {
		return fmt.Errorf("cuda: a tally of %d bytes has no table", tally.Bytes)
	}
	p := struct{ tally driver.Ptr }{tally.Ptr}
	return observe(s, "settle", driver.Dim{X: 1, Y: 1, Z: 1}, settleThreads, 0, &p)
}

type countParams struct {
	x, tally driver.Ptr
	n        uint64
	near     uint32
	_        uint32
}

// ObserveCount adds the finite elements of x to the table of a tally that was settled after their extremes had been looked for.
func ObserveCount(s *Stream, tally, x Buffer) error {
	if tally.Bytes != TallyBytes(true) {
		return fmt.Errorf("cuda: a tally of %d bytes has no table", tally.Bytes)
	}
	p := countParams{x: x.Ptr, tally: tally.Ptr, n: uint64(x.Bytes / 4)}
	blocks, resident := piecesOf(p.n, farElements), 4
	if p.n >= nearLeast {
		p.near = 11 // in 48 KiB
		if s.Device.SharedPerBlock >= nearBytes(24) {
			p.near, resident = 24, 2
		}
		blocks = piecesOf(p.n, nearElements)
	}
	blocks = min(blocks, uint64(resident*max(s.Device.Multiprocessors, 1)))
	shared := nearBytes(p.near)
	return observe(s, "count", driver.Dim{X: uint32(blocks), Y: 1, Z: 1}, countThreads, shared, &p)
}

// nearBytes is the shared memory of a block that counts so many octaves there, and zeros.
func nearBytes(octaves uint32) int { return 4 * (int(octaves)*ref.BinsPerOctave + 1) }

// TallyRows says how rows lie in memory: Outer times N elements, each followed by those of the Inner-1 rows beside it.
type TallyRows struct {
	Outer, N, Inner int
}

type rowsParams struct {
	x, second, gap driver.Ptr
	rows, n, inner uint64
	width, counted uint32
}

// ObserveLeaders observes the two largest values of each row of two or more elements that are all finite: a tally of the second largest, 0
// where it is negative, which also counts the rows where both are equal, and for the other rows one of the difference.
func ObserveLeaders(s *Stream, second, gap, x Buffer, rows TallyRows) error {
	if rows.Outer < 0 || rows.N < 2 || rows.Inner < 0 || x.Bytes != 4*rows.Outer*rows.N*rows.Inner {
		return fmt.Errorf("cuda: rows cannot be %+v of %d bytes", rows, x.Bytes)
	}
	p := rowsParams{x: x.Ptr, second: second.Ptr, gap: gap.Ptr, rows: uint64(rows.Outer * rows.Inner), n: uint64(rows.N),
		inner: uint64(rows.Inner), width: 1}
	if rows.Inner == 1 {
		p.width = min(uint32(1)<<(bits.Len(uint(rows.N))-1), leaderThreads)
	}
	grid := driver.Dim{X: uint32(piecesOf(p.rows, uint64(leaderThreads/p.width))), Y: 1, Z: 1}
	if err := observe(s, "leaders", grid, leaderThreads, 0, &p); err != nil {
		return err
	}
	for _, tally := range []Buffer{second, gap} {
		if err := ObserveSettle(s, tally); err != nil {
			return err
		}
	}
	p.counted = 1
	return observe(s, "leaders", grid, leaderThreads, 0, &p)
}

// observe puts a kernel of blocks of one dimension on a stream.
func observe[P any](s *Stream, entry string, grid driver.Dim, threads uint32, shared int, p *P) error {
	k, err := s.Device.Kernel("observe", entry)
	if err != nil {
		return err
	}
	return Launch(s, k, grid, driver.Dim{X: threads, Y: 1, Z: 1}, shared, p)
}
