package cprogram

import (
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Kinds of numbers that only programs with real results have: of every channel what a unit of the sum is, and what is added to it.
const (
	realScales export.ItemKind = "real scales"
	realBiases export.ItemKind = "real biases"
)

// Found is a constant array as a file has it: Ints, or Floats of float and of struct factor, whose fields follow each other.
type Found struct {
	Step       lower.StepID
	What, Type string
	Ints       []int64
	Floats     []float32
}

// Held is what the constant arrays of a file hold of a program. written are the steps that it has, limits of sums in the order of their
// outputs; nil: the file has none. tensors have the scales and zero points of tensors that the file says, by name.
type Held struct {
	Program *lower.Program
	Arrays  []Found
	Written map[lower.StepID]bool
	Limits  map[lower.StepID][]int32
	Numbers map[lower.StepID]map[string]string // of the code, see code.numbers; nil: the file has no code
	Tensors []export.Item

	stated, found []*export.Item // numbers in the code, of the program and of the file
}

// Recovered brings it into items.
func (h *Held) Recovered(in *export.Input) (*export.Recovered, error) {
	if err := h.numbers(in); err != nil {
		return nil, err
	}
	r := &export.Recovered{Wants: h.wants, Lacks: h.lacks}
	for _, it := range h.found {
		r.Add(it)
	}
	names := map[string]string{} // constants by what the file says of them
	for i := range h.Program.Tensors {
		if t := &h.Program.Tensors[i]; t.Const != nil {
			names[plain(t.Name+" "+t.Const.Type())] = t.Name
		}
	}
	multipliers := map[lower.StepID][]*Found{}
	for i := range h.Arrays {
		f := &h.Arrays[i]
		if int(f.Step) >= len(h.Program.Steps) {
			continue
		}
		if strings.HasPrefix(f.Type, "struct ") {
			multipliers[f.Step] = append(multipliers[f.Step], f)
			continue
		}
		if it := h.item(f, names); it != nil {
			r.Add(it)
		}
	}
	for id, list := range multipliers {
		h.multipliers(r, id, list)
	}
	for id, list := range h.Limits {
		r.Add(&export.Item{At: export.StepName(h.Program, &h.Program.Steps[id]), Kind: export.Clamp, Ints: list})
	}
	for i := range h.Tensors {
		r.Add(&h.Tensors[i])
	}
	return r, nil
}

// item is an array of a step among items; nil: of those that a program has no numbers of its own for.
func (h *Held) item(f *Found, names map[string]string) *export.Item {
	s := &h.Program.Steps[f.Step]
	it := &export.Item{At: export.StepName(h.Program, s), Wide: f.Ints, Floats: f.Floats}
	linear, _ := s.Op.(*lower.Linear)
	table, _ := s.Op.(*lower.Table)
	what := plain(f.What)
	switch {
	case linear != nil && linear.Weights != nil && strings.HasPrefix(what, "weights "):
		if it.Kind = export.Codes; strings.HasSuffix(what, "two in a byte") {
			it.Wide = unpacked(f.Ints, linear.Weights.Codes)
		}
	case linear != nil && what == "zero points of the weights":
		it.Kind = export.ZeroPoints
	case linear != nil && what == "biases":
		if it.Kind = export.Bias; linear.Bias != nil {
			it.Wide = once(f.Ints, len(linear.Bias))
		}
	case linear != nil && what == "scales by channel":
		it.Kind = realScales
	case linear != nil && what == "biases by channel":
		it.Kind = realBiases
	case linear != nil && what == "zero point of the right factor":
		it.Kind = export.ZeroPoints
	case linear != nil && (what == string(leftsBegin) || what == string(rightsBegin)), what == string(gains), what == string(offsets):
		it.Kind = export.ItemKind(what)
	case table != nil && table.Lines != nil && what == plain(table.Function+" by lines"):
		it.Kind = lines
	case what == "exp by distance from the largest code":
		it.Kind = terms
	case table != nil && table.Lines == nil && strings.HasPrefix(what, plain(table.Function)+" "):
		it.Kind = export.Table
	case names[what] != "":
		at := export.TensorName(names[what])
		if it.At, it.Kind = at, export.Codes; f.Floats != nil {
			return nil
		}
	default:
		return nil
	}
	return it
}

// unpacked are the codes that lie two in a byte.
func unpacked(list []int64, like *tensor.Tensor) []int64 {
	out := make([]int64, like.Len())
	for i := range out {
		if i/2 < len(list) {
			out[i] = list[i/2] >> (i % 2 * 4) & 15
		}
		if like.DType == tensor.Int8 && out[i] > 7 {
			out[i] -= 16
		}
	}
	return out
}

// once is the first n of a list that repeats them, or all of it.
func once(list []int64, n int) []int64 {
	for i, x := range list {
		if n == 0 || x != list[i%n] {
			return list
		}
	}
	return list[:min(n, len(list))]
}

// multipliers adds those of a step, an array for each output; one for all channels stands once.
func (h *Held) multipliers(r *export.Recovered, id lower.StepID, list []*Found) {
	s := &h.Program.Steps[id]
	linear, ok := s.Op.(*lower.Linear)
	if !ok {
		return
	}
	whole, factors := &export.Item{Kind: export.Multipliers}, &export.Item{Kind: export.Factors}
	whole.At = export.StepName(h.Program, s)
	factors.At = whole.At
	for k := range linear.Scales {
		n := len(linear.Scales[k].Multipliers)
		if n == 0 || len(list) == 0 {
			continue
		}
		f := list[0]
		list = list[1:]
		for range n {
			if len(f.Ints) != 2 && len(f.Floats) != 3 {
				whole.Wide, factors.Floats = append(whole.Wide, f.Ints...), append(factors.Floats, f.Floats...)
				break
			}
			whole.Wide, factors.Floats = append(whole.Wide, f.Ints...), append(factors.Floats, f.Floats...)
		}
	}
	for _, it := range []*export.Item{whole, factors} {
		if it.Wide != nil || it.Floats != nil {
			r.Add(it)
		}
	}
}

// wants is all of a program, the numbers of its code, and the scales and biases of sums whose results are real. Clamps of steps that are no
// sums are among the numbers of the code.
func (h *Held) wants(in *export.Input, yield func(*export.Item) error) error {
	sums := map[string]bool{}
	for i := range in.Program.Steps {
		_, sum := in.Program.Steps[i].Op.(*lower.Linear)
		sums[export.StepName(in.Program, &in.Program.Steps[i])] = sum
	}
	err := export.OfProgram(in, func(it *export.Item) error {
		if it.Kind == export.Clamp && !sums[it.At] && h.Numbers != nil {
			return nil
		}
		return yield(it)
	})
	if err != nil {
		return err
	}
	for _, it := range h.stated {
		if err := yield(it); err != nil {
			return err
		}
	}
	for i := range in.Program.Steps {
		s := &in.Program.Steps[i]
		l, ok := s.Op.(*lower.Linear)
		if !ok || !realOf(in.Program, s, l) {
			continue
		}
		at := export.StepName(in.Program, s)
		scales, biases := &export.Item{At: at, Kind: realScales}, &export.Item{At: at, Kind: realBiases}
		for _, c := range l.Real {
			scales.Floats, biases.Floats = append(scales.Floats, c.X*c.W), append(biases.Floats, c.Bias)
		}
		for _, it := range []*export.Item{scales, biases} {
			if err := yield(it); err != nil {
				return err
			}
		}
	}
	return nil
}

// numbers are what numbersOf says of the steps that are written, of the program with the sizes of the file.
func (h *Held) numbers(in *export.Input) error {
	o, err := OptionsOf(in)
	if err != nil {
		return err
	}
	p, err := bind(in.Program, o)
	if err != nil {
		return err
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		if !h.Written[s.ID] {
			continue
		}
		list, err := numbersOf(p, s)
		if err != nil {
			return p.Graph.ErrorAt("export c", s.Node, err)
		}
		h.stated = append(h.stated, list...)
		for _, it := range list {
			if it.Kind == literals && h.Numbers != nil {
				held := &export.Item{At: it.At, Kind: literals}
				for _, text := range it.Texts {
					name, _, _ := strings.Cut(text, "=")
					held.Texts = append(held.Texts, name+"="+h.Numbers[s.ID][name])
				}
				h.found = append(h.found, held)
			}
		}
	}
	return nil
}

// realOf reports whether a sum has a real result.
func realOf(p *lower.Program, s *lower.Step, l *lower.Linear) bool {
	return len(l.Real) > 0 && (l.Func != nil || slices.ContainsFunc(s.Outputs, func(t lower.TensorID) bool {
		return t != lower.NoTensor && !p.Tensors[t].Quantized()
	}))
}

// lacks says what is no array, or stands in the code.
func (h *Held) lacks(it *export.Item) string {
	switch {
	case it.Kind == literals && h.Numbers == nil:
		return "zero points, scales, multipliers and limits of steps, which are numbers of the C program"
	case it.Kind == uncalled:
		return "which elements steps move, how many a call computes, and operators in float, which are code and no numbers"
	}
	if it.Kind == export.ZeroPoints && !slices.ContainsFunc(it.Ints, func(z int32) bool { return z != 0 }) {
		return "zero points that are 0"
	}
	for i := range h.Program.Steps {
		s := &h.Program.Steps[i]
		if export.StepName(h.Program, s) != it.At {
			continue
		}
		linear, _ := s.Op.(*lower.Linear)
		table, _ := s.Op.(*lower.Table)
		switch {
		case !h.Written[s.ID]:
			return "steps that no output needs"
		case it.Kind == export.Scales:
			return "scales of weights, which stand in factors"
		case it.Kind == export.Clamp && (linear == nil || linear.Func != nil || h.Limits == nil):
			return "limits that are numbers of the code"
		case linear != nil && linear.Func != nil && (it.Kind == export.Multipliers || it.Kind == export.Factors):
			return "factors behind a function of real numbers"
		case table != nil && table.Lines != nil:
			return "codes of a table that stands as lines"
		}
		return ""
	}
	if it.Kind == export.Codes && h.reads(it.At) {
		return ""
	}
	return "scales, zero points and limits of tensors, which stand in the numbers of steps"
}

// reads reports whether a step that is written reads a constant.
func (h *Held) reads(at string) bool {
	for i := range h.Program.Steps {
		s := &h.Program.Steps[i]
		if !h.Written[s.ID] {
			continue
		}
		for _, t := range s.Inputs {
			if t != lower.NoTensor && export.TensorName(h.Program.Tensors[t].Name) == at {
				_, moves := s.Op.(*lower.Move)
				return !moves
			}
		}
	}
	return false
}
