package espdl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// tested are the test values of an input or output.
const tested export.ItemKind = "test values"

// between are the entries of a table of int16 that stand between those of the file.
const between export.ItemKind = "entries between those of a table"

// back reads a file that was written and says what it holds of the program: exponents of tensors by name, and steps by the node that
// computes their output. Weights come back into the layout of the model.
func back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	raw, err := fs.ReadFile(out.FS(), out.Name())
	if err != nil {
		return nil, err
	}
	m, err := Read(raw)
	if err != nil {
		return nil, err
	}
	at, _ := in.State.(*places)
	if at == nil {
		return nil, fmt.Errorf("espdl: nobody has written it")
	}
	r := &recoverer{m: m, p: in.Program, at: at, constants: map[string]*Tensor{}, producer: map[string]*Node{}, values: map[string]*Value{},
		held: &export.Recovered{Wants: wants}, plain: strings.HasSuffix(in.Target.Name, "_c")}
	r.held.Lacks = r.lacks
	if err := r.index(); err != nil {
		return nil, err
	}
	if err := r.tests(r.p.Inputs, m.TestInputs); err != nil {
		return nil, err
	}
	if err := r.tests(r.p.Outputs, m.TestOutputs); err != nil {
		return nil, err
	}
	for i := range r.p.Steps {
		if err := r.step(&r.p.Steps[i]); err != nil {
			return nil, fmt.Errorf("espdl: %q: %w", r.p.Name(lower.StepID(i)), err)
		}
	}
	return &export.Readback{Held: r.held}, nil
}

// wants is all of a program, the limits of operators that compute integers of integers, and of tables the entries that a file has.
func wants(in *export.Input, yield func(*export.Item) error) error {
	err := export.OfProgram(in, func(it *export.Item) error {
		if it.Kind == export.Table {
			return nil
		}
		return yield(it)
	})
	if err != nil {
		return err
	}
	held := in.State.(*places).held // back has asked whether it is there
	for _, id := range slices.Sorted(maps.Keys(held)) {
		it := &export.Item{At: export.TensorName(in.Program.Tensors[id].Name), Kind: tested}
		if x := held[id].ToRowMajor(); x.DType == tensor.Float32 {
			it.Floats = x.F32()
		} else {
			it.Ints = x.Integers()
		}
		if err := yield(it); err != nil {
			return err
		}
	}
	for i := range in.Program.Steps {
		s := &in.Program.Steps[i]
		at := export.StepName(in.Program, s)
		var list []*export.Item
		limits := func(y *qmath.Grid) {
			list = []*export.Item{{At: at, Kind: export.Clamp, Ints: []int32{y.QMin, y.QMax}}}
		}
		switch op := s.Op.(type) {
		case *lower.Sum:
			limits(&op.Sum.Y)
		case *lower.Product:
			limits(&op.Product.Y)
		case *lower.Average:
			limits(&op.Y)
		case *lower.Island:
			realNumbers(op, func(n *graph.Node, i int, x *tensor.Tensor) {
				list = append(list, &export.Item{At: export.SlotName(n.Name, i, 0), Kind: export.Numbers, Floats: x.ToRowMajor().F32()})
			})
		case *lower.Table:
			list = entries(at, op.Codes.Integers(), in.Program.Profile.Step)
		}
		for _, it := range list {
			if err := yield(it); err != nil {
				return err
			}
		}
	}
	return nil
}

// realNumbers visits the float32 constants that operators in float read.
func realNumbers(op *lower.Island, see func(n *graph.Node, i int, x *tensor.Tensor)) {
	for _, id := range op.Graph.Nodes() {
		n := op.Graph.Node(id)
		for i, v := range n.Inputs {
			if v == graph.NoValue {
				continue
			}
			if x := op.Graph.Const(v); x != nil && x.DType == tensor.Float32 {
				see(n, i, x)
			}
		}
	}
}

