package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"qwb/export"
	"qwb/export/cprogram"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// recorded is the kind of what the sample's run reads and makes, byte by byte.
const recorded export.ItemKind = "bytes of the run"

// back reads the description, the constants where it says they lie, and what stands before and behind each step.
func back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	files := out.FS()
	read := func(name string) ([]byte, error) { return fs.ReadFile(files, name) }
	b, err := read("memory.json")
	if err != nil {
		return nil, err
	}
	var d Memory
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, err
	}
	if d.Bytes < 0 || d.Bytes > 1<<34 {
		return nil, fmt.Errorf("memory.json: %d bytes", d.Bytes)
	}
	memory := make([]byte, d.Bytes)
	if b, err = read(d.Image); err != nil {
		return nil, err
	}
	if err := load(memory, b); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Image, err)
	}
	h := &cprogram.Held{Program: in.Program, Written: map[lower.StepID]bool{}}
	var runs []*export.Item
	for _, s := range d.Steps {
		h.Written[s.ID] = true
		for _, a := range s.Constants {
			f, err := constant(memory, &s, &a)
			if err != nil {
				return nil, err
			}
			h.Arrays = append(h.Arrays, f)
		}
		for _, side := range []struct {
			file string
			list []Array
		}{{s.Before, s.Reads}, {s.After, s.Writes}} {
			if b, err = read(side.file); err == nil {
				err = load(memory, b)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side.file, err)
			}
			for _, a := range side.list {
				if a.Address < 0 || a.Bytes < 0 || a.Address+a.Bytes > len(memory) {
					return nil, fmt.Errorf("step %d: %q lies outside of the memory", s.ID, a.Name)
				}
				runs = append(runs, &export.Item{At: export.TensorName(a.Name), Kind: recorded, Size: element(&a),
					Raw: bytes.Clone(memory[a.Address : a.Address+a.Bytes])})
				if a.Scale != nil && a.ZeroPoint != nil {
					at := export.TensorName(a.Name)
					h.Tensors = append(h.Tensors, export.Item{At: at, Kind: export.Scales, Floats: []float32{*a.Scale}},
						export.Item{At: at, Kind: export.ZeroPoints, Ints: []int32{*a.ZeroPoint}})
				}
			}
		}
	}
	held, err := h.Recovered(in)
	if err != nil {
		return nil, err
	}
	for _, it := range runs {
		held.Add(it)
	}
	wants, lacks := held.Wants, held.Lacks
	held.Lacks = func(it *export.Item) string {
		if it.Kind == recorded {
			return "tensors of the run that no step that is written touches"
		}
		return lacks(it)
	}
	held.Wants = func(in *export.Input, yield func(*export.Item) error) error {
		if err := wants(in, yield); err != nil {
			return err
		}
		return export.Recorded(in, yield)
	}
	return &export.Readback{Held: held}, nil
}

// element is how many bytes an element of a tensor has.
func element(a *Array) int { return max(a.Bytes/max(tensor.Count(a.Shape), 1), 1) }

// load puts bytes where a file for $readmemh says.
func load(memory, text []byte) error {
	at, line := 0, 1
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case export.HexDigits[c] < 16 && i+1 < len(text) && export.HexDigits[text[i+1]] < 16 && at < len(memory) &&
			(i+2 == len(text) || text[i+2] <= ' '):
			memory[at] = export.HexDigits[c]<<4 | export.HexDigits[text[i+1]]
			at++
			i += 2
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '@':
			from := i + 1
			for i < len(text) && text[i] > ' ' {
				i++
			}
			n, err := strconv.ParseUint(string(text[from:i]), 16, 62)
			if err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
			at = int(n)
		case c == '/' && i+1 < len(text) && text[i+1] == '/':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		default:
			return fmt.Errorf("line %d: %q at %#x", line, text[i:min(i+3, len(text))], at)
		}
	}
	return nil
}

// sizes of the elements of constants, by their types in C.
var sizes = map[string]int{"int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "int32_t": 4, "uint32_t": 4, "int64_t": 8,
	"uint64_t": 8, "float": 4, "struct factor": 4, "struct multiplier": 4}

// constant reads one from the memory.
func constant(memory []byte, s *Step, a *Array) (cprogram.Found, error) {
	_, what, _ := strings.Cut(a.Name, ": ")
	f := cprogram.Found{Step: s.ID, What: what, Type: a.Type}
	size := sizes[a.Type]
	if size == 0 || a.Address < 0 || a.Bytes < 0 || a.Address+a.Bytes > len(memory) {
		return f, fmt.Errorf("step %d: constant %q of %d %s at %#x", s.ID, a.Name, a.Bytes, a.Type, a.Address)
	}
	raw := memory[a.Address : a.Address+a.Bytes]
	for i := 0; i+size <= len(raw); i += size {
		var word [8]byte
		copy(word[:], raw[i:i+size])
		n := binary.LittleEndian.Uint64(word[:])
		switch {
		case a.Type == "float" || a.Type == "struct factor":
			f.Floats = append(f.Floats, math.Float32frombits(uint32(n)))
		case strings.HasPrefix(a.Type, "u"):
			f.Ints = append(f.Ints, int64(n))
		default:
			shift := 64 - 8*size
			f.Ints = append(f.Ints, int64(n<<shift)>>shift)
		}
	}
	return f, nil
}
