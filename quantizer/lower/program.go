package lower

import (
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// TensorID is an index into Program.Tensors.
type TensorID int32

// NoTensor stands for an output that nobody reads.
const NoTensor TensorID = -1

// StepID is an index into Program.Steps.
type StepID int32

// Program is what a configured graph becomes on a target under an arithmetic profile. It is plain data and is never changed once
// it was compiled.
type Program struct {
	Graph   *graph.Graph // the graph that was compiled; nodes and values refer to it
	Target  string
	Float   target.FloatUnit // where the target computes float islands
	Profile qmath.Profile
	Tensors []Tensor
	Steps   []Step     // in an order of execution
	Inputs  []TensorID // of graph inputs that are not constants, in their order
	Outputs []TensorID // of graph outputs, in their order
	// Crossings are the conversions between integers and float, in the order of steps.
	Crossings []Crossing
	Safety    []Safety // of the steps that sum products, in their order
	Warnings  []tqc.Warning
}

// Tensor is one array of numbers.
type Tensor struct {
	ID TensorID
	// Name is the value's name for the value itself and, as exporters name it, NAME_QuantizeLinear for its integers, followed by _1,
	// _2, ... where it has several encodings.
	Name  string
	Value graph.ValueID
	// DType is the type of the integers, Float32 for a real tensor, or the graph's own type of what is not quantized: shapes,
	// indices, conditions.
	DType    tensor.DType
	Encoding *Encoding // nil for real tensors and those that are not quantized
	// AtRunTime: integers whose scale is known when the program runs only, codes or sums of a RunTime; they have no Encoding.
	AtRunTime bool
	Shape     graph.Shape // as far as the graph knows it
	// Const holds the elements of a constant operand; else it is nil.
	Const *tensor.Tensor
}

// Quantized reports whether the elements are integers that stand for real numbers.
func (t *Tensor) Quantized() bool { return t.Encoding != nil }

// Counts reports whether the elements are integers that are computed with: quantized ones, and those of a RunTime.
func (t *Tensor) Counts() bool { return t.Encoding != nil || t.AtRunTime }

// Step is one operation.
type Step struct {
	ID StepID
	// Node is the graph's node that computes, NoNode for a conversion. Nodes are all that are computed here, in order.
	Node    graph.NodeID
	Nodes   []graph.NodeID
	Inputs  []TensorID
	Outputs []TensorID
	Op      Op
}

// Graph is the nodes of a Move or an Island as they are in the model, nil of other steps.
func (s *Step) Graph() *graph.Graph {
	switch op := s.Op.(type) {
	case *Move:
		return op.Graph
	case *Island:
		return op.Graph
	}
	return nil
}

// Op is what a step computes: one of the types of this package that are named in its documentation. It is plain data.
type Op interface {
	// Name is the kind of step: Conv, Requantize, Island, ...
	Name() string
	// describe returns what the text form of a program says about the step after its name.
	describe() string
}

// Computed is an operation that says itself what it computes. Backends call it where they have no kernel for its type, so that a new one
// needs none.
type Computed interface {
	Op
	// Compute returns the outputs of step s of p, which has this operation: in order, of the types that p declares, by plain loops.
	// Inputs are row-major and stay as they are.
	Compute(p *Program, s *Step, in []*tensor.Tensor) ([]*tensor.Tensor, error)
}

// Crossing is a place where numbers pass between integer steps and float.
type Crossing struct {
	Step    StepID
	Tensor  TensorID // the real one
	ToFloat bool
	// Bytes is what the step reads and writes to convert: the float32 and, unless it makes them of its own sums, the integers.
	// Dimensions that are not known count as 1.
	Bytes int64
}

// Name returns the name of a step: that of its node, or of the tensor that it converts.
func (p *Program) Name(id StepID) string {
	s := &p.Steps[id]
	if s.Node != graph.NoNode {
		return p.Graph.Node(s.Node).Name
	}
	for _, out := range s.Outputs {
		if out != NoTensor {
			return p.Tensors[out].Name
		}
	}
	return ""
}
