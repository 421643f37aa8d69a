package espdl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Format is the file of ESP-DL. Its targets are the chips: what they round, and how weights lie, differs.
func Format() export.Format {
	return export.Format{Name: "espdl", Doc: "the integer program as a file of ESP-DL, with the first sample as its test values",
		Ext: ".espdl", From: export.Program,
		Note: "the model's inputs and outputs are integers, and pictures lie channels last; Model::test() of ESP-DL runs the test values " +
			"on the board",
		Targets: []string{"espdl_int8", "espdl_int8_s3", "espdl_int8_c", "espdl_int16", "espdl_int16_s3", "espdl_int16_c"},
		Own:     rows().Own(),
		Write:   write, Rules: rules(), Doctor: doctor, Look: look, Back: back}
}

func write(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	run, err := program.New(in.Program, program.Reference, in.Threads)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	feeds, err := in.Sample()
	if err != nil {
		return nil, err
	}
	b, err := assemble(ctx, run, feeds, in.Target)
	if err != nil {
		return nil, err
	}
	m := b.m
	in.State = &b.places
	m.Name, m.Producer, m.Version = in.Title, in.Producer, in.Version
	for _, p := range in.Metadata {
		m.Metadata = append(m.Metadata, [2]string{p.Key, p.Value})
	}
	out.Figure("nodes", int64(len(m.Nodes)))
	return nil, out.Write(out.Name(), func(w io.Writer) error {
		_, err := w.Write(m.Marshal())
		return err
	})
}

// builder makes a model of a program while that runs on one sample, which tells every shape.
type builder struct {
	m      *Model
	p      *lower.Program
	target *target.Target
	plain  bool // weights lie as on chips without vectors
	places
	taken map[string]bool
	moved map[string]string // a tensor in another layout, by its name and layout
}

// places says where the tensors of a program are in a file; Back asks it, too.
type places struct {
	names map[lower.TensorID]string
	perms map[lower.TensorID][]int          // how the axes of a tensor lie in the file: position i holds axis perms[i]; nil: not decided yet
	held  map[lower.TensorID]*tensor.Tensor // what the sample gives; in the end of inputs and outputs only
	// same are real tensors that the file has as integers only: inputs, outputs, and what a Softmax reads.
	same map[lower.TensorID]lower.TensorID
}

// assemble makes a file for a chip of a program that runs on a sample.
func assemble(ctx context.Context, run *program.Executor, feeds map[string]*tensor.Tensor, t *target.Target) (*builder, error) {
	b := &builder{m: &Model{}, p: run.Program(), target: t, plain: strings.HasSuffix(t.Name, "_c"), taken: map[string]bool{},
		moved: map[string]string{},
		places: places{names: map[lower.TensorID]string{},
			perms: map[lower.TensorID][]int{}, held: map[lower.TensorID]*tensor.Tensor{}, same: map[lower.TensorID]lower.TensorID{}}}
	b.borders()
	for _, id := range b.p.Inputs {
		if to, ok := b.same[id]; ok {
			id = to
		}
		b.name(id)
	}
	var refused error // what is said of an operator, not of running it
	_, err := run.Run(ctx, feeds, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		for i, id := range slices.Concat(s.Inputs, s.Outputs) {
			if id != lower.NoTensor {
				b.held[id] = slices.Concat(in, out)[i]
			}
		}
		refused = b.refusal(s, b.step(s))
		return nil, refused
	})
	if refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	tested := map[lower.TensorID]*tensor.Tensor{}
	for _, l := range []struct {
		ids    []lower.TensorID
		values *[]Value
		tests  *[]Tensor
	}{{b.p.Inputs, &b.m.Inputs, &b.m.TestInputs}, {b.p.Outputs, &b.m.Outputs, &b.m.TestOutputs}} {
		for _, id := range l.ids {
			if to, ok := b.same[id]; ok {
				id = to
			}
			if b.held[id] == nil {
				return nil, fmt.Errorf("espdl: %q: no step reads or writes it", b.p.Tensors[id].Name)
			}
			v := b.value(id)
			*l.values = append(*l.values, v)
			t, err := constant(v.Name, permuted(b.held[id], b.perms[id]), v.Exponents)
			if err != nil {
				return nil, err
			}
			*l.tests = append(*l.tests, t)
			tested[id] = b.held[id]
		}
	}
	b.held = tested
	return b, nil
}

const stage = "export espdl"