// entries are those of a function of codes as a file has them, from the lowest code up, and the others, in the order of codes.
func entries(at string, codes []int32, step int) []*export.Item {
	held, others := &export.Item{At: at, Kind: export.Table}, &export.Item{At: at, Kind: between, Ints: []int32{}}
	half := len(codes) / 2
	if step = max(step, 1); len(codes) == 256 {
		step = 1
	}
	for q := -half; q < half; q++ {
		if x := codes[q&(len(codes)-1)]; (q+half)%step == 0 {
			held.Ints = append(held.Ints, x)
		} else if q < half-1 {
			others.Ints = append(others.Ints, x)
		}
	}
	if len(codes) != 256 { // one more at the end: what the highest code reads
		held.Ints = append(held.Ints, codes[half-1])
	}
	if len(others.Ints) == 0 {
		return []*export.Item{held}
	}
	return []*export.Item{held, others}
}

type recoverer struct {
	m         *Model
	p         *lower.Program
	at        *places
	held      *export.Recovered
	plain     bool // weights lie as chips without vectors read them
	constants map[string]*Tensor
	producer  map[string]*Node
	values    map[string]*Value
}

// lacks says what an .espdl file does not hold.
func (r *recoverer) lacks(it *export.Item) string {
	switch it.Kind {
	case export.Multipliers, export.Factors, export.Doubles:
		return "multipliers, which ESP-DL makes of exponents"
	case between:
		return "entries of tables between those of the file, which ESP-DL interpolates"
	}
	for i := range r.p.Steps {
		s := &r.p.Steps[i]
		if _, pool := s.Op.(*lower.MaxPool); pool && it.Kind == export.Clamp && it.At == export.StepName(r.p, s) {
			return "the lowest code of a pool, which its type says"
		}
	}
	for i := range r.p.Tensors {
		if t := &r.p.Tensors[i]; t.Const != nil && it.At == export.TensorName(t.Name) && !r.reads(t.ID) {
			return "constants that no step reads"
		}
	}
	return ""
}

func (r *recoverer) reads(id lower.TensorID) bool {
	return slices.ContainsFunc(r.p.Steps, func(s lower.Step) bool { return slices.Contains(s.Inputs, id) })
}

// index finds constants, nodes and values by name, and adds what values say of tensors. Those in another layout, or of another grid before
// they are scaled or limited, say the same of it.
func (r *recoverer) index() error {
	of := map[string]lower.TensorID{}
	for id, name := range r.at.names {
		of[name] = id
	}
	for i := range r.m.Initializers {
		t := &r.m.Initializers[i]
		if r.constants[t.Name] != nil {
			return fmt.Errorf("espdl: two constants are called %q", t.Name)
		}
		r.constants[t.Name] = t
	}
	for _, list := range [][]Value{r.m.Inputs, r.m.Outputs, r.m.Values} {
		for i := range list {
			v := &list[i]
			r.values[v.Name] = v
			if id, ok := of[v.Name]; ok {
				r.grid(id, v)
			}
		}
	}
	for i := range r.m.Nodes {
		n := &r.m.Nodes[i]
		for _, name := range n.Outputs {
			r.producer[name] = n
		}
		if len(n.Inputs) == 0 || len(n.Outputs) == 0 {
			continue
		}
		from, known := of[n.Inputs[0]]
		v := r.values[n.Outputs[0]]
		if _, ok := of[n.Outputs[0]]; known && !ok && n.Op == "Transpose" && v != nil {
			r.grid(from, v)
		}
	}
	return nil
}

// tests adds test values of inputs or outputs.
func (r *recoverer) tests(ids []lower.TensorID, list []Tensor) error {
	if len(list) != len(ids) {
		return fmt.Errorf("espdl: %d test values for %d inputs or outputs", len(list), len(ids))
	}
	for i, id := range ids {
		if to, ok := r.at.same[id]; ok {
			id = to
		}
		t, it := &list[i], &export.Item{At: export.TensorName(r.p.Tensors[id].Name), Kind: tested}
		r.grid(id, &Value{Type: t.Type, Exponents: t.Exponents})
		x, err := t.integers()
		if err != nil {
			return err
		}
		if perm := r.at.perms[id]; len(perm) == len(t.Shape) {
			x = restored(x, t.Shape, perm)
		}
		if it.Wide = x; t.Type == float32Type {
			it.Wide, it.Floats = nil, floatsOf(x)
		}
		r.held.Add(it)
	}
	return nil
}

