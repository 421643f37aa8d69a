package tflite

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	tf "qwb/graph/tflite"
	"qwb/graph/tflite/lift"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/qdq"
)

// back reads a file that was written and says what it holds of the program: tensors by name, and steps by the operator that computes their
// output. Weights come back into the layout of the model.
func back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	b, err := fs.ReadFile(out.FS(), out.Name())
	if err != nil {
		return nil, err
	}
	m, err := tf.Read(b)
	if err != nil {
		return nil, err
	}
	r := &recoverer{p: in.Program, sub: &m.Subgraphs[0], names: map[string]int{}, producer: map[int]*tf.Operator{},
		reader: map[int]*tf.Operator{}, perms: map[string][]int{}, computed: map[string]bool{}}
	for i := range r.p.Steps {
		for _, t := range r.p.Steps[i].Outputs {
			if t != lower.NoTensor {
				r.computed[r.p.Tensors[t].Name] = true
			}
		}
	}
	r.held = &export.Recovered{Wants: wants, Lacks: r.lacks}
	if err := r.index(m); err != nil {
		return nil, err
	}
	for i := range r.p.Tensors {
		if err := r.tensor(&r.p.Tensors[i]); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", r.p.Tensors[i].Name, err)
		}
	}
	r.between()
	for i := range r.p.Steps {
		if err := r.step(&r.p.Steps[i]); err != nil {
			return nil, fmt.Errorf("step %q: %w", r.p.Name(lower.StepID(i)), err)
		}
	}
	g, _, err := lift.Graph(m)
	if err != nil {
		return nil, err
	}
	// What is computed of weights alone that are integers is computed of integers.
	if err := qdq.CodesOfRows(g); err != nil {
		return nil, err
	}
	if err := r.turn(g); err != nil {
		return nil, err
	}
	return &export.Readback{Held: r.held, Graph: g, Axes: r.perms}, nil
}

// turn gives inputs the order of axes that the model has, where the file has another and the lift left it: of all but images.
func (r *recoverer) turn(g *graph.Graph) error {
	for i, v := range g.Inputs {
		val := g.Value(v)
		name, perm := val.Name, r.perms[val.Name]
		shape, known := val.Shape.Ints()
		own := slices.ContainsFunc(r.p.Inputs, func(t lower.TensorID) bool { return r.p.Tensors[t].Name == name })
		if !own || !known || len(perm) != len(shape) || slices.Equal(perm, identity(len(perm))) {
			continue
		}
		held := r.sub.Tensors[r.names[name]].Shape
		if len(held) != len(perm) {
			continue
		}
		want := make([]int, len(held)) // of the model
		for k, a := range perm {
			want[a] = held[k]
		}
		if len(shape) == 4 && slices.Equal(want, shape) {
			continue
		}
		if err := g.Rename(v, g.FreshName(name+"/file")); err != nil {
			return err
		}
		x, err := g.AddValue(graph.Value{Name: name, DType: val.DType, Shape: graph.Static(want...)})
		if err != nil {
			return err
		}
		y, err := g.AddValue(graph.Value{Name: g.FreshName(name + "/turned"), DType: g.Value(v).DType, Shape: g.Value(v).Shape})
		if err != nil {
			return err
		}
		axes := make([]int64, len(perm))
		for k, a := range perm {
			axes[k] = int64(a)
		}
		g.ReplaceUses(v, y)
		if _, err = g.AddNode(graph.Node{Name: g.FreshName(name + "/turn"), Op: "Transpose", Attrs: []graph.Attr{graph.Ints("perm", axes...)},
			Inputs: []graph.ValueID{x}, Outputs: []graph.ValueID{y}}); err != nil {
			return err
		}
		g.Inputs[i] = x
		g.RemoveValue(v)
	}
	return nil
}

// wants is all of a program, and the limits of operators that compute integers of integers.
func wants(in *export.Input, yield func(*export.Item) error) error {
	if err := export.OfProgram(in, yield); err != nil {
		return err
	}
	for i := range in.Program.Steps {
		s := &in.Program.Steps[i]
		var y qmath.Grid
		switch op := s.Op.(type) {
		case *lower.Sum:
			y = op.Sum.Y
		case *lower.Product:
			y = op.Product.Y
		case *lower.Average:
			y = op.Y
		case *lower.RunTime:
			wanted := wantsHybrid
			if cellsNode(op) != nil {
				wanted = wantsCells
			}
			if err := wanted(in.Program, s, op, yield); err != nil {
				return err
			}
			continue
		default:
			continue
		}
		if err := yield(&export.Item{At: export.StepName(in.Program, s), Kind: export.Clamp, Ints: []int32{y.QMin, y.QMax}}); err != nil {
			return err
		}
	}
	return nil
}

