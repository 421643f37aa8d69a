package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/device"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/driver"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// linear is a sum of products.
type linear struct {
	e    *engine
	s    *lower.Step
	op   *lower.Linear
	node *graph.Node
	// weights are the codes of the right factor, nil where it is computed.
	weights []int32
}

func newLinear(e *engine, s *lower.Step, op *lower.Linear) kernel {
	l := &linear{e: e, s: s, op: op, node: e.program.Graph.Node(s.Node)}
	if op.Weights != nil {
		l.weights = op.Weights.Codes.Integers()
	}
	return l
}

func (l *linear) prepare(ctx context.Context, s *step, in []*value) (*prepared, error) {
	p := l.e.program
	want := rowLayout
	var op cuda.LinearOp
	var shape []int
	var err error
	if graph.Slides(l.op.Kind) {
		want = lastLayout
		shape, err = l.window(&op, in[0].shape)
	} else {
		shape, err = l.factors(&op, in)
	}
	if err != nil {
		return nil, err
	}
	op.X = l.codes(0)
	for _, b := range l.op.Bias {
		if b != int64(int32(b)) {
			return nil, onlyHost("a bias of more than 32 bits")
		}
		op.Bias = append(op.Bias, int32(b))
	}
	if op.Wide = l.op.Wide; op.Wide && op.X.Type != cuda.Int16 && op.X.Type != cuda.Uint16 {
		return nil, onlyHost("8-bit codes times 16-bit codes")
	}
	if w := l.op.Weights; w != nil {
		if w.Codes.DType.Bits() == 16 {
			return nil, onlyHost("weights of 16 bits")
		}
		op.Weights, op.WeightZero = l.weights, w.ZeroPoint
	} else {
		op.Y = l.codes(1)
	}
	op.Saturating = p.Profile.Saturates && !l.node.Conv().Transposed && steps.Pairs(p, l.s, l.op)
	out := &prepared{in: make([]layout, len(in)), out: make([]*output, len(l.s.Outputs))}
	for k := range in {
		out.in[k] = want
	}
	if l.op.Residual {
		last := in[len(in)-1]
		if !slices.Equal(last.shape, shape) {
			return nil, onlyHost("a residual of another shape than the output")
		}
		op.Adds = true
		op.Residual = elementOf(last.dtype)
	}
	for k, id := range l.s.Outputs {
		t := &p.Tensors[id]
		out.out[k] = &output{dtype: t.DType, shape: shape, last: want == lastLayout && len(shape) > 2, alias: -1}
	}
	if l.op.Func != nil {
		return out, l.functioned(ctx, out, op, shape)
	}
	for k, id := range l.s.Outputs {
		op.Outputs = append(op.Outputs, l.output(id, &l.op.Scales[k]))
	}
	kernel, constants, err := l.e.newLinear(op)
	if err != nil {
		return nil, err
	}
	out.owned, out.temp = []cuda.Buffer{constants}, []int{kernel.WorkspaceBytes()}
	out.launch = func(s *cuda.Stream, in, to, temp []cuda.Buffer) error {
		return kernel.Launch(s, l.args(in, to, constants, temp[0]))
	}
	return out, nil
}

// args sorts the buffers of a run.
func (l *linear) args(in, out []cuda.Buffer, constants, workspace cuda.Buffer) cuda.LinearArgs {
	a := cuda.LinearArgs{X: in[0], Outputs: out, Constants: constants, Workspace: workspace}
	if l.op.Weights == nil {
		a.Right = in[1]
	}
	if l.op.Residual {
		a.Residual = in[len(in)-1]
	}
	return a
}