// ends are the codes of a type.
var ends = map[int][]int32{int8Type: {math.MinInt8, math.MaxInt8}, int16Type: {math.MinInt16, math.MaxInt16}}

// grid adds what a value says of a tensor of the program.
func (r *recoverer) grid(id lower.TensorID, v *Value) {
	t := &r.p.Tensors[id]
	if t.Encoding == nil || ends[v.Type] == nil {
		return // what is missing tells
	}
	at := export.TensorName(t.Name)
	r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: scalesOf(v.Exponents)})
	r.held.Add(&export.Item{At: at, Kind: export.ZeroPoints, Ints: []int32{0}}) // ESP-DL has no other
	r.held.Add(&export.Item{At: at, Kind: export.Grid, Ints: ends[v.Type]})
}

func scalesOf(exponents []int64) []float32 {
	list := []float32{}
	for _, e := range exponents {
		list = append(list, float32(math.Ldexp(1, int(max(-1000, min(1000, e))))))
	}
	return list
}

// name is what a tensor is called in the file.
func (r *recoverer) name(id lower.TensorID) string {
	if to, ok := r.at.same[id]; ok {
		id = to
	}
	return r.at.names[id]
}

// step adds what the file says of a step.
func (r *recoverer) step(s *lower.Step) error {
	if len(s.Outputs) == 0 || s.Outputs[0] == lower.NoTensor {
		return nil
	}
	n := r.producer[r.name(s.Outputs[0])]
	if n == nil {
		return nil // an input of the model that the file has as integers; else what is missing tells
	}
	at := export.StepName(r.p, s)
	switch op := s.Op.(type) {
	case *lower.Quantize:
		return r.converts(n, s.Inputs[0], s.Outputs[0])
	case *lower.Dequantize:
		if err := r.converts(n, s.Outputs[0], s.Inputs[0]); err != nil {
			return err
		}
	case *lower.Requantize:
		if err := r.rescaled(n, s.Outputs[0]); err != nil {
			return err
		}
	case *lower.Island:
		return r.real(op)
	case *lower.Clamp:
		lo, hi, err := r.limits(n)
		r.held.Add(&export.Item{At: at, Kind: export.Clamp, Ints: []int32{lo, hi}})
		return err
	case *lower.Table:
		list, err := r.table(n)
		r.held.Add(&export.Item{At: at, Kind: export.Table, Ints: list})
		return err
	case *lower.Linear:
		main, err := r.limited(s, n)
		if err == nil && op.Weights != nil {
			err = r.linear(at, op, main)
		}
		if err != nil {
			return err
		}
		return r.operands(s, main)
	case *lower.Concat:
		main, err := r.limited(s, n)
		if err != nil {
			return err
		}
		for _, name := range main.Inputs {
			if p := r.producer[name]; p != nil && p.Op == "RequantizeLinear" && strings.Contains(name, "_rescaled") {
				r.grid(s.Outputs[0], r.values[name])
				if err := r.rescaled(p, s.Outputs[0]); err != nil {
					return err
				}
			}
		}
		return r.operands(s, main)
	case *lower.Sum, *lower.Product, *lower.Average:
		main, err := r.limited(s, n)
		if err != nil {
			return err
		}
		return r.operands(s, main)
	}
	return r.operands(s, n)
}

// real adds the constants of operators in float.
func (r *recoverer) real(op *lower.Island) (err error) {
	realNumbers(op, func(n *graph.Node, i int, _ *tensor.Tensor) {
		at := slices.IndexFunc(r.m.Nodes, func(o Node) bool { return o.Name == n.Name && o.Op == n.Op && o.text("lut") == "" })
		if at < 0 || i >= len(r.m.Nodes[at].Inputs) {
			return // what is missing tells
		}
		c := r.constants[r.m.Nodes[at].Inputs[i]]
		if c == nil || c.Type != float32Type {
			return
		}
		list, failed := c.floats()
		if err = errors.Join(err, failed); failed == nil {
			r.held.Add(&export.Item{At: export.SlotName(n.Name, i, 0), Kind: export.Numbers, Floats: list})
		}
	})
	return err
}