type recoverer struct {
	p                *lower.Program
	sub              *tf.Subgraph
	held             *export.Recovered
	names            map[string]int
	computed         map[string]bool // the tensors of steps, by name
	producer, reader map[int]*tf.Operator
	perms            map[string][]int // orders of axes that are not the model's, by tensor
}

// lacks says what .tflite does not hold.
func (r *recoverer) lacks(it *export.Item) string {
	switch it.Kind {
	case export.Multipliers, export.Factors, export.Doubles:
		return "multipliers, which the interpreter makes of scales"
	case export.Table:
		return "tables of functions, which the interpreter computes"
	case export.Clamp:
		for i := range r.p.Steps {
			s := &r.p.Steps[i]
			if _, pool := s.Op.(*lower.MaxPool); pool && it.At == export.StepName(r.p, s) {
				return "the lowest code of a pool, which its type says"
			}
		}
	}
	for i := range r.p.Steps {
		s := &r.p.Steps[i]
		if it.At == export.StepName(r.p, s) &&
			!slices.ContainsFunc(s.Outputs, func(t lower.TensorID) bool { return t != lower.NoTensor && r.has(r.p.Tensors[t].Name) }) {
			return "steps and tensors that no output needs in the file"
		}
	}
	for i := range r.p.Tensors {
		if t := &r.p.Tensors[i]; it.At == export.TensorName(t.Name) && !r.has(t.Name) {
			return "steps and tensors that no output needs in the file"
		}
	}
	return ""
}

func (r *recoverer) has(name string) bool {
	_, ok := r.names[name]
	return ok
}

// index reads names, who computes and reads what, and the orders of axes that the file says its tensors have.
func (r *recoverer) index(m *tf.Model) error {
	for i := range r.sub.Tensors {
		if _, ok := r.names[r.sub.Tensors[i].Name]; !ok {
			r.names[r.sub.Tensors[i].Name] = i
		}
	}
	for i := range r.sub.Operators {
		o := &r.sub.Operators[i]
		for _, t := range o.Outputs {
			r.producer[t] = o
		}
		for _, t := range o.Inputs {
			if r.reader[t] == nil {
				r.reader[t] = o
			}
		}
	}
	for _, kv := range m.Metadata {
		if kv.Name != "qwb.layouts" {
			continue
		}
		for line := range strings.Lines(string(kv.Data)) {
			name, list, ok := strings.Cut(strings.TrimSpace(line), "\t")
			var perm []int
			for _, word := range strings.Fields(strings.Trim(list, "[]")) {
				var a int
				if _, err := fmt.Sscan(word, &a); err != nil {
					return fmt.Errorf("order of axes %q", line)
				}
				perm = append(perm, a)
			}
			if !ok || !valid(perm) {
				return fmt.Errorf("order of axes %q", line)
			}
			r.perms[name] = perm
		}
	}
	return nil
}

func valid(perm []int) bool {
	sorted := slices.Sorted(slices.Values(perm))
	return slices.Equal(sorted, identity(len(perm)))
}

// perm is the order of the axes of a tensor.
func (r *recoverer) perm(id int) []int {
	t := &r.sub.Tensors[id]
	if p := r.perms[t.Name]; len(p) == len(t.Shape) {
		return p
	}
	return identity(len(t.Shape))
}

// ends are the codes of a type.
var ends = map[tf.Type][2]int32{tf.Int8: {-128, 127}, tf.Int16: {-32768, 32767}}

