package tflite

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
	"qwb/quantizer/tqc"
)

const stage = "export tflite"

// build turns a program into a file. What the file cannot express is an error that names stage, node and operator.
func build(in *export.Input) (*tf.Model, error) {
	p, err := bind(in)
	if err != nil {
		return nil, err
	}
	b := &builder{ctx: cmp.Or(in.Context, context.Background()), p: p, values: map[lower.TensorID]*value{}, names: map[string]int{},
		constants: map[string]int{}, laid: map[int]bool{}}
	b.keepInputs, b.keepOutputs = in.Options.Text(export.InputsName) == "integers", in.Options.Text(export.Outputs.Name) == "integers"
	b.unwritten(in)
	if err := b.program(); err != nil {
		return nil, err
	}
	m := &tf.Model{Version: 3, Description: in.Producer + " " + in.Version, Subgraphs: []tf.Subgraph{b.sub}}
	if b.wide {
		m.Metadata = append(m.Metadata, minimum("2.4.0"))
	} else {
		m.Metadata = append(m.Metadata, minimum("2.3.0"))
	}
	if len(b.layouts) > 0 {
		m.Metadata = append(m.Metadata, tf.Metadata{Name: "qwb.layouts", Data: b.layouts})
	}
	if edges := b.dependencies(); edges != nil {
		m.Metadata = append(m.Metadata, tf.Metadata{Name: "model_control_dependencies", Data: edges})
	}
	sig := tf.Signature{Key: "serving_default"}
	for i, id := range p.Inputs {
		sig.Inputs = append(sig.Inputs, tf.Named{Name: p.Tensors[id].Name, Tensor: b.sub.Inputs[i]})
	}
	for i, id := range p.Outputs {
		sig.Outputs = append(sig.Outputs, tf.Named{Name: p.Graph.Value(p.Tensors[id].Value).Name, Tensor: b.sub.Outputs[i]})
	}
	m.Signatures = []tf.Signature{sig}
	return m, nil
}

// unwritten refuses what a plan decides and the file would not show: operators in fp16 and bf16, and those of which the weights alone are
// quantized.
func (b *builder) unwritten(in *export.Input) {
	for _, id := range in.Model.Graph.Nodes() {
		switch d := in.Set.Domains[id]; d {
		case tqc.DomainFP16, tqc.DomainBF16:
			b.refused.Add(in.Model.Graph.ErrorAt(stage, id,
				fmt.Errorf("%s is not written to .tflite: integers and float32 alone are (domain=int, domain=fp32)", d)))
		case tqc.DomainWeights:
			b.refused.Add(in.Model.Graph.ErrorAt(stage, id,
				errors.New("weights alone (domain=weights) are not written to .tflite: the file would hold them in float32 (domain=int, domain=fp32)")))
		}
	}
}

// minimum is the metadata that says which runtime the operators need: 16 bytes, filled with zeros.
func minimum(version string) tf.Metadata {
	data := make([]byte, 16)
	copy(data, version)
	return tf.Metadata{Name: "min_runtime_version", Data: data}
}

// bind returns the program with the sizes that the options give for dimensions the model leaves open.
func bind(in *export.Input) (*lower.Program, error) {
	bound, err := export.BoundSizes(in)
	if err != nil {
		return nil, err
	}
	q := *in.Program
	q.Graph = in.Program.Graph.Clone()
	if errs := graph.Bind(q.Graph, bound); len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", stage, errs[0])
	}
	q.Tensors = slices.Clone(in.Program.Tensors)
	for i := range q.Tensors {
		t := &q.Tensors[i]
		t.Shape = q.Graph.Value(t.Value).Shape
		if t.Const != nil {
			t.Shape = graph.Static(t.Const.Shape...)
		}
	}
	for _, id := range q.Inputs {
		if t := &q.Tensors[id]; t.Shape == nil {
			return nil, fmt.Errorf("%s: input %q has no known rank", stage, t.Name)
		} else if _, ok := t.Shape.Ints(); !ok {
			return nil, fmt.Errorf("%s: input %q is %s: the file needs sizes for all of its dimensions (--size)", stage, t.Name,
				graph.FormatType(t.DType, t.Shape))
		}
	}
	return &q, nil
}

