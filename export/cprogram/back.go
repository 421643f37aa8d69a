package cprogram

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"strconv"
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
	Tensors []export.Item
}

// Recovered brings it into items.
func (h *Held) Recovered() *export.Recovered {
	r := &export.Recovered{Wants: wants, Lacks: h.lacks}
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
	return r
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

// wants is all of a program, and the scales and biases of sums whose results are real.
func wants(in *export.Input, yield func(*export.Item) error) error {
	if err := export.OfProgram(in, yield); err != nil {
		return err
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

// realOf reports whether a sum has a real result.
func realOf(p *lower.Program, s *lower.Step, l *lower.Linear) bool {
	return len(l.Real) > 0 && (l.Func != nil || slices.ContainsFunc(s.Outputs, func(t lower.TensorID) bool {
		return t != lower.NoTensor && !p.Tensors[t].Quantized()
	}))
}

// lacks says what is no array, or stands in the code.
func (h *Held) lacks(it *export.Item) string {
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
	return "scales, zero points and limits of tensors, which are numbers of the code"
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

// The forms in which the file has arrays, the ends of steps, limits of sums, and what callers know of inputs and outputs.
var (
	arrayText  = regexp.MustCompile(`^(\d+): ([^\n]*) \*/\nstatic const ((?:struct )?\w+) \w+\[\d+\] = \{`)
	stepText   = regexp.MustCompile(`_STEP\((\d+)\);\n`)
	limitText  = regexp.MustCompile(`const struct (?:sum_|float_)?codes to(\d+) = \{+[^{}]*?, step\d+_\d+, \d+, (-?\d+), (-?\d+), (-?\d+)\}`)
	borderText = regexp.MustCompile(`_BYTES \d+ /\* (.*) \*/\n#define \w+_SCALE (\S+)\n#define \w+_ZERO_POINT (-?\d+)\n`)
)

// back reads a file.
func back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	b, err := fs.ReadFile(out.FS(), out.Name())
	if err != nil {
		return nil, err
	}
	text := string(b)
	h := &Held{Program: in.Program, Written: map[lower.StepID]bool{}, Limits: map[lower.StepID][]int32{}}
	code, err := h.arrays(text)
	if err != nil {
		return nil, err
	}
	for _, m := range stepText.FindAllStringSubmatch(code, -1) {
		id, _ := strconv.Atoi(m[1])
		h.Written[lower.StepID(id)] = true
	}
	computed := map[int]lower.StepID{}
	for i := range in.Program.Steps {
		for _, t := range in.Program.Steps[i].Outputs {
			computed[int(t)] = in.Program.Steps[i].ID
		}
	}
	for _, m := range limitText.FindAllStringSubmatch(code, -1) {
		var n [4]int
		for k := range n {
			n[k], _ = strconv.Atoi(m[1+k])
		}
		id := computed[n[0]]
		h.Limits[id] = append(h.Limits[id], int32(n[2]), int32(n[3]))
	}
	if err := h.borders(code); err != nil {
		return nil, err
	}
	return &export.Readback{Held: h.Recovered()}, nil
}

// arrays reads the constant arrays, and returns the rest of the text.
func (h *Held) arrays(text string) (code string, err error) {
	var rest strings.Builder
	const head, end = "\n/* step ", "};\n"
	for {
		at := strings.Index(text, head)
		if at < 0 {
			rest.WriteString(text)
			return rest.String(), nil
		}
		rest.WriteString(text[:at+1])
		text = text[at+len(head):]
		m := arrayText.FindStringSubmatch(text[:min(len(text), 4096)])
		if m == nil {
			continue
		}
		body := text[len(m[0]):]
		stop := strings.Index(body, end)
		if stop < 0 {
			continue
		}
		id, _ := strconv.Atoi(m[1]) // digits
		f := Found{Step: lower.StepID(id), What: m[2], Type: m[3]}
		if err := f.read(body[:stop]); err != nil {
			return "", fmt.Errorf("step %d: %s: %w", id, f.What, err)
		}
		h.Arrays = append(h.Arrays, f)
		text = body[stop+len(end)-1:] // the line's end begins the next
	}
}

// borders reads scales and zero points of inputs and outputs.
func (h *Held) borders(text string) error {
	names := map[string]string{}
	for i := range h.Program.Tensors {
		if t := &h.Program.Tensors[i]; t.Encoding != nil {
			names[plain(t.Name)] = t.Name
		}
	}
	for _, m := range borderText.FindAllStringSubmatch(text, -1) {
		end := strings.LastIndexByte(m[1], ' ')
		name := names[m[1][:max(end, 0)]]
		scale, err := number(m[2])
		if err != nil {
			return err
		}
		zero, _ := strconv.Atoi(m[3])
		at := export.TensorName(name)
		h.Tensors = append(h.Tensors, export.Item{At: at, Kind: export.Scales, Floats: []float32{float32(scale)}},
			export.Item{At: at, Kind: export.ZeroPoints, Ints: []int32{int32(zero)}})
	}
	return nil
}

// read reads the elements of an array.
func (f *Found) read(text string) error {
	real := f.Type == "float" || f.Type == "struct factor"
	between := func(c byte) bool { return c == ' ' || c == ',' || c == '\n' || c == '{' || c == '}' }
	if n := strings.Count(text, ",") + 1; real {
		f.Floats = slices.Grow(f.Floats, n)
	} else {
		f.Ints = slices.Grow(f.Ints, n)
	}
	for i := 0; i < len(text); {
		if between(text[i]) {
			i++
			continue
		}
		from := i
		for i < len(text) && !between(text[i]) {
			i++
		}
		w := text[from:i]
		if real {
			x, err := number(w)
			if err != nil {
				return err
			}
			f.Floats = append(f.Floats, float32(x))
			continue
		}
		n, short := few(w)
		if !short {
			var err error
			if n, err = whole(w); err != nil {
				return err
			}
		}
		f.Ints = append(f.Ints, n)
	}
	return nil
}

// number is a float32 constant of C.
func number(w string) (float64, error) {
	switch w {
	case "NAN":
		return math.NaN(), nil
	case "INFINITY":
		return math.Inf(1), nil
	case "-INFINITY":
		return math.Inf(-1), nil
	}
	return strconv.ParseFloat(strings.TrimSuffix(w, "f"), 64)
}

// few is an integer constant of up to four digits, which most are.
func few(w string) (n int64, ok bool) {
	digits := strings.TrimPrefix(w, "-")
	if digits == "" || len(digits) > 4 {
		return 0, false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		n = 10*n + int64(digits[i]-'0')
	}
	if len(digits) < len(w) {
		n = -n
	}
	return n, true
}

// whole is an integer constant of C.
func whole(w string) (int64, error) {
	switch w {
	case "INT64_MIN":
		return math.MinInt64, nil
	case "INT32_MIN":
		return math.MinInt32, nil
	}
	return strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(w, "INT64_C("), ")"), 10, 64)
}
