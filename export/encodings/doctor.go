package encodings

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb/export"
	"qwb/export/table"
)

var rules = table.Rules("version", "once", "known", "complete", "place", "type", "scale", "offset", "range", "symmetric", "channels",
	"bias", "grid")

type examination struct {
	table.Examination
	version string
}

func doctor(_ context.Context, in *export.DoctorInput) ([]export.Finding, error) {
	b, m, err := table.Open(in, suffix)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	x := &examination{}
	if err := x.read(b); err != nil {
		return nil, fmt.Errorf("%s: %w", export.Beside(in.Name, suffix), err)
	}
	x.Whole = len(x.Entries) > 0 && x.Entries[0].Placed || x.version == v061 || x.version == v100
	x.Inputs = !in.Target.Placement.Outputs()
	if err := x.Examine(m.Graph); err != nil {
		return nil, err
	}
	return x.Findings(rules), nil
}

// read fills entries. The form follows from what the file has, not from what it says of itself.
func (x *examination) read(b []byte) error {
	var file struct {
		Version     string          `json:"version"`
		Activations json.RawMessage `json:"activation_encodings"`
		Params      json.RawMessage `json:"param_encodings"`
		Encodings   []struct {
			linear
			Scale json.RawMessage `json:"y_scale"`
			Zero  json.RawMessage `json:"y_zero_point"`
		} `json:"encodings"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return err
	}
	x.version = file.Version
	if !slices.Contains([]string{v061, v100, v200, v210}, x.version) {
		x.Report("version", "", "version %q", x.version)
	}
	for _, e := range file.Encodings {
		n := table.Entry{Name: e.Name, Axis: -1, Block: e.Block}
		if e.Axis != nil {
			n.Axis = *e.Axis
		}
		signed := !strings.HasPrefix(e.DType, "uint")
		if _, err := fmt.Sscanf(strings.TrimPrefix(e.DType, "u"), "int%d", &n.Bits); err != nil || n.Bits < 2 || n.Bits > 32 {
			n.Float, n.Fault = true, fmt.Sprintf("output_dtype %q", e.DType)
			if strings.HasPrefix(e.DType, "float8") {
				n.Fault = ""
			}
		}
		var zeros []float64
		if err := flatten(e.Scale, &n.Scale); err != nil {
			return fmt.Errorf("%s: y_scale: %w", e.Name, err)
		}
		if err := flatten(e.Zero, &zeros); err != nil {
			return fmt.Errorf("%s: y_zero_point: %w", e.Name, err)
		}
		for i := range n.Scale {
			z := 0.0
			if i < len(zeros) {
				z = zeros[i]
			}
			if signed && !n.Float {
				z += math.Ldexp(1, n.Bits-1)
			}
			n.Offset = append(n.Offset, -z)
		}
		x.Entries = append(x.Entries, n)
	}
	for i, list := range []json.RawMessage{file.Activations, file.Params} {
		if err := x.readList(list, i == 1); err != nil {
			return err
		}
	}
	return nil
}

func (x *examination) readList(b json.RawMessage, constant bool) error {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return nil
	}
	if b[0] == '[' {
		var list []struct {
			listed
			Symmetric any       `json:"is_sym"`
			Offset    []float64 `json:"offset"`
		}
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
		for _, e := range list {
			n := table.Entry{Name: e.Name, Constant: constant, Placed: true, Bits: e.BW, Float: e.DType == "FLOAT", Scale: e.Scale, Offset: e.Offset,
				Axis: -1, Block: e.Block}
			spelled(&n, e.DType, []string{"INT", "FLOAT"}, e.Symmetric, 2)
			x.Entries = append(x.Entries, n)
		}
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b)) // a map would hide what stands twice
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var channels []struct {
			affine
			Symmetric any     `json:"is_symmetric"`
			Offset    float64 `json:"offset"`
		}
		if err := d.Decode(&channels); err != nil {
			return fmt.Errorf("%v: %w", name, err)
		}
		n := table.Entry{Name: fmt.Sprint(name), Constant: constant, Placed: true, Axis: -1}
		for i, c := range channels {
			if i == 0 {
				n.Bits, n.Float = c.Bitwidth, c.DType == "float"
				if text, ok := c.Symmetric.(string); ok && (text == "True" || text == "False") {
					spelled(&n, c.DType, []string{"int", "float"}, text == "True", 4)
				} else if spelled(&n, c.DType, []string{"int", "float"}, false, 4); !n.Float && n.Fault == "" {
					n.Fault, n.Symmetric = fmt.Sprintf("is_symmetric %v", c.Symmetric), nil
				}
			}
			if !n.Float {
				n.Scale, n.Offset, n.Lo, n.Hi = append(n.Scale, c.Scale), append(n.Offset, c.Offset), append(n.Lo, c.Min), append(n.Hi, c.Max)
			}
		}
		if len(channels) == 0 {
			n.Fault = "no encoding"
		}
		x.Entries = append(x.Entries, n)
	}
	return nil
}

// spelled notes what is wrong with the type of an entry.
func spelled(e *table.Entry, dtype string, known []string, symmetric any, least int) {
	is, ok := symmetric.(bool)
	switch {
	case !slices.Contains(known, dtype):
		e.Fault = fmt.Sprintf("dtype %q", dtype)
	case e.Float && e.Bits != float16:
		e.Fault = fmt.Sprintf("float of %d bits", e.Bits)
	case !e.Float && (e.Bits < least || e.Bits > 32):
		e.Fault = fmt.Sprintf("%d bits", e.Bits)
	case !e.Float && !ok:
		e.Fault = fmt.Sprintf("is_sym %v", symmetric)
	case !e.Float:
		e.Symmetric = &is
	}
}

// flatten reads a number, a list, or a list of lists.
func flatten(b json.RawMessage, to *[]float64) error {
	if len(b) == 0 {
		return nil
	}
	var one float64
	if json.Unmarshal(b, &one) == nil {
		*to = append(*to, one)
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	for _, e := range list {
		if err := flatten(e, to); err != nil {
			return err
		}
	}
	return nil
}