// builder collects the tensors and operators of a file.
type builder struct {
	ctx       context.Context // ends the search for where the elements of a step come from
	p         *lower.Program
	sub       tf.Subgraph
	values    map[lower.TensorID]*value
	names     map[string]int
	constants map[string]int // int32 lists that operators read, by type and content
	layouts   []byte         // lines of name, tab, perm of tensors that are not in the graph's order
	laid      map[int]bool   // the tensors that layouts names
	wide      bool           // some activations have 16 bits
	refused   export.Refusals

	keepInputs, keepOutputs bool // integers at the border
}

// value is a number array of the program: a constant, or a tensor of the file in at least one order of axes.
type value struct {
	name  string
	typ   tf.Type
	enc   *lower.Encoding
	shape []int // of the graph
	konst *tensor.Tensor
	perm  []int          // the order in which it was computed
	at    map[string]int // tensors of the file by order
	flat  *flat
}

// flat is a value that is another one with its axes but the first made one, in the graph's order. It becomes a tensor when it is known in
// which order it is read.
type flat struct{ of *value }

func identity(rank int) []int {
	p := make([]int, rank)
	for i := range p {
		p[i] = i
	}
	return p
}

// last is the order that windows read: [N,C,spatial...] as [N,spatial...,C].
func last(rank int) []int {
	p := identity(rank)
	if rank > 2 {
		copy(p[1:], p[2:])
		p[rank-1] = 1
	}
	return p
}

func permuted(shape, perm []int) []int {
	s := make([]int, len(perm))
	for j, a := range perm {
		s[j] = shape[a]
	}
	return s
}

// where is the stored axis of an axis of the graph.
func where(perm []int, axis int) int { return slices.Index(perm, axis) }

var types = map[tensor.DType]tf.Type{tensor.Float32: tf.Float32, tensor.Int8: tf.Int8, tensor.Int16: tf.Int16, tensor.Int32: tf.Int32,
	tensor.Int64: tf.Int64, tensor.Bool: tf.Bool, tensor.Uint8: tf.Uint8, tensor.Float16: tf.Float16, tensor.Float64: tf.Float64}

// castAlone reports whether a type has no kernels but that of CAST.
func castAlone(t tf.Type) bool { return t == tf.Float16 || t == tf.Float64 }

// valueOf describes a tensor of the program without making one of the file.
func (b *builder) valueOf(id lower.TensorID) (*value, error) {
	if v, there := b.values[id]; there && v == nil {
		return nil, errLost
	} else if there {
		return v, nil
	}
	t := &b.p.Tensors[id]
	typ, ok := types[t.DType]
	if !ok || typ == tf.Uint8 && t.Encoding != nil {
		return nil, fmt.Errorf("%q has the type %s, which TensorFlow Lite's kernels do not have%s", t.Name, t.DType, export.ToFloat32(t.DType))
	}
	shape, ok := t.Shape.Ints()
	if !ok || t.Shape == nil {
		return nil, fmt.Errorf("%q is %s: the file needs fixed shapes", t.Name, graph.FormatType(t.DType, t.Shape))
	}
	v := &value{name: t.Name, typ: typ, enc: t.Encoding, shape: shape, konst: t.Const, at: map[string]int{}}
	b.wide = b.wide || typ == tf.Int16
	if typ == tf.Int16 && t.Encoding != nil && t.Encoding.ZeroPoint != 0 {
		return nil, fmt.Errorf("%q has int16 with zero point %d: TensorFlow Lite's int16 is symmetric", t.Name, t.Encoding.ZeroPoint)
	}
	b.values[id] = v
	return v, nil
}

// input is a tensor of the program that a step reads.
func (b *builder) input(id lower.TensorID) (*value, error) {
	v, err := b.valueOf(id)
	if err == nil && v.konst == nil && len(v.at) == 0 && v.flat == nil {
		err = fmt.Errorf("%q is not there", v.name)
	}
	return v, err
}

func quantization(e *lower.Encoding) *tf.Quantization {
	if e == nil {
		return nil
	}
	return &tf.Quantization{Scale: []float32{e.Scale}, ZeroPoint: []int{int(e.ZeroPoint)}}
}

// tensor adds a tensor to the file and returns its number.
func (b *builder) tensor(t tf.Tensor) int {
	name := t.Name
	for ; b.names[t.Name] > 0; b.names[name]++ {
		t.Name = fmt.Sprintf("%s:%d", name, b.names[name])
	}
	b.names[t.Name]++
	if t.Shape == nil {
		t.Shape = []int{}
	}
	b.sub.Tensors = append(b.sub.Tensors, t)
	return len(b.sub.Tensors) - 1
}

