// Package flatbuffer reads files in the wire format of FlatBuffers without knowing their schema. Stability: Unstable.
package flatbuffer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Reader walks the tables of a file and checks every offset. It keeps the first error; what is read after it is zero.
type Reader struct {
	b     []byte
	err   error
	left  int
	loose bool
}

// New reads b, which must not change while what was read of it is in use. It copies out at most about left elements: tables may be shared,
// so that a small file can describe a huge one.
func New(b []byte, left int) *Reader { return &Reader{b: b, left: left} }

// Root is the table that the file begins with.
func (r *Reader) Root() View { return r.table(r.u32(0)) }

// Err is the first error.
func (r *Reader) Err() error { return r.err }

// Loose reports whether a number that was read lies at no multiple of its size, or a text has no zero behind it: FlatBuffers' own verifier
// refuses such a file, which this package reads.
func (r *Reader) Loose() bool { return r.loose }

var errEnds = errors.New("an offset leads out of the file: it is truncated or damaged")

// View is a table in the file. Fields are named by their slots, the numbers that the schema gives them. Of an absent table all are absent.
type View struct {
	r             *Reader
	pos, size     int
	vtable, slots int
}

// Fail makes err the error of what is read, where there is none yet.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Slice is n bytes of the file from pos on, not copied; nil after an error.
func (r *Reader) Slice(pos, n int) []byte {
	if !r.in(pos, n) {
		return nil
	}
	return r.b[pos : pos+n : pos+n]
}

func (r *Reader) in(pos, n int) bool {
	if r.err != nil {
		return false
	}
	if pos < 0 || n < 0 || pos > len(r.b)-n {
		r.Fail(errEnds)
		return false
	}
	return true
}

// Spend counts n elements that are copied, and reports whether so many are left.
func (r *Reader) Spend(n int) bool {
	if r.err != nil {
		return false
	}
	if r.left -= n; r.left < 0 {
		r.Fail(fmt.Errorf("describes much more than its %d bytes hold", len(r.b)))
		return false
	}
	return true
}

func (r *Reader) u32(pos int) int {
	if !r.in(pos, 4) {
		return 0
	}
	r.loose = r.loose || pos%4 != 0
	return int(binary.LittleEndian.Uint32(r.b[pos:]))
}

func (r *Reader) u16(pos int) int {
	if !r.in(pos, 2) {
		return 0
	}
	r.loose = r.loose || pos%2 != 0
	return int(binary.LittleEndian.Uint16(r.b[pos:]))
}

func (r *Reader) table(pos int) View {
	vtable := pos - int(int32(r.u32(pos)))
	n, size := r.u16(vtable), r.u16(vtable+2)
	if !r.in(vtable, n) || !r.in(pos, size) || !r.Spend(1) {
		return View{r: r}
	}
	if n < 4 || n%2 != 0 {
		r.Fail(errors.New("a table of fields has no size"))
		return View{r: r}
	}
	return View{r: r, pos: pos, size: size, vtable: vtable, slots: n/2 - 2}
}

// at is the place of a field of n bytes, -1: it is absent.
func (v View) at(slot, n int) int {
	if slot >= v.slots || v.r.err != nil {
		return -1
	}
	off := v.r.u16(v.vtable + 4 + 2*slot)
	if off == 0 {
		return -1
	}
	if off+n > v.size {
		v.r.Fail(errEnds)
		return -1
	}
	v.r.loose = v.r.loose || (v.pos+off)%n != 0
	return v.pos + off
}

// Number is an integer field of 1, 2, 4 or 8 bytes, def where it is absent.
func (v View) Number(slot, size int, signed bool, def int) int {
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

// I32 is an int32 field.
func (v View) I32(slot, def int) int { return v.Number(slot, 4, true, def) }

// Byte is a uint8 field, 0 where it is absent.
func (v View) Byte(slot int) int { return v.Number(slot, 1, false, 0) }

// Float is a float32 field, 0 where it is absent.
func (v View) Float(slot int) float32 {
	return math.Float32frombits(uint32(v.Number(slot, 4, false, 0)))
}

// ref follows a field that is an offset; -1: it is absent.
func (v View) ref(slot int) int {
	p := v.at(slot, 4)
	if p < 0 {
		return -1
	}
	return p + v.r.u32(p)
}

// Child is a field that is a table.
func (v View) Child(slot int) View {
	p := v.ref(slot)
	if p < 0 {
		return View{r: v.r}
	}
	return v.r.table(p)
}

// Has reports whether a field that is a table or a vector is there.
func (v View) Has(slot int) bool { return v.ref(slot) >= 0 }

// list is the place of a vector's elements of size bytes, -1 where it is absent, and how many there are.
func (v View) list(slot, size int) (at, n int) {
	p := v.ref(slot)
	if p < 0 {
		return -1, 0
	}
	n = v.r.u32(p)
	if n > len(v.r.b)/size || !v.r.in(p+4, n*size) {
		v.r.Fail(errEnds)
		return -1, 0
	}
	return p + 4, n
}

// Bytes is a vector whose elements have size bytes, not copied; nil: it is absent.
func (v View) Bytes(slot, size int) []byte {
	at, n := v.list(slot, size)
	if at < 0 {
		return nil
	}
	return v.r.Slice(at, n*size)
}

// Text is a string, "" where it is absent.
func (v View) Text(slot int) string { return v.r.text(v.ref(slot)) }

func (r *Reader) text(p int) string {
	if p < 0 {
		return ""
	}
	b := r.Slice(p+4, r.u32(p))
	if end := p + 4 + len(b); r.err == nil {
		r.loose = r.loose || end >= len(r.b) || r.b[end] != 0
	}
	if !r.Spend(len(b) / 8) {
		return ""
	}
	return string(b)
}

// vector are the elements of a vector, each made of its place; nil: it is absent.
func vector[T any](v View, slot, size int, element func(pos int) T) []T {
	at, n := v.list(slot, size)
	if at < 0 || !v.r.Spend(n) {
		return nil
	}
	s := make([]T, n)
	for i := range s {
		if s[i] = element(at + i*size); v.r.err != nil {
			return nil
		}
	}
	return s
}

// Ints is a vector of integers of 1, 2, 4 or 8 bytes; nil: it is absent.
func (v View) Ints(slot, size int, signed bool) []int {
	return vector(v, slot, size, func(p int) int { return number(v.r.b[p:], size, signed) })
}

// Int64s is a vector of int64; nil: it is absent.
func (v View) Int64s(slot int) []int64 {
	return vector(v, slot, 8, func(p int) int64 { return int64(binary.LittleEndian.Uint64(v.r.b[p:])) })
}

// Floats is a vector of float32; nil: it is absent.
func (v View) Floats(slot int) []float32 {
	return vector(v, slot, 4, func(p int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(v.r.b[p:])) })
}

// Texts are the strings of a vector; nil: it is absent.
func (v View) Texts(slot int) []string {
	return vector(v, slot, 4, func(p int) string { return v.r.text(p + v.r.u32(p)) })
}

// Views are the tables of a vector; nil: it is absent.
func (v View) Views(slot int) []View {
	return vector(v, slot, 4, func(p int) View { return v.r.table(p + v.r.u32(p)) })
}
