// Package pnnx reads models of PNNX: a text of operators (.pnnx.param) and a zip archive of weights (.pnnx.bin) beside it, and makes a
// graph of them by the operators of ONNX. PNNX writes them of TorchScript, KuiperInfer and ncnn's converter read them.
//
// The format follows pnnx's source (src/ir.cpp, storezip.cpp): a line of the text is type, name, two numbers, names of operands, and
// key=value; @key=(shape)type is a weight, stored without compression under NAME.key; #operand=(shape)type says what an operand is. What
// the operators compute is PyTorch's.
//
// Unstable: it may change without notice.
package pnnx

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// Magic is the first line of the text.
const Magic = "7767517"

// opset is what graphs are written for: the first with Gelu, and Mish and HardSwish before it.
const opset = 20

// operator is one line of the text.
type operator struct {
	typ, name string
	in, out   []string
	params    map[string]string
	weights   map[string]typed
}

// maxOperands bounds how many inputs all operators have, those of lists counted by who reads them.
const maxOperands = 1 << 20

// typed is a shape with a type: (1,3,224,224)f32. Sizes that are not known are -1.
type typed struct {
	shape []int64
	dtype string
}

// Is reports whether a file with such a beginning is one of PNNX: ncnn's own begin alike, and have no pnnx.Input.
func Is(head []byte) bool {
	return bytes.HasPrefix(head, []byte(Magic+"\n")) && bytes.Contains(head, []byte("\npnnx.Input "))
}

// Read makes the graph of a model: its text, and the archive with its weights, of size bytes. Names of values are those of operands, names
// of nodes those of operators. What it does not know is an error with the operator.
func Read(param []byte, bin io.ReaderAt, size int64) (*graph.Graph, error) {
	ops, operands, err := parse(param)
	if err != nil {
		return nil, fmt.Errorf("pnnx: %w", err)
	}
	z, err := zip.NewReader(bin, size)
	if err != nil {
		return nil, fmt.Errorf("pnnx: the weights: %w", err)
	}
	l := &lifter{g: graph.New("main", opset), operands: operands, values: map[string]graph.ValueID{}, lists: map[string][]string{},
		files: map[string]*zip.File{}, size: size, left: size,
		names: map[string]bool{}, operandsLeft: maxOperands}
	for _, f := range z.File {
		l.files[f.Name] = f
	}
	for _, op := range ops {
		if err := l.operator(op); err != nil {
			return nil, fmt.Errorf("pnnx: operator %q (%s): %w", op.name, op.typ, err)
		}
	}
	if len(l.g.Outputs) == 0 {
		return nil, errors.New("pnnx: the model has no output")
	}
	return l.g, l.g.Check()
}

// parse reads the text.
func parse(text []byte) (ops []*operator, operands map[string]typed, err error) {
	lines := strings.Split(strings.TrimRight(string(text), "\r\n"), "\n")
	if len(lines) < 2 || strings.TrimSpace(lines[0]) != Magic {
		return nil, nil, errors.New("the text does not begin with " + Magic)
	}
	var count, blobs int
	if _, err := fmt.Sscanf(lines[1], "%d %d", &count, &blobs); err != nil || count != len(lines)-2 {
		return nil, nil, fmt.Errorf("the second line is %.40q for %d operators", lines[1], len(lines)-2)
	}
	operands = map[string]typed{}
	for i, line := range lines[2:] {
		op, err := parseOperator(strings.Fields(line), operands)
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", i+3, err)
		}
		ops = append(ops, op)
	}
	return ops, operands, nil
}