// tensor adds what the file's tensor of a name says.
func (r *recoverer) tensor(t *lower.Tensor) error {
	id, ok := r.names[t.Name]
	if !ok || t.Encoding == nil {
		return nil
	}
	x, at := &r.sub.Tensors[id], export.TensorName(t.Name)
	q := x.Quantization
	if !q.Quantized() || len(q.Scale) != 1 || len(q.ZeroPoint) > 1 {
		return nil // what is missing tells
	}
	limits, ok := ends[x.Type]
	if !ok {
		return fmt.Errorf("it has the type %s", x.Type)
	}
	r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: q.Scale})
	r.held.Add(&export.Item{At: at, Kind: export.ZeroPoints, Ints: []int32{int32(zero(q, 0))}})
	if x.Data != nil { // a constant is quantized already, by whatever grid: its codes tell
		limits = [2]int32{t.Encoding.QMin, t.Encoding.QMax}
	}
	r.held.Add(&export.Item{At: at, Kind: export.Grid, Ints: limits[:]})
	if x.Data == nil {
		return nil
	}
	perm := identity(len(x.Shape))
	if o := r.reader[id]; o != nil && len(o.Outputs) > 0 {
		if p := r.perm(o.Outputs[0]); len(p) == len(x.Shape) {
			perm = p
		}
	}
	codes, err := integersOf(x)
	if err != nil {
		return err
	}
	r.held.Add(&export.Item{At: at, Kind: export.Codes, Ints: restored(codes, x.Shape, perm)})
	return nil
}

// between adds the grids of tensors that the file has between an operator and the tensor of the program, NAME/what, and of a second one of
// a constant, NAME:1. They are the same; one that is rescaled has another by its name.
func (r *recoverer) between() {
	known := map[string]*lower.Tensor{}
	for i := range r.p.Tensors {
		known[r.p.Tensors[i].Name] = &r.p.Tensors[i]
	}
	for i := range r.sub.Tensors {
		x := &r.sub.Tensors[i]
		k := strings.LastIndexAny(x.Name, "/:")
		of, limit := strings.CutSuffix(first(x.Name), "/limit")
		if limit {
			k = len(of)
		}
		if k < 0 || known[x.Name] != nil || !x.Quantization.Quantized() || strings.HasPrefix(x.Name[k:], "/rescaled") {
			continue
		}
		// Weights may be called so too: what stands between is computed, and a second constant is one of a constant.
		if of := known[x.Name[:k]]; of == nil || of.Encoding == nil || x.Data != nil && of.Const == nil && !limit {
			continue
		}
		at := export.TensorName(x.Name[:k])
		r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: x.Quantization.Scale})
		r.held.Add(&export.Item{At: at, Kind: export.ZeroPoints, Ints: []int32{int32(zero(x.Quantization, 0))}})
	}
}

// first is the name that the writer asked for: it has put a colon and a number behind one that was taken.
func first(name string) string {
	return strings.TrimSuffix(strings.TrimRight(name, "0123456789"), ":")
}

// integersOf are the numbers of a constant of integers.
func integersOf(t *tf.Tensor) ([]int32, error) {
	n, err := t.Elements()
	size := t.Type.Bits() / 8
	if err != nil || size == 0 || len(t.Data) != n*size {
		return nil, fmt.Errorf("%q has %d bytes of %s for %v", t.Name, len(t.Data), t.Type, t.Shape)
	}
	list := make([]int32, n)
	for i := range list {
		switch b := t.Data[i*size:]; t.Type {
		case tf.Int8:
			list[i] = int32(int8(b[0]))
		case tf.Int16:
			list[i] = int32(int16(binary.LittleEndian.Uint16(b)))
		case tf.Int32:
			list[i] = int32(binary.LittleEndian.Uint32(b))
		default:
			return nil, fmt.Errorf("%q has the type %s", t.Name, t.Type)
		}
	}
	return list, nil
}

// restored returns the elements of a tensor, whose axis j is axis perm[j] of the model, in the order of the model.
func restored(list []int32, shape, perm []int) []int32 {
	if slices.Equal(perm, identity(len(perm))) {
		return list
	}
	to := make([]int, len(perm)) // shape of the model
	for j, a := range perm {
		to[a] = shape[j]
	}
	stride := make([]int, len(to))
	for a, s := len(to)-1, 1; a >= 0; a-- {
		stride[a], s = s, s*to[a]
	}
	out, index := make([]int32, len(list)), make([]int, len(shape))
	for _, x := range list {
		at := 0
		for j, a := range perm {
			at += index[j] * stride[a]
		}
		out[at] = x
		for j := len(shape) - 1; j >= 0; j-- {
			if index[j]++; index[j] < shape[j] {
				break
			}
			index[j] = 0
		}
	}
	return out
}