// make adds the tensor that an operator is about to compute for v in an order.
func (b *builder) make(v *value, perm []int) int {
	i := b.tensor(tf.Tensor{Name: v.name, Type: v.typ, Shape: permuted(v.shape, perm), Quantization: quantization(v.enc)})
	v.perm, v.konst, v.flat = slices.Clone(perm), nil, nil
	v.at[fmt.Sprint(perm)] = i
	if !slices.Equal(perm, identity(len(perm))) {
		b.laid[i] = true
		b.layouts = append(b.layouts, fmt.Sprintf("%s\t%v\n", b.sub.Tensors[i].Name, perm)...)
	}
	return i
}

// temporary adds a tensor like v under another name.
func (b *builder) temporary(v *value, suffix string, shape []int, e *lower.Encoding) int {
	return b.tensor(tf.Tensor{Name: v.name + "/" + suffix, Type: v.typ, Shape: shape, Quantization: quantization(e)})
}

// read is the tensor of v in an order; it transposes where v is not there in it.
func (b *builder) read(v *value, perm []int) int {
	key := fmt.Sprint(perm)
	if i, ok := v.at[key]; ok {
		return i
	}
	switch {
	case v.konst != nil:
		v.at[key] = b.tensor(tf.Tensor{Name: v.name, Type: v.typ, Shape: permuted(v.shape, perm), Data: b.permuteBytes(v.konst, v.shape, perm),
			Quantization: quantization(v.enc)})
		return v.at[key]
	case v.flat != nil:
		i := b.read(v.flat.of, identity(len(v.flat.of.shape)))
		v.flat = nil
		out := b.make(v, identity(len(v.shape)))
		b.reshape(i, out)
		return b.read(v, perm)
	}
	from := v.at[fmt.Sprint(v.perm)]
	to := make([]int, len(perm))
	for j, a := range perm {
		to[j] = where(v.perm, a)
	}
	i := b.temporary(v, "transposed", permuted(v.shape, perm), v.enc)
	v.at[key] = i
	if sameBytes(permuted(v.shape, v.perm), to) {
		b.reshape(from, i)
	} else {
		b.op("TRANSPOSE", []int{from, b.list("perm", to)}, []int{i})
	}
	return i
}

// sameBytes reports whether transposing a shape leaves all elements in their places: only axes of length 1 change theirs.
func sameBytes(shape, perm []int) bool {
	at := -1
	for _, a := range perm {
		if shape[a] == 1 {
			continue
		}
		if a < at {
			return false
		}
		at = a
	}
	return true
}

func (b *builder) reshape(from, to int) {
	shape := b.sub.Tensors[to].Shape
	b.op("RESHAPE", []int{from, b.list("shape", shape)}, []int{to}, "new_shape", slices.Clone(shape))
}

// list is a constant of int32; equal ones are one tensor.
func (b *builder) list(name string, list []int, shape ...int) int {
	if shape == nil {
		shape = []int{len(list)}
	}
	return b.whole(name, list, shape)
}

// whole is list for a shape of any number of axes: of none for a scalar.
func (b *builder) whole(name string, list, shape []int) int {
	key := fmt.Sprint(list, shape)
	if i, ok := b.constants[key]; ok {
		return i
	}
	data := make([]byte, 0, 4*len(list))
	for _, x := range list {
		data = binary.LittleEndian.AppendUint32(data, uint32(int32(x)))
	}
	i := b.tensor(tf.Tensor{Name: fmt.Sprintf("%s/%d", name, len(b.constants)), Type: tf.Int32, Shape: shape, Data: data})
	b.constants[key] = i
	return i
}

// reals is a constant of float32.
func (b *builder) reals(name string, t *tensor.Tensor) *value {
	return &value{name: name, typ: tf.Float32, shape: t.Shape, konst: t, at: map[string]int{}}
}

