package sidecar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// object is a JSON object whose members stand in the order in which they were put in. Names must be different.
type object struct{ bytes.Buffer }

func (o *object) put(name string, v any) error {
	key, err := json.Marshal(name)
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if o.Len() > 0 {
		o.WriteByte(',')
	}
	o.Write(key)
	o.WriteByte(':')
	o.Write(b)
	return nil
}

// MarshalJSON gives the object.
func (o *object) MarshalJSON() ([]byte, error) {
	return append(append([]byte{'{'}, o.Bytes()...), '}'), nil
}

func indented(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "    ")
	return append(b, '\n'), err
}

// figure is one number for a tensor with one scale, and a list for one with a scale per channel, as PPQ's convert_value gives them.
func figure[T any](t *table.Tensor, f func(c int) T) any {
	if t.Config.Policy.Has(tqc.PerTensor) {
		return f(0)
	}
	list := make([]T, len(t.Params.Scale))
	for c := range list {
		list[c] = f(c)
	}
	return list
}

func scaleOf(t *table.Tensor) func(c int) float64 {
	return func(c int) float64 { return float64(t.Grid(c).Scale) }
}
func zeroOf(t *table.Tensor) func(c int) int32 {
	return func(c int) int32 { return t.Grid(c).ZeroPoint }
}
func lowOf(t *table.Tensor) func(c int) float64 {
	return func(c int) float64 { lo, _ := full(t, c); return lo }
}
func highOf(t *table.Tensor) func(c int) float64 {
	return func(c int) float64 { _, hi := full(t, c); return hi }
}

// full is the range of all 256 codes: a reader that makes a scale of a range divides by 255. A narrower range of integers stays one of the
// plan.
func full(t *table.Tensor, c int) (lo, hi float64) {
	g := t.Grid(c)
	first := 0.0
	if t.Config.Signed() {
		first = -128
	}
	z := float64(g.ZeroPoint)
	return float64(g.Scale) * (first - z), float64(g.Scale) * (first + 255 - z)
}

// numbers reads a number or a list of them.
func numbers(b json.RawMessage) ([]float64, error) {
	var one float64
	if json.Unmarshal(b, &one) == nil {
		return []float64{one}, nil
	}
	var list []float64
	err := json.Unmarshal(b, &list)
	return list, err
}

// SNPE: {tensor: {tensor_min, tensor_max}}.

func ranges(_ *export.Input, list []table.Tensor) ([]byte, error) {
	var o object
	for i := range list {
		t := &list[i]
		if err := o.put(t.Name, map[string]any{"tensor_min": figure(t, lowOf(t)), "tensor_max": figure(t, highOf(t))}); err != nil {
			return nil, err
		}
	}
	return indented(&o)
}

func readRanges(b []byte, _ *graph.Graph) (list []table.Entry, err error) {
	err = table.Members(b, func(name string, v json.RawMessage) error {
		var r struct {
			Lo json.RawMessage `json:"tensor_min"`
			Hi json.RawMessage `json:"tensor_max"`
		}
		if err := json.Unmarshal(v, &r); err != nil {
			return err
		}
		lo, err := numbers(r.Lo)
		if err != nil {
			return err
		}
		hi, err := numbers(r.Hi)
		list = append(list, ranged(name, lo, hi))
		return err
	})
	return list, err
}

// Tengine: a line NAME SCALE ZERO for each tensor.

func lines(in *export.Input, list []table.Tensor) ([]byte, error) {
	var b strings.Builder
	for i := range list {
		t := &list[i]
		if strings.ContainsAny(t.Name, " \t\n\r") {
			return nil, in.Model.Graph.ErrorAt("export tengine", t.Node, fmt.Errorf("the name %q has a blank, which ends names in the file", t.Name))
		}
		fmt.Fprintf(&b, "%s %s %d\n", t.Name, decimal(float64(t.Grid(0).Scale)), t.Grid(0).ZeroPoint)
	}
	return []byte(b.String()), nil
}

func readLines(b []byte, _ *graph.Graph) (list []table.Entry, err error) {
	for i, line := range strings.Split(strings.TrimRight(string(b), "\n"), "\n") {
		f := strings.Fields(line)
		if len(f) < 3 {
			return nil, fmt.Errorf("line %d: %q", i+1, line)
		}
		scale, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		var zeros []float64
		for _, z := range f[2:] {
			zero, err := strconv.ParseFloat(z, 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			zeros = append(zeros, zero)
		}
		e := entry(f[0], 0, []float64{scale}, zeros)
		if len(zeros) > 1 {
			e.Fault = fmt.Sprintf("%d zero points", len(zeros))
		}
		list = append(list, e)
	}
	return list, nil
}
