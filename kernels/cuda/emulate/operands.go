package emulate

import (
	"math"
	"strconv"
)

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
