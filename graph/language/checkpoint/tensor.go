package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"

	"qwb/kernels/qmath"
)

// Type is how the elements of a tensor are stored. All numbers are little-endian.
type Type uint8

const (
	F32    Type = iota // float32
	F16                // IEEE half precision
	BF16               // the upper half of a float32
	Groups             // int8 codes, and one float32 scale per group of elements of the flattened tensor: llama2.c version 2
	GGQ8               // blocks of 32: half-precision scale, 32 int8 codes (Q8_0 of GGUF)
	GGQ4               // blocks of 32: half-precision scale, 16 bytes: low halves are elements 0 to 15, high ones 16 to 31, less 8 (Q4_0)
	WideQ8             // blocks of 32: float32 scale, 32 int8 codes (Q8_0 of InferLLM)
	WideQ4             // blocks of 32: float32 scale, 16 bytes: low halves are even elements, high ones odd, less 8 (Q4_0 of InferLLM)

	// Types of blockTypes.
	GGQ41
	GGQ50
	GGQ51
	Q2K
	Q3K
	Q4K
	Q5K
	Q6K
	IQ4NL
	IQ4XS

	// Types of floatBlocks.
	MXFP4
	NVFP4

	Packed // codes, scales and zero points as other tools write them to safetensors: see packing
)

var typeNames = []string{"float32", "float16", "bfloat16", "int8 in groups", "Q8_0", "Q4_0", "Q8_0 with float32 scales",
	"Q4_0 with float32 scales", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4",
	"packed codes"}

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", t)
}

// block is the number of elements of most GGUF blocks.
const block = 32

// block is how many elements whole blocks of a type have; 1 where there are none.
func (t Type) block() int {
	switch {
	case t.Form() != nil:
		return t.Form().Elements
	case floatBlocks[t] != nil:
		return floatBlocks[t].elements
	case t > Groups && t < Packed:
		return block
	}
	return 1
}

// Tensor is one matrix (rows x cols, row-major) or vector (one row) of a checkpoint. Its bytes stay in the file.
type Tensor struct {
	Part
	Name       string // what the file calls it
	Rows, Cols int
	Type       Type
	Group      int // elements per group of type Groups

	data   []byte
	scales []byte // of type Groups

	packing *packing // of type Packed, in a file
	levels  *Levels  // of type Packed, made in this process

	factor float32 // of floats: what each element is multiplied with; 0: nothing
}

// Storage says in words how the elements are stored.
func (t *Tensor) Storage() string {
	switch t.Type {
	case Groups:
		return fmt.Sprintf("%s of %d", t.Type, t.Group)
	case Packed:
		if t.levels != nil {
			return fmt.Sprintf("%s in groups of %d", t.levels.Scheme.Name, t.levels.Group)
		}
		return t.packing.String()
	}
	return t.Type.String()
}

// Len is the number of elements.
func (t *Tensor) Len() int { return t.Rows * t.Cols }

// Stored is how many bytes of the file hold the tensor, scales included.
func (t *Tensor) Stored() int {
	switch {
	case t.levels != nil:
		n := 0
		for _, a := range t.levels.Arrays("") {
			n += a.Size()
		}
		return n
	case t.Type == Packed:
		return t.packing.stored
	}
	return t.Type.bytes(t.Len()) + len(t.scales)
}

// bytes returns the bytes that n elements of the type take, scales of Groups apart.
func (t Type) bytes(n int) int {
	switch t {
	case F32:
		return 4 * n
	case F16, BF16:
		return 2 * n
	case GGQ8:
		return n / block * 34
	case GGQ4:
		return n / block * 18
	case WideQ8:
		return n / block * 36
	case WideQ4:
		return n / block * 20
	}
	if k := floatBlocks[t]; k != nil {
		return n / k.elements * k.bytes
	}
	if k := blockTypes[t]; k != nil {
		return n / k.form.Elements * k.bytes
	}
	return n
}

// Read converts len(dst) elements of the flattened tensor, the first being element from. They must lie within it; of types in
// blocks, from and len(dst) must be multiples of a block, which whole rows are.
func (t *Tensor) Read(dst []float32, from int) {
	t.readStored(dst, from)
	if t.factor != 0 {
		for i := range dst {
			dst[i] *= t.factor
		}
	}
}

