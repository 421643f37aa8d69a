package onnx

import (
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// rope is a message under construction: a list of pieces, of which large ones are references to memory that stays as it
// is until the rope was written. Building a model of gigabytes copies none of its tensors.
type rope struct {
	parts [][]byte
	tail  []byte // small fields since the last part
	size  int64
}

// shareFrom is the size from which bytes are referred to instead of copied.
const shareFrom = 4096

func (r *rope) add(b []byte) {
	r.size += int64(len(b))
	if len(b) < shareFrom {
		r.tail = append(r.tail, b...)
		return
	}
	r.flush()
	r.parts = append(r.parts, b)
}

func (r *rope) flush() {
	if len(r.tail) > 0 {
		r.parts = append(r.parts, r.tail)
		r.tail = nil
	}
}

func (r *rope) varint(num protowire.Number, v uint64) {
	r.add(protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), v))
}

func (r *rope) fixed32(num protowire.Number, v uint32) {
	r.add(protowire.AppendFixed32(protowire.AppendTag(nil, num, protowire.Fixed32Type), v))
}

func (r *rope) str(num protowire.Number, s string) {
	r.bytes(num, []byte(s))
}

func (r *rope) bytes(num protowire.Number, b []byte) {
	r.head(num, int64(len(b)))
	r.add(b)
}

func (r *rope) head(num protowire.Number, size int64) {
	r.add(protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.BytesType), uint64(size)))
}

// message adds m as a field. m must not be changed afterwards.
func (r *rope) message(num protowire.Number, m *rope) {
	r.head(num, m.size)
	m.flush()
	for _, p := range m.parts {
		r.add(p)
	}
}

// WriteTo writes all pieces.
func (r *rope) WriteTo(w io.Writer) (int64, error) {
	r.flush()
	var n int64
	for _, p := range r.parts {
		k, err := w.Write(p)
		n += int64(k)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// flat returns all pieces as one slice.
func (r *rope) flat() []byte {
	r.flush()
	b := make([]byte, 0, r.size)
	for _, p := range r.parts {
		b = append(b, p...)
	}
	return b
}
