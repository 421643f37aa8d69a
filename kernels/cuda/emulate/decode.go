package emulate

import (
	"fmt"
	"slices"
)

// class is the file that a register stands in.
type class uint8

const (
	class32 class = iota
	class64
	classPred
)

// ref is a register of a decoded program.
type ref struct {
	class class
	index int32
	bits  int // as declared; a constant's is that of its use
}

// symbol is what a name stands for in a scope.
type symbol struct {
	reg     ref
	count   int // of a family of registers
	v       *place
	label   *label
	targets *targets
	kind    symbolKind
}

type symbolKind uint8

const (
	symRegister symbolKind = iota
	symFamily
	symPlace
	symLabel
	symTargets
)

// place is a variable with its address in its state space.
type place struct {
	*variable
	address uint64
}

// label is a place in the code, known or still to come.
type label struct {
	name string
	at   int // -1: not yet
	uses []int
}

// env is a scope of names.
type env struct {
	names map[string]*symbol
	outer *env
}

func (e *env) find(name string) *symbol {
	for ; e != nil; e = e.outer {
		if s := e.names[name]; s != nil {
			return s
		}
	}
	return nil
}

// decoder turns the body of a kernel into a program. Device functions are decoded anew at every call.
type decoder struct {
	module    *module
	prog      *program
	env       *env
	op        *operation
	used      []bool // modifiers of op that a decoder has looked at
	err       error
	calls     []string // functions that are being decoded
	inlined   int      // calls so far
	end       *label   // where ret of a device function goes; nil in a kernel
	c32       map[uint32]int32
	c64       map[uint64]int32
	specials  map[string]int32
	shared    map[*variable]*place // static shared arrays that have their place
	dynamic   uint64               // where dynamic shared memory begins
	record    *recorder            // of the first time
	places    *places              // for the second time
	condition int32                // the predicate that is the condition code, 0 for none
}

// use returns a register that the instruction reads, where it stands.
func (d *decoder) use(r ref) ref {
	d.record.add(r.class, r.index, false)
	return d.stands(r)
}

// def returns a register that the instruction writes, where it stands.
func (d *decoder) def(r ref) ref {
	d.record.add(r.class, r.index, true)
	return d.stands(r)
}

// keep returns a register whose value stays for the whole program.
func (d *decoder) keep(r ref) ref {
	d.record.pin(r.class, r.index)
	return d.stands(r)
}

func (d *decoder) stands(r ref) ref {
	if d.places != nil {
		r.index = d.places.index[r.class][r.index]
	}
	return r
}

// decode decodes an entry point: once to see where registers live, and once more with their places known. Dynamic shared memory begins
// where the static one ends, which may take one more time to know.
func (m *module) decode(f *function) (*program, error) {
	var first *decoder
	for dynamic, known := 0, false; !known; {
		first = m.newDecoder(f, dynamic)
		first.record = newRecorder()
		p, err := first.function(f)
		if err != nil {
			return nil, err
		}
		end := align(p.shared, max(p.dynamicAlign, 1))
		known = p.dynamicAlign == 0 || dynamic == end
		dynamic = end
	}
	second := m.newDecoder(f, int(first.dynamic))
	second.places = first.record.allocate(first.prog)
	p, err := second.function(f)
	if err != nil {
		return nil, err
	}
	p.r, p.q, p.p = second.places.count[class32], second.places.count[class64], second.places.count[classPred]
	p.pressure, p.fixed = second.places.pressure, second.places.fixed
	return p, nil
}

func (m *module) newDecoder(f *function, dynamic int) *decoder {
	return &decoder{dynamic: uint64(dynamic), module: m, prog: &program{name: f.name, idle: &idleBlocks{}}, shared: map[*variable]*place{},
		c32: map[uint32]int32{},
		c64: map[uint64]int32{}, specials: map[string]int32{}}
}