// converts adds the scale of a conversion between a real tensor and one of integers.
func (r *recoverer) converts(n *Node, real, of lower.TensorID) error {
	if _, ok := r.at.same[real]; ok {
		return nil // there is no such node
	}
	scale, err := r.number(n)
	if err != nil {
		return err
	}
	at := export.TensorName(r.p.Tensors[of].Name)
	r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: []float32{scale}})
	return nil
}

// rescaled adds the scale that a node brings codes to.
func (r *recoverer) rescaled(n *Node, to lower.TensorID) error {
	scale, err := r.number(n)
	if err != nil {
		return err
	}
	from := r.exponents(n.Inputs[0])
	if len(from) != 1 {
		return fmt.Errorf("what it scales, %q, has %d exponents", n.Inputs[0], len(from))
	}
	at := export.TensorName(r.p.Tensors[to].Name)
	r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: []float32{scalesOf(from)[0] * scale}})
	return nil
}

// exponents are those of a tensor of the file.
func (r *recoverer) exponents(name string) []int64 {
	if v := r.values[name]; v != nil {
		return v.Exponents
	}
	if t := r.constants[name]; t != nil {
		return t.Exponents
	}
	return nil
}

// number is the scale, input 1, of a conversion. Its zero point has to be 0.
func (r *recoverer) number(n *Node) (float32, error) {
	if len(n.Inputs) != 3 {
		return 0, fmt.Errorf("%s has %d inputs, not 3", n.Op, len(n.Inputs))
	}
	t, z := r.constants[n.Inputs[1]], r.constants[n.Inputs[2]]
	if t == nil || t.Type != float32Type || t.count() != 1 || len(t.Raw) < 4 || z == nil ||
		slices.ContainsFunc(z.Raw, func(b byte) bool { return b != 0 }) {
		return 0, fmt.Errorf("%s has no scale, or a zero point that is not 0", n.Op)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(t.Raw)), nil
}

// integers are the elements of a constant, of a real one their bits.
func (t *Tensor) integers() ([]int64, error) {
	size, n := int64(elementSize[t.Type]), t.count()
	if size == 0 || n < 0 || int64(len(t.Raw)) < n*size {
		return nil, fmt.Errorf("%q has %d bytes of type %d for %v", t.Name, len(t.Raw), t.Type, t.Shape)
	}
	list := make([]int64, n)
	for i := range list {
		switch b := t.Raw[int64(i)*size:]; size {
		case 1:
			list[i] = int64(int8(b[0]))
		case 2:
			list[i] = int64(int16(binary.LittleEndian.Uint16(b)))
		case 4:
			list[i] = int64(int32(binary.LittleEndian.Uint32(b)))
		default:
			list[i] = int64(binary.LittleEndian.Uint64(b))
		}
	}
	return list, nil
}

func (t *Tensor) floats() ([]float32, error) {
	list, err := t.integers()
	return floatsOf(list), err
}

// floatsOf are the numbers that have such bits.
func floatsOf(bits []int64) []float32 {
	list := make([]float32, len(bits))
	for k, b := range bits {
		list[k] = math.Float32frombits(uint32(b))
	}
	return list
}

// table is the one that a node reads, which has the exponent of its output.
func (r *recoverer) table(n *Node) ([]int32, error) {
	t, v := r.constants[n.text("lut")], r.values[n.Outputs[0]]
	if t == nil || v == nil || !slices.Equal(t.Exponents, v.Exponents) || t.Type != v.Type {
		return nil, fmt.Errorf("%s has no table with the exponent of %q", n.Op, n.Outputs[0])
	}
	list, err := t.integers()
	if err != nil {
		return nil, err
	}
	return narrow(list), nil
}

