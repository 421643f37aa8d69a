package emulate

import (
	"cmp"
	"math"
)

// relations are those of integers, by the outcome of a comparison; lo, ls, hi and hs are those of unsigned numbers alone.
var relations = map[string]func(order int) bool{
	"eq": func(o int) bool { return o == 0 }, "ne": func(o int) bool { return o != 0 },
	"lt": func(o int) bool { return o < 0 }, "le": func(o int) bool { return o <= 0 },
	"gt": func(o int) bool { return o > 0 }, "ge": func(o int) bool { return o >= 0 },
}

// unsignedOnly are other names of relations.
var unsignedOnly = map[string]string{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}

// comparison returns a relation on operands extended to 64 bits, nil for one that the type does not have.
func comparison(rel string, t ptype) func(a, b uint64) bool {
	if t.kind == kindFloat {
		return floatComparison(rel, t)
	}
	if name, ok := unsignedOnly[rel]; ok && !t.signed() {
		rel = name
	}
	holds := relations[rel]
	switch {
	case holds == nil:
		return nil
	case t.signed():
		return func(a, b uint64) bool { return holds(cmp.Compare(int64(a), int64(b))) }
	}
	return func(a, b uint64) bool { return holds(cmp.Compare(a, b)) }
}

// floatComparison has the ordered relations, and with a u behind them those that also hold for NaN.
func floatComparison(rel string, t ptype) func(a, b uint64) bool {
	value := f64
	switch t.bits {
	case 32:
		value = func(x uint64) float64 { return float64(f32(uint32(x))) }
	case 16:
		value = func(x uint64) float64 { return halfToFloat(uint16(x)) }
	}
	ordered := map[string]func(x, y float64) bool{
		"eq":  func(x, y float64) bool { return x == y },
		"ne":  func(x, y float64) bool { return x < y || x > y },
		"lt":  func(x, y float64) bool { return x < y },
		"le":  func(x, y float64) bool { return x <= y },
		"gt":  func(x, y float64) bool { return x > y },
		"ge":  func(x, y float64) bool { return x >= y },
		"equ": func(x, y float64) bool { return !(x < y || x > y) },
		"neu": func(x, y float64) bool { return x != y },
		"ltu": func(x, y float64) bool { return !(x >= y) },
		"leu": func(x, y float64) bool { return !(x > y) },
		"gtu": func(x, y float64) bool { return !(x <= y) },
		"geu": func(x, y float64) bool { return !(x < y) },
		"num": func(x, y float64) bool { return x == x && y == y },
		"nan": func(x, y float64) bool { return x != x || y != y },
	}[rel]
	if ordered == nil {
		return nil
	}
	return func(a, b uint64) bool { return ordered(value(a), value(b)) }
}