// functioned prepares a step whose real numbers go through a function before they become codes.
func (l *linear) functioned(ctx context.Context, out *prepared, op cuda.LinearOp, shape []int) error {
	e, n := l.e, tensor.Count(shape)
	op.Outputs = []cuda.LinearOut{l.real()}
	kernel, constants, err := e.newLinear(op)
	if err != nil {
		return err
	}
	out.owned = []cuda.Buffer{constants}
	g, c := l.op.Rows(), shape[len(shape)-1]
	if graph.Slides(l.op.Kind) {
		c = shape[1]
	}
	x := device.Type{DType: tensor.Float32, Shape: []int{n / max(c, 1), c}}
	session, plan, err := e.island(ctx, g, map[string]device.Type{g.Value(g.Inputs[0]).Name: x})
	if err != nil {
		return err
	}
	out.close = func() { _ = session.Close() }
	e.memory.keep(out)
	coders := make([]*cuda.Quantizer, len(l.s.Outputs)) // nil for real numbers
	for k, id := range l.s.Outputs {
		if t := &e.program.Tensors[id]; t.Quantized() {
			q, err := cuda.QuantizerOf(e.program.Profile.Quantizer(t.Encoding.Grid()))
			if err != nil {
				return onlyHost(err.Error())
			}
			coders[k] = &q
		}
	}
	out.temp = []int{kernel.WorkspaceBytes(), 4 * n, 4 * n}
	out.launch = func(s *cuda.Stream, in, to, temp []cuda.Buffer) error {
		if err := kernel.Launch(s, l.args(in, temp[1:2], constants, temp[0])); err != nil {
			return err
		}
		if err := plan.Launch(s, temp[1:2], temp[2:3]); err != nil {
			return err
		}
		for k, q := range coders {
			var err error
			if q == nil {
				err = s.Copy(to[k], temp[2])
			} else {
				err = cuda.QuantizeCodes(s, to[k], temp[2], e.codeElement(l.s.Outputs[k]), n, *q, e.met.of(l.s))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// newLinear makes a sum of products ready, with its constants on the device.
func (e *engine) newLinear(op cuda.LinearOp) (*cuda.Linear, cuda.Buffer, error) {
	k, err := e.memory.dev.NewLinear(op)
	if err != nil {
		return nil, cuda.Buffer{}, hostUnless(err)
	}
	b, err := e.memory.constant(k.Constants())
	return k, b, err
}

// hostUnless leaves to the reference what kernels refuse; what the driver refuses is an error.
func hostUnless(err error) error {
	var failed *driver.Result
	if errors.As(err, &failed) {
		return err
	}
	return onlyHost(err.Error())
}

// codes describes the codes of an input.
func (l *linear) codes(k int) cuda.Codes {
	t := &l.e.program.Tensors[l.s.Inputs[k]]
	return cuda.Codes{Type: l.e.codeElement(l.s.Inputs[k]), Zero: t.Encoding.ZeroPoint}
}

// output describes what becomes of the sums.
func (l *linear) output(id lower.TensorID, r *lower.Requantization) cuda.LinearOut {
	t := &l.e.program.Tensors[id]
	if !t.Quantized() {
		return l.real()
	}
	return cuda.LinearOut{Type: l.e.codeElement(id), Scaling: l.e.program.Profile.Scaling, Multipliers: r.Multipliers, Skip: r.Skip,
		Zero: r.ZeroPoint, Lo: r.Lo, Hi: r.Hi}
}

func (l *linear) real() cuda.LinearOut {
	var grid qmath.Grid
	if l.op.Residual {
		grid = l.e.program.Tensors[l.s.Inputs[len(l.s.Inputs)-1]].Encoding.Grid()
	}
	return cuda.LinearOut{Type: cuda.Float32, Channels: l.op.Real, Grid: grid, RealLo: l.op.Lo, RealHi: l.op.Hi}
}

// window describes a convolution of an input of a shape and returns the shape of its outputs.
func (l *linear) window(op *cuda.LinearOp, in []int) ([]int, error) {
	w := l.op.Weights.Codes.Shape
	op.Transposed = l.node.Conv().Transposed
	geo, err := graph.WindowGeometry(l.node, graph.Static(in...), graph.Static(w...))
	if err != nil {
		return nil, err
	}
	s, err := shapeOf(geo, in[0], in[1], l.op.Weights.Channels)
	op.Window = &s
	return steps.SpatialShape(in[0], l.op.Weights.Channels, geo), err
}

// shapeOf is convShape for the device.
func shapeOf(geo *graph.Geometry, n, c, m int) (kernels.ConvShape, error) {
	if len(geo.In) > 3 {
		return kernels.ConvShape{}, onlyHost(fmt.Sprintf("%d spatial axes", len(geo.In)))
	}
	s, err := steps.ConvShape(geo, n, c, m)
	if err != nil || s.InLen() == 0 || s.OutLen() == 0 {
		return s, onlyHost("a window over nothing")
	}
	return s.Full(), nil
}

// factors describes a product of matrices and returns the shape of its outputs.
func (l *linear) factors(op *cuda.LinearOp, in []*value) ([]int, error) {
	gemm := l.node.Gemm()
	right := in[min(1, len(in)-1)].shape
	if w := l.op.Weights; w != nil {
		right = w.Codes.Shape
	}
	if len(in[0].shape) == 0 || len(right) == 0 {
		return nil, onlyHost("a product with a scalar")
	}
	a, b := cuda.Factor(steps.FactorOf(in[0].shape, gemm.TransA, false)), cuda.Factor(steps.FactorOf(right, gemm.TransB, true))
	if a.Cols != b.Rows {
		return nil, fmt.Errorf("shapes %v and %v cannot be multiplied", in[0].shape, right)
	}
	stack, err := tensor.Broadcast(a.Stack, b.Stack)
	if err != nil {
		return nil, err
	}
	op.Left, op.Right = a, b
	shape := append([]int(nil), stack...)
	if len(in[0].shape) > 1 {
		shape = append(shape, a.Rows)
	}
	if len(right) > 1 {
		shape = append(shape, b.Cols)
	}
	return shape, nil
}