func narrow(list []int64) []int32 {
	out := make([]int32, len(list))
	for i, x := range list {
		out[i] = int32(x)
	}
	return out
}

// limits are those that a table keeps codes within. Bounds beside it have to be the same.
func (r *recoverer) limits(n *Node) (lo, hi int32, err error) {
	list, err := r.table(n)
	if err != nil || len(list) < 2 {
		return 0, 0, fmt.Errorf("no table of limits: %w", err)
	}
	lo, hi = list[0], list[len(list)-1]
	least, step := int32(math.MinInt8), int32(1)
	if len(list) != 256 {
		least, step = math.MinInt16, int32(1<<16/(len(list)-1))
	}
	for i, x := range list {
		if q := min(max(min(least+int32(i)*step, -least-1), lo), hi); x != q {
			return lo, hi, fmt.Errorf("entry %d of its table is %d, and limits %d and %d give %d", i, x, lo, hi, q)
		}
	}
	for i, want := range []int32{lo, hi} {
		if n.Op != "Clip" {
			break
		}
		if len(n.Inputs) != 3 || r.constants[n.Inputs[1+i]] == nil {
			return lo, hi, fmt.Errorf("its limits are no constants")
		}
		if c, err := r.constants[n.Inputs[1+i]].integers(); err != nil || len(c) != 1 || c[0] != int64(want) {
			return lo, hi, fmt.Errorf("its limit %v is not that of its table, %d", c, want)
		}
	}
	return lo, hi, nil
}

// limited adds the limits of a step whose last node is n, and returns the node that computes: n, or what is before a table of limits.
func (r *recoverer) limited(s *lower.Step, n *Node) (*Node, error) {
	v, id := r.values[n.Outputs[0]], s.Outputs[0]
	if v == nil || ends[v.Type] == nil || r.p.Tensors[id].Encoding == nil {
		return n, nil // what is missing tells
	}
	lo, hi := ends[v.Type][0], ends[v.Type][1]
	switch {
	case (n.Op == "Clip" || n.Op == "Relu") && n.text("lut") != "" && len(n.Inputs) > 0:
		var err error
		if lo, hi, err = r.limits(n); err != nil {
			return nil, err
		}
		if before := r.values[n.Inputs[0]]; before != nil {
			r.grid(id, before)
		}
		main := r.producer[n.Inputs[0]]
		if main == nil {
			return nil, fmt.Errorf("nothing computes %q", n.Inputs[0])
		}
		n = main
	case n.text("activation") == "Relu":
		lo = 0
	}
	r.held.Add(&export.Item{At: export.StepName(r.p, s), Kind: export.Clamp, Ints: []int32{lo, hi}})
	return n, nil
}

// operands adds the constants of integers that a node reads, in the layout of the model.
func (r *recoverer) operands(s *lower.Step, n *Node) error {
	for i, id := range s.Inputs {
		if id == lower.NoTensor || r.p.Tensors[id].Const == nil || r.p.Tensors[id].Encoding == nil || i >= len(n.Inputs) {
			continue
		}
		name := n.Inputs[i]
		if p := r.producer[name]; p != nil && p.Op == "RequantizeLinear" && len(p.Inputs) > 0 {
			name = p.Inputs[0]
		}
		c := r.constants[name]
		if c == nil {
			continue // what is missing tells
		}
		list, err := c.integers()
		if err != nil {
			return err
		}
		r.grid(id, &Value{Type: c.Type, Exponents: c.Exponents})
		if out := r.at.perms[s.Outputs[0]]; len(out) == len(c.Shape) {
			list = restored(list, c.Shape, out)
		}
		r.held.Add(&export.Item{At: export.TensorName(r.p.Tensors[id].Name), Kind: export.Codes, Wide: list})
	}
	return nil
}

// restored returns the elements of a tensor, whose axis k is axis perm[k] of the model, in the order of the model.
func restored(list, shape []int64, perm []int) []int64 {
	if slices.IsSorted(perm) {
		return list
	}
	back, lies := make([]int, len(perm)), make([]int, len(perm))
	for k, axis := range perm {
		back[axis], lies[k] = k, int(shape[k])
	}
	return permuted(tensor.FromI64(list, lies...), back).I64()
}

