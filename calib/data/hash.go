package data

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"reflect"
	"sort"

	"qwb/graph/tensor"
)

// Hash is the identity of a sample: SHA-256 over its feeds in canonical form. For each input, sorted by name: the name, the
// element type and the dimensions, each preceded by its length, then the elements in row-major order, all numbers little
// endian (lengths uint32, dimensions uint64).
func Hash(feeds map[string]*tensor.Tensor) [32]byte {
	names := make([]string, 0, len(feeds))
	for n := range feeds {
		names = append(names, n)
	}
	sort.Strings(names)
	h := sha256.New()
	for _, n := range names {
		t := feeds[n].ToRowMajor()
		var head []byte
		head = appendString(head, n)
		head = appendString(head, t.DType.String())
		head = binary.LittleEndian.AppendUint32(head, uint32(len(t.Shape)))
		for _, d := range t.Shape {
			head = binary.LittleEndian.AppendUint64(head, uint64(d))
		}
		h.Write(head)
		hashElements(h, t)
	}
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
}

func hashElements(h hash.Hash, t *tensor.Tensor) {
	if list, ok := t.Data.([]string); ok {
		for _, s := range list {
			h.Write(appendString(nil, s))
		}
		return
	}
	const block = 1 << 16 // elements that are copied at a time
	var b []byte
	for list, lo := reflect.ValueOf(t.Data), 0; lo < list.Len(); lo += block {
		var err error
		if b, err = binary.Append(b[:0], binary.LittleEndian, list.Slice(lo, min(lo+block, list.Len())).Interface()); err != nil {
			panic("data: " + err.Error()) // every other storage is a slice of numbers or booleans
		}
		h.Write(b)
	}
}
