package ref

import "fmt"

// ConvShape is the geometry of a convolution, transposed convolution or pool. Inputs are [N, D, H, W, C], outputs
// [N, OutD, OutH, OutW, M], weights [M, C/Group, KD, KH, KW] (transposed convolution: [C, M/Group, KD, KH, KW]). Two
// dimensions leave the fields of the depth zero, one dimension has H, KH, StrideH, DilH and OutH 1 besides. Strides and
// dilations of 0 and Group 0 mean 1. Pools have M = C or M = 0.
//
// Input position of output o and kernel position k along an axis: o*Stride - PadBegin + k*Dil. Positions outside
// [0, size) are padding; PadBottom, PadRight, PadBack may be negative or larger than what Out makes use of.
type ConvShape struct {
	N, H, W, C                                    int
	M, KH, KW                                     int
	StrideH, StrideW, DilH, DilW                  int
	PadTop, PadLeft, PadBottom, PadRight          int
	OutH, OutW                                    int
	Group                                         int
	D, KD, StrideD, DilD, PadFront, PadBack, OutD int
}

// Full returns s with every field that means 1 when it is 0 set to 1.
func (s ConvShape) Full() ConvShape {
	for _, p := range []*int{&s.D, &s.KD, &s.OutD, &s.StrideD, &s.StrideH, &s.StrideW, &s.DilD, &s.DilH, &s.DilW, &s.Group} {
		if *p == 0 {
			*p = 1
		}
	}
	if s.M == 0 {
		s.M = s.C
	}
	return s
}

// Check reports the first thing that makes s unusable for a convolution.
func (s ConvShape) Check() error {
	s = s.Full()
	for _, f := range []struct {
		name string
		v    int
	}{
		{"C", s.C}, {"M", s.M}, {"kernel depth", s.KD}, {"kernel height", s.KH}, {"kernel width", s.KW}, {"stride", s.StrideD},
		{"stride", s.StrideH}, {"stride", s.StrideW}, {"dilation", s.DilD}, {"dilation", s.DilH}, {"dilation", s.DilW}, {"group", s.Group},
	} {
		if f.v < 1 {
			return fmt.Errorf("%s is %d, must be at least 1", f.name, f.v)
		}
	}
	for _, f := range []struct {
		name string
		v    int
	}{{"batch", s.N}, {"depth", s.D}, {"height", s.H}, {"width", s.W}, {"output depth", s.OutD}, {"output height", s.OutH},
		{"output width", s.OutW}} {
		if f.v < 0 {
			return fmt.Errorf("%s is %d, must not be negative", f.name, f.v)
		}
	}
	if s.C%s.Group != 0 || s.M%s.Group != 0 {
		return fmt.Errorf("%d input and %d output channels cannot be split into %d groups", s.C, s.M, s.Group)
	}
	return nil
}

// InLen and OutLen are the number of elements of input and output; WeightLen that of a convolution's weights.
func (s ConvShape) InLen() int     { s = s.Full(); return s.N * s.D * s.H * s.W * s.C }
func (s ConvShape) OutLen() int    { s = s.Full(); return s.N * s.OutD * s.OutH * s.OutW * s.M }
func (s ConvShape) WeightLen() int { s = s.Full(); return s.M * (s.C / s.Group) * s.KD * s.KH * s.KW }