// linear adds weights and bias.
func (r *recoverer) linear(at string, op *lower.Linear, n *Node) error {
	if len(n.Inputs) < 2 || r.constants[n.Inputs[1]] == nil {
		return nil // what is missing tells
	}
	w := r.constants[n.Inputs[1]]
	codes, err := unpack(w, n.Op, op.Weights)
	if err != nil {
		return err
	}
	if blocks := strings.Contains(w.Doc, "(N/"); blocks == r.plain {
		return fmt.Errorf("weights lie as %q, which the kernels of the chip do not read", w.Doc)
	}
	r.held.Add(&export.Item{At: at, Kind: export.Codes, Wide: codes})
	scales := scalesOf(w.Exponents)
	if len(scales) == 1 { // one for all channels
		scales = slices.Repeat(scales, len(op.Weights.Scale))
	}
	r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: scales})
	r.held.Add(&export.Item{At: at, Kind: export.ZeroPoints, Ints: make([]int32, len(scales))})
	if len(n.Inputs) < 3 {
		return nil
	}
	b, x := r.constants[n.Inputs[2]], r.exponents(n.Inputs[0])
	if b == nil || len(x) != 1 || len(b.Exponents) != len(w.Exponents) {
		return fmt.Errorf("its bias is no constant with the exponents of the sums")
	}
	for c, e := range b.Exponents {
		if e != w.Exponents[c]+x[0] {
			return fmt.Errorf("exponent %d of its bias is %d, that of the sum is %d", c, e, w.Exponents[c]+x[0])
		}
	}
	list, err := b.integers()
	r.held.Add(&export.Item{At: at, Kind: export.Bias, Wide: list})
	return err
}

// unpack brings weights into the layout of the model; pack says how they lie.
func unpack(t *Tensor, op string, w *lower.Weights) ([]int64, error) {
	list, err := t.integers()
	if err != nil {
		return nil, err
	}
	shape := w.Codes.Shape // of the model
	outs, ins := shape[0], 1
	switch {
	case op == "Conv":
		ins = shape[1]
	default:
		outs, ins = shape[w.Axis], shape[1-w.Axis]
	}
	if len(list) != tensor.Count(shape) || len(t.Shape) < 2 || outs < 1 || ins < 1 {
		return nil, fmt.Errorf("weights of shape %v for %v of the model", t.Shape, shape)
	}
	last := t.Shape[len(t.Shape)-2:]
	depthwise := op == "Conv" && last[0] == int64(outs) && last[1] == 1 && (ins == 1 && outs > 1)
	if !depthwise && !slices.Equal(last, []int64{int64(ins), int64(outs)}) {
		return nil, fmt.Errorf("weights of shape %v for %d outputs of %d inputs", t.Shape, outs, ins)
	}
	area, block := len(list)/(outs*ins), 0
	layout, _ := strings.CutPrefix(t.Doc, "layout ==> ")
	if _, err := fmt.Sscanf(layout, "(N/%d)", &block); err != nil && layout != "NHWC" && layout != "NWC" && layout != "HWCN" &&
		layout != "WCN" {
		return nil, fmt.Errorf("weights lie as %q", t.Doc)
	}
	whole := 0
	if block > 0 {
		whole = outs / block * block
	}
	lies := func(o, i, p int) int {
		switch {
		case o < whole:
			return ((o/block*area+p)*ins+i)*block + o%block
		case depthwise && (block > 0 || strings.HasSuffix(layout, "CN")):
			return whole*area + p*(outs-whole) + o - whole
		}
		return (o*area+p)*ins + i
	}
	out := make([]int64, len(list))
	for o := range outs {
		for i := range ins {
			for p := range area {
				k := (o*ins+i)*area + p
				if op != "Conv" && w.Axis == 1 {
					k = i*outs + o
				}
				out[k] = list[lies(o, i, p)]
			}
		}
	}
	return out, nil
}
