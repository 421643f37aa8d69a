package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"qwb/graph/language/checkpoint"
	"qwb/kernels/qmath"
)

// Encoding is how the elements of a tensor are written.
type Encoding struct {
	Type   checkpoint.Type
	Group  int                // elements that share a scale, of Groups
	Search bool               // scales with the smallest squared error
	Scheme *checkpoint.Scheme // of Packed
	Scale  string             // of Packed: how scales are stored
}

// Float is float32.
var Float = Encoding{Type: checkpoint.F32}

// Quantized reports whether elements are written as codes with scales.
func (e Encoding) Quantized() bool { return e.Type >= checkpoint.Groups }

// Size is how many bytes n elements take with their scales.
func (e Encoding) Size(n int) int64 {
	size := int64(e.Type.Bytes(n))
	if e.Type == checkpoint.Groups {
		size += 4 * int64(n/e.Group)
	}
	return size
}

// group is how many elements are one block, or share a scale; 1 for floats.
func (e Encoding) group() int {
	switch {
	case e.Type == checkpoint.Groups || e.Type == checkpoint.Packed:
		return e.Group
	case e.Type.Form() != nil:
		return e.Type.Form().Elements
	case e.Quantized():
		return qmath.BlockSize
	}
	return 1
}

func (e Encoding) groupRule() qmath.GroupRule {
	r := e.Rule(8)
	r.Search = e.Search
	return r
}

func (e Encoding) blockRule() qmath.BlockRule {
	r := qmath.BlockRule{Bits: 8, Scale: qmath.HalfScale, Search: e.Search}
	if e.Type == checkpoint.GGQ4 || e.Type == checkpoint.WideQ4 {
		r.Bits = 4
	}
	if e.Type == checkpoint.WideQ8 || e.Type == checkpoint.WideQ4 {
		r.Scale = qmath.FloatScale
	}
	return r
}

// quantize writes the codes and scales of whole groups. It reports whether all elements are finite and all scales can be stored.
func (e Encoding) quantize(codes []int8, scales, x []float32) bool {
	if e.Type == checkpoint.Groups {
		return e.groupRule().Quantize(codes, scales, x)
	}
	ok := true
	if e.Type == checkpoint.Packed {
		rule := e.groupRule()
		ok = rule.Quantize(codes, scales, x)
		for g, s := range scales {
			at := g * e.Group
			scales[g] = e.Stored(s)
			rule.Codes(codes[at:at+e.Group], x[at:at+e.Group], scales[g])
			ok = ok && scales[g]-scales[g] == 0
		}
		return ok
	}
	rule := e.blockRule()
	for g := range scales {
		at := g * qmath.BlockSize
		var fine bool
		scales[g], fine = rule.Quantize(codes[at:at+qmath.BlockSize], x[at:at+qmath.BlockSize])
		ok = ok && fine
	}
	return ok
}

// floats appends elements that are not quantized. It reports whether all are finite as they are stored.
func (e Encoding) floats(b []byte, x []float32) ([]byte, bool) {
	ok := true
	for _, v := range x {
		if e.Type == checkpoint.F16 {
			h := qmath.HalfBits(v)
			ok = ok && h&0x7c00 != 0x7c00
			b = binary.LittleEndian.AppendUint16(b, h)
			continue
		}
		if e.Type == checkpoint.BF16 {
			h := qmath.BrainBits(v)
			ok = ok && h&0x7f80 != 0x7f80
			b = binary.LittleEndian.AppendUint16(b, h)
			continue
		}
		ok = ok && v-v == 0
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b, ok
}

// Rule is how codes in its groups are made by somebody else than quantize: bits counts for Groups alone.
func (e Encoding) Rule(bits int) qmath.GroupRule {
	r := qmath.GroupRule{Size: e.group(), Max: qmath.GroupMax, Rounding: qmath.HalfEven}
	switch e.Type {
	case checkpoint.Groups:
	case checkpoint.Packed:
		bits = e.Scheme.Bits
	default:
		bits = e.blockRule().Bits
	}
	if bits == 4 {
		r.Max, r.Min = qmath.Int4Max, qmath.Int4Min
	}
	return r
}

// Stored is a scale as it is read again.
func (e Encoding) Stored(scale float32) float32 {
	switch {
	case e.Type == checkpoint.Groups || e.Type == checkpoint.Packed && e.Scheme.Scales == "F32":
		return scale
	case e.Type == checkpoint.Packed:
		return e.scales()(scale)
	}
	return e.blockRule().Scale.Stored(scale)
}

// scales is what rounds a scale: to bfloat16 where it is stored so, or else to half precision, which engines may compute with.
func (e Encoding) scales() func(float32) float32 {
	if e.Scale == "BF16" {
		return func(s float32) float32 { return qmath.FromBrain(qmath.BrainBits(s)) }
	}
	return qmath.FP16.Round
}

// Pack appends codes and, where they stand together, their scales.
func (e Encoding) Pack(b []byte, codes []int8, scales []float32) []byte {
	if e.Type == checkpoint.Groups {
		at := len(b)
		b = slices.Grow(b, len(codes))[:at+len(codes)]
		for i, q := range codes {
			b[at+i] = byte(q)
		}
		return b
	}
	for g, scale := range scales {
		c := codes[g*qmath.BlockSize:][:qmath.BlockSize]
		if e.blockRule().Scale == qmath.HalfScale {
			b = binary.LittleEndian.AppendUint16(b, qmath.HalfBits(scale))
		} else {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(scale))
		}
		switch e.Type {
		case checkpoint.GGQ4:
			for j := range qmath.BlockSize / 2 {
				b = append(b, byte(c[j]+8)|byte(c[j+qmath.BlockSize/2]+8)<<4)
			}
		case checkpoint.WideQ4:
			for j := 0; j < qmath.BlockSize; j += 2 {
				b = append(b, byte(c[j]+8)|byte(c[j+1]+8)<<4)
			}
		default:
			for _, q := range c {
				b = append(b, byte(q))
			}
		}
	}
	return b
}

// Name is the encoding in words.
func (e Encoding) Name() string {
	name := e.Type.String()
	if e.Type == checkpoint.Groups {
		name = fmt.Sprintf("int8 in groups of %d", e.Group)
	}
	if e.Type == checkpoint.Packed {
		name = fmt.Sprintf("%s in groups of %d", e.Scheme.Name, e.Group)
	}
	if e.Search {
		name += ", searched scales"
	}
	return name
}