// refusal is why a step has no form in the file, of the operator that is the cause.
func (b *builder) refusal(s *lower.Step, err error) error {
	if of := (*graph.NodeError)(nil); err == nil || errors.As(err, &of) { // one of several operators in float
		return err
	}
	if s.Node == graph.NoNode {
		return fmt.Errorf("%s: %s of %q: %w", stage, s.Op.Name(), b.p.Name(s.ID), err)
	}
	return b.p.Graph.ErrorAt(stage, s.Node, err)
}

// borders finds the real tensors that the file need not have: inputs that one step quantizes, outputs and arguments of a Softmax that
// one step dequantizes.
func (b *builder) borders() {
	readers := map[lower.TensorID][]*lower.Step{}
	for i := range b.p.Steps {
		for _, id := range b.p.Steps[i].Inputs {
			readers[id] = append(readers[id], &b.p.Steps[i])
		}
	}
	for i := range b.p.Steps {
		s := &b.p.Steps[i]
		switch s.Op.(type) {
		case *lower.Quantize:
			if slices.Contains(b.p.Inputs, s.Inputs[0]) && len(readers[s.Inputs[0]]) == 1 {
				b.same[s.Inputs[0]] = s.Outputs[0]
			}
		case *lower.Dequantize:
			direct := true
			for _, r := range readers[s.Outputs[0]] {
				island, ok := r.Op.(*lower.Island)
				direct = direct && ok && len(island.Graph.Nodes()) == 1 && softmax(island.Graph.Node(island.Graph.Nodes()[0]))
			}
			if direct {
				b.same[s.Outputs[0]] = s.Inputs[0]
			}
		}
	}
}

// softmax reports whether a float operator reads integers: ESP-DL's softmax does.
func softmax(n *graph.Node) bool { return n.Op == "Softmax" || n.Op == "LogSoftmax" }

// name gives a tensor its name in the file: that of its value, unless another tensor has it.
func (b *builder) name(id lower.TensorID) string {
	if to, ok := b.same[id]; ok {
		id = to
	}
	if name, ok := b.names[id]; ok {
		return name
	}
	t := &b.p.Tensors[id]
	name := t.Name
	if t.Value != graph.NoValue {
		name = b.p.Graph.Value(t.Value).Name
	}
	name = b.unique(name)
	b.names[id] = name
	return name
}