// compare decodes the relation of setp and set: a function of the warp that gives a bit per lane.
func (d *decoder) compare(a, b operand) func(w *warp) uint32 {
	rel := d.one("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
	ftz := d.has("ftz")
	t := d.typ()
	f := comparison(rel, t)
	if f == nil || ftz && t.bits != 32 {
		d.fail("no comparison %s of this type", rel)
		return nil
	}
	x, y := d.src(a, t, false), d.src(b, t, false)
	if ftz {
		plain := f
		f = func(a, b uint64) bool {
			return plain(uint64(math.Float32bits(flush(f32(uint32(a))))), uint64(math.Float32bits(flush(f32(uint32(b))))))
		}
	} else if fast := fastCompare(rel, t, x.index, y.index); fast != nil {
		return fast
	}
	return func(w *warp) uint32 {
		var r uint32
		for i := 0; i < warpSize; i++ {
			if f(t.extend(w.get(x, i)), t.extend(w.get(y, i))) {
				r |= 1 << i
			}
		}
		return r
	}
}

// fastCompare has the relations of loops and bounds without a call per lane.
func fastCompare(rel string, t ptype, a, b int32) func(w *warp) uint32 {
	if t == (ptype{kindFloat, 32}) {
		return fastCompareF32(rel, a, b)
	}
	if t.kind == kindFloat || t.bits < 32 {
		return nil
	}
	swap, not := false, false
	switch rel {
	case "ne":
		not = true
	case "gt", "hi":
		swap = true
	case "ge", "hs":
		not = true
	case "le", "ls":
		swap, not = true, true
	}
	if swap {
		a, b = b, a
	}
	var invert uint32
	if not {
		invert = allLanes
	}
	equal := rel == "eq" || rel == "ne"
	switch {
	case t.bits == 32 && equal:
		return func(w *warp) uint32 { return equalLanes(&w.r[a], &w.r[b]) ^ invert }
	case t.bits == 32 && t.signed():
		return func(w *warp) uint32 { return lessS32(&w.r[a], &w.r[b]) ^ invert }
	case t.bits == 32:
		return func(w *warp) uint32 { return lessLanes(&w.r[a], &w.r[b]) ^ invert }
	case equal:
		return func(w *warp) uint32 { return equalLanes(&w.q[a], &w.q[b]) ^ invert }
	case t.signed():
		return func(w *warp) uint32 { return lessS64(&w.q[a], &w.q[b]) ^ invert }
	}
	return func(w *warp) uint32 { return lessLanes(&w.q[a], &w.q[b]) ^ invert }
}

// relationF32 is a relation of single precision: of is asked of the operands in turn or the other way round, or for the opposite.
type relationF32 struct {
	of        func(a, b *lanes32) uint32
	swap, not bool
}

// relationsF32 make all relations of five; those that hold for NaN are opposites of others.
var relationsF32 = map[string]relationF32{
	"lt": {of: lessF32}, "gt": {of: lessF32, swap: true}, "geu": {of: lessF32, not: true}, "leu": {of: lessF32, swap: true, not: true},
	"le": {of: atMostF32}, "ge": {of: atMostF32, swap: true}, "gtu": {of: atMostF32, not: true}, "ltu": {of: atMostF32, swap: true, not: true},
	"eq": {of: equalF32}, "neu": {of: equalF32, not: true}, "ne": {of: differF32}, "equ": {of: differF32, not: true},
	"nan": {of: unorderedF32}, "num": {of: unorderedF32, not: true},
}

func fastCompareF32(rel string, a, b int32) func(w *warp) uint32 {
	r, ok := relationsF32[rel]
	if !ok {
		return nil
	}
	if r.swap {
		a, b = b, a
	}
	var invert uint32
	if r.not {
		invert = allLanes
	}
	return func(w *warp) uint32 { return r.of(&w.r[a], &w.r[b]) ^ invert }
}

// differF32 is less or greater: not equal, and neither is NaN.
func differF32(a, b *lanes32) uint32 { return ^equalF32(a, b) & ^unorderedF32(a, b) }

func lessF32(a, b *lanes32) (r uint32) {
	for i := range a {
		r |= bit(f32(a[i]) < f32(b[i])) << i
	}
	return r
}

func atMostF32(a, b *lanes32) (r uint32) {
	for i := range a {
		r |= bit(f32(a[i]) <= f32(b[i])) << i
	}
	return r
}

func equalF32(a, b *lanes32) (r uint32) {
	for i := range a {
		r |= bit(f32(a[i]) == f32(b[i])) << i
	}
	return r
}

func unorderedF32(a, b *lanes32) (r uint32) {
	for i := range a {
		r |= bit(a[i]&^(1<<31) > 0x7f800000 || b[i]&^(1<<31) > 0x7f800000) << i
	}
	return r
}

func equalLanes[T uint32 | uint64](a, b *[warpSize]T) (r uint32) {
	for i := range a {
		r |= bit(a[i] == b[i]) << i
	}
	return r
}

func lessS32(a, b *lanes32) (r uint32) {
	for i := range a {
		r |= bit(int32(a[i]) < int32(b[i])) << i
	}
	return r
}

func lessLanes[T uint32 | uint64](a, b *[warpSize]T) (r uint32) {
	for i := range a {
		r |= bit(a[i] < b[i]) << i
	}
	return r
}

func lessS64(a, b *lanes64) (r uint32) {
	for i := range a {
		r |= bit(int64(a[i]) < int64(b[i])) << i
	}
	return r
}

func bit(is bool) uint32 {
	var x uint32
	if is {
		x = 1
	}
	return x
}

// combine returns how a third operand joins the comparison.
func combine(how string) func(x, c uint32) uint32 {
	switch how {
	case "and":
		return func(x, c uint32) uint32 { return x & c }
	case "or":
		return func(x, c uint32) uint32 { return x | c }
	case "xor":
		return func(x, c uint32) uint32 { return x ^ c }
	}
	return nil
}

// joined decodes a comparison that a predicate may join: an instruction of two operands behind the result, or three. f gives the result by
// lane, and of the opposite of the comparison where not is set.
func (d *decoder) joined(typ func()) (f func(w *warp, not uint32) uint32, ok bool) {
	join := combine(d.one("and", "or", "xor"))
	n := 3
	if join != nil {
		n = 4
	}
	if !d.operands(n, n) {
		return nil, false
	}
	typ()
	ops := d.op.operands
	compare := d.compare(ops[1], ops[2])
	if join == nil {
		return func(w *warp, not uint32) uint32 { return compare(w) ^ not }, true
	}
	c, invert := d.pred(ops[3])
	return func(w *warp, not uint32) uint32 { return join(compare(w)^not, w.p[c]^invert) }, true
}

// opSetp sets a predicate, and a second one to the comparison's opposite.
func opSetp(d *decoder, in *instr) {
	to, other := int32(-1), int32(-1)
	f, ok := d.joined(func() {
		first, second := d.op.operands[0], operand{name: d.op.operands[0].pair}
		first.pair = ""
		to = d.dst(first, classPred).index
		if second.name != "" {
			other = d.dst(second, classPred).index
		}
	})
	if !ok {
		return
	}
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		x, y := f(w, 0), uint32(0)
		if other >= 0 {
			y = f(w, allLanes)
		}
		w.setPred(to, m, x)
		if other >= 0 {
			w.setPred(other, m, y)
		}
	}
}

