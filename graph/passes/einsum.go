package passes

import (
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// EinsumToMatMul writes an Einsum of two operands that is a product of matrices as MatMul, which engines and targets know, with a Transpose
// and a Reshape where axes lie otherwise. A constant operand stands on the right.
var EinsumToMatMul = Pass{
	Name:  "einsum-to-matmul",
	Doc:   "Writes an Einsum of two operands that sums over common labels as MatMul, with Transpose and Reshape where the axes need it.",
	sweep: each(at("y = Einsum(a, b)", einsumToMatMul)),
}

func einsumToMatMul(c *Context, m *pattern.Match) (*Patch, error) {
	g, n := c.G, c.G.Node(m.Root)
	operands := [2]operand{{value: m.Value("a")}, {value: m.Value("b")}}
	shapes := []graph.Shape{g.Value(m.Value("a")).Shape, g.Value(m.Value("b")).Shape}
	if shapes[0] == nil || shapes[1] == nil {
		return nil, decline("the rank of an operand is not known")
	}
	eq, err := graph.EquationOf(n, shapes)
	if err != nil {
		return nil, decline("%v", err)
	}
	for i := range operands {
		operands[i].labels = eq.Terms[i]
	}
	if g.Const(operands[0].value) != nil && g.Const(operands[1].value) == nil {
		operands[0], operands[1] = operands[1], operands[0]
	}
	e := &einsum{p: &Patch{What: "Einsum as MatMul"}, name: n.Name, sizes: eq.Size, dtype: g.Value(n.Outputs[0]).DType}
	if err := e.sort(operands, eq.Out); err != nil {
		return nil, err
	}
	if err := e.multiply(operands, g.Const(operands[1].value) != nil, eq.Out, n.Outputs[0]); err != nil {
		return nil, err
	}
	e.p.Drop(m.Root)
	return e.p, nil
}

// operand is a tensor with a label for every axis.
type operand struct {
	value  graph.ValueID
	labels string
}

// einsum is a product in the making.
type einsum struct {
	p     *Patch
	name  string
	sizes map[byte]graph.Dim
	dtype tensor.DType

	batch, left, right, sum string // labels of both operands and the result; of one operand; of both, summed over
}

// sort tells what the labels are for.
func (e *einsum) sort(operands [2]operand, out string) error {
	a, b := operands[0].labels, operands[1].labels
	for _, o := range operands {
		for i := range o.labels {
			if strings.IndexByte(o.labels[:i], o.labels[i]) >= 0 {
				return decline("a label stands twice at one operand")
			}
		}
	}
	for _, l := range []byte(out) {
		switch in := [2]bool{strings.IndexByte(a, l) >= 0, strings.IndexByte(b, l) >= 0}; in {
		case [2]bool{true, true}:
			e.batch += string([]byte{l})
		case [2]bool{true, false}:
			e.left += string([]byte{l})
		default:
			e.right += string([]byte{l})
		}
	}
	for _, l := range []byte(a) {
		if strings.IndexByte(out, l) >= 0 {
			continue
		}
		if strings.IndexByte(b, l) < 0 {
			return decline("a label of one operand is summed over")
		}
		e.sum += string([]byte{l})
	}
	if len(e.batch)+len(e.right)+len(e.sum) != len(b) {
		return decline("a label of one operand is summed over")
	}
	if e.sum == "" {
		return decline("no label is summed over")
	}
	return nil
}

// multiply adds MatMul and what it needs around it; constant says that the right operand is one.
func (e *einsum) multiply(operands [2]operand, constant bool, out string, y graph.ValueID) error {
	// Rows of a product by a constant matrix may have any number of axes.
	rows := []string{e.left}
	if constant && e.batch == "" {
		rows = letters(e.left)
	}
	groups := append(letters(e.batch), rows...)
	a, err := e.arranged(operands[0], "_left", e.batch+e.left+e.sum, append(slices.Clone(groups), e.sum))
	if err != nil {
		return err
	}
	b, err := e.arranged(operands[1], "_right", e.batch+e.sum+e.right, append(letters(e.batch), e.sum, e.right))
	if err != nil {
		return err
	}
	groups = append(groups, e.right)
	labels := strings.Join(groups, "")
	merged := !slices.EqualFunc(groups, letters(labels), func(g, l string) bool { return g == l })
	moved := labels != out
	product := y
	if merged || moved {
		product = e.p.Typed(e.name+"_product", e.dtype, e.shape(groups))
	}
	e.p.Add(graph.Node{Name: e.name, Op: "MatMul", Inputs: []graph.ValueID{a, b}, Outputs: []graph.ValueID{product}})
	if merged {
		to, err := e.reshapeTo(groups, letters(labels))
		if err != nil {
			return err
		}
		apart := y
		if moved {
			apart = e.p.Typed(e.name+"_apart", e.dtype, e.shape(letters(labels)))
		}
		e.reshape("_reshape", product, to, apart)
		product = apart
	}
	if moved {
		e.transpose("_transpose", product, labels, out, y)
	}
	return nil
}

// letters are the labels of a list, each by itself.
func letters(labels string) []string {
	list := make([]string, len(labels))
	for i := range labels {
		list[i] = labels[i : i+1]
	}
	return list
}

// arranged is an operand with its labels in an order, and those of a group in one axis; a group of none is an axis of 1.
func (e *einsum) arranged(o operand, suffix, order string, groups []string) (graph.ValueID, error) {
	v := o.value
	if o.labels != order {
		to := e.p.Typed(e.name+suffix+"_transposed", e.dtype, e.shape(letters(order)))
		e.transpose(suffix+"_transpose", v, o.labels, order, to)
		v = to
	}
	if slices.Equal(groups, letters(order)) {
		return v, nil
	}
	dims, err := e.reshapeTo(letters(order), groups)
	if err != nil {
		return v, err
	}
	to := e.p.Typed(e.name+suffix+"_reshaped", e.dtype, e.shape(groups))
	e.reshape(suffix+"_reshape", v, dims, to)
	return to, nil
}

func (e *einsum) transpose(suffix string, v graph.ValueID, from, to string, y graph.ValueID) {
	perm := make([]int64, len(to))
	for i := range to {
		perm[i] = int64(strings.IndexByte(from, to[i]))
	}
	e.p.Add(graph.Node{Name: e.name + suffix, Op: "Transpose", Attrs: []graph.Attr{graph.Ints("perm", perm...)}, Inputs: []graph.ValueID{v},
		Outputs: []graph.ValueID{y}})
}

func (e *einsum) reshape(suffix string, v graph.ValueID, dims []int64, y graph.ValueID) {
	shape := e.p.Const(e.name+suffix+"_shape", tensor.FromI64(dims, len(dims)))
	e.p.Add(graph.Node{Name: e.name + suffix, Op: "Reshape", Inputs: []graph.ValueID{v, shape}, Outputs: []graph.ValueID{y}})
}

// size is that of an axis of labels, below 0 where one is open.
func (e *einsum) size(group string) int64 {
	n := int64(1)
	for i := range group {
		d := e.sizes[group[i]]
		if !d.Known() {
			return -1
		}
		n *= d.N
	}
	return n
}

func (e *einsum) shape(groups []string) graph.Shape {
	shape := graph.Shape{}
	for _, g := range groups {
		d := graph.Dim{N: e.size(g)}
		if len(g) == 1 {
			d = e.sizes[g[0]]
		}
		shape = append(shape, d)
	}
	return shape
}

// reshapeTo is the operand of a Reshape from axes to others: 0 for an open axis that stays where it is, -1 for one other.
func (e *einsum) reshapeTo(from, to []string) ([]int64, error) {
	dims, open := make([]int64, len(to)), 0
	for i, g := range to {
		dims[i] = e.size(g)
		switch {
		case dims[i] == 0:
			return nil, decline("an axis has no elements")
		case dims[i] > 0:
		case i < len(from) && from[i] == g:
			dims[i] = 0
		default:
			open++
		}
	}
	if open > 1 {
		return nil, decline("more than one axis of a Reshape would be open")
	}
	return dims, nil
}
