package checkpoint

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// GGUF, version 3 (docs/gguf.md of github.com/ggml-org/ggml): metadata, a list of tensors, and behind padding their data.
const (
	ggufMagic     = "GGUF"
	ggufVersion   = 3
	ggufAlignment = 32      // unless general.alignment says otherwise
	ggufNesting   = 4       // of arrays in arrays
	ggufMaxName   = 1 << 16 // bytes
)

// Types of metadata.
const (
	ggufUint8 = iota
	ggufInt8
	ggufUint16
	ggufInt16
	ggufUint32
	ggufInt32
	ggufFloat32
	ggufBool
	ggufString
	ggufArray
	ggufUint64
	ggufInt64
	ggufFloat64
)

// ggufTensor is an entry of the list of tensors.
type ggufTensor struct {
	name   string
	dims   []int // as the file has them: the first varies fastest
	kind   uint32
	offset uint64 // from the beginning of the data
	data   []byte
}

// ggufReader reads numbers and strings from the front of what is left. The first error stays, and everything is zero after it.
type ggufReader struct {
	rest []byte
	size int
	err  error
}

func (r *ggufReader) at() int { return r.size - len(r.rest) }

func (r *ggufReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("byte %d: %w", r.at(), fmt.Errorf(format, args...))
	}
}

// take returns n bytes, nil after an error.
func (r *ggufReader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.rest)) {
		r.fail("%d bytes are asked for, the file has %d more", n, len(r.rest))
	}
	if r.err != nil {
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *ggufReader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *ggufReader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *ggufReader) str() string { return string(r.take(r.u64())) }

func (r *ggufReader) name() string {
	n := r.u64()
	if n > ggufMaxName {
		r.fail("a name of %d bytes", n)
	}
	return string(r.take(n))
}

// value reads one value of a type.
func (r *ggufReader) value(kind uint32, depth int) any {
	switch kind {
	case ggufString:
		return r.str()
	case ggufArray:
		return r.array(r.u32(), r.u64(), depth+1)
	}
	switch s := r.array(kind, 1, depth).(type) {
	case []uint8:
		return first(s)
	case []int8:
		return first(s)
	case []uint16:
		return first(s)
	case []int16:
		return first(s)
	case []uint32:
		return first(s)
	case []int32:
		return first(s)
	case []uint64:
		return first(s)
	case []int64:
		return first(s)
	case []float32:
		return first(s)
	case []float64:
		return first(s)
	case []bool:
		return first(s)
	}
	return nil
}

// first returns the element of a slice of one, nothing where it could not be read.
func first[T any](s []T) any {
	if len(s) == 0 {
		return nil
	}
	return s[0]
}

// array reads n values of a type. Memory is asked for after it is known that the bytes are there.
func (r *ggufReader) array(kind uint32, n uint64, depth int) any {
	if depth > ggufNesting {
		r.fail("arrays are nested more than %d deep", ggufNesting)
		return nil
	}
	switch kind {
	case ggufUint8:
		return slices.Clone(r.take(n))
	case ggufInt8:
		return numbers[int8](r, n)
	case ggufUint16:
		return numbers[uint16](r, n)
	case ggufInt16:
		return numbers[int16](r, n)
	case ggufUint32:
		return numbers[uint32](r, n)
	case ggufInt32:
		return numbers[int32](r, n)
	case ggufFloat32:
		return numbers[float32](r, n)
	case ggufUint64:
		return numbers[uint64](r, n)
	case ggufInt64:
		return numbers[int64](r, n)
	case ggufFloat64:
		return numbers[float64](r, n)
	case ggufBool:
		return r.bools(n)
	case ggufString:
		return many(r, n, 8, r.str)
	case ggufArray:
		return many(r, n, 12, func() any { return r.value(ggufArray, depth) })
	}
	r.fail("metadata of the unknown type %d", kind)
	return nil
}

func numbers[T int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64](r *ggufReader, n uint64) []T {
	var zero T
	size := uint64(binary.Size(zero))
	if n > math.MaxInt64/size {
		r.fail("an array of %d numbers", n)
	}
	b := r.take(n * size)
	if b == nil {
		return nil
	}
	out := make([]T, n)
	if _, err := binary.Decode(b, binary.LittleEndian, out); err != nil {
		r.fail("%w", err)
	}
	return out
}

func (r *ggufReader) bools(n uint64) []bool {
	b := r.take(n)
	out := make([]bool, len(b))
	for i, v := range b {
		if v > 1 {
			r.fail("a truth value is %d", v)
		}
		out[i] = v == 1
	}
	return out
}

// many reads n values that take at least so many bytes each.
func many[T any](r *ggufReader, n, least uint64, read func() T) []T {
	if n > uint64(len(r.rest))/least {
		r.fail("an array of %d elements; the file has %d more bytes", n, len(r.rest))
		return nil
	}
	out := make([]T, 0, n)
	for range n {
		out = append(out, read())
		if r.err != nil {
			return nil
		}
	}
	return out
}

