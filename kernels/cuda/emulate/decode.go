package emulate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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
	return &decoder{dynamic: uint64(dynamic), module: m, prog: &program{name: f.name}, shared: map[*variable]*place{}, c32: map[uint32]int32{},
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
func (d *decoder) pop()  { d.env = d.env.outer }

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

// operands checks that there are from min to max operands.
func (d *decoder) operands(min, max int) bool {
	if n := len(d.op.operands); n < min || n > max {
		d.fail("%d operands", n)
		return false
	}
	return true
}

// register returns a declared register.
func (d *decoder) register(name string) ref {
	if s := d.env.find(name); s != nil && s.kind == symRegister {
		return s.reg
	}
	for i := len(name); i > 0 && isDigit(name[i-1]); i-- {
		n, err := strconv.Atoi(name[i-1:])
		if s := d.env.find(name[:i-1]); err == nil && s != nil && s.kind == symFamily && n < s.count {
			r := s.reg
			r.index += int32(n)
			return r
		}
	}
	d.fail("%s is not declared", name)
	return ref{}
}

// dst returns the register that an instruction writes. The sink _ is a register that nothing reads.
func (d *decoder) dst(o operand, want class) ref {
	if o.kind != opdName || o.negate || o.pair != "" || o.offset != 0 {
		d.fail("the destination is no register")
		return ref{}
	}
	if o.name == "_" {
		return d.def(d.fresh(want))
	}
	r := d.register(o.name)
	if d.err == nil && r.class != want {
		d.fail("register %s has the wrong width", o.name)
	}
	if d.err != nil {
		return ref{}
	}
	return d.def(r)
}

// fresh returns a new register.
func (d *decoder) fresh(c class) ref {
	switch c {
	case class64:
		d.prog.q++
		return ref{class64, int32(d.prog.q - 1), 64}
	case classPred:
		d.prog.p++
		return ref{classPred, int32(d.prog.p - 1), 1}
	}
	d.prog.r++
	return ref{class32, int32(d.prog.r - 1), 32}
}

func classOf(t ptype) class {
	switch {
	case t.kind == kindPred:
		return classPred
	case t.bits == 64:
		return class64
	}
	return class32
}

// src returns a register that holds an operand of type t: a register, or one that is made for a constant, an address or a special
// register. A register may be wider than the type, where wide is true.
func (d *decoder) src(o operand, t ptype, wide bool) ref {
	switch o.kind {
	case opdInt, opdFloat32, opdFloat64:
		return d.constant(d.immediate(o, t), t)
	case opdName:
	default:
		d.fail("an operand is neither a register nor a constant")
		return ref{}
	}
	if o.pair != "" || o.negate {
		d.fail("operand %s has a wrong form", o.name)
		return ref{}
	}
	if o.name == "WARP_SZ" {
		return d.constant(warpSize, t)
	}
	if r, ok := d.specialRegister(o.name, t); ok {
		return r
	}
	if s := d.env.find(o.name); s != nil && s.kind == symPlace {
		return d.constant(d.addressOf(s.v)+uint64(o.offset), t)
	}
	if o.offset != 0 {
		d.fail("%s is no variable", o.name)
		return ref{}
	}
	r := d.register(o.name)
	if d.err == nil && (r.class == classPred || r.class != classOf(t) && !(wide && r.class == class64) || r.bits < t.bits && !wide) {
		d.fail("register %s has the wrong width", o.name)
	}
	if d.err != nil {
		return ref{}
	}
	return d.use(r)
}

// immediate returns the bits of a constant in type t.
func (d *decoder) immediate(o operand, t ptype) uint64 {
	switch {
	case o.kind == opdInt && t.kind == kindFloat && t.bits == 64:
		return math.Float64bits(float64(int64(o.bits)))
	case o.kind == opdInt && t.kind == kindFloat && t.bits == 32:
		return uint64(math.Float32bits(float32(int64(o.bits))))
	case o.kind == opdInt:
		return o.bits
	case o.kind == opdFloat32 && t.bits == 64:
		return math.Float64bits(float64(math.Float32frombits(uint32(o.bits))))
	case o.kind == opdFloat64 && t.bits == 32:
		return uint64(math.Float32bits(float32(math.Float64frombits(o.bits))))
	case o.kind == opdFloat32 && t.bits == 32, o.kind == opdFloat64 && t.bits == 64:
		return o.bits
	}
	d.fail("a floating-point constant of the wrong width")
	return 0
}

// constant returns a register that holds a value.
func (d *decoder) constant(v uint64, t ptype) ref {
	if t.bits == 64 {
		i, ok := d.c64[v]
		if !ok {
			i = int32(d.prog.q)
			d.prog.q++
			d.c64[v] = i
		}
		return d.keep(ref{class64, i, 64})
	}
	x := uint32(v)
	if t.bits < 32 {
		x &= 1<<t.bits - 1
	}
	i, ok := d.c32[x]
	if !ok {
		i = int32(d.prog.r)
		d.prog.r++
		d.c32[x] = i
	}
	return d.keep(ref{class32, i, t.bits})
}

// pred returns a predicate operand and what to xor it with.
func (d *decoder) pred(o operand) (index int32, invert uint32) {
	if o.kind == opdInt { // a constant: the predicate that always holds, or its opposite
		if o.bits == 0 {
			invert = allLanes
		}
		return 0, invert
	}
	if o.kind != opdName || o.pair != "" {
		d.fail("an operand is no predicate")
		return 0, 0
	}
	r := d.register(o.name)
	if d.err == nil && r.class != classPred {
		d.fail("%s is no predicate", o.name)
	}
	if d.err != nil {
		return 0, 0
	}
	if o.negate {
		invert = allLanes
	}
	return d.use(r).index, invert
}

// addressOf returns a variable's address as mov gives it: in its own state space, generic for .global and .const.
func (d *decoder) addressOf(p *place) uint64 {
	if p.space == "shared" {
		d.sharedVariable(p) // one of the module has its place when it is first used
	}
	return p.address
}

// specialRegister returns the register that holds %tid.x and its like.
func (d *decoder) specialRegister(name string, t ptype) (ref, bool) {
	value := specialValues[name]
	if value == nil {
		return ref{}, false
	}
	if t.bits == 64 {
		d.fail("%s is a 32-bit register", name)
		return ref{}, true
	}
	i, ok := d.specials[name]
	if !ok {
		i = d.fresh(class32).index
		d.specials[name] = i
		d.prog.specials = append(d.prog.specials, special{d.stands(ref{class32, i, 32}).index, value})
	}
	return d.keep(ref{class32, i, t.bits}), true
}

// specialValues are the special registers that do not change while a block runs.
var specialValues = map[string]func(w *warp, lane int) uint32{
	"%tid.x":    func(w *warp, lane int) uint32 { return uint32(w.thread(lane)[0]) },
	"%tid.y":    func(w *warp, lane int) uint32 { return uint32(w.thread(lane)[1]) },
	"%tid.z":    func(w *warp, lane int) uint32 { return uint32(w.thread(lane)[2]) },
	"%ntid.x":   func(w *warp, _ int) uint32 { return w.b.l.block.X },
	"%ntid.y":   func(w *warp, _ int) uint32 { return w.b.l.block.Y },
	"%ntid.z":   func(w *warp, _ int) uint32 { return w.b.l.block.Z },
	"%ctaid.x":  func(w *warp, _ int) uint32 { return uint32(w.b.at[0]) },
	"%ctaid.y":  func(w *warp, _ int) uint32 { return uint32(w.b.at[1]) },
	"%ctaid.z":  func(w *warp, _ int) uint32 { return uint32(w.b.at[2]) },
	"%nctaid.x": func(w *warp, _ int) uint32 { return w.b.l.grid.X },
	"%nctaid.y": func(w *warp, _ int) uint32 { return w.b.l.grid.Y },
	"%nctaid.z": func(w *warp, _ int) uint32 { return w.b.l.grid.Z },
	"%laneid":   func(_ *warp, lane int) uint32 { return uint32(lane) },
	"%warpid":   func(w *warp, _ int) uint32 { return uint32(w.index) },
	"%nwarpid":  func(w *warp, _ int) uint32 { return maxThreadsPerSM / warpSize },
	"%smid":     func(w *warp, _ int) uint32 { return 0 },
	"%nsmid":    func(w *warp, _ int) uint32 { return multiprocessors },
	"%gridid":   func(w *warp, _ int) uint32 { return 0 },

	"%lanemask_eq": func(_ *warp, lane int) uint32 { return 1 << lane },
	"%lanemask_le": func(_ *warp, lane int) uint32 { return 2<<lane - 1 },
	"%lanemask_lt": func(_ *warp, lane int) uint32 { return 1<<lane - 1 },
	"%lanemask_ge": func(_ *warp, lane int) uint32 { return ^uint32(1<<lane - 1) },
	"%lanemask_gt": func(_ *warp, lane int) uint32 { return ^uint32(2<<lane - 1) },

	"%dynamic_smem_size": func(w *warp, _ int) uint32 { return uint32(w.b.l.dynamic) },
	"%total_smem_size":   func(w *warp, _ int) uint32 { return uint32(w.b.l.shared) },
}

// call decodes the body of a device function in place. Its parameters are the caller's variables.
func (d *decoder) call(in *instr) {
	d.has("uni")
	ops := d.op.operands
	var results, args []operand
	if len(ops) > 0 && ops[0].kind == opdList {
		results, ops = ops[0].list, ops[1:]
	}
	if len(ops) == 2 && ops[1].kind == opdList {
		args, ops = ops[1].list, ops[:1]
	}
	if len(ops) != 1 || ops[0].kind != opdName {
		d.fail("only direct calls are supported")
		return
	}
	f := d.module.function(ops[0].name)
	switch {
	case f == nil || f.body == "":
		d.fail("function %s is not defined here", ops[0].name)
		return
	case f.entry || len(f.params) != len(args) || len(f.returns) != len(results):
		d.fail("function %s is called with the wrong parameters", f.name)
		return
	case slices.Contains(d.calls, f.name) || len(d.calls) > 32:
		d.fail("recursion is not supported: %s", strings.Join(append(d.calls, f.name), " calls "))
		return
	case in.pred >= 0: // the call happens for some lanes: branch around
		skip := &label{at: -1}
		d.branch(instr{shape: shapeBranch, pred: in.pred, invert: ^in.invert, source: in.source}, skip)
		defer func() { d.place(skip) }()
	}
	names := map[string]*symbol{}
	bind := func(formal []*variable, actual []operand) {
		for i, v := range formal {
			s := d.env.find(actual[i].name)
			if actual[i].kind != opdName || s == nil || s.kind != symPlace || s.v.space != "param" || s.v.bytes < v.bytes {
				d.fail("argument %d of %s is no variable of .param with %d bytes", i, f.name, v.bytes)
				return
			}
			names[v.name] = s
		}
	}
	bind(f.params, args)
	bind(f.returns, results)
	if d.err != nil {
		return
	}
	op, used, outer, end := d.op, d.used, d.env, d.end
	d.calls = append(d.calls, f.name)
	d.end = &label{at: -1}
	d.env = &env{names: names, outer: &env{names: d.module.names()}}
	body, err := d.module.body(f)
	if err == nil {
		err = d.scope(body)
	}
	if err != nil && d.err == nil {
		d.err = err
	}
	d.place(d.end)
	d.calls = d.calls[:len(d.calls)-1]
	d.op, d.used, d.env, d.end = op, used, outer, end
	in.source = nil // nothing is left of the call itself
}

// branch emits an instruction that goes to a label.
func (d *decoder) branch(in instr, to *label) {
	if to.at < 0 {
		to.uses = append(to.uses, len(d.prog.code))
	}
	in.target = int32(to.at)
	d.emit(in)
}
