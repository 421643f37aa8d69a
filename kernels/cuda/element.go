package cuda

import "fmt"

// Element is the type of what a kernel reads or writes, by the numbers that the sources give them.
type Element int32

const (
	Int8 Element = iota
	Uint8
	Int16
	Uint16
	Float32
	Int32
	Int64
)

var elementNames = [...]string{"int8", "uint8", "int16", "uint16", "float32", "int32", "int64"}

func (e Element) String() string {
	if e >= 0 && int(e) < len(elementNames) {
		return elementNames[e]
	}
	return fmt.Sprintf("element(%d)", int32(e))
}

// Size is how many bytes an element has.
func (e Element) Size() int {
	switch e {
	case Int8, Uint8:
		return 1
	case Int16, Uint16:
		return 2
	case Int64:
		return 8
	}
	return 4
}

// IsCode reports whether e is a type of codes: integers of 8 or 16 bits.
func (e Element) IsCode() bool { return e >= Int8 && e <= Uint16 }

// flip is the bit that makes codes unsigned when it is exchanged: see codes.cuh.
func (e Element) flip() uint32 {
	switch e {
	case Int8:
		return 0x80
	case Int16:
		return 0x8000
	}
	return 0
}