// opSet writes a comparison as all ones, or 1.0.
func opSet(d *decoder, in *instr) {
	var dt ptype
	f, ok := d.joined(func() { dt = d.typ() }) // the second type is that of the comparison
	if !ok {
		return
	}
	to := d.dst(d.op.operands[0], class32).index
	value := uint32(allLanes)
	if dt.kind == kindFloat {
		value = math.Float32bits(1)
	}
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		x := f(w, 0)
		r := w.open32(to, m)
		for i := range r {
			r[i] = x >> i & 1 * value
		}
		w.close32(to, m)
	}
}

// opSelp is a where the predicate holds, else b.
func opSelp(d *decoder, in *instr) {
	t := d.typ()
	if !d.operands(4, 4) {
		return
	}
	ops := d.op.operands
	to, a, b := d.dst(ops[0], classOf(t)).index, d.src(ops[1], t, false).index, d.src(ops[2], t, false).index
	p, invert := d.pred(ops[3])
	in.shape = shapeExec
	if t.bits == 64 {
		in.exec = func(w *warp, m uint32) {
			c := w.p[p] ^ invert
			r, x, y := w.open64(to, m), &w.q[a], &w.q[b]
			for i := range r {
				v := y[i]
				if c>>i&1 != 0 {
					v = x[i]
				}
				r[i] = v
			}
			w.close64(to, m)
		}
		return
	}
	in.exec = func(w *warp, m uint32) {
		c := w.p[p] ^ invert
		r, x, y := w.open32(to, m), &w.r[a], &w.r[b]
		for i := range r {
			v := y[i]
			if c>>i&1 != 0 {
				v = x[i]
			}
			r[i] = v
		}
		w.close32(to, m)
	}
}

// opSlct is a where c >= 0, else b; for NaN it is b.
func opSlct(d *decoder, in *instr) {
	ftz := d.has("ftz")
	t, ct := d.typ(), d.typ()
	bits := ptype{kindBits, t.bits}
	d.lanewise(in, bits, []ptype{bits, bits, ct}, func(a, b, c uint64) uint64 {
		if ct.kind == kindFloat {
			x := f32(uint32(c))
			if ftz {
				x = flush(x)
			}
			if x >= 0 {
				return a
			}
			return b
		}
		if int64(c) >= 0 {
			return a
		}
		return b
	})
}
