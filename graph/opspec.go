package graph

// Kind groups operators by what they do to values. Dispatch and the quantizer decide by it.
type Kind uint8

const (
	KindOther         Kind = iota // nothing below: never quantized by kind alone
	KindComputing                 // multiplies and accumulates: Conv, ConvTranspose, Gemm, MatMul, their integer forms
	KindActivation                // nonlinear function of one tensor, element by element: Relu, Clip, Sigmoid, Gelu, ...
	KindElementwise               // arithmetic, element by element: Add, Mul, Max, Sqrt, Exp, ...
	KindMover                     // values pass unchanged, in another place or shape: Reshape, Concat, Gather, Resize, ...
	KindPool                      // sliding or global window: MaxPool, AveragePool, GlobalAveragePool, ...
	KindReduce                    // ReduceSum, ReduceMean, ArgMax, CumSum, ...
	KindNormalization             // BatchNormalization, LayerNormalization, ...
	KindSoftmax                   // Softmax, LogSoftmax, Hardmax
	KindShape                     // makes shapes and indices: Shape, Range, NonZero, NonMaxSuppression, ...
	KindCompare                   // comparisons and logic: bool results
	KindQuantize                  // QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear
	KindControl                   // If, Loop, Scan
	KindRecurrent                 // LSTM, GRU, RNN
)

var kindNames = [...]string{"other", "computing", "activation", "elementwise", "mover", "pool", "reduce", "normalization",
	"softmax", "shape", "compare", "quantize", "control", "recurrent"}

// String returns the lower-case name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind?"
}

// Socket says what an input or output of an operator carries.
type Socket uint8

const (
	SocketData  Socket = iota // values that may be quantized
	SocketFloat               // values that are never quantized: thresholds, conditions, scales, running statistics
	SocketIndex               // shapes, axes, indices
)

// OpSpec describes one operator in all its versions. Data flow from every SocketData input to every SocketData output, and
// indices from every SocketIndex input to every SocketIndex output. Nothing flows between other sockets.
type OpSpec struct {
	Name   string
	Domain string // "" is ai.onnx
	Doc    string // one line
	Since  int64  // first opset that has the operator
	Kind   Kind
	MinIn  int      // inputs that must be present
	In     []Socket // of the inputs; the last one repeats
	Out    []Socket // of the outputs; the last one repeats; nil is SocketData for all
	// Passive reports whether every element of the output is an element of the first input, or 0: the output may share its
	// scale. nil is never.
	Passive func(g *Graph, n *Node) bool
	// Infer sets type and shape of the outputs, as far as they follow from what is known. nil: nothing is known about them.
	Infer func(*InferCtx) error
	// MACs lists the dimensions whose product is the number of multiply-accumulates, once the outputs are inferred; nil where a
	// rank is not known. A nil function: the operator has none.
	MACs func(*InferCtx) Shape
	// OutAxis, InAxis and Sums say what package-level OutAxis, InAxis and Graph.Sums do; nil: the operator has no weight, or does not sum.
	OutAxis func(n *Node, rank int) (axis int, ok bool)
	InAxis  func(n *Node, i, rank int) (axis int, ok bool)
	Sums    func(g *Graph, n *Node, i, axis, rank int) bool
}

// InSocket returns the socket of input i.
func (s *OpSpec) InSocket(i int) Socket { return socketAt(s.In, i) }

// OutSocket returns the socket of output i.
func (s *OpSpec) OutSocket(i int) Socket { return socketAt(s.Out, i) }

func socketAt(list []Socket, i int) Socket {
	if len(list) == 0 {
		return SocketData
	}
	return list[min(i, len(list)-1)]
}

// Spec returns the description of an operator, nil if it is unknown. "ai.onnx" is the same domain as "".
func Spec(domain, op string) *OpSpec {
	if domain == "ai.onnx" {
		domain = ""
	}
	return opIndex[opKey{domain, op}]
}

// IsONNX reports whether the node's operator is of ONNX's own domain, "" or "ai.onnx".
func (n *Node) IsONNX() bool { return n.Domain == "" || n.Domain == "ai.onnx" }

// Spec returns the description of the node's operator, nil if it is unknown.
func (n *Node) Spec() *OpSpec {
	if n.own != nil {
		return &n.own.OpSpec
	}
	return Spec(n.Domain, n.Op)
}

// Passive reports whether every element the node computes is an element of its first input, or 0.
func (g *Graph) Passive(id NodeID) bool {
	n := &g.nodes[id]
	s := n.Spec()
	return s != nil && s.Passive != nil && s.Passive(g, n)
}

func always(*Graph, *Node) bool { return true }
