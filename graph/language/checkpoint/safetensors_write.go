package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// Write writes the arrays as a safetensors file: the length of the header, the header (metadata first, keys in order, then the arrays in
// their order), padded with spaces to a multiple of 8 bytes, and the bytes of the arrays one after the other. Equal contents are equal
// bytes. Names must differ and every array must have as many bytes as its type and shape say.
func (s *Safetensors) Write(w io.Writer) error {
	for _, a := range s.Arrays {
		if has := len(a.Data) + 4*len(a.Floats); a.Size() != has {
			return fmt.Errorf("safetensors: tensor %q (%s %d) has %d bytes", a.Name, a.DType, a.Shape, has)
		}
	}
	h, err := s.Header()
	if err != nil {
		return err
	}
	if _, err := w.Write(h); err != nil {
		return err
	}
	for _, a := range s.Arrays {
		if _, err := w.Write(a.Data); err != nil {
			return err
		}
		var b []byte
		for part := range slices.Chunk(a.Floats, 16<<10) {
			b = b[:0]
			for _, x := range part {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// Header is what stands in front of the bytes of the arrays, which it does not need.
func (s *Safetensors) Header() ([]byte, error) {
	var h bytes.Buffer
	h.Write(make([]byte, 8))
	h.WriteByte('{')
	put := func(name string, v any) error {
		if h.Len() > 9 {
			h.WriteByte(',')
		}
		for i, x := range []any{name, v} {
			b, err := json.Marshal(x)
			if err != nil {
				return fmt.Errorf("safetensors: %q: %w", name, err)
			}
			if h.Write(b); i == 0 {
				h.WriteByte(':')
			}
		}
		return nil
	}
	if len(s.Metadata) > 0 {
		if err := put("__metadata__", s.Metadata); err != nil {
			return nil, err
		}
	}
	at, seen := 0, map[string]bool{"__metadata__": true}
	for _, a := range s.Arrays {
		switch _, known := safeBits[a.DType]; {
		case seen[a.Name]:
			return nil, fmt.Errorf("safetensors: the name %q occurs twice", a.Name)
		case !known:
			return nil, fmt.Errorf("safetensors: tensor %q has the unknown type %q", a.Name, a.DType)
		}
		seen[a.Name] = true
		shape := append([]int{}, a.Shape...)
		if err := put(a.Name, struct {
			DType   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}{a.DType, shape, [2]int{at, at + a.Size()}}); err != nil {
			return nil, err
		}
		at += a.Size()
	}
	h.WriteByte('}')
	for h.Len()%8 != 0 {
		h.WriteByte(' ')
	}
	binary.LittleEndian.PutUint64(h.Bytes(), uint64(h.Len()-8))
	return h.Bytes(), nil
}
