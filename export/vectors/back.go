package vectors

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"path"

	"qwb/export"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// recorded is the kind of the numbers that a tensor has in the run of the sample.
const recorded export.ItemKind = "numbers of the run"

// back reads a program with its arrays, backPatterns those of patterns, which are parts of a program.
func back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	r := newReader(in, out.FS())
	ids := make([]lower.StepID, len(in.Program.Steps))
	for i := range ids {
		ids[i] = lower.StepID(i)
	}
	if err := r.program("", ids); err != nil {
		return nil, err
	}
	return r.result(), nil
}

func backPatterns(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	r := newReader(in, out.FS())
	r.parts = true
	var index Patterns
	if err := r.json("patterns.json", &index); err != nil {
		return nil, err
	}
	for _, p := range index.Patterns {
		var places []Place
		if err := r.json(path.Join(p.Folder, "places.json"), &places); err != nil {
			return nil, err
		}
		if len(places) != p.Places || len(places) == 0 {
			return nil, fmt.Errorf("%s: %d places, patterns.json says %d", p.Folder, len(places), p.Places)
		}
		if err := r.program(p.Folder, places[0].Steps); err != nil {
			return nil, err
		}
	}
	return r.result(), nil
}

type reader struct {
	p     *lower.Program
	files fs.FS
	held  *export.Recovered
	parts bool            // the files need not have all of the program
	seen  map[string]bool // steps and tensors that they have
	rec   *export.Recording
}

func newReader(in *export.Input, files fs.FS) *reader {
	r := &reader{p: in.Program, files: files, seen: map[string]bool{}}
	if r.rec, _ = in.State.(*export.Recording); r.rec == nil {
		r.rec = &export.Recording{} // Recorded says that there is none
	}
	r.held = &export.Recovered{Lacks: r.lacks, Wants: func(in *export.Input, yield func(*export.Item) error) error {
		if err := export.OfProgram(in, yield); err != nil {
			return err
		}
		if err := export.Recorded(in, yield); err != nil {
			return err
		}
		return says(r.rec, in.Program, yield)
	}}
	return r
}

func (r *reader) result() *export.Readback { return &export.Readback{Held: r.held} }

func (r *reader) lacks(it *export.Item) string {
	if !r.seen[it.At] {
		if r.parts {
			return "what stands in another place of a pattern, or in none"
		}
		return "constants that no step reads"
	}
	for i := range r.p.Steps {
		s := &r.p.Steps[i]
		if export.StepName(r.p, s) != it.At {
			continue
		}
		l, ok := s.Op.(*lower.Linear)
		switch {
		case it.Kind == export.Scales:
			return "scales of weights, which stand in factors"
		case ok && (it.Kind == export.Multipliers || it.Kind == export.Factors) && doubles(l):
			return "factors of float32, where the profile has float64"
		case ok && l.Func != nil && (it.Kind == export.Multipliers || it.Kind == export.Factors || it.Kind == export.Clamp):
			return "factors behind a function of real numbers"
		}
	}
	return ""
}

func doubles(l *lower.Linear) bool {
	for _, s := range l.Scales {
		for _, m := range s.Multipliers {
			if m.Double != 0 {
				return true
			}
		}
	}
	return false
}