// step adds weights and limits of the operators that compute the outputs of a step.
func (r *recoverer) step(s *lower.Step) error {
	at := export.StepName(r.p, s)
	var clamp []int32
	for _, t := range s.Outputs {
		if t == lower.NoTensor {
			continue
		}
		id, ok := r.names[r.p.Tensors[t].Name]
		if !ok || r.producer[id] == nil {
			return nil
		}
		lo, hi, o, err := r.limits(id)
		if err != nil {
			return err
		}
		clamp = append(clamp, lo, hi)
		if op, ok := s.Op.(*lower.Linear); ok && op.Weights != nil {
			if err := r.weights(at, s, op, o); err != nil {
				return err
			}
		}
		if op, ok := s.Op.(*lower.RunTime); ok {
			switch n := cellsNode(op); {
			case n != nil:
				return r.cells(s, n)
			case op.Weights != nil:
				return r.hybrid(at, s, op, o)
			}
		}
	}
	switch s.Op.(type) {
	case *lower.Linear, *lower.Clamp, *lower.Concat, *lower.Sum, *lower.Product, *lower.Average:
		r.held.Add(&export.Item{At: at, Kind: export.Clamp, Ints: clamp})
	}
	return nil
}

// passing are operators between the one that computes a step and the tensor of its output.
var passing = []string{"RESHAPE", "STRIDED_SLICE", "TRANSPOSE"}

// limits follows a tensor to the operator that computes it, and says which codes its activation, and MAXIMUM and MINIMUM with a constant
// behind it, leave.
func (r *recoverer) limits(id int) (lo, hi int32, o *tf.Operator, err error) {
	all, ok := ends[r.sub.Tensors[id].Type]
	if !ok {
		return 0, 0, r.producer[id], nil
	}
	lo, hi = all[0], all[1]
	for range len(r.sub.Operators) {
		o = r.producer[id]
		if o == nil || len(o.Inputs) == 0 {
			return lo, hi, nil, nil
		}
		switch x := &r.sub.Tensors[o.Outputs[0]]; {
		case (o.Op == "MAXIMUM" || o.Op == "MINIMUM") && len(o.Inputs) == 2 && r.sub.Tensors[o.Inputs[1]].Data != nil &&
			strings.HasSuffix(first(r.sub.Tensors[o.Inputs[1]].Name), "/limit"):
			c, err := integersOf(&r.sub.Tensors[o.Inputs[1]])
			if err != nil || len(c) != 1 {
				return 0, 0, nil, fmt.Errorf("a limit of %d codes", len(c))
			}
			if o.Op == "MAXIMUM" {
				lo = max(lo, c[0])
			} else {
				hi = min(hi, c[0])
			}
		case slices.Contains(passing, o.Op) && strings.Contains(r.sub.Tensors[o.Inputs[0]].Name, "/"):
		default:
			l, h, err := activated(o, x, all)
			return max(lo, l), min(hi, h), o, err
		}
		if id = o.Inputs[0]; r.computed[r.sub.Tensors[id].Name] {
			return lo, hi, o, nil // another step's
		}
	}
	return lo, hi, nil, nil
}

// activated are the codes of tensor x that the activation of an operator leaves.
func activated(o *tf.Operator, x *tf.Tensor, all [2]int32) (lo, hi int32, err error) {
	a := o.Options.Int("fused_activation_function")
	switch o.Op {
	case "RELU":
		a = tf.Relu
	case "RELU6":
		a = tf.Relu6
	}
	if a == tf.NoActivation || !x.Quantization.Quantized() {
		return all[0], all[1], nil
	}
	g := qmath.Grid{Scale: x.Quantization.Scale[0], ZeroPoint: int32(zero(x.Quantization, 0)), QMin: all[0], QMax: all[1],
		Rounding: qmath.HalfAwayFromZero}
	switch a {
	case tf.Relu:
		return g.Quantize(0), all[1], nil
	case tf.Relu6:
		return g.Quantize(0), g.Quantize(6), nil
	case tf.ReluN1To1:
		return g.Quantize(-1), g.Quantize(1), nil
	}
	return 0, 0, fmt.Errorf("activation %d", a)
}
