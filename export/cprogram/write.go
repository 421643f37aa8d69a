package cprogram

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	shown "qwb/internal/plain"
	"qwb/quantizer/lower"
)

// Options say how a program is written. The zero value is usable.
type Options struct {
	// Sizes are those of dimensions that the model leaves open, by symbol, "" for dimensions without one. What stays open is an
	// error: the C program has one shape for every tensor.
	Sizes map[string]int64
	// Title stands in the first line of the file, for example the model's name.
	Title string
	// Prefix begins all names that other files can see, macros in capitals; "" is qwb.
	Prefix string
	// Inputs and Outputs ask for the integers of what is real in the model; the caller quantizes and dequantizes.
	Inputs, Outputs bool
	// Context, if not nil, ends the work.
	Context context.Context
}

// Size is what a written program takes, in bytes.
type Size struct {
	Arena     int // for what is computed on the way, reused by lifetimes
	Constants int // weights, biases, multipliers and tables
}

// Write writes p as one C99 file. What it cannot express is an error that names the step, and nothing is written.
func Write(out io.Writer, p *lower.Program, o Options) (Size, error) {
	w, size, err := written(p, o)
	if err != nil {
		return size, err
	}
	_, err = io.WriteString(out, w.file(o.Title, size))
	return size, err
}

// written collects the parts of a file and places its arrays.
func written(p *lower.Program, o Options) (*writer, Size, error) {
	if o.Prefix == "" {
		o.Prefix = "qwb"
	}
	if !identifier.MatchString(o.Prefix) {
		return nil, Size{}, fmt.Errorf("export c: the prefix %q is no name in C", o.Prefix)
	}
	bound, err := bind(p, o)
	if err != nil {
		return nil, Size{}, err
	}
	all, err := library()
	if err != nil {
		return nil, Size{}, err
	}
	w := &writer{ctx: cmp.Or(o.Context, context.Background()), p: bound, prefix: o.Prefix,
		kernels: kernels{library: all, have: map[string]bool{}}, values: map[lower.TensorID]*value{}}
	if err := w.program(); err != nil {
		return nil, Size{}, err
	}
	return w, w.size(), nil
}

// identifier is what may begin a name: letters, digits and _, ASCII.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// bind returns p with the given sizes for open dimensions, every tensor with a fixed shape that the steps need, and the wanted types of
// inputs and outputs.
func bind(p *lower.Program, o Options) (*lower.Program, error) {
	q := *p
	if err := integerBorders(&q, o); err != nil {
		return nil, fmt.Errorf("export c: %w", err)
	}
	q.Graph = p.Graph.Clone()
	if errs := graph.Bind(q.Graph, o.Sizes); len(errs) > 0 {
		return nil, fmt.Errorf("export c: %w", errs[0])
	}
	q.Tensors = append([]lower.Tensor(nil), p.Tensors...)
	for i := range q.Tensors {
		t := &q.Tensors[i]
		t.Shape = q.Graph.Value(t.Value).Shape
		if t.Const != nil {
			t.Shape = graph.Static(t.Const.Shape...)
		}
	}
	for _, id := range q.Inputs {
		if t := &q.Tensors[id]; t.Shape == nil || !fixed(t.Shape) {
			return nil, fmt.Errorf("export c: input %q is %s: the C program needs sizes for all of its dimensions", t.Name,
				graph.FormatType(t.DType, t.Shape))
		}
	}
	return &q, nil
}

func fixed(s graph.Shape) bool {
	_, ok := s.Ints()
	return ok
}

// writer collects the parts of a file.
type writer struct {
	ctx     context.Context // ends the search for where the elements of a step come from
	p       *lower.Program
	prefix  string
	kernels kernels
	// values are the arrays of the program's tensors; arrays all of them in the order in which they are first used.
	values    map[lower.TensorID]*value
	arrays    []*value
	tables    strings.Builder
	constants []Constant
	body      strings.Builder
	time      int // of the arena: the number of calls so far
	step      lower.StepID
	named     int // constants of the step
	depth     int // of blocks within the step's
	infinity  bool
}

// program writes the calls of all steps.
func (w *writer) program() error {
	needed := w.needed()
	for i, id := range w.p.Inputs {
		w.values[id] = &value{name: fmt.Sprintf("in%d", i), at: fmt.Sprintf("in[%d]", i), dtype: w.p.Tensors[id].DType, shape: w.shape(id)}
	}
	for i := range w.p.Steps {
		s := &w.p.Steps[i]
		if !needed[i] {
			continue
		}
		w.step, w.named = s.ID, 0
		if err := w.check(s); err != nil {
			return w.fail(s, err)
		}
		fmt.Fprintf(&w.body, "\n    /* %s */\n    {\n", w.comment(s))
		if err := w.emit(s); err != nil {
			return w.fail(s, err)
		}
		fmt.Fprintf(&w.body, "    }\n    %s(%d);\n", w.macro("STEP"), s.ID)
	}
	return w.outputs()
}

