package emulate

// The arithmetic of whole registers. Signed and unsigned agree where the result is as wide as the operands.
var (
	mov32 = func(d, a, _, _ *lanes32) { *d = *a }
	mov64 = func(d, a, _, _ *lanes64) { *d = *a }
	add32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] + b[i]
		}
	}
	add64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = a[i] + b[i]
		}
	}
	sub32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] - b[i]
		}
	}
	sub64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = a[i] - b[i]
		}
	}
	mul32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] * b[i]
		}
	}
	mul64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = a[i] * b[i]
		}
	}
	mad32 = func(d, a, b, c *lanes32) {
		for i := range d {
			d[i] = a[i]*b[i] + c[i]
		}
	}
	mad64 = func(d, a, b, c *lanes64) {
		for i := range d {
			d[i] = a[i]*b[i] + c[i]
		}
	}
	and32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] & b[i]
		}
	}
	and64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = a[i] & b[i]
		}
	}
	or32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] | b[i]
		}
	}
	or64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = a[i] | b[i]
		}
	}
	xor32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] ^ b[i]
		}
	}
	xor64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = a[i] ^ b[i]
		}
	}
	not32 = func(d, a, _, _ *lanes32) {
		for i := range d {
			d[i] = ^a[i]
		}
	}
	not64 = func(d, a, _, _ *lanes64) {
		for i := range d {
			d[i] = ^a[i]
		}
	}
	neg32 = func(d, a, _, _ *lanes32) {
		for i := range d {
			d[i] = -a[i]
		}
	}
	neg64 = func(d, a, _, _ *lanes64) {
		for i := range d {
			d[i] = -a[i]
		}
	}
	// shifts by 32 and more give zero, or the sign, as Go's do
	shl32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] << b[i]
		}
	}
	shrU32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] >> b[i]
		}
	}
	shrS32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = uint32(int32(a[i]) >> b[i])
		}
	}
	minS32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = uint32(min(int32(a[i]), int32(b[i])))
		}
	}
	maxS32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = uint32(max(int32(a[i]), int32(b[i])))
		}
	}
	minS64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = uint64(min(int64(a[i]), int64(b[i])))
		}
	}
	maxS64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = uint64(max(int64(a[i]), int64(b[i])))
		}
	}
	mulHiU32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = uint32(uint64(a[i]) * uint64(b[i]) >> 32)
		}
	}
	mulHiS32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = uint32(uint64(int64(int32(a[i]))*int64(int32(b[i]))) >> 32)
		}
	}
)

func minLanes[T uint32 | uint64](d, a, b, _ *[warpSize]T) {
	for i := range d {
		d[i] = min(a[i], b[i])
	}
}

func maxLanes[T uint32 | uint64](d, a, b, _ *[warpSize]T) {
	for i := range d {
		d[i] = max(a[i], b[i])
	}
}