func parseOperator(words []string, operands map[string]typed) (*operator, error) {
	if len(words) < 4 {
		return nil, errors.New("an operator has a type, a name and two numbers")
	}
	op := &operator{typ: words[0], name: words[1], params: map[string]string{}, weights: map[string]typed{}}
	in, err := strconv.Atoi(words[2])
	out, err2 := strconv.Atoi(words[3])
	if err != nil || err2 != nil || in < 0 || out < 0 || in > len(words) || out > len(words) || 4+in+out > len(words) {
		return nil, fmt.Errorf("operator %q has %s inputs and %s outputs in %d words", op.name, words[2], words[3], len(words)-4)
	}
	op.in, op.out = words[4:4+in], words[4+in:4+in+out]
	for _, word := range words[4+in+out:] {
		key, value, found := strings.Cut(word, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("%q is not key=value", word)
		}
		switch key[0] {
		case '@', '#':
			t, err := parseTyped(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			if key[0] == '@' {
				op.weights[key[1:]] = t
			} else {
				operands[key[1:]] = t
			}
		case '$': // names of inputs, for people
		default:
			op.params[key] = value
		}
	}
	return op, nil
}

func parseTyped(text string) (t typed, err error) {
	open, end := strings.IndexByte(text, '('), strings.IndexByte(text, ')')
	if open != 0 || end < 0 {
		return t, fmt.Errorf("%q is not (shape)type", text)
	}
	t.dtype = text[end+1:]
	if text[1:end] == "" {
		t.shape = []int64{}
		return t, nil
	}
	for _, word := range strings.Split(text[1:end], ",") {
		if word == "" {
			continue
		}
		n := int64(-1)
		if word != "?" {
			if n, err = strconv.ParseInt(word, 10, 32); err != nil || n < -1 {
				return t, fmt.Errorf("size %q", word)
			}
		}
		t.shape = append(t.shape, n)
	}
	return t, nil
}

// lifter makes a graph.
type lifter struct {
	g        *graph.Graph
	operands map[string]typed
	values   map[string]graph.ValueID
	lists    map[string][]string // operands that are tuples or lists of others
	files    map[string]*zip.File
	names    map[string]bool // operators that have weights
	size     int64           // of the archive
	left     int64           // bytes of it that no weight has taken: none is read twice
	made     int             // constants and inner nodes

	operandsLeft int
}

// operator lifts one line.
func (l *lifter) operator(op *operator) error {
	if len(op.weights) > 0 {
		if l.names[op.name] {
			return errors.New("another operator has the same name, and the archive has its weights by that")
		}
		l.names[op.name] = true
	}
	if own, ok := notComputed[op.typ]; ok {
		return own(l, op)
	}
	rule, ok := rules[op.typ]
	if !ok {
		return errors.New("there is no rule for it: keep to what docs/pnnx.md lists, or export ONNX from PyTorch")
	}
	if len(op.out) == 0 || rule.inputs >= 0 && len(op.in) != rule.inputs || rule.inputs < 0 && len(op.in) == 0 {
		return fmt.Errorf("%d inputs and %d outputs", len(op.in), len(op.out))
	}
	c := &call{lifter: l, op: op, read: map[string]bool{}}
	for _, name := range op.in {
		list := l.members(name)
		if l.operandsLeft -= len(list); l.operandsLeft < 0 {
			return fmt.Errorf("the operators have more than %d inputs", maxOperands)
		}
		for _, name := range list {
			v, err := l.value(name)
			if err != nil {
				return err
			}
			c.in = append(c.in, v)
		}
	}
	if err := rule.lift(c); err != nil {
		return err
	}
	c.leftover()
	return c.err
}

// notComputed are the lines that compute nothing: ends of the graph, constants, lists.
var notComputed = map[string]func(l *lifter, op *operator) error{
	"pnnx.Input": (*lifter).input, "pnnx.Output": (*lifter).output, "pnnx.Attribute": (*lifter).attribute,
	"prim::TupleConstruct": (*lifter).construct, "prim::ListConstruct": (*lifter).construct,
	"prim::TupleUnpack": (*lifter).unpack, "prim::ListUnpack": (*lifter).unpack,
}

// members are the operands of a list, or the one that is none.
func (l *lifter) members(name string) []string {
	if list, ok := l.lists[name]; ok {
		return list
	}
	return []string{name}
}

func (l *lifter) input(op *operator) error {
	for _, name := range op.out {
		v, err := l.add(name)
		if err != nil {
			return err
		}
		l.g.Inputs = append(l.g.Inputs, v)
	}
	return nil
}

func (l *lifter) output(op *operator) error {
	for _, name := range op.in {
		for _, name := range l.members(name) {
			v, err := l.value(name)
			if err != nil {
				return err
			}
			l.g.Outputs = append(l.g.Outputs, v)
		}
	}
	return nil
}

func (l *lifter) construct(op *operator) error {
	if len(op.out) != 1 {
		return errors.New("it makes one list")
	}
	l.lists[op.out[0]] = op.in
	return nil
}

func (l *lifter) unpack(op *operator) error {
	if len(op.in) != 1 || len(l.lists[op.in[0]]) != len(op.out) {
		return errors.New("what it takes apart is not a list of as many")
	}
	for i, name := range l.lists[op.in[0]] {
		v, err := l.value(name)
		if err != nil {
			return err
		}
		l.values[op.out[i]] = v
	}
	return nil
}

func (l *lifter) attribute(op *operator) error {
	if len(op.out) != 1 || len(op.weights) != 1 {
		return errors.New("it has one weight")
	}
	for key := range op.weights {
		t, err := l.weight(op, key)
		if err != nil {
			return err
		}
		l.values[op.out[0]] = l.g.AddConst(op.out[0], t)
	}
	return nil
}

// add makes the value of an operand.
func (l *lifter) add(name string) (graph.ValueID, error) {
	val := graph.Value{Name: name, DType: tensor.Float32}
	if t, ok := l.operands[name]; ok && t.dtype != "" {
		d, ok := dtypes[t.dtype]
		if !ok {
			return 0, fmt.Errorf("operand %q is of type %q", name, t.dtype)
		}
		val.DType = d.to
		val.Shape = graph.Shape{}
		for i, n := range t.shape {
			dim := graph.Dim{N: n}
			if n < 0 {
				dim.Symbol = fmt.Sprintf("%s_%d", name, i)
			}
			val.Shape = append(val.Shape, dim)
		}
	}
	v, err := l.g.AddValue(val)
	if err == nil {
		l.values[name] = v
	}
	return v, err
}

func (l *lifter) value(name string) (graph.ValueID, error) {
	v, ok := l.values[name]
	if !ok {
		return 0, fmt.Errorf("operand %q is read before it is made", name)
	}
	return v, nil
}

// dtypes are the types of weights and operands: what becomes of them, and how many bytes an element has.
var dtypes = map[string]struct {
	to    tensor.DType
	bytes int
}{"f32": {tensor.Float32, 4}, "f64": {tensor.Float32, 8}, "f16": {tensor.Float32, 2}, "bf16": {tensor.Float32, 2}, "i64": {tensor.Int64, 8},
	"i32": {tensor.Int32, 4}}

// weight reads a weight of an operator. Floats of other widths become float32.
func (l *lifter) weight(op *operator, key string) (*tensor.Tensor, error) {
	t, ok := op.weights[key]
	if !ok {
		return nil, fmt.Errorf("weight %q is missing", key)
	}
	d, ok := dtypes[t.dtype]
	if !ok {
		return nil, fmt.Errorf("weight %q is of type %q", key, t.dtype)
	}
	n, err := tensor.CheckedCount(t.shape, l.size/int64(d.bytes))
	if err != nil {
		return nil, fmt.Errorf("weight %q: %w", key, err)
	}
	f := l.files[op.name+"."+key]
	if f == nil {
		return nil, fmt.Errorf("the archive has no %q", op.name+"."+key)
	}
	if f.Method != zip.Store || f.UncompressedSize64 != uint64(n*d.bytes) {
		return nil, fmt.Errorf("%q has %d bytes, and %v%s takes %d without compression", f.Name, f.UncompressedSize64, t.shape,
			t.dtype, n*d.bytes)
	}
	if l.left -= int64(n * d.bytes); l.left < 0 {
		return nil, fmt.Errorf("%q: the weights take more than the %d bytes of the archive", f.Name, l.size)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%q: %w", f.Name, err)
	}
	defer r.Close()
	raw := make([]byte, n*d.bytes)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, fmt.Errorf("%q: %w", f.Name, err)
	}
	shape := make([]int, len(t.shape))
	for i, s := range t.shape {
		shape[i] = int(s)
	}
	out := tensor.New(d.to, shape...)
	le := binary.LittleEndian
	for i := range n {
		switch t.dtype {
		case "f32":
			out.F32()[i] = math.Float32frombits(le.Uint32(raw[4*i:]))
		case "f64":
			out.F32()[i] = float32(math.Float64frombits(le.Uint64(raw[8*i:])))
		case "f16":
			out.F32()[i] = qmath.FromHalf(le.Uint16(raw[2*i:]))
		case "bf16":
			out.F32()[i] = qmath.FromBrain(le.Uint16(raw[2*i:]))
		case "i64":
			out.I64()[i] = int64(le.Uint64(raw[8*i:]))
		case "i32":
			tensor.Of[int32](out)[i] = int32(le.Uint32(raw[4*i:]))
		}
	}
	return out, nil
}