// emit writes one step by the row of its type.
func (w *writer) emit(s *lower.Step) error {
	_, ok, err := forms.Make(w, s)
	if r, own := s.Op.(*lower.RunTime); own && s.Node != graph.NoNode && w.p.Graph.Node(s.Node).Op == "LSTM" {
		return fmt.Errorf("LSTM on integers (%s) has no form in C; in float it is one of the CPU's operators", r.Name())
	}
	if !ok {
		return fmt.Errorf("%s has no form in C", s.Op.Name())
	}
	return err
}

// forms are the types of operations that have a form in C.
var forms = lower.Rows[*writer, struct{}]{
	lower.Writes((*writer).linear), lower.Writes((*writer).sum), lower.Writes((*writer).product), lower.Writes((*writer).choose),
	lower.Writes((*writer).concat), lower.Writes((*writer).requantize), lower.Writes((*writer).clamp), lower.Writes((*writer).table),
	lower.Writes((*writer).quantize), lower.Writes((*writer).dequantize), lower.Writes((*writer).softmax), lower.Writes((*writer).maxPool),
	lower.Writes((*writer).average), lower.Writes((*writer).move), lower.Writes((*writer).island), lower.Writes((*writer).layerNorm),
}

// needed says which steps the outputs depend on. Inputs that only say a shape do not count: shapes are known. A step that makes what the
// caller gives is not needed.
func (w *writer) needed() []bool {
	tensors := map[lower.TensorID]bool{}
	for _, id := range w.p.Outputs {
		tensors[id] = true
	}
	steps := make([]bool, len(w.p.Steps))
	for i := len(steps) - 1; i >= 0; i-- {
		s := &w.p.Steps[i]
		for _, out := range s.Outputs {
			steps[i] = steps[i] || out != lower.NoTensor && tensors[out] && !slices.Contains(w.p.Inputs, out)
		}
		if !steps[i] {
			continue
		}
		for k, in := range s.Inputs {
			if w.readsData(s, k) {
				tensors[in] = true
			}
		}
	}
	return steps
}

// readsData reports whether a step reads the elements of its input k, and not its shape alone.
func (w *writer) readsData(s *lower.Step, k int) bool {
	g := s.Graph()
	if g == nil {
		return true
	}
	for _, u := range g.Uses(g.Inputs[k]) {
		if !shapeInput(g.Node(u.Node), u.Index) {
			return true
		}
	}
	return g.IsOutput(g.Inputs[k])
}

// check requires fixed shapes and known types of what a step reads and makes.
func (w *writer) check(s *lower.Step) error {
	for k, id := range append(append([]lower.TensorID(nil), s.Outputs...), s.Inputs...) {
		if id == lower.NoTensor || k >= len(s.Outputs) && !w.readsData(s, k-len(s.Outputs)) {
			continue
		}
		t := &w.p.Tensors[id]
		if !fixed(t.Shape) || t.Shape == nil {
			return fmt.Errorf("%q is %s: the C program needs fixed shapes", t.Name, graph.FormatType(t.DType, t.Shape))
		}
		if cTypes[t.DType.String()] == "" {
			return fmt.Errorf("%q has the type %s, which the C program does not have%s", t.Name, t.DType, export.ToFloat32(t.DType))
		}
	}
	return nil
}

func (w *writer) fail(s *lower.Step, err error) error {
	if s.Node != graph.NoNode {
		if of := (*graph.NodeError)(nil); errors.As(err, &of) { // one of several operators in float
			return err
		}
		return w.p.Graph.ErrorAt("export c", s.Node, err)
	}
	return fmt.Errorf("export c: %s of %q: %w", s.Op.Name(), w.p.Name(s.ID), err)
}

// shape is the fixed shape of a tensor.
func (w *writer) shape(id lower.TensorID) []int {
	s, _ := w.p.Tensors[id].Shape.Ints()
	return s
}

// count is how many elements a tensor has.
func (w *writer) count(id lower.TensorID) int { return tensor.Count(w.shape(id)) }

// typ is the name that pieces have for the type of a tensor.
func (w *writer) typ(id lower.TensorID) string { return w.p.Tensors[id].DType.String() }

// comment says what a step is: nodes, operator, tensors.
func (w *writer) comment(s *lower.Step) string {
	text := fmt.Sprintf("step %d: %s", s.ID, s.Op.Name())
	var names []string
	for _, n := range s.Nodes {
		names = append(names, w.p.Graph.Node(n).Name)
	}
	if len(names) > 0 {
		text += fmt.Sprintf(" %q", strings.Join(names, "+"))
	}
	list := func(ids []lower.TensorID) string {
		var parts []string
		for _, id := range ids {
			if id != lower.NoTensor {
				parts = append(parts, graph.FormatType(w.p.Tensors[id].DType, w.p.Tensors[id].Shape))
			}
		}
		return strings.Join(parts, ", ")
	}
	return plain(fmt.Sprintf("%s: %s -> %s", text, list(s.Inputs), list(s.Outputs)))
}

// plain makes text fit for a comment: control characters are blanks, and what would turn the direction of the source's text is escaped.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return strings.ReplaceAll(strings.ReplaceAll(shown.Text(s), "*/", "* /"), "/*", "/ *")
}