// readStored is Read without the factor.
func (t *Tensor) readStored(dst []float32, from int) {
	if t.Type == Packed {
		t.readPacked(dst, from)
		return
	}
	b := t.data[t.Type.bytes(from):]
	switch t.Type {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = qmath.FromHalf(binary.LittleEndian.Uint16(b[2*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = qmath.FromBrain(binary.LittleEndian.Uint16(b[2*i:]))
		}
	case Groups:
		for i := 0; i < len(dst); {
			group := (from + i) / t.Group
			end := min((group+1)*t.Group-from, len(dst))
			d := t.scale(group)
			for ; i < end; i++ {
				dst[i] = float32(int8(b[i])) * d
			}
		}
	case GGQ8:
		for i := 0; i+block <= len(dst); i, b = i+block, b[34:] {
			d := qmath.FromHalf(binary.LittleEndian.Uint16(b))
			for j, q := range b[2:34] {
				dst[i+j] = float32(int8(q)) * d
			}
		}
	case GGQ4:
		for i := 0; i+block <= len(dst); i, b = i+block, b[18:] {
			d := qmath.FromHalf(binary.LittleEndian.Uint16(b))
			for j, q := range b[2:18] {
				dst[i+j] = float32(int8(q&15)-8) * d
				dst[i+j+block/2] = float32(int8(q>>4)-8) * d
			}
		}
	case WideQ8, WideQ4:
		var codes [block]int8
		for i := 0; i+block <= len(dst); i += block {
			d := t.wide(codes[:], from+i)
			for j, q := range codes {
				dst[i+j] = float32(q) * d
			}
		}
	case MXFP4, NVFP4:
		k := floatBlocks[t.Type]
		for i := 0; i+k.elements <= len(dst); i, b = i+k.elements, b[k.bytes:] {
			k.read(dst[i:][:k.elements], b)
		}
	default:
		k := blockTypes[t.Type]
		for i := 0; i+k.form.Elements <= len(dst); i, b = i+k.form.Elements, b[k.bytes:] {
			k.read(dst[i:], b)
		}
	}
}

// wide reads the block that begins at an element of type WideQ8 or WideQ4.
func (t *Tensor) wide(codes []int8, from int) (scale float32) {
	b := t.data[t.Type.bytes(from):][:t.Type.bytes(block)]
	for j, q := range b[4:] {
		if t.Type == WideQ8 {
			codes[j] = int8(q)
		} else {
			codes[2*j], codes[2*j+1] = int8(q&15)-8, int8(q>>4)-8
		}
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b))
}

// Row converts one row; dst holds Cols elements.
func (t *Tensor) Row(dst []float32, row int) { t.Read(dst[:t.Cols], row*t.Cols) }

// All converts the whole tensor.
func (t *Tensor) All() []float32 {
	out := make([]float32, t.Len())
	t.Read(out, 0)
	return out
}

// Quantized reports whether the elements are stored as integers with scales, as kernels multiply them.
func (t *Tensor) Quantized() bool { return t.Type >= Groups && t.Type <= WideQ4 }

// Floats reports whether the elements are stored as floats: nobody has quantized them. What is neither Floats nor Quantized is multiplied
// as the floats that it stands for.
func (t *Tensor) Floats() bool { return t.Type < Groups }

// GroupSize is the number of neighbouring elements that share a scale, 0 where the elements are floats.
func (t *Tensor) GroupSize() int {
	switch t.Type {
	case Groups:
		return t.Group
	case GGQ8, GGQ4, WideQ8, WideQ4:
		return block
	}
	return 0
}

// Codes reads the stored integers and scales of len(codes) elements, the first being element from: both are multiples of the
// group size. There is a scale per group. It panics where the tensor is not Quantized.
func (t *Tensor) Codes(codes []int8, scales []float32, from int) {
	b := t.data[t.Type.bytes(from):]
	switch t.Type {
	case Groups:
		for i, q := range b[:len(codes)] {
			codes[i] = int8(q)
		}
		for i := range scales {
			scales[i] = t.scale(from/t.Group + i)
		}
	case GGQ8:
		for i := range scales {
			scales[i] = qmath.FromHalf(binary.LittleEndian.Uint16(b[34*i:]))
			for j, q := range b[34*i+2 : 34*i+34] {
				codes[block*i+j] = int8(q)
			}
		}
	case GGQ4:
		for i := range scales {
			scales[i] = qmath.FromHalf(binary.LittleEndian.Uint16(b[18*i:]))
			for j, q := range b[18*i+2 : 18*i+18] {
				codes[block*i+j] = int8(q&15) - 8
				codes[block*i+j+block/2] = int8(q>>4) - 8
			}
		}
	case WideQ8, WideQ4:
		for i := range scales {
			scales[i] = t.wide(codes[block*i:], from+block*i)
		}
	default:
		panic("checkpoint: " + t.Name + " is not quantized")
	}
}

func (t *Tensor) scale(group int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(t.scales[4*group:]))
}

// Finite returns an error that names the first element which is NaN or infinite. It reads the whole tensor once.
func (t *Tensor) Finite() error { return t.finite(0, t.Rows) }

// finite is Finite of some rows.
func (t *Tensor) finite(from, to int) error {
	row := make([]float32, t.Cols)
	for r := from; r < to; r++ {
		t.Row(row, r)
		for c, v := range row {
			if v-v != 0 {
				return fmt.Errorf("tensor %q (%s): element [%d,%d] is %g", t.Name, t.Part, r, c, v)
			}
		}
	}
	return nil
}
