package overlay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"qwb/graph/language/checkpoint"
	"qwb/graph/tensor"
)

const (
	format  = "qwb overlay"
	version = "1"
	// stepsVersion is that of files with steps, which a program that does not know them must not read without them.
	stepsVersion = "2"
)

// note is what stands in the metadata for an entry.
type note struct {
	Node  string `json:"node"`
	Input int    `json:"input"`
	Base  string `json:"base"`
	Added bool   `json:"added,omitempty"`
	For   string `json:"for"`
	// Scheme is there where scales are frozen, which follow in arrays of their own.
	Scheme string `json:"scheme,omitempty"`
}

// Names of the arrays of frozen scales, behind that of the value.
const (
	scaleArray = ".scale"
	zeroArray  = ".zero_point"
)

// Encode returns the file form, see Write.
func (o *Overlay) Encode() ([]byte, error) {
	var b bytes.Buffer
	err := o.Write(&b)
	return b.Bytes(), err
}

// Write writes the file form, a safetensors file: equal overlays are equal bytes. It takes no memory for values.
func (o *Overlay) Write(w io.Writer) error {
	s := &checkpoint.Safetensors{Metadata: map[string]string{"format": format, "version": version}}
	sorted := Overlay{Entries: slices.Clone(o.Entries)}
	sorted.sort()
	for _, e := range sorted.Entries {
		n, err := json.Marshal(note{e.Node, e.Input, e.Base, e.Added, e.For, e.Scheme})
		if err != nil {
			return err
		}
		s.Metadata["entry "+e.At()] = string(n)
		s.Arrays = append(s.Arrays, checkpoint.SafeArray{Name: e.At(), DType: "F32", Shape: e.Value.Shape,
			Floats: e.Value.ToRowMajor().F32()})
		if len(e.Scale) == 0 {
			continue
		}
		if len(e.Scale) != len(e.ZeroPoint) {
			return fmt.Errorf("overlay: %s: %d scales and %d zero points", e.At(), len(e.Scale), len(e.ZeroPoint))
		}
		var b []byte
		for _, z := range e.ZeroPoint {
			b = binary.LittleEndian.AppendUint32(b, uint32(z))
		}
		s.Arrays = append(s.Arrays, checkpoint.SafeArray{Name: e.At() + scaleArray, DType: "F32", Shape: []int{len(e.Scale)},
			Floats: e.Scale},
			checkpoint.SafeArray{Name: e.At() + zeroArray, DType: "I32", Shape: []int{len(e.Scale)}, Data: b})
	}
	if err := encodeSteps(s, o.Steps); err != nil {
		return err
	}
	return s.Write(w)
}

// Parse reads the file form. Values that are not finite are an error.
func Parse(b []byte) (*Overlay, error) {
	return ParseKept(b, func(t *tensor.Tensor) *tensor.Tensor { return t })
}

// ParseKept is Parse where keep says which tensor with the same elements a value becomes.
func ParseKept(b []byte, keep func(*tensor.Tensor) *tensor.Tensor) (*Overlay, error) {
	s, err := checkpoint.ParseSafetensors(b)
	if err != nil {
		return nil, fmt.Errorf("overlay: %w", err)
	}
	if v := s.Metadata["version"]; s.Metadata["format"] != format || v != version && v != stepsVersion {
		return nil, fmt.Errorf("overlay: the file is %q version %q, not %q version %q or %q", s.Metadata["format"], v, format,
			version, stepsVersion)
	}
	arrays := map[string]*checkpoint.SafeArray{}
	for i := range s.Arrays {
		arrays[s.Arrays[i].Name] = &s.Arrays[i]
	}
	o := &Overlay{}
	if o.Steps, err = parseSteps(s, arrays); err != nil {
		return nil, fmt.Errorf("overlay: %w", err)
	}
	for i := range s.Arrays {
		a := &s.Arrays[i]
		if _, entry := s.Metadata["entry "+a.Name]; !entry && strings.HasPrefix(a.Name, stepArray) {
			continue
		}
		if strings.HasSuffix(a.Name, scaleArray) || strings.HasSuffix(a.Name, zeroArray) {
			continue
		}
		e, err := parseEntry(a, s.Metadata["entry "+a.Name], arrays)
		if err != nil {
			return nil, fmt.Errorf("overlay: tensor %q: %w", a.Name, err)
		}
		e.Value = keep(e.Value)
		o.Entries = append(o.Entries, *e)
	}
	o.sort()
	return o, nil
}

// parseEntry reads the entry of one array. Frozen scales stand in two others.
func parseEntry(a *checkpoint.SafeArray, metadata string, arrays map[string]*checkpoint.SafeArray) (*Entry, error) {
	var n note
	if err := json.Unmarshal([]byte(metadata), &n); err != nil {
		return nil, fmt.Errorf("its entry cannot be read: %w", err)
	}
	e := &Entry{Node: n.Node, Input: n.Input, Base: n.Base, Added: n.Added, For: n.For, Scheme: n.Scheme}
	if e.At() != a.Name || n.Input < 0 || a.DType != "F32" {
		return nil, fmt.Errorf("type %s, with the entry of %q", a.DType, e.At())
	}
	x, err := finite(a)
	if err != nil {
		return nil, err
	}
	e.Value = tensor.FromF32(x, a.Shape...)
	if e.Scheme == "" {
		return e, nil
	}
	scale, zero := arrays[a.Name+scaleArray], arrays[a.Name+zeroArray]
	if scale == nil || zero == nil || scale.DType != "F32" || zero.DType != "I32" || len(scale.Data) != len(zero.Data) ||
		len(scale.Data) == 0 {
		return nil, errors.New("its scales are not there")
	}
	if e.Scale, err = finite(scale); err != nil {
		return nil, fmt.Errorf("scales: %w", err)
	}
	for i := range e.Scale {
		e.ZeroPoint = append(e.ZeroPoint, int32(binary.LittleEndian.Uint32(zero.Data[4*i:])))
	}
	return e, nil
}

// finite reads an array of float32.
func finite(a *checkpoint.SafeArray) ([]float32, error) {
	x := make([]float32, len(a.Data)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(a.Data[4*i:]))
		if x[i]-x[i] != 0 {
			return nil, fmt.Errorf("element %d is not finite", i)
		}
	}
	return x, nil
}

func floatBytes(x []float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// Hash is the SHA-256 of a file's bytes, in hexadecimal: what a plan records.
func Hash(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}
