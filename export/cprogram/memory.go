package cprogram

import (
	"fmt"
	"slices"

	"qwb/quantizer/lower"
)

// Memory is where a written program keeps its numbers.
type Memory struct {
	// Program has the shapes and borders that the options ask for.
	Program *lower.Program
	// Arena is how many bytes the arena has.
	Arena int
	// Constants are the constant arrays, in the order of the file.
	Constants []Constant
	// Steps are those that the outputs depend on, in order: the others are not in the file.
	Steps []lower.StepID
	// Places has an entry for every tensor that one of Steps reads or makes, but for those of which it reads the shape alone.
	Places map[lower.TensorID]Place
}

// Constant is one constant array.
type Constant struct {
	Step       lower.StepID // for which it was written
	Name, What string
	Type       string // of an element, in C
	Data       []byte // all of it, little-endian
}

// Region is a part of memory.
type Region string

// The regions: one arena and, for each input, output and constant, an array of its own.
const (
	InArena    Region = "arena"
	InInput    Region = "input"
	InOutput   Region = "output"
	InConstant Region = "constant"
)

// Place is where a tensor lies: Offset bytes into the arena, or at the beginning of the input, output or constant of a number.
type Place struct {
	Region Region
	Number int
	Offset int
}

// MemoryOf returns the memory of the program that Write writes with the same options.
func MemoryOf(p *lower.Program, o Options) (*Memory, error) {
	w, size, err := written(p, o)
	if err != nil {
		return nil, err
	}
	m := &Memory{Program: w.p, Arena: size.Arena, Constants: w.constants, Places: map[lower.TensorID]Place{}}
	needed := w.needed()
	for i := range w.p.Steps {
		s := &w.p.Steps[i]
		if !needed[i] {
			continue
		}
		m.Steps = append(m.Steps, s.ID)
		for k, id := range s.Inputs {
			if w.readsData(s, k) {
				m.Places[id] = w.placeOf(id)
			}
		}
		for _, id := range s.Outputs {
			if id != lower.NoTensor && w.values[id] != nil {
				m.Places[id] = w.placeOf(id)
			}
		}
	}
	return m, nil
}

// placeOf is the place of a tensor that has one.
func (w *writer) placeOf(id lower.TensorID) Place {
	v := w.values[id].root()
	var n int
	switch {
	case v.fixed:
		return Place{InConstant, slices.IndexFunc(w.constants, func(c Constant) bool { return c.Name == v.name }), 0}
	case v.at == "":
		return Place{InArena, 0, v.offset}
	}
	if _, err := fmt.Sscanf(v.at, "in[%d]", &n); err == nil {
		return Place{InInput, n, 0}
	}
	_, _ = fmt.Sscanf(v.at, "out[%d]", &n) // at is one of the two
	return Place{InOutput, n, 0}
}

// size is what the written program takes; it places the arrays.
func (w *writer) size() Size {
	s := Size{Arena: w.place()}
	for _, c := range w.constants {
		s.Constants += len(c.Data)
	}
	return s
}
