package onnx

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// cursor walks over the fields of one protobuf message. The zero value of everything but rest is right at the start.
type cursor struct {
	rest []byte // what was not read yet
	pos  int    // bytes read so far
	f    field
	err  error
}

// field is one field of a message.
type field struct {
	num  protowire.Number
	typ  protowire.Type
	raw  []byte // tag and value as they stand in the file
	data []byte // BytesType: the content
	u    uint64 // VarintType, Fixed32Type, Fixed64Type: the value
}

// next reads the next field into c.f. It returns false at the end of the message and at the first error, which is in c.err.
func (c *cursor) next() bool {
	if len(c.rest) == 0 || c.err != nil {
		return false
	}
	num, typ, n := protowire.ConsumeTag(c.rest)
	if n < 0 {
		return c.fail("a tag", n)
	}
	f := field{num: num, typ: typ}
	m := 0
	body := c.rest[n:]
	switch typ {
	case protowire.VarintType:
		f.u, m = protowire.ConsumeVarint(body)
	case protowire.Fixed32Type:
		var v uint32
		v, m = protowire.ConsumeFixed32(body)
		f.u = uint64(v)
	case protowire.Fixed64Type:
		f.u, m = protowire.ConsumeFixed64(body)
	case protowire.BytesType:
		f.data, m = protowire.ConsumeBytes(body)
	default: // groups: nested to a limited depth, refused where unbalanced
		m = protowire.ConsumeFieldValue(num, typ, body)
	}
	if m < 0 {
		return c.fail(fmt.Sprintf("field %d", num), m)
	}
	f.raw = c.rest[: n+m : n+m]
	c.rest = c.rest[n+m:]
	c.pos += n + m
	c.f = f
	return true
}

func (c *cursor) fail(what string, code int) bool {
	err := protowire.ParseError(code)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("cut off in the middle (truncated)")
	}
	c.err = fmt.Errorf("byte %d: %s: %w", c.pos, what, err)
	return false
}

// want reports whether the field has the wire type that its number calls for, and records an error if not.
func (c *cursor) want(t protowire.Type) bool {
	if c.f.typ != t {
		c.err = fmt.Errorf("byte %d: field %d has wire type %d instead of %d", c.pos-len(c.f.raw), c.f.num, c.f.typ, t)
		return false
	}
	return true
}

// str stores a bytes field as a string.
func (c *cursor) str(dst *string) {
	if c.want(protowire.BytesType) {
		*dst = string(c.f.data)
	}
}

// bytes stores the content of a bytes field without copying it.
func (c *cursor) bytes(dst *[]byte) {
	if c.want(protowire.BytesType) {
		*dst = c.f.data[:len(c.f.data):len(c.f.data)]
	}
}

// int stores a varint field as a signed integer.
func (c *cursor) int(dst *int64) {
	if c.want(protowire.VarintType) {
		*dst = int64(c.f.u)
	}
}

// ints appends a repeated integer field, packed or not.
func (c *cursor) ints(dst *[]int64) {
	switch c.f.typ {
	case protowire.VarintType:
		*dst = append(*dst, int64(c.f.u))
	case protowire.BytesType:
		for b := c.f.data; len(b) > 0 && c.err == nil; {
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				c.fail(fmt.Sprintf("field %d", c.f.num), n)
				return
			}
			*dst = append(*dst, int64(v))
			b = b[n:]
		}
	default:
		c.want(protowire.VarintType)
	}
}