func (d *decoder) function(f *function) (*program, error) {
	m := d.module
	d.env = &env{names: m.names()}
	d.prog.maxThreads = 1024
	if n := f.threads[0] * f.threads[1] * f.threads[2]; n != 0 {
		d.prog.maxThreads = n
		if f.required {
			d.prog.required = f.threads
		}
	}
	d.prog.r, d.prog.q, d.prog.p = 1, 1, 1 // register 0 is what unused operands point to; predicate 0 always holds
	d.push()
	for _, p := range f.params {
		d.prog.params = align(d.prog.params, p.align)
		d.env.names[p.name] = &symbol{kind: symPlace, v: &place{p, uint64(d.prog.params)}}
		d.prog.params += p.bytes
	}
	body, err := m.body(f)
	if err != nil {
		return nil, err
	}
	if err := d.scope(body); err != nil {
		return nil, err
	}
	d.emit(instr{shape: shapeExit, pred: -1, source: &operation{line: f.line, text: "end of " + f.name}})
	for v, i := range d.c32 {
		d.prog.const32 = append(d.prog.const32, constant[uint32]{d.stands(ref{class32, i, 32}).index, v})
	}
	for v, i := range d.c64 {
		d.prog.const64 = append(d.prog.const64, constant[uint64]{d.stands(ref{class64, i, 64}).index, v})
	}
	return d.prog, nil
}

func align(n, to int) int { return (n + to - 1) / to * to }

func (d *decoder) push() { d.env = &env{names: map[string]*symbol{}, outer: d.env} }

func (d *decoder) pop() { d.env = d.env.outer }

func (d *decoder) emit(in instr) {
	d.prog.code = append(d.prog.code, in)
	d.record.emitted()
}

const maxCode = 1 << 20

// scope decodes a block. Labels are known from its beginning, other names from their declaration on.
func (d *decoder) scope(s *scope) error {
	d.push()
	defer d.pop()
	for _, st := range s.body {
		if st.label != "" {
			if d.env.names[st.label] != nil {
				return fmt.Errorf("label %s stands twice", st.label)
			}
			d.env.names[st.label] = &symbol{kind: symLabel, label: &label{name: st.label, at: -1}}
		}
		if st.targets != nil {
			d.env.names[st.targets.name] = &symbol{kind: symTargets, targets: st.targets}
		}
	}
	for _, st := range s.body {
		switch {
		case st.inner != nil:
			if err := d.scope(st.inner); err != nil {
				return err
			}
		case st.label != "":
			d.place(d.env.names[st.label].label)
		case st.reg != nil:
			if d.env.names[st.reg.name] != nil {
				return fmt.Errorf("line %d: %s is declared twice", st.reg.line, st.reg.name)
			}
			d.declare(st.reg)
			if d.prog.r+d.prog.q+d.prog.p > maxRegisters {
				return fmt.Errorf("line %d: kernel %s has more than %d registers", st.reg.line, d.prog.name, maxRegisters)
			}
		case st.v != nil:
			if err := d.variable(st.v); err != nil {
				return err
			}
		case st.op != nil:
			if err := d.operation(st.op); err != nil {
				return err
			}
		}
		if len(d.prog.code) > maxCode {
			return fmt.Errorf("kernel %s has more than %d instructions", d.prog.name, maxCode)
		}
	}
	for name, s := range d.env.names {
		if s.kind == symLabel && s.label.at < 0 {
			return fmt.Errorf("label %s is not placed", name)
		}
	}
	return nil
}

// place sets a label to the next instruction.
func (d *decoder) place(l *label) {
	l.at = len(d.prog.code)
	for _, i := range l.uses {
		d.prog.code[i].target = int32(l.at)
	}
}

// declare makes registers.
func (d *decoder) declare(r *registers) {
	s := &symbol{kind: symRegister, count: max(r.count, 1)}
	if r.count > 0 {
		s.kind = symFamily
	}
	s.reg = ref{class: class32, bits: r.typ.bits}
	switch {
	case r.typ.kind == kindPred:
		s.reg.class, s.reg.index = classPred, int32(d.prog.p)
		d.prog.p += s.count
	case r.typ.bits == 64:
		s.reg.class, s.reg.index = class64, int32(d.prog.q)
		d.prog.q += s.count
	default:
		s.reg.index = int32(d.prog.r)
		d.prog.r += s.count
	}
	d.env.names[r.name] = s
}

