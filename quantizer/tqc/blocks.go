package tqc

import (
	"fmt"
	"math"

	"qwb/kernels/qmath"
)

// BlockScales says how the scales of groups are stored, which limits what they can be.
type BlockScales uint8

const (
	FreeScales BlockScales = iota // float32
	// MX: OCP Microscaling Formats 1.0. A power of two (E8M0) per 32 elements: 2^(floor(log2(largest magnitude)) - e), with 2^e the
	// largest power of two that the format has.
	MX
	// MXCeil is MX with the exponent rounded up, so that nothing clips.
	MXCeil
	// NV: NVFP4. An E4M3 number per 16 elements times one float32 per tensor.
	NV
)

// blockScales is indexed by BlockScales. Word stands in the text of a scheme, where a granularity may stand.
var blockScales = [...]struct {
	name, word string
	size       int
}{
	FreeScales: {name: "free"},
	MX:         {"mx", "mx32", 32},
	MXCeil:     {"mx-ceil", "mx32ceil", 32},
	NV:         {"nv", "nv16", 16},
}

// String is the name that a plan has: free, mx, mx-ceil, nv.
func (b BlockScales) String() string {
	if int(b) < len(blockScales) {
		return blockScales[b].name
	}
	return fmt.Sprintf("block scales %d", uint8(b))
}

// MarshalText and UnmarshalText use the name.
func (b BlockScales) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

func (b *BlockScales) UnmarshalText(text []byte) error {
	for i := range blockScales {
		if blockScales[i].name == string(text) {
			*b = BlockScales(i)
			return nil
		}
	}
	return fmt.Errorf("unknown block scales %q", text)
}

// check reports what is wrong with b in a config.
func (b BlockScales) check(c Config) error {
	switch {
	case int(b) >= len(blockScales):
		return fmt.Errorf("unknown %s", b)
	case b == FreeScales:
		return nil
	case !c.Policy.Has(PerGroup) || c.GroupSize != blockScales[b].size:
		return fmt.Errorf("%s blocks are groups of %d", b, blockScales[b].size)
	case !c.Policy.Has(Symmetric):
		return fmt.Errorf("%s blocks are symmetric", b)
	case (b == MX || b == MXCeil) != c.Policy.Has(PowerOf2):
		return fmt.Errorf("policy %q for %s blocks", c.Policy, b)
	}
	return nil
}

// ScaleFor returns scale and zero point for numbers from lo to hi under c: qmath.ScaleFromRange, and of constants in blocks what the
// blocks can store, of NV blocks with the tensor's Global.
func (c Config) ScaleFor(lo, hi float64, global float32) (scale float32, zeroPoint int32, out qmath.Outcome, err error) {
	scale, zeroPoint, out, err = qmath.ScaleFromRange(lo, hi, c.Scheme())
	if err != nil || c.Blocks == FreeScales || c.RunTime() {
		return scale, zeroPoint, out, err
	}
	scale = c.blockScale(float32(min(max(-lo, hi), math.MaxFloat32)), global)
	if out == qmath.Denormal {
		out = qmath.Ordinary
	}
	return scale, 0, out, nil
}

// RunTimeScale returns scale and zero point for the numbers of one tensor, token or block from lo to hi, neither of them NaN, as an
// engine finds them at run time. tensor is the float32 of the tensor for NV blocks, else ignored.
func (c *Config) RunTimeScale(lo, hi, tensor float32) (scale float32, zeroPoint int32) {
	if c.Blocks != FreeScales {
		return c.blockScale(min(max(-lo, hi, 0), math.MaxFloat32), tensor), 0
	}
	return qmath.RunTimeScale(lo, hi, c.Scheme())
}

// blockScale returns the scale that blocks of c can store for numbers of at most this magnitude. tensor is the float32 of the tensor for
// NV blocks, else ignored.
func (c *Config) blockScale(most, tensor float32) float32 {
	if c.Blocks == NV {
		scale, _ := qmath.NVScale(most, tensor)
		return scale
	}
	return qmath.MXScale(most, c.Format, c.Blocks == MXCeil)
}
