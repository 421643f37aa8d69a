package emulate

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// module is loaded PTX, every variable placed.
type module struct {
	mu        sync.Mutex
	programs  map[string]*program // those that were asked for
	functions map[string]*function
	bodies    map[*function]*scope // while a kernel is decoded
	places    map[string]*symbol
	variables []*allocation
	table     map[string]decodeFunc
	target    string
	version   float64
	sum       uint32 // of its text
}

// checked keeps what was parsed, and found to decode, by its text and architecture: programs load the same modules again and again.
var checked sync.Map

type checkedKey struct {
	text string
	arch int
}

// load parses PTX for a device of an architecture, and decodes all kernels to see that it can.
func load(text string, arch int, mem *memory) (*module, error) {
	key := checkedKey{text, arch}
	if src, ok := checked.Load(key); ok {
		return newModule(src.(*source), mem)
	}
	src, err := parse(text)
	if err != nil {
		return nil, err
	}
	if err := checkTarget(src.target, arch); err != nil {
		return nil, err
	}
	m, err := newModule(src, mem)
	if err != nil {
		return nil, err
	}
	for _, f := range src.funcs {
		if f.body == "" {
			continue
		}
		if f.entry {
			_, err = m.program(f.name)
		} else {
			_, err = f.statements() // decoded where it is called
		}
		if err != nil {
			m.unload(mem)
			return nil, err
		}
	}
	checked.Store(key, src)
	clear(m.programs) // a module has many kernels, of which few are asked for
	return m, nil
}

func newModule(src *source, mem *memory) (*module, error) {
	m := &module{programs: map[string]*program{}, functions: map[string]*function{}, places: map[string]*symbol{},
		table: instructionTable(), target: src.target}
	m.version, _ = strconv.ParseFloat(src.version, 64)
	for _, f := range src.funcs {
		if old := m.functions[f.name]; old != nil && old.body != "" {
			if f.body != "" {
				return nil, fmt.Errorf("line %d: %s is defined twice", f.line, f.name)
			}
			continue
		}
		m.functions[f.name] = f
	}
	if err := m.placeVariables(src.vars, mem); err != nil {
		m.unload(mem)
		return nil, err
	}
	return m, nil
}

// program returns a decoded kernel, nil where there is none of that name.
func (m *module) program(name string) (*program, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.programs[name]; p != nil {
		return p, nil
	}
	f := m.functions[name]
	if f == nil || !f.entry || f.body == "" {
		return nil, nil
	}
	m.bodies = map[*function]*scope{}
	p, err := m.decode(f)
	m.bodies = nil
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i := range p.code {
		p.code[i].source.operands, p.code[i].source.mods = nil, nil // line and text are what messages need
	}
	m.programs[name] = p
	return p, nil
}

func (m *module) unload(mem *memory) {
	for _, a := range m.variables {
		mem.free(a.base)
	}
}

// body returns a function's statements.
func (m *module) body(f *function) (*scope, error) {
	if s := m.bodies[f]; s != nil {
		return s, nil
	}
	s, err := f.statements()
	if err == nil {
		m.bodies[f] = s
	}
	return s, err
}

func (m *module) function(name string) *function { return m.functions[name] }

// names returns a scope with the module's variables.
func (m *module) names() map[string]*symbol {
	names := make(map[string]*symbol, len(m.places))
	for name, s := range m.places {
		names[name] = s
	}
	return names
}

// checkTarget refuses PTX that is made for a newer device.
func checkTarget(target string, arch int) error {
	digits := strings.TrimRight(strings.TrimPrefix(target, "sm_"), "af")
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil || !strings.HasPrefix(target, "sm_"):
		return fmt.Errorf("target %q is not supported", target)
	case n > arch || strings.HasSuffix(target, "a") && n != arch:
		return fmt.Errorf("the PTX is for %s, the device is sm_%d", target, arch)
	}
	return nil
}

// placeVariables allocates and fills the variables of the module in global memory; shared ones get their place in every kernel.
func (m *module) placeVariables(vars []*variable, mem *memory) error {
	for _, v := range vars {
		p := &place{variable: v}
		if old := m.places[v.name]; old != nil {
			return fmt.Errorf("line %d: %s is declared twice", v.line, v.name)
		}
		m.places[v.name] = &symbol{kind: symPlace, v: p}
		if v.space == "shared" {
			continue
		}
		if v.extern || v.dynamic {
			return fmt.Errorf("line %d: %s is not defined in this module", v.line, v.name)
		}
		a := mem.allocate(v.bytes, fmt.Sprintf("variable %s", v.name))
		if a == nil {
			return fmt.Errorf("line %d: no memory for %s", v.line, v.name)
		}
		a.readOnly = v.space == "const"
		clear(a.data) // variables without initial values are zero
		fill(a.written, stateWritten)
		m.variables = append(m.variables, a)
		p.address = a.base
	}
	i := 0
	for _, v := range vars {
		if v.space == "shared" {
			if len(v.init) > 0 {
				return fmt.Errorf("line %d: %s cannot have initial values", v.line, v.name)
			}
			continue
		}
		a := m.variables[i]
		i++
		for k, in := range v.init {
			x := in.bits
			if in.symbol != "" {
				s := m.places[in.symbol]
				if s == nil || s.v.space == "shared" || v.element != 8 {
					return fmt.Errorf("line %d: the initial value %s of %s is not supported", v.line, in.symbol, v.name)
				}
				x = s.v.address + uint64(in.offset)
			}
			var buf [8]byte
			binary.LittleEndian.PutUint64(buf[:], x)
			copy(a.data[k*v.element:], buf[:v.element])
		}
	}
	return nil
}