// call is one operator while it is lifted. The first error stays.
type call struct {
	*lifter
	op   *operator
	in   []graph.ValueID
	read map[string]bool // parameters that the rule has asked for
	err  error
}

func (c *call) fail(format string, a ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, a...)
	}
}

// node adds a node whose result is a value of its own.
func (c *call) node(op string, in []graph.ValueID) graph.ValueID {
	c.made++
	v, err := c.g.AddValue(graph.Value{Name: c.g.FreshName(fmt.Sprintf("%s_%s_%d", c.op.name, strings.ToLower(op), c.made))})
	if err != nil {
		c.fail("%w", err)
		return graph.NoValue
	}
	c.into(op, in, []graph.ValueID{v})
	return v
}

// result adds the node that computes the results of the operator.
func (c *call) result(op string, in []graph.ValueID, attrs ...graph.Attr) {
	var out []graph.ValueID
	for _, name := range c.op.out {
		v, err := c.add(name)
		if err != nil {
			c.fail("%w", err)
			return
		}
		out = append(out, v)
	}
	c.into(op, in, out, attrs...)
}

func (c *call) into(op string, in, out []graph.ValueID, attrs ...graph.Attr) {
	if c.err != nil || slices.Contains(out, graph.NoValue) {
		return
	}
	if _, err := c.g.AddNode(graph.Node{Name: c.freshNode(), Op: op, Inputs: in, Outputs: out, Attrs: attrs}); err != nil {
		c.fail("%w", err)
	}
}

