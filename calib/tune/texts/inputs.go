package texts

import (
	"cmp"
	"encoding/binary"
	"math"

	"qwb/calib/tune/round"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/internal/file"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/qmath"
	"qwb/observers"
)

// heldBytes is how much of the rows that matrices read stays in memory; what is beyond lies in files of the system.
const heldBytes = 8 << 20

// inputs are the rows that matrices read, piece by piece, until others are shown theirs.
type inputs struct {
	of     checkpoint.Part // the first of the matrices
	pieces []inputPiece
	maps   *file.Maps
	held   int // bytes in memory
	most   int // of them; 0: heldBytes
	row    []float32
}

// inputPiece is rows that were read together.
type inputPiece struct {
	numbers int
	largest float32
	finite  bool
	memory  []float32
	file    []byte // in place of memory
}

// add keeps a copy of rows that matrices read, and gives up those of others.
func (in *inputs) add(parts []checkpoint.Part, x []float32, _ int) error {
	if in.of != parts[0] {
		if err := in.clear(); err != nil {
			return err
		}
		in.of = parts[0]
	}
	top := uint32(0) // magnitudes are in the order of their bits, infinity and NaN behind all others
	for _, v := range x {
		top = max(top, math.Float32bits(v)&^(1<<31))
	}
	p := inputPiece{numbers: len(x), largest: math.Float32frombits(top), finite: top < math.Float32bits(float32(math.Inf(1)))}
	if in.held += 4 * len(x); in.held > cmp.Or(in.most, heldBytes) && len(x) > 0 {
		if in.maps == nil {
			in.maps = &file.Maps{}
		}
		b, _ := binary.Append(make([]byte, 0, 4*len(x)), binary.LittleEndian, x) // no error: float32 has a size
		if p.file = in.maps.Spill(b); p.file != nil {
			in.maps.Forget(p.file)
		}
	}
	if p.file == nil {
		p.memory = append([]float32(nil), x...)
	}
	in.pieces = append(in.pieces, p)
	return nil
}

// count is how many pieces matrices have read.
func (in *inputs) count(parts []checkpoint.Part) int {
	if in.of != parts[0] {
		return 0
	}
	return len(in.pieces)
}

// clear gives the rows up.
func (in *inputs) clear() error {
	in.pieces, in.held = nil, 0
	if in.maps == nil {
		return nil
	}
	maps := in.maps
	in.maps = nil
	return maps.Release()
}

// read is the rows of a piece, valid until the next call.
func (in *inputs) read(i int) []float32 {
	p := in.pieces[i]
	if p.file == nil {
		return p.memory
	}
	if cap(in.row) < p.numbers {
		in.row = make([]float32, p.numbers)
	}
	_, _ = binary.Decode(p.file, binary.LittleEndian, in.row[:p.numbers]) // no error: the length is that of the numbers
	in.maps.Forget(p.file)
	return in.row[:p.numbers]
}

// cut is where the last pieces begin that have a share of the rows: all of them where none does.
func (in *inputs) cut(share float64) int {
	all, n := 0, 0
	for _, p := range in.pieces {
		all += p.numbers
	}
	for i, p := range in.pieces {
		if n += p.numbers; n < all && float64(n) >= (1-share)*float64(all) {
			return i + 1
		}
	}
	return len(in.pieces)
}

// point is the fixed point that holds pieces.
func (in *inputs) point(from, to int) (qmath.Fixed, error) {
	largest := float32(0)
	for _, p := range in.pieces[from:to] {
		if !p.finite {
			return qmath.Fixed{}, round.ErrMoments
		}
		largest = max(largest, p.largest)
	}
	return qmath.FixedFor(largest, observers.GramWithin, observers.GramLimit), nil
}

// moments is the sum of x xT over the rows of k numbers of pieces, and of (y - x) xT where there are rows y of the float model.
func (in *inputs) moments(from, to int, float *inputs, k, threads int) (h, cross []float64, err error) {
	point, err := in.point(from, to)
	if err != nil {
		return nil, nil, err
	}
	var other qmath.Fixed
	if float != nil {
		if other, err = float.point(from, to); err != nil {
			return nil, nil, err
		}
	}
	g, err := observers.NewGram(1, k, point, other)
	if err != nil {
		return nil, nil, err
	}
	a := g.Add(kernels.Select(cpu.Detect()), exec.Parallel(threads))
	for i := from; i < to; i++ {
		var y *observers.GramRows
		if float != nil {
			y = fixedRows(float.read(i), other, k)
		}
		a.Rows(fixedRows(in.read(i), point, k), y)
	}
	a.Close()
	h, cross = g.Take()
	return h, cross, nil
}

// fixedRows are rows of k numbers in a fixed point.
func fixedRows(x []float32, p qmath.Fixed, k int) *observers.GramRows {
	rows := &observers.GramRows{Codes: make([]int16, len(x)), Base: make([]int32, len(x)/k), Offset: make([]int32, k)}
	rows.Limited, rows.Finite = p.Codes(rows.Codes, x)
	for i := range rows.Base {
		rows.Base[i] = int32(i * k)
	}
	for i := range rows.Offset {
		rows.Offset[i] = int32(i)
	}
	return rows
}
