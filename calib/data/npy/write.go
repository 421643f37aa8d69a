package npy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"qwb/graph/tensor"
)

// Holds reports whether NumPy has a type for elements: whether Write writes them.
func Holds(d tensor.DType) bool { return codeOf(d) != "" }

// codeOf is NumPy's name of a type, empty where it has none.
func codeOf(d tensor.DType) string {
	for _, k := range kinds {
		if k.dtype == d {
			return k.code
		}
	}
	return ""
}

// Write writes a tensor as NumPy does: version 1, little endian, C order, the data aligned to 64 bytes. A channels-last
// tensor is written in the order of its logical axes. Types that NumPy lacks are an error.
func Write(w io.Writer, t *tensor.Tensor) error {
	code := codeOf(t.DType)
	if code == "" {
		return fmt.Errorf("npy: element type %s cannot be written", t.DType)
	}
	order := "<"
	if t.DType.Bits() == 8 {
		order = "|"
	}
	dims := make([]string, len(t.Shape))
	for i, d := range t.Shape {
		dims[i] = fmt.Sprint(d)
	}
	shape := strings.Join(dims, ", ")
	if len(dims) == 1 {
		shape += ","
	}
	dict := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", order, code, shape)
	const fixed = len(magic) + 4
	pad := 64 - (fixed+len(dict)+1)%64
	dict += strings.Repeat(" ", pad%64) + "\n"
	if len(dict) > 1<<16-1 {
		return fmt.Errorf("npy: a shape of %d dimensions cannot be written", len(t.Shape))
	}
	b := bufio.NewWriterSize(w, 1<<16)
	b.WriteString(magic)
	b.Write([]byte{1, 0, byte(len(dict)), byte(len(dict) >> 8)})
	b.WriteString(dict)
	if err := binary.Write(b, binary.LittleEndian, t.ToRowMajor().Data); err != nil {
		return fmt.Errorf("npy: %w", err)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("npy: %w", err)
	}
	return nil
}
