package emulate

// opDp4a adds the four products of the bytes of a and b to c.
func opDp4a(d *decoder, in *instr) {
	ta, tb := d.typ(), d.typ()
	d.dot(in, ta, tb, func(d, a, b, c *lanes32, sa, sb bool) {
		switch {
		case sa && sb:
			for i := range d {
				x, y := int32(a[i]), int32(b[i])
				d[i] = c[i] + uint32(x<<24>>24*(y<<24>>24)+x<<16>>24*(y<<16>>24)+x<<8>>24*(y<<8>>24)+x>>24*(y>>24))
			}
		case sb:
			for i := range d {
				x, y := int32(a[i]), int32(b[i])
				d[i] = c[i] + uint32(x&255*(y<<24>>24)+x>>8&255*(y<<16>>24)+x>>16&255*(y<<8>>24)+x>>24&255*(y>>24))
			}
		default:
			for i := range d {
				x := c[i]
				for k := 0; k < 32; k += 8 {
					x += part8(a[i]>>k, sa) * part8(b[i]>>k, sb)
				}
				d[i] = x
			}
		}
	})
}

// opDp2a adds the two products of the halves of a and the lower or upper two bytes of b to c.
func opDp2a(d *decoder, in *instr) {
	shift := 0
	if d.one("lo", "hi") == "hi" {
		shift = 16
	}
	ta, tb := d.typ(), d.typ()
	d.dot(in, ta, tb, func(d, a, b, c *lanes32, sa, sb bool) {
		for i := range d {
			y := b[i] >> shift
			d[i] = c[i] + part16(a[i], sa)*part8(y, sb) + part16(a[i]>>16, sa)*part8(y>>8, sb)
		}
	})
}

func part8(x uint32, signed bool) uint32 {
	if signed {
		return uint32(int32(int8(x)))
	}
	return x & 255
}

func part16(x uint32, signed bool) uint32 {
	if signed {
		return uint32(int32(int16(x)))
	}
	return x & 65535
}

func (d *decoder) dot(in *instr, ta, tb ptype, f func(d, a, b, c *lanes32, sa, sb bool)) {
	if ta.bits != 32 || tb.bits != 32 {
		d.fail("the types must be u32 or s32")
		return
	}
	sa, sb := ta.signed(), tb.signed()
	d.alu(in, ptype{kindBits, 32}, 3, func(d, a, b, c *lanes32) { f(d, a, b, c, sa, sb) }, nil, nil)
}
