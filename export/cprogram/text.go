package cprogram

import (
	le "encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// line writes a line of the step's block.
func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(&w.body, "        "+strings.Repeat("    ", w.depth)+format+"\n", args...)
}

// open and close write the braces of a block within the step's.
func (w *writer) open() {
	w.line("{")
	w.depth++
}

func (w *writer) close() {
	w.depth--
	w.line("}")
}

// call writes a call of the step's block, after which arrays may be taken again.
func (w *writer) call(format string, args ...any) {
	w.line(format+";", args...)
	w.time++
}

// name is a new name for a constant of the step.
func (w *writer) name() string {
	w.named++
	return fmt.Sprintf("step%d_%d", w.step, w.named)
}

// array writes a constant array and returns its name. data is what it is in memory.
func (w *writer) array(ctype, what string, data []byte, elements []string) string {
	name := w.name()
	w.constants = append(w.constants, Constant{Step: w.step, Name: name, What: what, Type: ctype, Data: data})
	fmt.Fprintf(&w.tables, "\n/* step %d: %s */\nstatic const %s %s[%d] = {", w.step, plain(what), ctype, name, max(len(elements), 1))
	width := 1 << 30
	for i, e := range elements {
		if width+len(e)+2 > 130 {
			w.tables.WriteString("\n    ")
			width = 4
		}
		w.tables.WriteString(e)
		if i+1 < len(elements) {
			w.tables.WriteString(", ")
		}
		width += len(e) + 2
	}
	if len(elements) == 0 {
		w.tables.WriteString("0")
	}
	w.tables.WriteString("};\n")
	return name
}

// integers writes a constant array of integers.
func integers[T int | int8 | uint8 | int16 | uint16 | int32 | int64](w *writer, ctype, what string, size int, list []T) string {
	text := make([]string, len(list))
	var data []byte
	for i, v := range list {
		text[i] = integer(int64(v))
		data = append(data, le.LittleEndian.AppendUint64(nil, uint64(int64(v)))[:size]...)
	}
	return w.array(ctype, what, data, text)
}

// littleEndian is numbers as they lie in memory.
func littleEndian(numbers any) []byte {
	b, err := le.Append(nil, le.LittleEndian, numbers)
	if err != nil {
		panic(err) // of numbers of a fixed size there is none
	}
	return b
}

// floats writes a constant array of float32.
func (w *writer) floats(what string, list []float32) string {
	text := make([]string, len(list))
	for i, v := range list {
		text[i] = w.real(v)
	}
	return w.array("float", what, littleEndian(list), text)
}

// constant writes a tensor.
func (w *writer) constant(t *tensor.Tensor, what string) string {
	t = t.ToRowMajor()
	what += " " + t.Type()
	switch d := t.Data.(type) {
	case []int8:
		return integers(w, "int8_t", what, 1, d)
	case []uint8:
		return integers(w, "uint8_t", what, 1, d)
	case []int16:
		return integers(w, "int16_t", what, 2, d)
	case []uint16:
		return integers(w, "uint16_t", what, 2, d)
	case []int32:
		return integers(w, "int32_t", what, 4, d)
	case []int64:
		return integers(w, "int64_t", what, 8, d)
	case []float32:
		return w.floats(what, d)
	case []bool:
		list := make([]uint8, len(d))
		for i, b := range d {
			if b {
				list[i] = 1
			}
		}
		return integers(w, "uint8_t", what, 1, list)
	}
	return "0"
}

// integer is a constant of at most 64 bits; the lowest of a type cannot be written as such.
func integer(v int64) string {
	switch {
	case v == math.MinInt64:
		return "INT64_MIN"
	case v == math.MinInt32:
		return "INT32_MIN"
	case v > math.MaxInt32 || v < math.MinInt32:
		return fmt.Sprintf("INT64_C(%d)", v)
	}
	return strconv.FormatInt(v, 10)
}

