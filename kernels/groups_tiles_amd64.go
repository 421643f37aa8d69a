//go:build !purego

package kernels

import (
	"slices"
	"unsafe"

	"qwb/kernels/cpu"
)

// groupsCall is one call of a product of groups in tiles. Assembly reads it by offset. The activations are the left factor, with a sign;
// panels of a matrix lie as a right factor does.
type groupsCall struct {
	config  [tileBytes]byte // of the registers
	w, x    unsafe.Pointer
	dst     unsafe.Pointer
	sums    unsafe.Pointer // nil, or where the next sums go
	scratch unsafe.Pointer // of a tile of sums, then of a tile of codes of four bits
	rows    int
	groups  int
	panels  int
	size    int // codes of a row in a group
	whole   int // tiles of codes in a group
	rest    int // codes behind them
	others  int // codes of a group in all rows but one
	head    int // bytes of scales and sums of a group
	sumsOf  int // bytes of scales
	ldd     int // bytes
	low     uint32
}

// tileLen is how many bytes a tile register has.
const tileLen = tileRowsAMX * tileBytes

// groupsAMX multiplies up to manyRows rows of activations, whose codes lie in one piece, with panels.
func groupsAMX(t *groupTile) {
	var memory [2*tileLen + tileBytes]byte
	c := groupsCall{w: unsafe.Pointer(unsafe.SliceData(t.w)), x: unsafe.Pointer(unsafe.SliceData(t.x)),
		dst: unsafe.Pointer(unsafe.SliceData(t.dst)), sums: unsafe.Pointer(unsafe.SliceData(t.sums))}
	start := unsafe.Pointer(&memory)
	c.scratch = unsafe.Add(start, -uintptr(start)%tileBytes) // a row of a tile in one line of the cache
	c.arrange(t)
	if t.bits == 4 {
		groups4AMX(&c)
	} else {
		groups8AMX(&c)
	}
}

// arrange says what a tile is made of and describes the registers: sums; a left and a right factor of 64 codes; and those of the rest.
func (c *groupsCall) arrange(t *groupTile) {
	c.rows, c.groups, c.panels, c.ldd = t.rows, t.groups, t.panels, 4*t.ldd
	c.size = t.words * 32 / t.bits
	c.whole, c.rest, c.others = c.size/tileBytes, c.size%tileBytes, c.size*(t.rows-1)
	c.sumsOf, c.head, c.low = 4*t.rows, 8*t.rows, 0x0f0f0f0f
	configureTiles(&c.config, [][2]int{{t.rows, tileBytes}, {t.rows, tileBytes}, {tileGroups, tileBytes}, {t.rows, c.rest},
		{c.rest / 4, tileBytes}})
}

// manyAMX is a row of products of groups that multiplies many rows of activations in tiles, and few as row few does. Until it is proved
// it is not selected.
func manyAMX(few Row) Row {
	few.Name, few.ISA, few.many = few.Op.String()+"-amx-16x16", "amx", groupsAMX
	vectors := few.runs
	few.runs = func(f cpu.Features) bool { return f.AMX && vectors(f) }
	few.sound = soundGroupsAMX
	return few
}

// soundGroupsAMX is soundAMX for products of groups.
func soundGroupsAMX() bool {
	return proofOfGroups.holds(func() bool {
		for _, row := range vectorGroupsRows() {
			for _, shape := range [][4]int{{8, 16, 64, 32}, {16, 48, 384, 64}, {37, 33, 272, 136}, {15, 20, 48, 24}} {
				if row.many != nil && !soundGroups(row, shape) {
					return false
				}
			}
		}
		return true
	})
}

// soundGroups compares a product with the definition: of so many rows of activations, of rows and columns of a matrix, and of a group.
func soundGroups(row Row, shape [4]int) bool {
	m := GroupMatrix{Rows: shape[1], Cols: shape[2], Size: shape[3], Bits: 8}
	if row.Op == OpGroups4 {
		m.Bits = 4
	}
	next := extremes(uint32(shape[0]*m.Rows*m.Cols + m.Size))
	m.Read = func(codes []int8, scales []float32, _ int) {
		for i := range codes {
			codes[i] = int8(next()^0x80) >> (8 - m.Bits)
		}
		for i := range scales {
			scales[i] = float32(next()) / 64
		}
	}
	x := make([]float32, shape[0]*m.Cols)
	for i := range x {
		x[i] = float32(next()) - 128
	}
	plain := Select(cpu.Features{})
	var dst [2][]float32
	for i, table := range []*Table{plain, plain.With(row)} {
		next = extremes(uint32(m.Size))
		g, err := table.PackGroups(nil, m)
		if err != nil {
			return false
		}
		var rows GroupRows
		g.Prepare(&rows, nil, x, shape[0])
		dst[i] = make([]float32, shape[0]*m.Rows)
		table.MulGroups(nil, &rows, []GroupsProduct{{Matrix: g, Dst: dst[i]}})
	}
	return slices.Equal(dst[0], dst[1])
}
