package tflite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// reader walks tables of a FlatBuffers file and checks every offset. It keeps the first error; what is read after it is zero.
type reader struct {
	b   []byte
	err error
	// left bounds what is copied out of the file in elements: tables may be shared, so that a small file can describe a huge one.
	left int
}

var errEnds = errors.New("an offset leads out of the file: it is truncated or damaged")

// view is a table in the file; the zero view is an absent one, whose fields are all absent.
type view struct {
	r             *reader
	pos, size     int
	vtable, slots int
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) in(pos, n int) bool {
	if r.err != nil {
		return false
	}
	if pos < 0 || n < 0 || pos > len(r.b)-n {
		r.fail(errEnds)
		return false
	}
	return true
}

func (r *reader) spend(n int) bool {
	if r.err != nil {
		return false
	}
	if r.left -= n; r.left < 0 {
		r.fail(fmt.Errorf("describes much more than its %d bytes hold", len(r.b)))
		return false
	}
	return true
}

func (r *reader) u32(pos int) int {
	if !r.in(pos, 4) {
		return 0
	}
	return int(binary.LittleEndian.Uint32(r.b[pos:]))
}

func (r *reader) u16(pos int) int {
	if !r.in(pos, 2) {
		return 0
	}
	return int(binary.LittleEndian.Uint16(r.b[pos:]))
}

func (r *reader) table(pos int) view {
	vtable := pos - int(int32(r.u32(pos)))
	n, size := r.u16(vtable), r.u16(vtable+2)
	if !r.in(vtable, n) || !r.in(pos, size) || !r.spend(1) {
		return view{r: r}
	}
	if n < 4 || n%2 != 0 {
		r.fail(errors.New("a table of fields has no size"))
		return view{r: r}
	}
	return view{r: r, pos: pos, size: size, vtable: vtable, slots: n/2 - 2}
}

// at is the place of a field of n bytes, -1: it is absent.
func (v view) at(slot, n int) int {
	if slot >= v.slots || v.r.err != nil {
		return -1
	}
	off := v.r.u16(v.vtable + 4 + 2*slot)
	if off == 0 {
		return -1
	}
	if off+n > v.size {
		v.r.fail(errEnds)
		return -1
	}
	return v.pos + off
}

// number is an integer field of 1, 2, 4 or 8 bytes.
func (v view) number(slot, size int, signed bool, def int) int {
	p := v.at(slot, size)
	if p < 0 {
		return def
	}
	return number(v.r.b[p:], size, signed)
}

func number(b []byte, size int, signed bool) int {
	var x uint64
	for i := range size {
		x |= uint64(b[i]) << (8 * i)
	}
	if free := 64 - 8*size; signed {
		return int(int64(x<<free) >> free)
	}
	return int(x)
}

func (v view) i32(slot, def int) int { return v.number(slot, 4, true, def) }
func (v view) byte(slot int) int     { return v.number(slot, 1, false, 0) }
func (v view) float(slot int) float32 {
	return math.Float32frombits(uint32(v.number(slot, 4, false, 0)))
}

// ref follows a field that is an offset; -1: it is absent.
func (v view) ref(slot int) int {
	p := v.at(slot, 4)
	if p < 0 {
		return -1
	}
	return p + v.r.u32(p)
}

func (v view) child(slot int) (view, bool) {
	p := v.ref(slot)
	if p < 0 {
		return view{r: v.r}, false
	}
	return v.r.table(p), true
}

// list is the place and the length of a vector's elements; -1: it is absent.
func (v view) list(slot, size int) (at, n int) {
	p := v.ref(slot)
	if p < 0 {
		return -1, 0
	}
	n = v.r.u32(p)
	if n > len(v.r.b)/size || !v.r.in(p+4, n*size) {
		v.r.fail(errEnds)
		return -1, 0
	}
	return p + 4, n
}

// bytes is a vector of bytes, not copied; nil: it is absent.
func (v view) bytes(slot int) []byte {
	at, n := v.list(slot, 1)
	if at < 0 || v.r.err != nil {
		return nil
	}
	return v.r.b[at : at+n : at+n]
}

func (v view) text(slot int) string {
	b := v.bytes(slot)
	if !v.r.spend(len(b) / 8) {
		return ""
	}
	return string(b)
}

// ints is a vector of integers; nil: it is absent.
func (v view) ints(slot, size int, signed bool) []int {
	at, n := v.list(slot, size)
	if at < 0 || !v.r.spend(n) {
		return nil
	}
	s := make([]int, n)
	for i := range s {
		s[i] = number(v.r.b[at+i*size:], size, signed)
	}
	return s
}

func (v view) floats(slot int) []float32 {
	at, n := v.list(slot, 4)
	if at < 0 || !v.r.spend(n) {
		return nil
	}
	s := make([]float32, n)
	for i := range s {
		s[i] = math.Float32frombits(uint32(number(v.r.b[at+4*i:], 4, false)))
	}
	return s
}

// views are the tables of a vector of tables.
func (v view) views(slot int) []view {
	at, n := v.list(slot, 4)
	if at < 0 || !v.r.spend(n) {
		return nil
	}
	s := make([]view, n)
	for i := range s {
		p := at + 4*i
		s[i] = v.r.table(p + v.r.u32(p))
		if v.r.err != nil {
			return nil
		}
	}
	return s
}
