package lower

import (
	"reflect"
	"slices"

	"qwb/graph"
)

// Operator is a type of operation, and what becomes a step of it.
type Operator struct {
	Name string   // of the type: Linear, Sum, ...
	Doc  string   // one line
	Ops  []string // operators of ai.onnx that become such a step; nil for what stands between or beside them
	// Computed: the type says itself what it computes, and back ends need no row for it. The definition of others is the row of the reference.
	Computed bool
}

// operator is a row of table.
type operator struct {
	op     Op
	family *family // nil for steps that no operator of the graph asks for
	doc    string
}

// table has a row for each type of operation. What a back end has of its own for a type is a row there (Rows), found by the same type.
var table = []operator{
	{(*Linear)(nil), &linearFamily, "sums of products, with a residual and the activation behind"},
	{(*Sum)(nil), &sumFamily, "two tensors, element by element"},
	{(*Product)(nil), &productFamily, "two tensors, element by element"},
	{(*Average)(nil), &averageFamily, "means over windows or axes"},
	{(*MaxPool)(nil), &maxPoolFamily, "maxima over windows"},
	{(*Concat)(nil), &concatFamily, "tensors joined along an axis, each brought to the encoding of the output"},
	{(*Clamp)(nil), &clampFamily, "limits of codes"},
	{(*Table)(nil), &tableFamily, "any function of single codes, and any elementwise operator of one tensor and constants"},
	{(*Softmax)(nil), &softmaxFamily, "along an axis"},
	{(*LayerNorm)(nil), &layerNormFamily, "of rows of constant size, with constant scales and biases"},
	{(*Select)(nil), &selectFamily, "one of two tensors, as a condition says"},
	{(*PRelu)(nil), &preluFamily, "codes below the zero point times a slope"},
	{(*RunTime)(nil), &recurrentFamily, "products whose factors get their scales when the program runs (Gemm, MatMul), and LSTM of such"},
	{(*Move)(nil), &moveFamily, "integers moved or selected, whatever they mean"},
	{(*Quantize)(nil), nil, "real numbers become integers"},
	{(*Dequantize)(nil), nil, "integers become real numbers"},
	{(*Requantize)(nil), nil, "integers of one encoding become those of another"},
	{(*Island)(nil), nil, "a part of the graph in float"},
	{(*Simulated)(nil), nil, "a part that is quantized and has no integer form, by the simulation in float"},
}

// Operators lists all types of operations.
func Operators() []Operator {
	var list []Operator
	for _, o := range table {
		_, computed := o.op.(Computed)
		x := Operator{Name: NameOf(o.op), Doc: o.doc, Computed: computed}
		if o.family != nil {
			x.Ops = slices.Clone(o.family.ops)
		}
		list = append(list, x)
	}
	return list
}

// familyOf returns the family of a node's operator, nil if it has no integer form.
func familyOf(n *graph.Node) *family {
	if !n.IsONNX() {
		return nil
	}
	return familyNamed(n.Op)
}

// familyNamed returns the family of an operator of ai.onnx.
func familyNamed(op string) *family {
	for _, o := range table {
		if o.family != nil && slices.Contains(o.family.ops, op) {
			return o.family
		}
	}
	return nil
}

// NameOf is the name of an operation's type: Linear, Sum, ...
func NameOf(op Op) string { return typeName(reflect.TypeOf(op)) }

func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// Own says that a back end has something of its own for a type of operation.
type Own struct {
	Operator string   // as Operator.Name
	Ops      []string // of ai.onnx, where it is for these alone; nil: for all
}

// Has reports whether one of a list is for an operator of ai.onnx that becomes an operation: "" stands for steps that none asks for.
func Has(list []Own, operator, op string) bool {
	return slices.ContainsFunc(list, func(o Own) bool { return o.Operator == operator && (o.Ops == nil || slices.Contains(o.Ops, op)) })
}

// Row is what a back end, with state C, makes of the steps of one type of operation: an R.
type Row[C, R any] struct {
	Own
	make func(c C, s *Step) (R, error)
}

// For makes a row of a function for one type of operation.
func For[T Op, C, R any](f func(c C, s *Step, op T) (R, error)) Row[C, R] {
	return Row[C, R]{Own{Operator: typeName(reflect.TypeFor[T]())}, func(c C, s *Step) (R, error) { return f(c, s, s.Op.(T)) }}
}

// Writes is For where nothing is made but what C keeps.
func Writes[T Op, C any](f func(c C, s *Step, op T) error) Row[C, struct{}] {
	return For(func(c C, s *Step, op T) (struct{}, error) { return struct{}{}, f(c, s, op) })
}

// Of is the row for some operators of ai.onnx alone.
func (r Row[C, R]) Of(ops ...string) Row[C, R] {
	r.Ops = ops
	return r
}

// But is the row for all operators of ai.onnx but some.
func (r Row[C, R]) But(ops ...string) Row[C, R] {
	i := slices.IndexFunc(table, func(o operator) bool { return NameOf(o.op) == r.Operator })
	r.Ops = slices.DeleteFunc(slices.Clone(table[i].family.ops), func(op string) bool { return slices.Contains(ops, op) })
	return r
}

// Rows are all that a back end has of its own, at most one for each type of operation.
type Rows[C, R any] []Row[C, R]

// Make makes an R of a step; ok is false where there is no row for it.
func (rows Rows[C, R]) Make(c C, s *Step) (r R, ok bool, err error) {
	name := NameOf(s.Op)
	for i := range rows {
		if row := &rows[i]; row.Operator == name && (row.Ops == nil || slices.Contains(row.Ops, s.Op.Name())) {
			r, err = row.make(c, s)
			return r, true, err
		}
	}
	return r, false, nil
}

// Own lists what the rows are for.
func (rows Rows[C, R]) Own() []Own {
	list := make([]Own, len(rows))
	for i := range rows {
		list[i] = rows[i].Own
	}
	return list
}