func (r *reader) json(name string, to any) error {
	b, err := fs.ReadFile(r.files, name)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// program reads the program in a folder. ids are its steps in the whole program.
func (r *reader) program(folder string, ids []lower.StepID) error {
	var d struct {
		Tensors []Tensor `json:"tensors"`
		Steps   []struct {
			Step
			Parameters json.RawMessage `json:"parameters"`
		} `json:"steps"`
	}
	name := path.Join(folder, "program.json")
	if err := r.json(name, &d); err != nil {
		return err
	}
	if len(d.Steps) != len(ids) {
		return fmt.Errorf("%s: %d steps, not %d", name, len(d.Steps), len(ids))
	}
	named := map[lower.TensorID]string{}
	for _, t := range d.Tensors {
		at := export.TensorName(t.Name)
		named[t.ID] = t.Name
		r.held.Add(shapeItem(t.Name, t.Type, t.Shape))
		r.seen[at] = true
		b, err := r.elements(folder, &t.Array)
		if err != nil {
			return err
		}
		if t.Constant && t.Encoding != nil {
			r.held.Add(&export.Item{At: at, Kind: export.Codes, Wide: decode(&t.Array, b).Wide})
		}
		r.held.Add(&export.Item{At: at, Kind: recorded, Raw: b, Size: sizes[t.Type]})
		if e := t.Encoding; e != nil {
			r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: []float32{e.Scale}})
			r.held.Add(&export.Item{At: at, Kind: export.ZeroPoints, Ints: []int32{e.ZeroPoint}})
			r.held.Add(&export.Item{At: at, Kind: export.Grid, Ints: []int32{e.QMin, e.QMax}})
		}
	}
	for i := range d.Steps {
		if id := ids[i]; int(id) >= len(r.p.Steps) || id < 0 {
			return fmt.Errorf("%s: step %d of the program", name, id)
		}
		if _, known := read(r.rec, r.p, &r.p.Steps[ids[i]]); known {
			if err := r.says(&r.p.Steps[ids[i]], &d.Steps[i].Step, d.Steps[i].Parameters, named); err != nil {
				return fmt.Errorf("%s: step %d: %w", name, i, err)
			}
		}
		if err := r.step(folder, &r.p.Steps[ids[i]], d.Steps[i].Arrays, d.Steps[i].Parameters); err != nil {
			return fmt.Errorf("%s: step %d: %w", name, i, err)
		}
	}
	return nil
}

// says adds what the file says of a step besides arrays; named are tensors by their numbers in it.
func (r *reader) says(s *lower.Step, d *Step, parameters []byte, named map[lower.TensorID]string) error {
	it, err := stepItem(export.StepName(r.p, s), d.Kind, d.Inputs, d.Outputs, func(id lower.TensorID) string { return named[id] }, parameters)
	if err == nil {
		r.held.Add(it)
	}
	return err
}

// step reads the arrays and limits of one step.
func (r *reader) step(folder string, s *lower.Step, arrays map[string]Array, parameters json.RawMessage) error {
	at := export.StepName(r.p, s)
	r.seen[at] = true
	found := map[string]*export.Item{}
	for name, a := range arrays {
		b, err := r.elements(folder, &a)
		if err != nil {
			return err
		}
		x := decode(&a, b)
		x.At, found[name] = at, x
	}
	for name, kind := range map[string]export.ItemKind{"weights": export.Codes, "weight_zero_points": export.ZeroPoints, "bias": export.Bias,
		"table": export.Table, "above": export.Table} {
		if x := found[name]; x != nil {
			x.Kind = kind
			r.held.Add(x)
		}
	}
	switch op := s.Op.(type) {
	case *lower.Linear:
		return r.linear(at, op, found, parameters)
	case *lower.Clamp, *lower.Concat, *lower.Select, *lower.MaxPool:
		var p struct{ Lo, Hi, Lowest *int32 }
		if err := json.Unmarshal(parameters, &p); err != nil {
			return err
		}
		switch {
		case p.Lo != nil && p.Hi != nil:
			r.held.Add(&export.Item{At: at, Kind: export.Clamp, Ints: []int32{*p.Lo, *p.Hi}})
		case p.Lowest != nil:
			r.held.Add(&export.Item{At: at, Kind: export.Clamp, Ints: []int32{*p.Lowest}})
		}
	}
	return nil
}

// linear reads factors and limits of a sum of products, output by output.
func (r *reader) linear(at string, op *lower.Linear, found map[string]*export.Item, parameters json.RawMessage) error {
	var p Linear
	if err := json.Unmarshal(parameters, &p); err != nil {
		return err
	}
	if op.Func != nil {
		return nil
	}
	clamp, whole := &export.Item{At: at, Kind: export.Clamp}, &export.Item{At: at, Kind: export.Multipliers}
	factors, double := &export.Item{At: at, Kind: export.Factors}, &export.Item{At: at, Kind: export.Doubles}
	for k, o := range p.Outputs {
		of := func(name string) *export.Item { return found[fmt.Sprintf("%s_%d", name, k)] }
		m, shift, out, f := of("multiplier"), of("shift"), of("out"), of("float64_factor")
		switch {
		case f != nil:
			double.Wide = append(double.Wide, f.Wide...)
		case m != nil && shift != nil && len(m.Wide) == len(shift.Wide):
			for c := range m.Wide {
				whole.Wide = append(whole.Wide, m.Wide[c], shift.Wide[c])
			}
		case out != nil && of("scale") != nil && of("bias") != nil && len(of("scale").Floats) == len(out.Floats) &&
			len(of("bias").Floats) == len(out.Floats):
			for c := range out.Floats {
				factors.Floats = append(factors.Floats, of("scale").Floats[c], of("bias").Floats[c], out.Floats[c])
			}
		default:
			continue // a real result
		}
		clamp.Ints = append(clamp.Ints, o.Lo, o.Hi)
	}
	for _, it := range []*export.Item{clamp, whole, factors, double} {
		if it.Ints != nil || it.Wide != nil || it.Floats != nil {
			r.held.Add(it)
		}
	}
	return nil
}