// real is a float32 constant, exact.
func (w *writer) real(v float32) string {
	switch {
	case math.IsInf(float64(v), 0) || v != v:
		w.infinity = true
		if v != v {
			return "NAN"
		}
		if v < 0 {
			return "-INFINITY"
		}
		return "INFINITY"
	case v == float32(int32(v)) && (v != 0 || !math.Signbit(float64(v))) && v < 1<<20 && v > -1<<20:
		return strconv.Itoa(int(v)) + ".0f"
	}
	return strconv.FormatFloat(float64(v), 'x', -1, 32) + "f"
}

// roundingName is the name of a rounding in pieces.
func roundingName(r qmath.Rounding) string { return strings.ReplaceAll(r.String(), "-", "_") }

// form provides the requantization of a scaling for accumulators of 32 bits, or of 64 where of is wide, and returns its name:
// requantize_NAME or requantize_wide_NAME.
func (w *writer) form(s qmath.Scaling, of string) (name string, err error) {
	if name, err = w.scale(s, of); err != nil {
		return "", err
	}
	if s.Float() {
		r := roundingName(s.Rounding)
		return name + "_" + r, w.kernels.need("requantize_"+name, of, r)
	}
	return name, w.kernels.need("requantize_"+of+"integer", name)
}

// scale is form without the zero point and the limits: of a scaling of integers it returns NAME of scale_NAME.
func (w *writer) scale(s qmath.Scaling, of string) (name string, err error) {
	name = strings.ReplaceAll(s.Form.String(), " ", "_")
	switch s.Form {
	case qmath.SingleUpShift:
		name = "single_up_shift"
	case qmath.ShiftOnly, qmath.SingleAny:
		r := roundingName(s.Rounding)
		if err := w.kernels.need("scale_"+of+name, r); err != nil {
			return "", err
		}
		name += "_" + r
		w.kernels.have["scale_"+of+name] = true
	}
	return name, nil
}

// structOf is the C type of a scaling's multipliers.
func structOf(s qmath.Scaling) string {
	if s.Float() {
		return "factor"
	}
	return "multiplier"
}

// multiplier is the initializer of a multiplier.
func (w *writer) multiplier(s qmath.Scaling, m qmath.Multiplier) string {
	if s.Float() {
		return fmt.Sprintf("{%s, %s, %s}", w.real(m.Scale), w.real(m.Bias), w.real(m.Out))
	}
	return fmt.Sprintf("{%d, %d}", m.M, m.Shift)
}

// multipliers writes the array of multipliers by channel, one where all are the same, and returns its name and length.
func (w *writer) multipliers(s qmath.Scaling, list []qmath.Multiplier) (string, int) {
	same := true
	for _, m := range list {
		same = same && m == list[0]
	}
	if same {
		list = list[:1]
	}
	text := make([]string, len(list))
	var data []byte
	for i, m := range list {
		text[i] = w.multiplier(s, m)
		if s.Float() {
			data = append(data, littleEndian([]float32{m.Scale, m.Bias, m.Out})...)
		} else {
			data = append(data, littleEndian([]int32{m.M, m.Shift})...)
		}
	}
	return w.array("struct "+structOf(s), structOf(s)+"s by channel", data, text), len(list)
}

// quantizer provides the quantization to a grid: the function's name and the initializer of the grid.
func (w *writer) quantizer(q qmath.Quantizer) (name, grid string, err error) {
	r := roundingName(q.Rounding)
	if q.Reciprocal != 0 {
		g := q.Grid
		g.Scale = q.Reciprocal
		return "quantize_reciprocal_" + r, w.grid(g), w.kernels.need("quantize_reciprocal", r)
	}
	return "quantize_" + r, w.grid(q.Grid), w.kernels.need("quantize", r)
}

func (w *writer) grid(g qmath.Grid) string {
	return fmt.Sprintf("{%s, %d, %d, %d}", w.real(g.Scale), g.ZeroPoint, g.QMin, g.QMax)
}
