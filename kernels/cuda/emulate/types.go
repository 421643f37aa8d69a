package emulate

import "strconv"

// ptype is the type that an instruction works in.
type ptype struct {
	kind kind
	bits int
}

type kind uint8

const (
	kindBits kind = iota
	kindUnsigned
	kindSigned
	kindFloat  // f16, f32, f64
	kindBFloat // bf16
	kindPacked // f16x2, bf16x2
	kindPred
)

// parseType reads the name of a type without its dot.
func parseType(s string) (ptype, bool) {
	switch s {
	case "pred":
		return ptype{kindPred, 1}, true
	case "f16", "f32", "f64":
		bits, _ := strconv.Atoi(s[1:])
		return ptype{kindFloat, bits}, true
	case "bf16":
		return ptype{kindBFloat, 16}, true
	case "f16x2", "bf16x2":
		return ptype{kindPacked, 32}, true
	case "b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64":
		bits, _ := strconv.Atoi(s[1:])
		return ptype{map[byte]kind{'b': kindBits, 'u': kindUnsigned, 's': kindSigned}[s[0]], bits}, true
	}
	return ptype{}, false
}

// extend returns the value of the lowest bits of x in type t: sign-extended to 64 bits where t is signed, zero-extended where not.
func (t ptype) extend(x uint64) uint64 {
	if t.bits == 64 {
		return x
	}
	shift := 64 - uint(t.bits)
	if t.kind == kindSigned {
		return uint64(int64(x<<shift) >> shift)
	}
	return x << shift >> shift
}

func (t ptype) signed() bool { return t.kind == kindSigned }
