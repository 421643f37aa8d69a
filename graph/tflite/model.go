package tflite

import "fmt"

// Model is a file.
type Model struct {
	Version     int // of the schema: 3
	Description string
	Subgraphs   []Subgraph // the first is the main one
	Metadata    []Metadata
	Signatures  []Signature
	// Loose: numbers of the file lie at no multiples of their size, or a text does not end, so that readers that verify files refuse it.
	// Read says so, Write does not write such files.
	Loose bool
}

// What Unread says of tensors that no interpreter loads.
const (
	Outside    = "data outside the file"
	Undetailed = "quantization of a kind whose details are missing"
)

// Metadata is named data that readers may ignore.
type Metadata struct {
	Name string
	Data []byte
}

// Signature gives a subgraph and its inputs and outputs names for callers.
type Signature struct {
	Key             string
	Subgraph        int
	Inputs, Outputs []Named
}

// Named is a tensor of a signature.
type Named struct {
	Name   string
	Tensor int
}

// Subgraph is a list of operators in an order in which they can run. Numbers of tensors are positions in Tensors.
type Subgraph struct {
	Name            string
	Tensors         []Tensor
	Inputs, Outputs []int
	Operators       []Operator
}

// Tensor is a tensor: a constant if it has Data.
type Tensor struct {
	Name    string
	Type    Type
	Shape   []int // sizes, row-major
	HasRank bool  // tells a scalar from a tensor of unknown rank in newer files; most writers leave it out
	// Signature is Shape with -1 for sizes that are not fixed; nil: all are.
	Signature    []int
	Data         []byte // little-endian, row-major; tensors with equal Data share a buffer in the file
	Quantization *Quantization
	Variable     bool // state between runs

	// Unread says what of the tensor this package does not hold (variants, sparsity of parts of bytes): Write refuses such a tensor. "" is
	// nothing.
	Unread string
}

// Quantization says which numbers a tensor's integers stand for: Scale * (q - ZeroPoint). One entry is for the whole tensor, more are for
// the indices along Axis.
type Quantization struct {
	Scale     []float32
	ZeroPoint []int
	Axis      int
	Min, Max  []float32 // the range from which the scale came; informative
}

// Quantized reports whether the tensor has a scale: files also hold tables without one.
func (q *Quantization) Quantized() bool { return q != nil && len(q.Scale) > 0 }

// Operator is a call. Inputs are positions of tensors, -1 where an optional one is missing.
type Operator struct {
	Op              string // builtin name: CONV_2D
	Custom          string // the name, where Op is CUSTOM
	Version         int    // of the operator's definition, 1 and up
	Inputs, Outputs []int
	Intermediates   []int
	Mutates         []bool  // per input: a variable that the operator changes
	OptionsType     string  // the options' table without "Options": Conv2D; "": none
	Options         Options // every field of that table by its name; a writer may leave out those that have their default
	CustomOptions   []byte

	Unread string // as Tensor.Unread
}

// Options are fields of a table of options: int, bool, float32, string, []int or []float32, as [Fields] says.
type Options map[string]any

// Int is the option of that name, 0 if it is no integer.
func (o Options) Int(name string) int { v, _ := o[name].(int); return v }

// Bool is the option of that name, false if it is no bool.
func (o Options) Bool(name string) bool { v, _ := o[name].(bool); return v }

// Float is the option of that name, 0 if it is no number.
func (o Options) Float(name string) float32 { v, _ := o[name].(float32); return v }

// Ints is the option of that name, nil if it is no list.
func (o Options) Ints(name string) []int { v, _ := o[name].([]int); return v }

// Type is the type of a tensor's elements by the number that it has in the file.
type Type int

// The types of elements.
const (
	Float32 Type = iota
	Float16
	Int32
	Uint8
	Int64
	String
	Bool
	Int16
	Complex64
	Int8
	Float64
	Complex128
	Uint64
	Resource
	Variant
	Uint32
	Uint16
	Int4
	BFloat16
	Int2
	Uint4
	Float8E4M3
	Float8E5M2
	numTypes
)

var typeNames = [numTypes]string{"float32", "float16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64", "int8",
	"float64", "complex128",
	"uint64", "resource", "variant", "uint32", "uint16", "int4", "bfloat16", "int2", "uint4", "float8e4m3", "float8e5m2"}

// typeBits is the size of an element; 0: it has none of its own.
var typeBits = [numTypes]int{32, 16, 32, 8, 64, 0, 8, 16, 64, 8, 64, 128, 64, 0, 0, 32, 16, 4, 16, 2, 4, 8, 8}

func (t Type) String() string {
	if t < 0 || t >= numTypes {
		return fmt.Sprintf("type %d", int(t))
	}
	return typeNames[t]
}

// Bits is the size of an element in bits; 0 for those that have no fixed size.
func (t Type) Bits() int {
	if t < 0 || t >= numTypes {
		return 0
	}
	return typeBits[t]
}

// Values of the option fused_activation_function.
const (
	NoActivation = iota
	Relu
	ReluN1To1
	Relu6
	Tanh
	SignBit
)

// Values of the option padding.
const (
	Same = iota
	Valid
)