func (b *builder) unique(name string) string {
	for i, base := 1, name; b.taken[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	b.taken[name] = true
	return name
}

// channelsLast is the layout of what windows slide over; nil where there is none for the rank.
func channelsLast(rank int) []int {
	switch rank {
	case 3:
		return []int{0, 2, 1}
	case 4:
		return []int{0, 2, 3, 1}
	}
	return nil
}

func straight(rank int) []int {
	p := make([]int, rank)
	for i := range p {
		p[i] = i
	}
	return p
}

// perm is the layout of a tensor, straight where nothing was decided.
func (b *builder) perm(id lower.TensorID) []int {
	if to, ok := b.same[id]; ok {
		id = to
	}
	if p := b.perms[id]; p != nil {
		return p
	}
	return straight(len(b.held[id].Shape))
}

// in returns the name of a tensor in a layout, behind a Transpose where it lies otherwise. An input of the model lies as its first reader
// wants it.
func (b *builder) in(id lower.TensorID, want []int) (string, error) {
	if to, ok := b.same[id]; ok {
		id = to
	}
	t := &b.p.Tensors[id]
	if t.Const != nil {
		return b.constant(t, want)
	}
	name := b.name(id)
	have := b.perms[id]
	if have == nil {
		b.perms[id] = want
		b.m.Values = append(b.m.Values, b.value(id))
		return name, nil
	}
	if slices.Equal(have, want) {
		return name, nil
	}
	key := fmt.Sprint(name, want)
	if moved, ok := b.moved[key]; ok {
		return moved, nil
	}
	perm, v := make([]int64, len(want)), b.value(id)
	for i, axis := range want {
		perm[i] = int64(slices.Index(have, axis))
		v.Shape[i] = int64(b.held[id].Shape[axis])
	}
	v.Name = b.unique(name + "_transposed")
	b.node(v.Name, "Transpose", []string{name}, v, Attr{"perm", perm}, b.kind(id))
	b.moved[key] = v.Name
	return v.Name, nil
}

// constant adds a quantized constant in a layout.
func (b *builder) constant(t *lower.Tensor, want []int) (string, error) {
	data := t.Const.ToRowMajor()
	if len(data.Shape) == len(want) {
		data = permuted(data, want)
	}
	e, err := exponent(t.Encoding.Scale)
	if err != nil {
		return "", err
	}
	return b.initializer(t.Name, data, []int64{e})
}

// permuted moves the axes of a tensor.
func permuted(t *tensor.Tensor, perm []int) *tensor.Tensor {
	t = t.ToRowMajor()
	if perm == nil || slices.IsSorted(perm) {
		return t
	}
	shape := make([]int, len(perm))
	strides, out := make([]int, len(perm)), 1
	for i, axis := range perm {
		shape[i] = t.Shape[axis]
		strides[i] = 1
		for _, d := range t.Shape[axis+1:] {
			strides[i] *= d
		}
		out *= shape[i]
	}
	r := tensor.New(t.DType, shape...)
	at := make([]int, len(perm))
	for i := range out {
		from := 0
		for k, a := range at {
			from += a * strides[k]
		}
		copyElement(r, i, t, from)
		for k := len(at) - 1; k >= 0; k-- {
			if at[k]++; at[k] < shape[k] {
				break
			}
			at[k] = 0
		}
	}
	return r
}

func copyElement(to *tensor.Tensor, i int, from *tensor.Tensor, k int) {
	switch d := to.Data.(type) {
	case []int8:
		d[i] = from.Data.([]int8)[k]
	case []int16:
		d[i] = from.Data.([]int16)[k]
	case []float32:
		d[i] = from.Data.([]float32)[k]
	case []int64:
		d[i] = from.Data.([]int64)[k]
	}
}

// exponent is the n of a scale 2^n.
func exponent(scale float32) (int64, error) {
	frac, exp := math.Frexp(float64(scale))
	if frac != 0.5 {
		return 0, fmt.Errorf("the scale %g is not a power of two", scale)
	}
	return int64(exp - 1), nil
}

// value describes a tensor as it lies in the file.
func (b *builder) value(id lower.TensorID) Value {
	t := &b.p.Tensors[id]
	v := Value{Name: b.name(id), Type: float32Type, Exponents: []int64{0}}
	shape := b.held[id].Shape
	for _, axis := range b.perm(id) {
		v.Shape = append(v.Shape, int64(shape[axis]))
	}
	if n := onnxType(t.DType); n != 0 {
		v.Type = n
	}
	if t.Encoding != nil {
		v.Exponents[0], _ = exponent(t.Encoding.Scale) // refused where the step is written
	}
	return v
}

// onnxType is the number of a type of elements, 0: ESP-DL's files have none.
func onnxType(d tensor.DType) int {
	switch d {
	case tensor.Float32:
		return float32Type
	case tensor.Int8:
		return int8Type
	case tensor.Int16:
		return int16Type
	case tensor.Int32:
		return int32Type
	case tensor.Int64:
		return int64Type
	case tensor.Bool:
		return boolType
	}
	return 0
}

// kind is the attribute by which ESP-DL chooses the kernel for a tensor.
func (b *builder) kind(id lower.TensorID) Attr {
	if to, ok := b.same[id]; ok {
		id = to
	}
	switch b.p.Tensors[id].DType {
	case tensor.Int8:
		return Attr{"quant_type", "S8"}
	case tensor.Int16:
		return Attr{"quant_type", "S16"}
	}
	return Attr{"quant_type", "F32"}
}

// node adds a node with one output. Attributes stand by name, as ESP-PPQ writes them.
func (b *builder) node(name, op string, in []string, out Value, attrs ...Attr) {
	arrange.Stable(attrs, func(x, y Attr) int { return strings.Compare(x.Name, y.Name) })
	b.m.Nodes = append(b.m.Nodes, Node{Name: name, Op: op, Inputs: in, Outputs: []string{out.Name}, Attrs: attrs})
	b.m.Values = append(b.m.Values, out)
}

// made gives the output of a step its layout and returns its value. An encoding that ESP-DL does not have is an error.
func (b *builder) made(id lower.TensorID, perm []int) (Value, error) {
	t := &b.p.Tensors[id]
	if e := t.Encoding; e != nil {
		if _, err := exponent(e.Scale); err != nil {
			return Value{}, err
		}
		if e.ZeroPoint != 0 || t.DType != tensor.Int8 && t.DType != tensor.Int16 {
			return Value{}, fmt.Errorf("ESP-DL has int8 and int16 without zero points, not %s with %d", t.DType, e.ZeroPoint)
		}
	}
	b.perms[id] = perm
	return b.value(id), nil
}

// initializer adds a constant under a name of its own.
func (b *builder) initializer(name string, data *tensor.Tensor, exponents []int64) (string, error) {
	t, err := constant(b.unique(name), data.ToRowMajor(), exponents)
	if err == nil {
		b.m.Initializers = append(b.m.Initializers, t)
	}
	return t.Name, err
}

// constant is a tensor of the file.
func constant(name string, data *tensor.Tensor, exponents []int64) (Tensor, error) {
	t := Tensor{Name: name, Type: onnxType(data.DType), Exponents: exponents}
	if t.Type == 0 {
		return t, fmt.Errorf("constant %q: ESP-DL's files have no %s", name, data.DType)
	}
	for _, d := range data.Shape {
		t.Shape = append(t.Shape, int64(d))
	}
	switch d := data.Data.(type) {
	case []float32:
		for _, v := range d {
			t.Raw = binary.LittleEndian.AppendUint32(t.Raw, math.Float32bits(v))
		}
	case []bool:
		for _, v := range d {
			t.Raw = append(t.Raw, map[bool]byte{true: 1}[v])
		}
	case []int64:
		for _, v := range d {
			t.Raw = binary.LittleEndian.AppendUint64(t.Raw, uint64(v))
		}
	default:
		size := elementSize[t.Type]
		for _, v := range data.Integers() {
			for i := range size {
				t.Raw = append(t.Raw, byte(v>>(8*i)))
			}
		}
	}
	t.Raw = append(t.Raw, make([]byte, (16-len(t.Raw)%16)%16)...)
	return t, nil
}

// int64s adds a constant of whole numbers: a shape, axes.
func (b *builder) int64s(name string, list []int64) (string, error) {
	return b.initializer(name, tensor.FromI64(list, len(list)), []int64{0})
}

// limited writes a step's node and, behind it, the limits lo and hi where the node itself does not have them: a table.
func (b *builder) limited(id lower.TensorID, perm []int, lo, hi int32, write func(out Value, activation string) error) error {
	e := b.p.Tensors[id].Encoding
	if e == nil {
		return fmt.Errorf("its result is not quantized")
	}
	v, err := b.made(id, perm)
	switch {
	case err != nil:
		return err
	case lo <= e.QMin && hi >= e.QMax:
		return write(v, "Linear")
	case lo == 0 && hi >= e.QMax:
		return write(v, "Relu")
	}
	before := v
	before.Name = b.unique(v.Name + "_unlimited")
	if err := write(before, "Linear"); err != nil {
		return err
	}
	return b.clamp(id, before.Name, v, lo, hi)
}

// clamp writes a Clip by a table.
func (b *builder) clamp(id lower.TensorID, from string, to Value, lo, hi int32) error {
	t := &b.p.Tensors[id]
	lut, err := b.table(t.DType, to.Exponents, func(q int32) int32 { return min(max(q, lo), hi) })
	if err != nil {
		return err
	}
	inputs := []string{from}
	for _, l := range []struct {
		name string
		v    int32
	}{{"min", lo}, {"max", hi}} {
		c := tensor.New(t.DType)
		set(c, 0, l.v)
		name, err := b.initializer(to.Name+"_"+l.name, c, to.Exponents)
		if err != nil {
			return err
		}
		inputs = append(inputs, name)
	}
	b.node(to.Name, "Clip", inputs, to, Attr{"lut", lut}, b.kind(id))
	return nil
}

func set(t *tensor.Tensor, i int, q int32) {
	switch d := t.Data.(type) {
	case []int8:
		d[i] = int8(q)
	case []int16:
		d[i] = int16(q)
	}
}

// table adds the entries of a function of codes, from the lowest code up: one for every int8, for int16 one every Step codes and one at the
// end, which is what the highest code reads.
func (b *builder) table(d tensor.DType, exponents []int64, f func(q int32) int32) (string, error) {
	least, step, n := int32(math.MinInt8), int32(1), 256
	if d == tensor.Int16 {
		least, step = math.MinInt16, int32(max(b.p.Profile.Step, 1))
		n = 1<<16/int(step) + 1
	}
	t := tensor.New(d, n)
	for i := range n {
		set(t, i, f(min(least+int32(i)*step, -least-1)))
	}
	// Equal tables are one.
	made, err := constant("", t, exponents)
	if err != nil {
		return "", err
	}
	for i := range b.m.Initializers {
		if o := &b.m.Initializers[i]; strings.HasPrefix(o.Name, "lut") && o.Type == made.Type && slices.Equal(o.Raw, made.Raw) &&
			slices.Equal(o.Exponents, exponents) {
			return o.Name, nil
		}
	}
	return b.initializer("lut", t, exponents)
}
