package cuda

import (
	"fmt"

	"qwb/kernels/cuda/driver"
)

// moveParams mirrors Move of float_move.cu.
type moveParams struct {
	src, dst   driver.Ptr
	count      uint32
	size, axes int32
	sizes      [floatAxes]Divisor
	from, to   [floatAxes]int32
	_          uint32
}

// MoveElements copies elements of size bytes: the one at an index of the axes from its steps in src to those in dst.
func MoveElements(s *Stream, dst, src driver.Ptr, size int, sizes, dstStep, srcStep []int) error {
	if err := movable(size); err != nil {
		return err
	}
	axes, steps := joinAxes(sizes, dstStep, srcStep)
	if size == 4 {
		if batch, rows, columns, ok := turned(axes, steps[0], steps[1]); ok {
			p := turnParams{src: src, dst: dst, rows: int32(rows), columns: int32(columns), tilesR: int32(floatParts(rows, 32)),
				tilesC: int32(floatParts(columns, 32))}
			return overBlocks(s, "float_move", "turn", batch*int(p.tilesR)*int(p.tilesC), 256, &p)
		}
	}
	p := moveParams{src: src, dst: dst, size: int32(size)}
	var err error
	if p.count, p.axes, err = putAxes(&p.sizes, axes, steps, &p.to, &p.from); err != nil {
		return err
	}
	return overElements(s, "float_move", "move", int(p.count), 256, &p)
}

// turnParams mirrors Turn of float_move.cu.
type turnParams struct {
	src, dst       driver.Ptr
	rows, columns  int32
	tilesR, tilesC int32
}

// turned recognizes the transposition of matrices that lie one after the other: src [batch][rows][columns] to dst [batch][columns][rows].
func turned(sizes, to, from []int) (batch, rows, columns int, ok bool) {
	if len(sizes) < 2 || len(sizes) > 3 {
		return 0, 0, 0, false
	}
	batch = 1
	if len(sizes) == 3 {
		if to[0] != from[0] || to[0] != sizes[1]*sizes[2] {
			return 0, 0, 0, false
		}
		batch, sizes, to, from = sizes[0], sizes[1:], to[1:], from[1:]
	}
	a, b := 0, 1 // rows and columns of src
	if from[0] == 1 {
		a, b = 1, 0
	}
	if from[b] != 1 || from[a] != sizes[b] || to[a] != 1 || to[b] != sizes[a] || fits("an array", batch, sizes[0], sizes[1]) != nil {
		return 0, 0, 0, false
	}
	return batch, sizes[a], sizes[b], min(sizes[a], sizes[b]) >= 4
}

// pickParams mirrors Pick of float_move.cu.
type pickParams struct {
	src, dst, table driver.Ptr
	fill            uint64
	count           uint32
	size, axes      int32
	sizes           [floatAxes]Divisor
	start           [floatAxes]int32
	_               uint32
}

// PickElements makes the element at an index of the axes, the last of them fastest, the one of src at the sum of table[axis][index], or
// fill where one of these is negative. The tables of the axes lie one after the other. Elements have size bytes; fill holds the element
// in its low bytes.
func PickElements(s *Stream, dst, src, table driver.Ptr, size int, sizes []int, fill uint64) error {
	if err := movable(size); err != nil {
		return err
	}
	p := pickParams{src: src, dst: dst, table: table, fill: fill, size: int32(size)}
	var err error
	if p.count, p.axes, err = putAxes(&p.sizes, sizes, nil); err != nil {
		return err
	}
	at := 0
	for a, n := range sizes {
		p.start[a] = int32(at)
		at += n
	}
	return overElements(s, "float_move", "pick", int(p.count), 256, &p)
}

// lookupParams mirrors Lookup of float_move.cu.
type lookupParams struct {
	src, index, dst, fault   driver.Ptr
	count, inner, indices, n uint32
	size, wide               int32
}

// GatherRows is dst[o, i, e] = src[o, index[i], e]: outer blocks of n rows of inner elements of size bytes, of which indices are chosen,
// int64 ones if wide, else int32. Negative indices count from the end. One outside of the axis sets the word at fault to 1 and reads row 0.
func GatherRows(s *Stream, dst, src, index, fault driver.Ptr, size, outer, n, inner, indices int, wide bool) error {
	if err := movable(size); err != nil {
		return err
	}
	if err := fits("an array", outer, n, inner); err != nil {
		return err
	}
	if err := fits("an array", outer, indices, inner); err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("cuda: gathering from an empty axis")
	}
	count := outer * indices * inner
	p := lookupParams{src: src, index: index, dst: dst, fault: fault, count: uint32(count), inner: uint32(inner), indices: uint32(indices),
		n: uint32(n), size: int32(size), wide: flag(wide)}
	return overElements(s, "float_move", "gather", count, 256, &p)
}

// blendParams mirrors Blend of float_move.cu.
type blendParams struct {
	x, y, index, weight   driver.Ptr
	count, inner, size, n uint32
	taps                  int32
	blank                 float32
}

// FloatBlend resamples one axis, from n to size elements between outer and inner ones: result k is the sum of the elements index[k][t],
// each times weight[k][t], for t from 0 to taps, products and sums rounded. Negative indices are left out; without any the result is
// blank.
func FloatBlend(s *Stream, y, x, index, weight driver.Ptr, outer, n, inner, size, taps int, blank float32) error {
	if err := fits("an array", outer, size, inner); err != nil {
		return err
	}
	if err := fits("an array", outer, n, inner); err != nil {
		return err
	}
	p := blendParams{x: x, y: y, index: index, weight: weight, count: uint32(outer * size * inner), inner: uint32(inner), size: uint32(size),
		n: uint32(n), taps: int32(taps), blank: blank}
	return overElements(s, "float_move", "blend", int(p.count), 256, &p)
}
