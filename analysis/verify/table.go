package verify

import (
	"context"
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// table is a function of single integers.
type table struct {
	*layer
	got      *lower.Table
	argument graph.ValueID
	x, y     qmath.Grid
	// By raw byte or word of the input: the result, and what it is in real arithmetic, in steps.
	codes []int32
	value []float64
	lines []int32 // of a table that is interpolated
	// off is the deviation of the table: how far an entry lies from the rounding boundary that it is on the wrong side of.
	off float64
}

func (l *layer) deriveTable(op *lower.Table) (operation, error) {
	if l.node == nil {
		return nil, fmt.Errorf("a table without a node")
	}
	at, ok := l.g.Argument(l.node.ID)
	if !ok {
		return nil, fmt.Errorf("a table for %s, which is not a function of one tensor", l.node.Op)
	}
	x, y, err := l.singleAt(at)
	if err != nil {
		return nil, err
	}
	t := &table{layer: l, got: op, argument: l.node.Inputs[at], x: x, y: y}
	if err := t.fill(); err != nil {
		return nil, err
	}
	return t, nil
}

// entries is how many integers the type of a grid has.
func entries(g qmath.Grid) int {
	if g.QMin < -128 || g.QMax > 255 || g.QMin < 0 && g.QMax > 127 {
		return 1 << 16
	}
	return 1 << 8
}

// codeAt is the integer with the given raw byte or word.
func codeAt(g qmath.Grid, raw int) int32 {
	if n := entries(g); g.QMin < 0 && raw >= n/2 {
		return int32(raw - n)
	}
	return int32(raw)
}

func (t *table) fill() error {
	n := entries(t.x)
	x := tensor.New(tensor.Float32, n)
	for raw := range n {
		x.F32()[raw] = t.x.Dequantize(codeAt(t.x, raw))
	}
	y, err := t.evaluate(x)
	if err != nil {
		return err
	}
	if t.codes, err = t.results(x.F32(), y); err != nil {
		return err
	}
	t.value = make([]float64, n)
	e := t.steps(t.value, t.y, 0)
	for raw := range n {
		t.value[raw] = float64(y[raw]) / float64(t.y.Scale)
		if t.lines != nil { // a line may leave the limits later than the function
			t.value[raw] = min(max(t.value[raw], float64(e.lo-e.zero)), float64(e.hi-e.zero))
		}
		if v := t.value[raw]; v == v && e.code(v) != t.codes[raw] {
			t.off = max(t.off, e.distance(v, t.codes[raw]))
		}
	}
	t.off = math.Nextafter(t.off, 1) // the boundary itself is within
	return nil
}

// evaluate runs the step's operators in float.
func (t *table) evaluate(x *tensor.Tensor) ([]float32, error) {
	g, err := t.function(t.argument, t.step.Nodes)
	if err != nil {
		return nil, err
	}
	session, err := exec.New(g, exec.Options{})
	if err != nil {
		return nil, err
	}
	out, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{g.Value(g.Inputs[0]).Name: x}, nil)
	if err != nil {
		return nil, err
	}
	y := out[0].F32()
	if len(y) != x.Len() {
		return nil, fmt.Errorf("the function gives %s for %s", out[0].Type(), x.Type())
	}
	return y, nil
}

// results computes the entries as the profile defines them; y are the values of the function at x.
func (t *table) results(x, y []float32) ([]int32, error) {
	n := len(x)
	codes := make([]int32, n)
	if n == 1<<8 && entries(t.y) == 1<<8 {
		own, err := t.defined()
		if err != nil {
			return nil, err
		}
		if own == nil {
			at := make(map[uint32]float32, n)
			for i, v := range x {
				at[math.Float32bits(v)] = y[i]
			}
			made := t.profile.Table(t.x, t.y, func(v float32) float32 { return at[math.Float32bits(v)] })
			own = &made
		}
		for raw, b := range own {
			codes[raw] = int32(b)
			if t.y.QMin < 0 {
				codes[raw] = int32(int8(b))
			}
		}
		return codes, nil
	}
	if t.profile.Interpolates(t.x, t.y) {
		return codes, t.interpolate(codes)
	}
	if t.profile.Pivots(t.x, t.y) {
		points := t.profile.PivotPoints(t.x)
		values, err := t.evaluate(tensor.FromF32(points, len(points)))
		if err != nil {
			return nil, err
		}
		kept := t.profile.PivotEntries(values, t.y)
		for raw := range codes {
			codes[raw] = t.profile.AtPivots(kept, t.x, codeAt(t.x, raw))
		}
		return codes, nil
	}
	q := t.profile.TableQuantizer(t.y)
	for raw := range codes {
		codes[raw] = q.At(y[raw])
	}
	return codes, nil
}

// defined returns the table of an operator that profiles define themselves, limits behind it included; nil for others.
func (t *table) defined() (*qmath.Table, error) {
	lo, hi, ok, err := t.limits(t.acts)
	if err != nil || !ok {
		return nil, err
	}
	y := t.y
	y.QMin, y.QMax = t.y.Quantize(lo), t.y.Quantize(hi)
	var made qmath.Table
	switch t.node.Op {
	case "Sigmoid":
		made = t.profile.Table(t.x, y, t.profile.Sigmoid())
	case "HardSwish":
		made, err = t.profile.HardSwish(t.x, y)
	case "LeakyRelu":
		made, err = t.profile.LeakyRelu(t.x, y, t.node.Alpha())
	default:
		return nil, nil
	}
	return &made, err
}

// interpolate draws the lines of a table of the form that TFLite has for int16, and what they give for every code.
func (t *table) interpolate(codes []int32) error {
	points := qmath.InterpolationPoints(t.x)
	values, err := t.evaluate(tensor.FromF32(points, len(points)))
	if err != nil {
		return err
	}
	made := qmath.Interpolate(values, t.y)
	t.lines = widened(&made)
	for raw := range codes {
		codes[raw] = min(max(made.At(codeAt(t.x, raw)), t.y.QMin), t.y.QMax)
	}
	return nil
}

func widened(t *qmath.Interpolated) []int32 {
	if t == nil {
		return nil
	}
	list := make([]int32, len(t))
	for i, q := range t {
		list[i] = int32(q)
	}
	return list
}

func (t *table) compare(f *faults) {
	numbers(f, "entry of the interpolated table", t.lines, widened(t.got.Lines))
	numbers(f, "table entry", t.codes, t.got.Codes.Integers())
}

func (t *table) exact(_ *computer, in []*tensor.Tensor) ([]*exact, error) {
	codes := in[0].Integers()
	values := make([]float64, len(codes))
	for i, q := range codes {
		values[i] = t.value[int(q)&(len(t.value)-1)] * float64(t.y.Scale)
	}
	return []*exact{t.steps(values, t.y, t.off)}, nil
}
