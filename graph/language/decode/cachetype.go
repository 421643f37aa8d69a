package decode

import (
	"fmt"
	"slices"
	"strings"

	"qwb/graph/language/checkpoint"
	"qwb/kernels/qmath"
)

// CacheType says to which numbers keys (turned by rotary embedding) and values are rounded when they are stored. They lie in memory as
// float32 all the same: the error is that of an engine which stores them so, the memory is not.
type CacheType string

const (
	CacheF32  CacheType = ""     // not rounded
	CacheF16  CacheType = "f16"  // half precision: llama.cpp's default
	CacheInt8 CacheType = "int8" // a float32 scale for each head and position: max|x| / 127, half to even
	CacheFP8  CacheType = "fp8"  // E4M3 with a float32 scale for each head and position: max|x| / 448
	CacheQ8   CacheType = "q8_0" // llama.cpp's blocks of 32 elements of a head
	CacheQ4   CacheType = "q4_0"
)

// CacheTypes lists what can be chosen.
var CacheTypes = []string{"f32", string(CacheF16), string(CacheInt8), string(CacheFP8), string(CacheQ8), string(CacheQ4)}

// ParseCacheType returns the type of a name, empty or one of CacheTypes.
func ParseCacheType(name string) (CacheType, error) {
	switch {
	case name == "" || name == "f32":
		return CacheF32, nil
	case slices.Contains(CacheTypes, name):
		return CacheType(name), nil
	}
	return "", fmt.Errorf("unknown type %q of a cache: one of %s", name, strings.Join(CacheTypes, ", "))
}

// Check reports a model whose heads the type cannot hold.
func (t CacheType) Check(c *checkpoint.Config) error {
	if (t == CacheQ8 || t == CacheQ4) && c.HeadDim%qmath.BlockSize != 0 {
		return fmt.Errorf("a cache of %s needs heads of a multiple of %d elements; those of this model have %d", t, qmath.BlockSize, c.HeadDim)
	}
	return nil
}

// Rounding is what of a cache is rounded.
type Rounding struct {
	Type         CacheType
	Layer        int // -1: all
	Keys, Values bool
	Clip         bool // only what is beyond the ends of the type's codes becomes these ends
}

func (r *Rounding) round(layer int, key, value []float32, codes []int8) {
	if r.Layer >= 0 && r.Layer != layer {
		return
	}
	one := r.Type.round
	if r.Clip {
		one = r.Type.clip
	}
	if r.Keys {
		one(key, codes)
	}
	if r.Values {
		one(value, codes)
	}
}

// clip makes what round has no code for the number nearest to it that has one. Only Q4_0 has such: its scale is that of the code -8.
func (t CacheType) clip(x []float32, codes []int8) {
	rule := qmath.BlockRule{Bits: 4, Scale: qmath.HalfScale}
	for ; t == CacheQ4 && len(x) > 0; x = x[qmath.BlockSize:] {
		if scale, ok := rule.Quantize(codes[:qmath.BlockSize], x[:qmath.BlockSize]); ok {
			Clip(x[:qmath.BlockSize], scale, qmath.Int4Min, qmath.Int4Max)
		}
	}
}

// Clip brings numbers into what the codes from lo to hi stand for under a scale, and reports whether that changes any. What is beyond by
// the rounding of a float32 scale alone stays.
func Clip(x []float32, scale float32, lo, hi int32) (changed bool) {
	least, most := scale*float32(lo), scale*float32(hi)
	least, most = min(least, most), max(least, most)
	least, most = least+least*0x1p-22, most+most*0x1p-22
	for i, v := range x {
		if v < least || v > most {
			x[i], changed = min(max(v, least), most), true
		}
	}
	return changed
}

// round rounds the elements of a head at one position. What is not finite stays as it is.
func (t CacheType) round(x []float32, codes []int8) {
	switch t {
	case CacheF16:
		for i, v := range x {
			x[i] = qmath.FP16.Round(v)
		}
	case CacheInt8:
		rule := qmath.GroupRule{Size: len(x), Max: qmath.GroupMax, Rounding: qmath.HalfEven}
		var scale [1]float32
		if rule.Quantize(codes[:len(x)], scale[:], x) {
			dequantize(x, codes, scale[0])
		}
	case CacheFP8:
		most := float32(0)
		for _, v := range x {
			most = max(most, qmath.Abs32(v))
		}
		f := qmath.FormatOf(qmath.FloatE4M3)
		if scale := most / float32(f.QMax); scale > 0 && scale-scale == 0 {
			qmath.Codec{Format: f, Scale: scale, Rounding: qmath.HalfEven}.FakeSlice(x, x)
		}
	case CacheQ8, CacheQ4:
		rule := qmath.BlockRule{Bits: 8, Scale: qmath.HalfScale}
		if t == CacheQ4 {
			rule.Bits = 4
		}
		for ; len(x) > 0; x = x[qmath.BlockSize:] {
			if scale, ok := rule.Quantize(codes[:qmath.BlockSize], x[:qmath.BlockSize]); ok {
				dequantize(x[:qmath.BlockSize], codes, scale)
			}
		}
	}
}

func dequantize(x []float32, codes []int8, scale float32) {
	for i := range x {
		x[i] = float32(codes[i]) * scale
	}
}
