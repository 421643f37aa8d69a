package cuda

import (
	"fmt"

	"qwb/kernels/qmath"
	"qwb/kernels/ref"
)

// LinearOp is a sum of products with the shapes of a run: a convolution, a transposed one, or a product of (stacks of) matrices. For
// every row and output channel c
//
//	acc = sum (x - zx)*(w - zw[c]) + Bias[c]          wrapping in 32 bits, in 64 if Wide
//
// and every output is made of acc, as kernels/qmath says. Tables by channel are counted modulo their length.
type LinearOp struct {
	// Window is the geometry of a convolution: x is channels-last, [N, D, H, W, C], and so are outputs, [N, OutD, OutH, OutW, M].
	Window     *ref.ConvShape
	Transposed bool
	// Left and Right are the factors of a product of matrices, where Window is nil. Outputs are [stack..., Left.Rows, Right.Cols], the
	// stacks of both broadcast.
	Left, Right Factor

	X Codes
	// Weights are the constant right factor: the codes of the operator's input 1, as it has them ([M, C/Group, KD, KH, KW],
	// transposed [C, M/Group, KD, KH, KW], or what Right says). WeightZero are their zero points by channel.
	Weights    []int32
	WeightZero []int32
	// Y are the codes of the right factor where it is a tensor and Weights is nil.
	Y Codes

	Bias []int32
	Wide bool
	// Saturating adds the products of neighbouring taps, tap by tap and channel after channel, in int16; see ref.Saturating.
	Saturating bool
	// Residual is the type of a tensor of the outputs' shape that is added, where Adds says that there is one.
	Adds     bool
	Residual Element
	Outputs  []LinearOut

	// What the heuristics choose when they are zero: the method "product", "depthwise" or "direct", for product the name of a tile
	// and the number of slices of k.
	Method string
	Tile   string
	Splits int
}

// Codes are integers and the one that means 0.
type Codes struct {
	Type Element
	Zero int32
}

// Factor is a stack of matrices in a row-major tensor: element (row, col) of matrix i stands at i*Rows*Cols + row*ByRow + col*ByCol.
type Factor struct {
	Stack        []int // shape of the stack
	Rows, Cols   int
	ByRow, ByCol int
}

// LinearOut is one output: codes, or real numbers where Type is Float32.
type LinearOut struct {
	Type Element
	// Of codes: Scaling with the multipliers by channel, the residual's part in it, zero point and limits.
	Scaling     qmath.Scaling
	Multipliers []qmath.Multiplier
	Skip        qmath.Skip
	Zero        int32
	Lo, Hi      int32
	// Of real numbers: the channels, the residual's grid and the limits.
	Channels       []qmath.Channel
	Grid           qmath.Grid
	RealLo, RealHi float32
	// Stride is the distance of rows in elements; 0 means that they follow each other.
	Stride int
}

// Linear is a LinearOp made ready for a device: kernels are loaded, the way to compute it is chosen, constants are packed. One
// goroutine at a time may launch it.
type Linear struct {
	op     LinearOp
	device *Device
	steps  []func(s *Stream, a *LinearArgs) error

	constants *blob
	workspace int

	rows, channels int // of all parts
	method         string
	choice         tuned // for products in tiles
	moving         bool  // the right factor is a tensor
}

// LinearArgs are the places of one run in device memory. Buffers begin at multiples of 16 bytes.
type LinearArgs struct {
	X, Right, Residual Buffer   // Right where it is a tensor
	Outputs            []Buffer // as in LinearOp
	Constants          Buffer   // what Linear.Constants returned, uploaded
	Workspace          Buffer   // WorkspaceBytes; it holds nothing between runs
}

// Constants returns what has to be uploaded once: packed weights and tables. The caller may drop it afterwards; it is given only once.
func (l *Linear) Constants() []byte {
	b := l.constants.bytes
	l.constants.bytes = nil
	return b
}

// ConstantBytes is the length of Constants.
func (l *Linear) ConstantBytes() int { return l.constants.size }

// WorkspaceBytes is how much memory a run needs for itself.
func (l *Linear) WorkspaceBytes() int { return l.workspace }

// Method says how it is computed, for people: product 128x128, 4 slices of k.
func (l *Linear) Method() string { return l.method }

// Shape returns how many rows and channels outputs have.
func (l *Linear) Shape() (rows, channels int) { return l.rows, l.channels }

// Launch puts the work on a stream. It allocates nothing and waits for nothing, so that it can be captured into a graph.
func (l *Linear) Launch(s *Stream, a LinearArgs) error {
	if err := l.checkArgs(&a); err != nil {
		return err
	}
	for _, step := range l.steps {
		if err := step(s, &a); err != nil {
			return err
		}
	}
	return nil
}

func (l *Linear) checkArgs(a *LinearArgs) error {
	if len(a.Outputs) != len(l.op.Outputs) {
		return fmt.Errorf("cuda: %d outputs for a step with %d", len(a.Outputs), len(l.op.Outputs))
	}
	if a.Constants.Bytes < l.constants.size || a.Workspace.Bytes < l.workspace {
		return fmt.Errorf("cuda: %d bytes of constants and %d of workspace, %d and %d are needed", a.Constants.Bytes, a.Workspace.Bytes,
			l.constants.size, l.workspace)
	}
	for _, b := range append([]Buffer{a.X, a.Right, a.Residual, a.Constants, a.Workspace}, a.Outputs...) {
		if b.Ptr%16 != 0 {
			return fmt.Errorf("cuda: a buffer at address %#x, which is not a multiple of 16", uint64(b.Ptr))
		}
	}
	return nil
}

// blob is memory in the making, in sections at multiples of 256 bytes.
type blob struct {
	bytes []byte
	size  int
}

// add appends a section and returns where it begins.
func (b *blob) add(section []byte) int {
	at := (b.size + 255) &^ 255
	b.bytes = append(append(b.bytes, make([]byte, at-b.size)...), section...)
	b.size = len(b.bytes)
	return at
}

// reserve makes room for a section of so many bytes in a workspace.
func (l *Linear) reserve(n int) int {
	at := (l.workspace + 255) &^ 255
	l.workspace = at + n
	return at
}
