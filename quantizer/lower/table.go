package lower

import (
	"context"
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Table is a function of single integers, given by its values: any operator, or chain of operators, that computes every element
// from the element at the same place, between two quantized tensors.
type Table struct {
	Function string // the operators, in order
	// Codes holds 256 or 65,536 results. The index is the raw byte or 16-bit word of the input: a signed code q is at q + 256 or
	// q + 65,536 if it is negative, so that the order is 0, 1, ..., -2, -1.
	Codes *tensor.Tensor
	// Lines are the 513 entries of int16 that the target keeps where it interpolates: see qmath.Interpolated. Codes are then what they
	// give for every code, within the limits of the encoding. Nil elsewhere.
	Lines *qmath.Interpolated
	// Odd: some code gives NaN or an infinite number, for which Codes has whatever the arithmetic makes of it.
	Odd bool
}

// Name implements Op.
func (*Table) Name() string { return "Table" }

func (o *Table) describe() string {
	sum := uint32(2166136261) // FNV-1a, so that a changed entry shows
	for _, q := range o.Codes.Integers() {
		sum = (sum ^ uint32(q)) * 16777619
	}
	return fmt.Sprintf("%s %s #%08x", o.Function, o.Codes.Type(), sum)
}

var tableFamily = family{name: "table", emit: emitTable, ops: []string{
	"Abs", "Celu", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg", "Pow", "Reciprocal",
	"Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh", "ThresholdedRelu"}}

// familyOf is familyOf of the node's operator, but for a function of one tensor whose constants are not quantized: whatever the
// operator, it is a table.
func (c *compiler) familyOf(id graph.NodeID) *family {
	n := c.g.Node(id)
	if _, ok := c.g.Argument(id); ok && n.Spec().Kind == graph.KindElementwise {
		for i, v := range n.Inputs {
			if slot := c.set.Input(id, i); c.g.Const(v) != nil && (slot == tqc.NoSlot || !c.set.Slot(slot).State().Quantizes()) {
				return &tableFamily
			}
		}
	}
	return familyOf(n)
}

func emitTable(c *compiler, u *unit) error {
	at, _ := c.g.Argument(u.head())
	encs, in, err := c.operands(u, at, at+1)
	if err != nil {
		return err
	}
	if bits := encs[0].DType().Bits(); c.tables > 0 && bits > c.tables {
		return c.fail(u.head(), "it is to be a table with an index of %d bits: tables of %s have %d", bits, c.program.Target, c.tables)
	}
	v := c.g.Node(u.last()).Outputs[0]
	if c.base[v] == nil {
		return c.fail(u.last(), "its result is not quantized")
	}
	op := &Table{}
	for i, id := range u.nodes {
		if i > 0 {
			op.Function += " "
		}
		op.Function += c.g.Node(id).Op
	}
	y := *c.base[v]
	switch x := encs[0].Grid(); {
	case c.profile.Interpolates(x, y.Grid()):
		err = c.interpolate(u, op, encs[0], y)
	case c.profile.Pivots(x, y.Grid()):
		err = c.pivots(u, op, encs[0], y)
	default:
		op.Codes, op.Odd, err = c.table(u, encs[0], y)
	}
	if err != nil {
		return c.g.ErrorAt(stage, u.head(), err)
	}
	c.unitStep(u, in, []TensorID{c.define(v, integer(y))}, op)
	return nil
}

// table computes the entries. Functions for which the profile has a definition of its own follow it, limits behind them included.
func (c *compiler) table(u *unit, x, y Encoding) (t *tensor.Tensor, odd bool, err error) {
	if x.DType().Bits() == 8 && y.DType().Bits() == 8 {
		lo, hi, ok, err := c.limits(u.acts)
		if err != nil {
			return nil, false, err
		}
		n, narrow := c.g.Node(u.head()), y
		narrow.QMin, narrow.QMax = codeLimits(y, lo, hi)
		if t, known, err := c.profileTable(n, x.Grid(), narrow.Grid()); known && ok {
			return tableTensor(t, y), false, err
		}
	}
	f, err := c.evaluated(u, x)
	if err != nil {
		return nil, false, err
	}
	for raw := range 1 << x.DType().Bits() {
		if v := f(x.Grid().Dequantize(x.code(raw))); v-v != 0 {
			odd = true
		}
	}
	if x.DType().Bits() == 8 && y.DType().Bits() == 8 {
		return tableTensor(c.profile.Table(x.Grid(), y.Grid(), f), y), odd, nil
	}
	out := tensor.New(y.DType(), 1<<x.DType().Bits())
	q := c.profile.TableQuantizer(y.Grid())
	for raw := range out.Len() {
		setCode(out, raw, q.At(f(x.Grid().Dequantize(x.code(raw)))))
	}
	return out, odd, nil
}

// interpolate computes the lines of a function, and every code that they give.
func (c *compiler) interpolate(u *unit, op *Table, x, y Encoding) error {
	values, err := c.at(u, qmath.InterpolationPoints(x.Grid()))
	if err != nil {
		return err
	}
	lines := qmath.Interpolate(values, y.Grid())
	op.Lines, op.Codes = &lines, tensor.New(y.DType(), 1<<16)
	for raw := range op.Codes.Len() {
		setCode(op.Codes, raw, min(max(lines.At(x.code(raw)), y.QMin), y.QMax))
	}
	return nil
}

// pivots computes the entries that the target keeps, some codes apart, and every code that they give.
func (c *compiler) pivots(u *unit, op *Table, x, y Encoding) error {
	values, err := c.at(u, c.profile.PivotPoints(x.Grid()))
	if err != nil {
		return err
	}
	entries := c.profile.PivotEntries(values, y.Grid())
	op.Codes = tensor.New(y.DType(), 1<<16)
	for raw := range op.Codes.Len() {
		setCode(op.Codes, raw, c.profile.AtPivots(entries, x.Grid(), x.code(raw)))
	}
	return nil
}

// profileTable returns the table of an operator that profiles define themselves, and whether it is one.
func (c *compiler) profileTable(n *graph.Node, x, y qmath.Grid) (t qmath.Table, known bool, err error) {
	switch n.Op {
	case "Sigmoid":
		return c.profile.Table(x, y, c.profile.Sigmoid()), true, nil
	case "HardSwish":
		t, err = c.profile.HardSwish(x, y)
		return t, true, err
	case "LeakyRelu":
		t, err = c.profile.LeakyRelu(x, y, n.Alpha())
		return t, true, err
	}
	return t, false, nil
}

// tableTensor stores 256 bytes as integers of y's type.
func tableTensor(t qmath.Table, y Encoding) *tensor.Tensor {
	out := tensor.New(y.DType(), len(t))
	for i, b := range t {
		q := int32(b)
		if y.DType() == tensor.Int8 {
			q = int32(int8(b))
		}
		setCode(out, i, q)
	}
	return out
}

// code is the integer whose raw byte or word is given.
func (e Encoding) code(raw int) int32 {
	if bits := e.DType().Bits(); e.QMin < 0 && raw >= 1<<(bits-1) {
		return int32(raw - 1<<bits)
	}
	return int32(raw)
}

// evaluated computes the unit's function for every code of x and returns it as a function of the real numbers that the codes stand
// for.
func (c *compiler) evaluated(u *unit, x Encoding) (func(float32) float32, error) {
	in := make([]float32, 1<<x.DType().Bits())
	for raw := range in {
		in[raw] = x.Grid().Dequantize(x.code(raw))
	}
	out, err := c.at(u, in)
	if err != nil {
		return nil, err
	}
	values := make(map[uint32]float32, len(in))
	for i, v := range in {
		values[math.Float32bits(v)] = out[i]
	}
	return func(v float32) float32 { return values[math.Float32bits(v)] }, nil
}

// at computes the unit's function of real numbers with the float executor.
func (c *compiler) at(u *unit, points []float32) ([]float32, error) {
	at, ok := c.g.Argument(u.head())
	if !ok {
		return nil, fmt.Errorf("%s is not a function of single elements of one tensor", c.g.Node(u.head()).Op)
	}
	part, err := c.function(c.g.Node(u.head()).Inputs[at], u.nodes, false)
	if err != nil {
		return nil, err
	}
	session, err := exec.New(part, exec.Options{})
	if err != nil {
		return nil, err
	}
	in := tensor.FromF32(points, len(points))
	out, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{part.Value(part.Inputs[0]).Name: in}, nil)
	if err != nil {
		return nil, err
	}
	if out[0].DType != tensor.Float32 || out[0].Len() != len(points) {
		return nil, fmt.Errorf("its function gives %s for %s", out[0].Type(), in.Type())
	}
	return out[0].F32(), nil
}
