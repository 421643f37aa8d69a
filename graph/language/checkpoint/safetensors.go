package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/internal/arrange"
)

// Safetensors is the content of a safetensors file (github.com/huggingface/safetensors): named arrays in the order of their bytes.
type Safetensors struct {
	Arrays   []SafeArray
	Metadata map[string]string
}

// SafeArray is one array of a safetensors file: row-major, little-endian.
type SafeArray struct {
	Name  string
	DType string // as the file writes it: "F32", "BF16", "I64", ...
	Shape []int
	Data  []byte // a part of the file
	// Floats, if not nil, take the place of Data in an F32 array that is to be written: they need not be in memory as bytes too.
	Floats []float32

	codes  string                // what the file calls it, where Name is that of the matrix of floats that it stands for
	beside map[string]*SafeArray // what else it takes for that, by the ends of names
}

// maxSafeHeader is the longest header that the format allows.
const maxSafeHeader = 100_000_000

// safeBits are the bits per element.
var safeBits = map[string]int{
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
	"I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}

// ParseSafetensors reads the header of a safetensors file whose bytes are b; the arrays are parts of b. The header must be whole, no
// name may occur twice, and the arrays must cover what follows the header without overlaps and holes, each as many
// bytes as its type and shape say.
func ParseSafetensors(b []byte) (*Safetensors, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("safetensors: %d bytes are no file", len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	switch rest := uint64(len(b) - 8); {
	case n > maxSafeHeader:
		return nil, fmt.Errorf("safetensors: a header of %d bytes; the format allows %d", n, maxSafeHeader)
	case n > rest:
		return nil, fmt.Errorf("safetensors: the header of %d bytes is cut off after %d", n, rest)
	case n == 0 || b[8] != '{':
		return nil, errors.New("safetensors: the header does not begin with {")
	}
	s, data := &Safetensors{}, b[8+n:]
	var spans []safeSpan
	err := eachMember(b[8:8+n], func(name string, value json.RawMessage) error {
		if name == "__metadata__" {
			return json.Unmarshal(value, &s.Metadata)
		}
		a, err := parseSpan(name, value, len(data))
		spans = append(spans, a)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("safetensors: header: %w", err)
	}
	if s.Arrays, err = cutSpans(spans, data); err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return s, nil
}

// safeSpan is an array and where it lies.
type safeSpan struct {
	SafeArray
	begin, end int
}

func parseSpan(name string, value []byte, size int) (safeSpan, error) {
	var e struct {
		DType   string   `json:"dtype"`
		Shape   []uint64 `json:"shape"`
		Offsets []uint64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return safeSpan{}, fmt.Errorf("tensor %q: %w", name, err)
	}
	bits, ok := safeBits[e.DType]
	if !ok {
		return safeSpan{}, fmt.Errorf("tensor %q has the unknown type %q", name, e.DType)
	}
	if len(e.Offsets) != 2 || e.Offsets[0] > e.Offsets[1] || e.Offsets[1] > uint64(size) {
		return safeSpan{}, fmt.Errorf("tensor %q lies at %d; %d bytes follow the header", name, e.Offsets, size)
	}
	s := safeSpan{SafeArray{Name: name, DType: e.DType, Shape: make([]int, len(e.Shape))}, int(e.Offsets[0]), int(e.Offsets[1])}
	elements, empty := uint64(1), slices.Contains(e.Shape, 0)
	for i, d := range e.Shape {
		if d > math.MaxInt32 || !empty && elements > math.MaxInt64/8/64/max(d, 1) {
			return s, fmt.Errorf("tensor %q has the shape %d", name, e.Shape)
		}
		s.Shape[i] = int(d)
		elements *= d
	}
	if want := elements * uint64(bits); want%8 != 0 || want/8 != uint64(s.end-s.begin) {
		return s, fmt.Errorf("tensor %q (%s %d) has %d bytes, its type and shape take %d", name, e.DType, e.Shape, s.end-s.begin, (want+7)/8)
	}
	return s, nil
}

// cutSpans cuts data into the arrays, which must cover it.
func cutSpans(spans []safeSpan, data []byte) ([]SafeArray, error) {
	arrange.Stable(spans, func(a, b safeSpan) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.Name, b.Name))
	})
	out := make([]SafeArray, len(spans))
	at := 0
	for i, s := range spans {
		switch {
		case s.begin < at:
			return nil, fmt.Errorf("tensors %q and %q overlap: one ends at byte %d, the other begins at %d", spans[i-1].Name, s.Name, at, s.begin)
		case s.begin > at:
			return nil, fmt.Errorf("bytes %d to %d in front of tensor %q belong to no tensor", at, s.begin, s.Name)
		}
		at = s.end
		out[i] = s.SafeArray
		out[i].Data = data[s.begin:s.end:s.end]
	}
	if at != len(data) {
		return nil, fmt.Errorf("%d bytes follow the last tensor", len(data)-at)
	}
	return out, nil
}

// eachMember calls do with every member of a JSON object in its order. A name that occurs twice is an error.
func eachMember(b []byte, do func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return cmp.Or(err, errors.New("not a JSON object"))
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		if seen[name] {
			return fmt.Errorf("the name %q occurs twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		if err := do(name, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if rest := bytes.TrimSpace(b[d.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("%d bytes follow the object", len(rest))
	}
	return nil
}