// freshNode is the operator's name for its first node, and others for those before and behind it.
func (c *call) freshNode() string {
	name := c.op.name
	for i := 1; ; i++ {
		if _, taken := c.g.LookupNode(name); !taken {
			return name
		}
		name = fmt.Sprintf("%s_%d", c.op.name, i)
	}
}

func (c *call) floats(shape []int, x ...float32) graph.ValueID {
	c.made++
	return c.g.AddConst(c.g.FreshName(fmt.Sprintf("%s_const_%d", c.op.name, c.made)), tensor.FromF32(x, shape...))
}

func (c *call) integers(x ...int64) graph.ValueID {
	c.made++
	return c.g.AddConst(c.g.FreshName(fmt.Sprintf("%s_const_%d", c.op.name, c.made)), tensor.FromI64(x, len(x)))
}

// tensor is a weight of the operator as a constant.
func (c *call) tensor(key string) graph.ValueID {
	t, err := c.weight(c.op, key)
	if err != nil {
		c.fail("%w", err)
		return graph.NoValue
	}
	return c.g.AddConst(c.g.FreshName(c.op.name+"."+key), t)
}

// shape is what the file says of the first operand, nil where it says nothing.
func (c *call) shape() []int64 {
	if len(c.op.in) > 0 {
		if t, ok := c.operands[c.op.in[0]]; ok {
			return t.shape
		}
	}
	return nil
}

// Parameters. An absent one has the default, and one without a value too.

func (c *call) text(key, def string) string {
	c.read[key] = true
	if v := c.op.params[key]; !none(v) {
		return v
	}
	return def
}

func none(v string) bool { return v == "" || v == "None" || v == "()" || v == "[]" }

// implied are the parameters that no rule asks for: sizes that the weights or the results have too, and what says nothing of the result.
var implied = []string{"chunks", "in_channels", "in_features", "indices", "inplace", "memory_format", "num_parameters", "out_channels",
	"out_features", "p", "sections", "split_size_or_sections"}

// leftover fails for a parameter that the rule did not ask for: the operator would compute something else.
func (c *call) leftover() {
	for _, key := range slices.Sorted(maps.Keys(c.op.params)) {
		if v := c.op.params[key]; !c.read[key] && !none(v) && !slices.Contains(implied, key) {
			c.fail("there is no rule for its parameter %s=%s", key, v)
		}
	}
}

// only fails where a parameter is there with another value: rules exist for that one alone.
func (c *call) only(key, value string) {
	if v := strings.Trim(c.text(key, value), "'\""); v != value {
		c.fail("%s=%s: only %s has a rule", key, v, value)
	}
}

func (c *call) flag(key string, def bool) bool {
	switch v := c.text(key, ""); v {
	case "":
		return def
	case "True", "False":
		return v == "True"
	default:
		c.fail("%s=%s is neither True nor False", key, v)
		return def
	}
}

func (c *call) float(key string, def float64) float32 {
	v := c.text(key, "")
	if v == "" {
		return float32(def)
	}
	x, err := strconv.ParseFloat(v, 64)
	if err != nil {
		c.fail("%s=%s is no number", key, v)
	}
	return float32(x)
}

// list are numbers: (1,2), or 1, which stands for n of them. Where n is not 0 they are n also after an error.
func (c *call) list(key string, n int, def ...int64) []int64 {
	v := c.text(key, "")
	if v == "" {
		if len(def) != n && n > 0 {
			c.fail("%s is missing", key)
			return slices.Repeat([]int64{1}, n)
		}
		return def
	}
	inner, tuple := strings.CutPrefix(v, "(")
	var out []int64
	for _, word := range strings.Split(strings.TrimSuffix(inner, ")"), ",") {
		if word == "" {
			continue
		}
		x, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			c.fail("%s=%s are no whole numbers", key, v)
			return slices.Repeat([]int64{1}, n)
		}
		out = append(out, x)
	}
	if !tuple && n > 1 && len(out) == 1 {
		out = slices.Repeat(out, n)
	}
	if n > 0 && len(out) != n {
		c.fail("%s=%s: %d numbers are wanted", key, v, n)
		return slices.Repeat([]int64{1}, n)
	}
	return out
}

func (c *call) integer(key string, def int64) int64 { return c.list(key, 1, def)[0] }
