package vectors

import (
	"math"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// Program is program.json: a lowered program with the files of its numbers. Ids count from 0; numbers are exact: a float32 is
// written with as many digits as give it back.
type Program struct {
	Format  int              `json:"format"`
	Target  string           `json:"target"`
	Profile Profile          `json:"profile"`
	Inputs  []lower.TensorID `json:"inputs"`
	Outputs []lower.TensorID `json:"outputs"`
	Tensors []Tensor         `json:"tensors"` // in the order of their first use
	Steps   []Step           `json:"steps"`   // in an order of execution
}

// Profile is the arithmetic between accumulators and codes, in words; docs/profiles.md says more.
type Profile struct {
	Name      string `json:"name"`
	Formula   string `json:"formula"`
	Rounding  string `json:"rounding"`
	ZeroPoint string `json:"zero_point"`
	Family    string `json:"family"`
	// Saturates says that neighbouring products are added with saturation to int16.
	Saturates bool `json:"saturates"`
}

// Array is a file of numbers.
type Array struct {
	File      string `json:"npy"`
	Hex       string `json:"hex,omitempty"`
	HexDigits int    `json:"hex_digits,omitempty"` // per element
	// Bits is how many bits weights have that have fewer than 8; bytes of .npy repeat the sign above them.
	Bits  int    `json:"bits,omitempty"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
}

// Tensor is one array of the run.
type Tensor struct {
	ID   lower.TensorID `json:"id"`
	Name string         `json:"name"`
	Array
	Constant bool      `json:"constant"`
	Encoding *Encoding `json:"encoding,omitempty"` // of integers that stand for real numbers
}

// Encoding is (q - zero_point) * scale with q in [qmin, qmax].
type Encoding struct {
	Scale     float32 `json:"scale"`
	ZeroPoint int32   `json:"zero_point"`
	QMin      int32   `json:"qmin"`
	QMax      int32   `json:"qmax"`
}

// Step is one operation.
type Step struct {
	ID      lower.StepID     `json:"id"`
	Op      string           `json:"op"`
	Kind    string           `json:"kind"` // of step: linear, sum, product, ...: which Parameters it has
	Nodes   []string         `json:"nodes"`
	Inputs  []lower.TensorID `json:"inputs"`
	Outputs []lower.TensorID `json:"outputs"` // -1: nobody reads it
	// Parameters are the numbers of the step that are not arrays, as the fields of the types of packages lower and qmath.
	Parameters any `json:"parameters"`
	// Arrays are weights, weight_zero_points, bias, table, and for output k of sums of products multiplier_k and shift_k, or
	// scale_k, bias_k and out_k, by channel.
	Arrays map[string]Array `json:"arrays"`
}

func profileOf(p qmath.Profile) Profile {
	return Profile{Name: p.Name, Formula: p.Doc.Formula, Rounding: p.Doc.Rounding, ZeroPoint: p.Doc.ZeroPoint, Family: p.Family.String(),
		Saturates: p.Saturates}
}

// elements returns how many hexadecimal digits an element has, and the bits of element i.
func elements(t *tensor.Tensor) (digits int, bits func(i int) uint64) {
	switch d := t.Data.(type) {
	case []int8:
		return 2, func(i int) uint64 { return uint64(uint8(d[i])) }
	case []uint8:
		return 2, func(i int) uint64 { return uint64(d[i]) }
	case []int16:
		return 4, func(i int) uint64 { return uint64(uint16(d[i])) }
	case []uint16:
		return 4, func(i int) uint64 { return uint64(d[i]) }
	case []int32:
		return 8, func(i int) uint64 { return uint64(uint32(d[i])) }
	case []int64:
		return 16, func(i int) uint64 { return uint64(d[i]) }
	case []float32:
		return 8, func(i int) uint64 { return uint64(math.Float32bits(d[i])) }
	case []bool:
		return 1, func(i int) uint64 {
			if d[i] {
				return 1
			}
			return 0
		}
	}
	return 0, nil
}
