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
	"qwb/quantizer/lower"
)

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
	h := &Held{Program: in.Program, Written: map[lower.StepID]bool{}, Limits: map[lower.StepID][]int32{},
		Numbers: map[lower.StepID]map[string]string{}}
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
	c := codeOf(code)
	blocks(code, func(id lower.StepID, block string) { h.Numbers[id] = c.numbers(block) })
	held, err := h.Recovered(in)
	return &export.Readback{Held: held}, err
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