// permuteBytes is the little-endian data of a constant in an order of its axes. A constant without a form in bytes fails the whole file.
func (b *builder) permuteBytes(t *tensor.Tensor, shape, perm []int) []byte {
	t = t.ToRowMajor()
	data, err := binary.Append(nil, binary.LittleEndian, t.Data)
	if err != nil {
		b.refused.Add(fmt.Errorf("%s: a constant of %s: %w", stage, t.DType, err))
	}
	if err != nil || slices.Equal(perm, identity(len(perm))) {
		return data
	}
	n := tensor.Count(shape)
	if n == 0 {
		return data
	}
	size := len(data) / n
	stride := make([]int, len(shape))
	for i, s := len(shape)-1, 1; i >= 0; i-- {
		stride[i], s = s, s*shape[i]
	}
	out := make([]byte, 0, len(data))
	index := make([]int, len(perm))
	for range n {
		from := 0
		for j, a := range perm {
			from += index[j] * stride[a]
		}
		out = append(out, data[from*size:][:size]...)
		for j := len(perm) - 1; j >= 0; j-- {
			if index[j]++; index[j] < shape[perm[j]] {
				break
			}
			index[j] = 0
		}
	}
	return out
}

// op adds an operator. Options come as pairs of name and value.
func (b *builder) op(name string, in, out []int, options ...any) {
	row := ops[name]
	o := tf.Operator{Op: name, Inputs: in, Outputs: out, OptionsType: row.options}
	if row.options != "" {
		o.Options = tf.Options{}
	}
	for i := 0; i < len(options); i += 2 {
		o.Options[options[i].(string)] = options[i+1]
	}
	o.Version = row.version(b, &o)
	b.sub.Operators = append(b.sub.Operators, o)
}

// program writes all steps that the outputs depend on. What has no form is collected, with stand-ins for what it would have computed.
func (b *builder) program() error {
	b.sub.Name = "main"
	wanted, needed := steps.WantedLast(b.p), b.needed()
	readers := b.readers(needed)
	skip := map[lower.StepID]bool{}
	for _, id := range b.p.Inputs {
		if r := readers[id]; b.keepInputs && len(r) == 1 {
			if s := &b.p.Steps[r[0]]; isQuantize(s) {
				skip[s.ID] = true
				id = s.Outputs[0]
			}
		}
		v, err := b.valueOf(id)
		if err != nil {
			b.refused.Add(fmt.Errorf("%s: input: %w", stage, err))
			b.stand(id)
			continue
		}
		perm := identity(len(v.shape))
		if wanted[id] || b.slides(id, readers, wanted) {
			perm = last(len(v.shape))
		}
		b.sub.Inputs = append(b.sub.Inputs, b.make(v, perm))
	}
	for i := range b.p.Steps {
		s := &b.p.Steps[i]
		if !needed[i] || skip[s.ID] || b.keepOutputs && b.last(s, readers) {
			continue
		}
		if err := b.step(s); err != nil {
			b.refuse(s, err)
			for _, id := range s.Outputs {
				b.stand(id)
			}
		}
	}
	for _, id := range b.p.Outputs {
		if err := b.output(id, readers); err != nil {
			b.refused.Add(fmt.Errorf("%s: output: %w", stage, err))
		}
	}
	b.unchain()
	return b.refused.Err(stage)
}

// inPlace are the operators whose result may lie where an operand of theirs lies, in LiteRT's memory without XNNPACK.
var inPlace = []string{"RESHAPE", "ADD", "SUB", "MUL", "DIV", "SOFTMAX"}

// unchain makes a RESHAPE of another one's output read what that one reads, where others read the output as well: without XNNPACK,
// LiteRT's memory plan counts the readers of the output alone, and lets an operator behind the second write over what they read. Of what
// another operator computed in place, the RESHAPE gets a result of its own; its operands have two readers then, and stay.
func (b *builder) unchain() {
	readers, source, reader := map[int]int{}, map[int]int{}, map[int]string{}
	for i := range b.sub.Operators {
		for _, t := range b.sub.Operators[i].Inputs {
			readers[t]++
			reader[t] = b.sub.Operators[i].Op
		}
	}
	made, list := map[int]tf.Operator{}, []tf.Operator(nil)
	for _, o := range b.sub.Operators {
		if o.Op == "RESHAPE" {
			x := o.Inputs[0]
			if from, chained := source[x]; chained && readers[x] > 1 {
				readers[x]--
				readers[from]++
				x = from
			}
			p, is := made[x]
			is = is && slices.ContainsFunc(p.Inputs, func(t int) bool { return readers[t] == 1 && b.sub.Tensors[t].Data == nil })
			if y := o.Outputs[0]; is && readers[x] > 1 && readers[y] == 1 && slices.Contains(inPlace, reader[y]) {
				again := b.sub.Tensors[x]
				again.Name += "/again"
				readers[x]--
				delete(made, x)
				x = b.tensor(again)
				p.Outputs = []int{x}
				list = append(list, p)
			}
			o.Inputs = []int{x, o.Inputs[1]}
			source[o.Outputs[0]] = x
		} else if slices.Contains(inPlace, o.Op) {
			made[o.Outputs[0]] = o
		}
		list = append(list, o)
	}
	b.sub.Operators = list
}