// variable gives a variable of a function its address.
func (d *decoder) variable(v *variable) error {
	if d.env.names[v.name] != nil {
		return fmt.Errorf("line %d: %s is declared twice", v.line, v.name)
	}
	p := &place{variable: v}
	switch v.space {
	case "local":
		d.prog.frame = align(d.prog.frame, v.align)
		p.address = uint64(d.prog.frame)
		d.prog.frame += v.bytes
	case "param":
		d.prog.frame = align(d.prog.frame, v.align)
		p.address = paramFrame + uint64(d.prog.frame)
		d.prog.frame += v.bytes
	case "shared":
		d.sharedVariable(p)
	default:
		return fmt.Errorf("line %d: a variable of space .%s in a function is not supported", v.line, v.space)
	}
	if len(v.init) > 0 {
		return fmt.Errorf("line %d: %s cannot have initial values", v.line, v.name)
	}
	d.env.names[v.name] = &symbol{kind: symPlace, v: p}
	return nil
}

// sharedVariable places a static shared array, once for a kernel; the dynamic ones begin where the static ones end.
func (d *decoder) sharedVariable(p *place) {
	if p.dynamic || p.extern {
		p.address = d.dynamic
		d.prog.dynamicAlign = max(d.prog.dynamicAlign, p.align)
		return
	}
	if known := d.shared[p.variable]; known != nil {
		p.address = known.address
		return
	}
	d.prog.shared = align(d.prog.shared, p.align)
	p.address = uint64(d.prog.shared)
	d.prog.shared += p.bytes
	d.shared[p.variable] = p
}

// operation decodes one instruction.
func (d *decoder) operation(op *operation) error {
	d.op, d.used = op, make([]bool, len(op.mods))
	if d.record != nil {
		d.record.pending = nil
	}
	decode := d.module.table[op.name]
	if decode == nil {
		return fmt.Errorf("line %d: instruction %s is not supported: %s", op.line, op.opcode, op.text)
	}
	in := instr{pred: -1, source: op}
	if op.pred != "" {
		p := d.register(op.pred)
		if p.class != classPred {
			d.fail("%s is no predicate", op.pred)
			return d.err
		}
		in.pred = d.use(p).index
		if op.negate {
			in.invert = allLanes
		}
	}
	before := len(d.prog.code)
	decode(d, &in)
	for i, used := range d.used {
		if !used && d.err == nil {
			d.fail("modifier .%s is not supported here", op.mods[i])
		}
	}
	if d.err != nil {
		return d.err
	}
	if len(d.prog.code) == before && in.source != nil {
		d.emit(in)
	}
	return nil
}

// fail keeps the first error.
func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("line %d: %s: %s", d.op.line, d.op.text, fmt.Sprintf(format, args...))
	}
}

// has reports whether the instruction has a modifier, and takes note that somebody asked.
func (d *decoder) has(mods ...string) bool {
	found := false
	for i, m := range d.op.mods {
		if slices.Contains(mods, m) {
			d.used[i], found = true, true
		}
	}
	return found
}

// one returns which of the modifiers stands there, "" for none.
func (d *decoder) one(mods ...string) string {
	for i, m := range d.op.mods {
		if !d.used[i] && slices.Contains(mods, m) {
			d.used[i] = true
			return m
		}
	}
	return ""
}

// typ takes the next modifier that is a type.
func (d *decoder) typ() ptype {
	for i, m := range d.op.mods {
		if t, ok := parseType(m); ok && !d.used[i] {
			d.used[i] = true
			return t
		}
	}
	d.fail("no type")
	return ptype{kindBits, 32}
}

// branch emits an instruction that goes to a label.
func (d *decoder) branch(in instr, to *label) {
	if to.at < 0 {
		to.uses = append(to.uses, len(d.prog.code))
	}
	in.target = int32(to.at)
	d.emit(in)
}
