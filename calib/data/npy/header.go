package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"qwb/graph/tensor"
)

const (
	magic     = "\x93NUMPY"
	maxHeader = 1 << 16          // bytes of the dictionary; NumPy itself refuses more than 10,000
	maxRank   = 64               // NumPy's own limit
	maxCount  = math.MaxInt / 16 // elements: products stay far from overflow
)

// Header describes an array in a file.
type Header struct {
	DType     tensor.DType
	Shape     []int
	Fortran   bool // the first axis varies fastest
	BigEndian bool
	Offset    int64 // of the first element, in bytes from the magic
}

// Count returns the number of elements.
func (h Header) Count() int { return tensor.Count(h.Shape) }

// Bytes returns the size of the elements in the file.
func (h Header) Bytes() int64 { return int64(h.Count()) * int64(h.DType.Bits()/8) }

// kinds are the element types by NumPy's type code without byte order.
var kinds = []struct {
	code  string
	dtype tensor.DType
}{
	{"b1", tensor.Bool}, {"i1", tensor.Int8}, {"i2", tensor.Int16}, {"i4", tensor.Int32}, {"i8", tensor.Int64},
	{"u1", tensor.Uint8}, {"u2", tensor.Uint16}, {"u4", tensor.Uint32}, {"u8", tensor.Uint64},
	{"f2", tensor.Float16}, {"f4", tensor.Float32}, {"f8", tensor.Float64},
}

// ReadHeader reads the header at the start of r and nothing behind it.
func ReadHeader(r io.Reader) (Header, error) {
	var pre [12]byte
	if _, err := io.ReadFull(r, pre[:10]); err != nil {
		return Header{}, fmt.Errorf("npy: no header: %w", noEOF(err))
	}
	if string(pre[:6]) != magic {
		return Header{}, errors.New("npy: not a NumPy array file")
	}
	n, at := int(binary.LittleEndian.Uint16(pre[8:])), 10
	switch pre[6] {
	case 1:
	case 2, 3:
		if _, err := io.ReadFull(r, pre[10:12]); err != nil {
			return Header{}, fmt.Errorf("npy: no header: %w", noEOF(err))
		}
		at = 12
		long := binary.LittleEndian.Uint32(pre[8:])
		n = int(min(long, maxHeader+1))
	default:
		return Header{}, fmt.Errorf("npy: unknown format version %d.%d", pre[6], pre[7])
	}
	if n > maxHeader {
		return Header{}, fmt.Errorf("npy: a header of more than %d bytes", maxHeader)
	}
	dict := make([]byte, n)
	if _, err := io.ReadFull(r, dict); err != nil {
		return Header{}, fmt.Errorf("npy: no header: %w", noEOF(err))
	}
	h, err := parseDict(string(dict))
	if err != nil {
		return Header{}, fmt.Errorf("npy: header %q: %w", strings.TrimSpace(string(dict[:min(n, 120)])), err)
	}
	h.Offset = int64(at + n)
	return h, nil
}

// noEOF makes a file that ends too early an unexpected end.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseDict reads the Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } with keys in any order.
func parseDict(s string) (Header, error) {
	var h Header
	seen := map[string]bool{}
	p := parser{s: s}
	p.expect('{')
	for p.err == nil && !p.accept('}') {
		key := p.quoted()
		p.expect(':')
		switch key {
		case "descr":
			h.DType, h.BigEndian = p.descr()
		case "fortran_order":
			h.Fortran = p.boolean()
		case "shape":
			h.Shape = p.shape()
		default:
			p.fail("unknown key %q", key)
		}
		if seen[key] {
			p.fail("key %q twice", key)
		}
		seen[key] = true
		if !p.accept(',') {
			p.expect('}')
			break
		}
	}
	if p.err == nil && len(seen) != 3 {
		p.fail("needs descr, fortran_order and shape")
	}
	if p.err == nil && strings.TrimSpace(p.s) != "" {
		p.fail("%q after the dictionary", strings.TrimSpace(p.s))
	}
	return h, p.err
}

// parser consumes s from the left and keeps the first error.
type parser struct {
	s   string
	err error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *parser) accept(c byte) bool {
	p.s = strings.TrimLeft(p.s, " \t\r\n")
	if p.err != nil || p.s == "" || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

func (p *parser) expect(c byte) {
	if !p.accept(c) {
		p.fail("expected %q", c)
	}
}

func (p *parser) quoted() string {
	quote := byte('\'')
	if p.accept('"') {
		quote = '"'
	} else {
		p.expect('\'')
	}
	end := strings.IndexByte(p.s, quote)
	if end < 0 {
		p.fail("a string without end")
	}
	if p.err != nil {
		return ""
	}
	q := p.s[:end]
	p.s = p.s[end+1:]
	return q
}

func (p *parser) descr() (tensor.DType, bool) {
	if p.accept('[') {
		p.fail("structured arrays are not supported")
	}
	d := p.quoted()
	if p.err != nil {
		return 0, false
	}
	code, big := strings.TrimLeft(d, "<>|="), strings.HasPrefix(d, ">")
	for _, k := range kinds {
		if k.code == code && len(d)-len(code) <= 1 {
			return k.dtype, big
		}
	}
	p.fail("element type %q is not supported", d)
	return 0, false
}

func (p *parser) boolean() bool {
	p.s = strings.TrimLeft(p.s, " \t\r\n")
	if rest, ok := strings.CutPrefix(p.s, "True"); ok {
		p.s = rest
		return true
	}
	if rest, ok := strings.CutPrefix(p.s, "False"); ok {
		p.s = rest
		return false
	}
	p.fail("fortran_order is neither True nor False")
	return false
}

func (p *parser) shape() []int {
	dims := []int64{}
	p.expect('(')
	for p.err == nil && !p.accept(')') {
		p.s = strings.TrimLeft(p.s, " \t\r\n")
		end := strings.IndexFunc(p.s, func(r rune) bool { return r < '0' || r > '9' })
		n, err := strconv.ParseInt(p.s[:max(end, 0)], 10, 64)
		if err != nil || len(dims) == maxRank {
			p.fail("bad shape")
			break
		}
		dims, p.s = append(dims, n), strings.TrimPrefix(p.s[end:], "L") // Python 2 wrote 3L
		if !p.accept(',') {
			p.expect(')')
			break
		}
	}
	if p.err != nil {
		return nil
	}
	if _, err := tensor.CheckedCount(dims, maxCount); err != nil {
		p.fail("%w", err)
	}
	shape := make([]int, len(dims))
	for i, d := range dims {
		shape[i] = int(d)
	}
	return shape
}