func isQuantize(s *lower.Step) bool {
	_, ok := s.Op.(*lower.Quantize)
	return ok
}

// refuse notes what a step failed with.
func (b *builder) refuse(s *lower.Step, err error) {
	switch of := (*graph.NodeError)(nil); {
	case errors.Is(err, errLost):
	case errors.As(err, &of): // one of several operators in float
		b.refused.Add(err)
	case s.Node != graph.NoNode:
		b.refused.Add(b.p.Graph.ErrorAt(stage, s.Node, err))
	default:
		b.refused.Add(fmt.Errorf("%s: %s of %q: %w", stage, s.Op.Name(), b.p.Name(s.ID), err))
	}
}

// errLost says that what is read was refused before.
var errLost = errors.New("it reads what has no form in the file")

// stand makes a value for a tensor whose step was refused, so that those behind it can be looked at.
func (b *builder) stand(id lower.TensorID) {
	if id == lower.NoTensor {
		return
	}
	t := &b.p.Tensors[id]
	b.values[id] = b.standIn(t.Name, t.DType, t.Shape, t.Encoding)
}

// standIn is a value that nothing computes; nil where its shape is not known.
func (b *builder) standIn(name string, t tensor.DType, s graph.Shape, e *lower.Encoding) *value {
	shape, ok := s.Ints()
	if !ok || s == nil {
		return nil
	}
	typ, known := types[t]
	if !known {
		typ = tf.Float32
	}
	v := &value{name: name, typ: typ, enc: e, shape: shape, at: map[string]int{}}
	b.make(v, identity(len(shape)))
	return v
}

// output makes a tensor of the program an output of the file.
func (b *builder) output(id lower.TensorID, readers map[lower.TensorID][]lower.StepID) error {
	for i := range b.p.Steps {
		if s := &b.p.Steps[i]; b.keepOutputs && b.last(s, readers) && s.Outputs[0] == id {
			id = s.Inputs[0]
		}
	}
	v, err := b.input(id)
	if errors.Is(err, errLost) {
		return nil
	}
	if err != nil {
		return err
	}
	perm := identity(len(v.shape))
	// What is another tensor of the file seen in an order of its own, an input for one, is turned: no layout says that order.
	if i, there := v.at[fmt.Sprint(v.perm)]; slices.Equal(v.perm, last(len(v.shape))) && !(there && b.sub.Tensors[i].Name != v.name) {
		perm = v.perm
	}
	out := b.read(v, perm)
	if own := b.sub.Tensors[out]; own.Name != v.name && b.laid[out] { // whose layout is not that of the output
		made := b.tensor(tf.Tensor{Name: v.name, Type: v.typ, Shape: own.Shape, Quantization: own.Quantization})
		b.reshape(out, made)
		out = made
	}
	b.sub.Outputs = append(b.sub.Outputs, out)
	return nil
}

// last reports whether a step makes an output of the program from integers, and nobody else reads it.
func (b *builder) last(s *lower.Step, readers map[lower.TensorID][]lower.StepID) bool {
	_, ok := s.Op.(*lower.Dequantize)
	return ok && slices.Contains(b.p.Outputs, s.Outputs[0]) && len(readers[s.Outputs[0]]) == 0
}

// slides reports whether windows read a float input: behind its quantizer, or in an island.
func (b *builder) slides(id lower.TensorID, readers map[lower.TensorID][]lower.StepID, wanted []bool) bool {
	for _, r := range readers[id] {
		switch s := &b.p.Steps[r]; op := s.Op.(type) {
		case *lower.Quantize:
			if wanted[s.Outputs[0]] {
				return true
			}
		case *lower.RunTime:
			if b.p.Graph.Node(s.Node).Op == "Conv" {
				return true
			}
		case *lower.Island:
			for _, u := range op.Graph.Uses(op.Graph.Inputs[slices.Index(s.Inputs, id)]) {
				if slices.Contains([]string{"Conv", "ConvTranspose", "MaxPool", "AveragePool", "Resize"}, op.Graph.Node(u.Node).Op) {
					return true
				}
			}
		}
	}
	return false
}