// elements are those of an array in .npy, little-endian; .hex is held to them.
func (r *reader) elements(folder string, a *Array) ([]byte, error) {
	name := path.Join(folder, a.File)
	b, err := fs.ReadFile(r.files, name)
	if err != nil {
		return nil, err
	}
	if len(b) < 12 || string(b[:6]) != "\x93NUMPY" {
		return nil, fmt.Errorf("%s: no array of NumPy", name)
	}
	at := 10 + int(binary.LittleEndian.Uint16(b[8:]))
	if b[6] > 1 {
		at = 12 + int(binary.LittleEndian.Uint32(b[8:]))
	}
	if at > len(b) {
		return nil, fmt.Errorf("%s: the header is longer than the file", name)
	}
	b = b[at:]
	if n, size := tensor.Count(a.Shape), sizes[a.Type]; size == 0 || n*size != len(b) {
		return nil, fmt.Errorf("%s: %d bytes for %s%v", name, len(b), a.Type, a.Shape)
	}
	if a.Hex == "" {
		return b, nil
	}
	text, err := fs.ReadFile(r.files, path.Join(folder, a.Hex))
	if err != nil {
		return nil, err
	}
	if err := sameWords(text[bytes.IndexByte(text, '\n')+1:], b, sizes[a.Type], a.HexDigits); err != nil {
		return nil, fmt.Errorf("%s: %w", a.Hex, err)
	}
	return b, nil
}

var sizes = map[string]int{"i8": 1, "u8": 1, "bool": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4, "f32": 4, "i64": 8,
	"u64": 8, "f64": 8}

// word is the element of size bytes that b begins with.
func word(b []byte, size int) (w uint64) {
	for i := range size {
		w |= uint64(b[i]) << (8 * i)
	}
	return w
}

// decode reads elements, little-endian.
func decode(a *Array, b []byte) *export.Item {
	size := sizes[a.Type]
	n := len(b) / size
	if a.Type == "f32" {
		it := &export.Item{Floats: make([]float32, n)}
		for i := range it.Floats {
			it.Floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return it
	}
	it := &export.Item{Wide: make([]int64, n)}
	shift := 0
	if a.Type[0] == 'i' {
		shift = 64 - 8*size
	}
	for i := range it.Wide {
		it.Wide[i] = int64(word(b[i*size:], size)<<shift) >> shift
	}
	return it
}

// sameWords holds the lines of a .hex file, one element each, to the elements of .npy. digits are those of a line.
func sameWords(text, elements []byte, size, digits int) error {
	mask, at := ^uint64(0), 0
	if digits < 16 {
		mask = 1<<(4*digits) - 1
	}
	var x uint64
	some, k := false, 0
	end := func() error {
		if k*size >= len(elements) {
			return fmt.Errorf("more elements than the %d of .npy", len(elements)/size)
		}
		if want := word(elements[k*size:], size) & mask; x != want {
			return fmt.Errorf("element %d is %x, in .npy %x", k, x, want)
		}
		x, some, k = 0, false, k+1
		return nil
	}
	for ; at <= len(text); at++ {
		c := byte('\n')
		if at < len(text) {
			c = text[at]
		}
		d := export.HexDigits[c]
		switch {
		case d < 16 && x>>60 == 0:
			x, some = x<<4|uint64(d), true
		case c != '\n' && c != ' ' && c != '\r' && c != '\t':
			return fmt.Errorf("element %d has the character %q, or too many", k, c)
		case some:
			if err := end(); err != nil {
				return err
			}
		}
	}
	if k*size != len(elements) {
		return fmt.Errorf("%d elements, .npy has %d", k, len(elements)/size)
	}
	return nil
}