// parseGGUF reads metadata and the list of tensors, with their data.
func parseGGUF(b []byte) (map[string]any, []ggufTensor, error) {
	r := &ggufReader{rest: b, size: len(b)}
	r.take(uint64(len(ggufMagic)))
	if v := r.u32(); r.err == nil && v != ggufVersion {
		return nil, nil, fmt.Errorf("version %d of GGUF; version %d is read", v, ggufVersion)
	}
	tensors, pairs := r.u64(), r.u64()
	meta := map[string]any{}
	for range pairs {
		key := r.name()
		if _, twice := meta[key]; twice {
			r.fail("the key %q occurs twice", key)
		}
		if v := r.value(r.u32(), 0); r.err == nil {
			meta[key] = v
		} else {
			return nil, nil, fmt.Errorf("metadata: %q: %w", key, r.err)
		}
	}
	var list []ggufTensor
	for i := uint64(0); i < tensors && r.err == nil; i++ {
		list = append(list, r.tensor())
	}
	if r.err != nil {
		return nil, nil, fmt.Errorf("list of tensors: %w", r.err)
	}
	return meta, list, cutGGUF(meta, list, b, r.at())
}

func (r *ggufReader) tensor() ggufTensor {
	t := ggufTensor{name: r.name()}
	n := r.u32()
	if n > 4 {
		r.fail("tensor %q has %d dimensions", t.name, n)
		return t
	}
	for range n {
		d := r.u64()
		if d > math.MaxInt32 {
			r.fail("tensor %q has a dimension of %d", t.name, d)
		}
		t.dims = append(t.dims, int(d))
	}
	t.kind, t.offset = r.u32(), r.u64()
	return t
}

// cutGGUF finds the data of the tensors, which begin aligned behind the list. Data of types that are not read are left nil.
func cutGGUF(meta map[string]any, list []ggufTensor, b []byte, at int) error {
	alignment := uint64(ggufAlignment)
	if v, ok := meta["general.alignment"]; ok {
		a, ok := v.(uint32)
		if !ok || a == 0 || a&(a-1) != 0 || a > 1<<24 {
			return fmt.Errorf("general.alignment is %v", v)
		}
		alignment = uint64(a)
	}
	begin := (uint64(at) + alignment - 1) / alignment * alignment
	if len(list) == 0 {
		return errors.New("there are no tensors")
	}
	if begin > uint64(len(b)) {
		return fmt.Errorf("the file ends at byte %d, the tensors begin at %d", len(b), begin)
	}
	data := b[begin:]
	names := map[string]bool{}
	sorted := make([]*ggufTensor, 0, len(list))
	for i := range list {
		t := &list[i]
		if names[t.name] {
			return fmt.Errorf("there are two tensors %q", t.name)
		}
		names[t.name] = true
		if t.offset%alignment != 0 || t.offset > uint64(len(data)) {
			return fmt.Errorf("tensor %q begins at byte %d of %d, aligned to %d", t.name, t.offset, len(data), alignment)
		}
		kind, known := ggufTypes[t.kind]
		if !known {
			continue
		}
		size, err := ggufBytes(t, kind)
		if err != nil {
			return err
		}
		if size > uint64(len(data))-t.offset {
			return fmt.Errorf("tensor %q has %d bytes from %d on; the file has %d", t.name, size, t.offset, len(data))
		}
		t.data = data[t.offset:][:size:size]
		sorted = append(sorted, t)
	}
	slices.SortFunc(sorted, func(x, y *ggufTensor) int {
		return cmp.Or(cmp.Compare(x.offset, y.offset), cmp.Compare(len(x.data), len(y.data)), cmp.Compare(x.name, y.name))
	})
	for i := 1; i < len(sorted); i++ {
		if x, y := sorted[i-1], sorted[i]; x.offset+uint64(len(x.data)) > y.offset {
			return fmt.Errorf("tensors %q and %q overlap", x.name, y.name)
		}
	}
	return nil
}

// ggufBytes is how many bytes the data of a tensor take.
func ggufBytes(t *ggufTensor, kind Type) (uint64, error) {
	n := uint64(1)
	for _, d := range t.dims {
		if d > 0 && n > maxElement/uint64(d) {
			return 0, fmt.Errorf("tensor %q has the shape %v", t.name, t.dims)
		}
		n *= uint64(d)
	}
	if b := kind.block(); b > 1 && (len(t.dims) == 0 || t.dims[0]%b != 0) {
		return 0, fmt.Errorf("tensor %q (%s): rows of %v are no whole blocks of %d", t.name, kind, t.dims, b)
	}
	if int64(int(n)) != int64(n) || uint64(kind.bytes(int(n))) > math.MaxInt {
		return 0, fmt.Errorf("tensor %q has the shape %v", t.name, t.dims)
	}
	return uint64(kind.bytes(int(n))), nil
}

// ggufTypes are the types of tensors that are read.
var ggufTypes = map[uint32]Type{0: F32, 1: F16, 2: GGQ4, 3: GGQ41, 6: GGQ50, 7: GGQ51, 8: GGQ8, 10: Q2K, 11: Q3K, 12: Q4K, 13: Q5K, 14: Q6K,
	20: IQ4NL, 23: IQ4XS, 30: BF16, 39: MXFP4, 40: NVFP4}

// ggufNamesOfTypes name those that are not, for messages.
var ggufNamesOfTypes = map[uint32]string{9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S",
	22: "IQ2_S", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0"}
