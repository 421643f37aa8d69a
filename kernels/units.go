package kernels

import (
	"math"

	"qwb/kernels/ref"
)

// unitsTile is one call of a row of OpUnits: it adds to cols sums those of as many columns of x over all rows, and says in odd whether
// something was rounded to be added. Assembly reads it by offset; a test holds the offsets.
type unitsTile struct {
	x      *float32
	sums   *int64
	rows   int // not 0
	cols   int // a multiple of the row's NR, not 0
	stride int // elements between rows of x
	scale  float64
	lo, hi float32
	odd    uint64 // 0: nothing
}

// goUnitsRows lists the plain Go rows.
var goUnitsRows = []Row{{Name: "units-go", Op: OpUnits, ISA: "go", NR: 1}}

// unitsArgs are the arguments of a call, and sums that are kept several times over so that they fill vectors.
type unitsArgs struct {
	tile unitsTile
	fold [64]int64
}

// AddUnits is ref.AddUnits; odd is called in any order.
func (t *Table) AddUnits(sums []int64, x []float32, scale, lo, hi float32, odd func(i int, v float32)) {
	row, to := &t.rows[OpUnits], sums
	if row.units == nil || len(to) == 0 || len(x) < max(len(to), row.NR) {
		ref.AddUnits(sums, x, scale, lo, hi, odd)
		return
	}
	w := t.borrow()
	defer t.giveBack(w)
	if wide := len(to) * row.NR; len(to)%row.NR != 0 && wide <= len(w.units.fold) && len(x) >= wide {
		to = w.units.fold[:wide] // few sums: that many rows are one
		clear(to)
	}
	n := len(to)
	vector, whole := n-n%row.NR, len(x)/n*n
	// What was rounded is looked for while its block is in the first-level cache.
	for at, step := 0, max(1, meterBlock/n)*n; at < whole && vector > 0; at += step {
		block := x[at:min(at+step, whole)]
		tile := &w.units.tile
		*tile = unitsTile{x: &block[0], sums: &to[0], rows: len(block) / n, cols: vector, stride: n, scale: float64(scale), lo: lo, hi: hi}
		row.units(tile)
		if tile.odd != 0 {
			takeOdd(to, block, vector, scale, lo, hi, func(i int, v float32) { odd(at+i, v) })
		}
	}
	if vector < n {
		for first := vector; first < whole; first += n {
			ref.AddUnits(to[vector:], x[first:first+n-vector], scale, lo, hi, func(i int, v float32) { odd(first+i, v) })
		}
	}
	if n > len(sums) {
		for i, s := range to {
			sums[i%len(sums)] += s
		}
	}
	ref.AddUnits(sums, x[whole:], scale, lo, hi, func(i int, v float32) { odd(whole+i, v) })
}

// takeOdd takes off again what was added, rounded, for elements of the first columns of x that are no whole numbers,
// and shows these to odd.
func takeOdd(sums []int64, x []float32, columns int, scale, lo, hi float32, odd func(i int, v float32)) {
	n := len(sums)
	for first := 0; first < len(x); first += n {
		for i, v := range x[first : first+columns] {
			v = min(max(v, lo), hi)
			f := float64(v) * float64(scale)
			if q := math.RoundToEven(f); q != f {
				sums[i] -= int64(q)
				odd(first+i, v)
			}
		}
	}
}
