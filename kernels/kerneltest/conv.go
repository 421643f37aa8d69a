package kerneltest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/ref"
)

// convShapes are the geometries that networks have, small, and random ones with every field in play.
func convShapes(rng *rand.Rand, random int) []kernels.ConvShape {
	shapes := []kernels.ConvShape{
		// pointwise: one matrix product
		{N: 2, H: 7, W: 7, C: 5, M: 33, KH: 1, KW: 1, OutH: 7, OutW: 7},
		// two passes over the sum, cut inside a kernel row
		{N: 1, H: 7, W: 7, C: 70, M: 17, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, PadBottom: 1, PadRight: 1, OutH: 7, OutW: 7},
		{N: 1, H: 30, W: 30, C: 3, M: 16, KH: 7, KW: 7, StrideH: 2, StrideW: 2, PadTop: 3, PadLeft: 3, OutH: 15, OutW: 15}, // first layer
		// strided pointwise
		{N: 2, H: 8, W: 8, C: 6, M: 8, KH: 1, KW: 1, StrideH: 2, StrideW: 2, OutH: 4, OutW: 4},
		{N: 1, H: 9, W: 9, C: 4, M: 6, KH: 3, KW: 3, DilH: 2, DilW: 3, PadTop: 2, PadLeft: 3, OutH: 9, OutW: 9}, // dilated
		{N: 1, H: 6, W: 6, C: 8, M: 12, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 6, OutW: 6, Group: 4},        // grouped
		{N: 2, H: 10, W: 19, C: 37, M: 37, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 10, OutW: 19, Group: 37},  // depthwise
		// depthwise, strided
		{N: 1, H: 9, W: 9, C: 20, M: 20, KH: 5, KW: 5, StrideH: 2, StrideW: 2, PadTop: 2, PadLeft: 2, OutH: 5, OutW: 5, Group: 20},
		// channel multiplier
		{N: 1, H: 5, W: 5, C: 3, M: 9, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 5, Group: 3},
		{N: 2, H: 1, W: 40, C: 4, M: 5, KH: 1, KW: 5, StrideW: 3, PadLeft: 2, OutH: 1, OutW: 13}, // one dimension
		// three dimensions
		{N: 1, D: 4, H: 5, W: 5, C: 2, M: 3, KD: 3, KH: 3, KW: 3, PadFront: 1, PadTop: 1, PadLeft: 1, OutD: 4, OutH: 5, OutW: 5},
		{N: 1, H: 2, W: 2, C: 3, M: 4, KH: 5, KW: 5, PadTop: 4, PadLeft: 4, OutH: 6, OutW: 6},                 // mostly padding
		{N: 1, H: 6, W: 6, C: 3, M: 4, KH: 2, KW: 2, PadTop: -1, PadLeft: -2, OutH: 4, OutW: 3},               // cropped
		{N: 0, H: 6, W: 6, C: 3, M: 4, KH: 2, KW: 2, OutH: 5, OutW: 5},                                        // no image
		{N: 1, H: 60, W: 60, C: 8, M: 8, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 60, OutW: 60},             // several blocks of rows
		{N: 1, H: 14, W: 14, C: 200, M: 40, KH: 1, KW: 1, OutH: 14, OutW: 14},                                 // few columns, cut along the rows
		{N: 1, H: 7, W: 7, C: 300, M: 300, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 7, OutW: 7, Group: 300}, // depthwise, cut into channels
		{N: 1, H: 9, W: 16, C: 260, M: 260, KH: 3, KW: 3, StrideW: 2, OutH: 7, OutW: 7, Group: 260},           // and without padding
	}
	upTo := func(n int) int { return 1 + rng.IntN(n) }
	for i := range random {
		g := upTo(3)
		s := kernels.ConvShape{N: upTo(2), D: upTo(3), H: upTo(9), W: upTo(20), C: g * upTo(6), M: g * upTo(40), KD: upTo(2),
			KH: upTo(3), KW: upTo(3), StrideD: upTo(2), StrideH: upTo(3), StrideW: upTo(3), DilD: upTo(2), DilH: upTo(2), DilW: upTo(2),
			PadFront: rng.IntN(2), PadTop: rng.IntN(3), PadLeft: rng.IntN(3), OutD: upTo(2), OutH: upTo(6), OutW: upTo(20), Group: g}
		if i%3 == 0 {
			s.Group, s.M = s.C, s.C*upTo(3)
		}
		shapes = append(shapes, s)
	}
	return shapes
}

// kinds are the kinds of values that case i sees: all, or one after the other where the suite is short.
func (s Suite) kinds(i int) []data {
	all := []data{ordinary, wide, extreme}
	if s.Short {
		return all[i%3 : i%3+1]
	}
	return all
}

func (s Suite) conv(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for i, shape := range convShapes(rng, 60) {
		for _, d := range s.kinds(i) {
			src, w, ep := d(rng, shape.InLen()), d(rng, shape.WeightLen()), epilogue(rng, shape.M)
			packed := s.Table.PackConvF32(w, shape)
			if packed.Adds() && rng.IntN(2) == 0 {
				ep.Add = d(rng, shape.OutLen())
			}
			want := make([]float32, shape.OutLen())
			ref.Conv(s.Table.Arith(), want, src, w, shape, ep)
			s.each(t, shape, want, src, func(par kernels.Parallel, dst, src []float32, scratch *[]float32) {
				packed.Run(par, dst, src, shape, scratch, s.guardAdded(ep))
			})
			s.each(t, shape, want, src, func(par kernels.Parallel, dst, src []float32, scratch *[]float32) {
				ep, restore := s.done(t, ep, dst, len(want)/max(shape.M, 1), shape.M, shape.M)
				packed.Run(par, dst, src, shape, scratch, ep)
				restore()
			})
			s.alone(t, shape, want, src, func(image int, dst, src []float32, shape kernels.ConvShape) {
				var scratch []float32
				ep := ep
				if ep.Add != nil {
					ep.Add = ep.Add[image*len(dst):]
				}
				packed.Run(nil, dst, src, shape, &scratch, ep)
			})
			s.within(t, shape, want, func(dst []float32, ldd int) {
				var scratch []float32
				ep, restore := s.done(t, ep, dst, len(want)/shape.M, shape.M, ldd)
				packed.RunInto(nil, dst, ldd, src, shape, &scratch, ep)
				restore()
			})
		}
	}
}

func (s Suite) convTranspose(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	for i, shape := range convShapes(rng, 60) {
		if shape.PadTop < 0 || shape.C%max(1, shape.Group) != 0 {
			continue
		}
		for _, d := range s.kinds(i) {
			full := shape.Full()
			src, w, ep := d(rng, shape.InLen()), d(rng, full.C*full.M/full.Group*full.KD*full.KH*full.KW), epilogue(rng, shape.M)
			packed := s.Table.PackConvTransposeF32(w, shape)
			if packed.Adds() && rng.IntN(2) == 0 {
				ep.Add = d(rng, shape.OutLen())
			}
			want := make([]float32, shape.OutLen())
			ref.ConvTranspose(s.Table.Arith(), want, src, w, shape, ep)
			s.each(t, shape, want, src, func(par kernels.Parallel, dst, src []float32, scratch *[]float32) {
				ep, restore := s.done(t, s.guardAdded(ep), dst, len(want)/max(shape.M, 1), shape.M, shape.M)
				packed.Run(par, dst, src, shape, scratch, ep)
				restore()
			})
		}
	}
}

func (s Suite) pool(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 3))
	for i, shape := range convShapes(rng, 60) {
		shape.M, shape.Group = shape.C, 1
		shape.PadBottom, shape.PadRight, shape.PadBack = rng.IntN(3), rng.IntN(3), rng.IntN(2)
		for _, d := range s.kinds(i) {
			src, want := d(rng, shape.InLen()), make([]float32, shape.OutLen())
			ref.MaxPool(want, src, shape)
			s.each(t, shape, want, src, func(par kernels.Parallel, dst, src []float32, _ *[]float32) { s.Table.MaxPool(par, dst, src, shape) })
			arith := ref.Float32 // sums without products are the same in both float32 arithmetics
			if s.Table.Arith() == ref.Float64 {
				arith = ref.Float64
			}
			ref.AveragePool(arith, want, src, shape, i%2 == 0)
			s.each(t, shape, want, src, func(par kernels.Parallel, dst, src []float32, _ *[]float32) {
				s.Table.AveragePool(par, dst, src, shape, i%2 == 0)
			})
			positions := shape.Full().D * shape.H * shape.W
			want = make([]float32, shape.N*shape.C)
			ref.GlobalAverage(arith, want, src, shape.N, positions, shape.C)
			s.each(t, shape, want, src, func(par kernels.Parallel, dst, src []float32, _ *[]float32) {
				s.Table.GlobalAverage(par, dst, src, shape.N, positions, shape.C)
			})
		}
	}
}

// guardAdded puts what the epilogue adds into s.Memory.
func (s Suite) guardAdded(ep kernels.Epilogue) kernels.Epilogue {
	if ep.Add != nil {
		ep.Add = s.copyOf(ep.Add)
	}
	return ep
}

// each runs f in every way on slices of s.Memory, the scratch too as soon as its size is known, and compares.
func (s Suite) each(t *testing.T, shape kernels.ConvShape, want, src []float32,
	f func(par kernels.Parallel, dst, src []float32, scratch *[]float32)) {
	t.Helper()
	var scratch []float32
	guarded := s.copyOf(src)
	for i, par := range s.ways() {
		dst := s.Memory.New(len(want))
		for j := range dst {
			dst[j] = 777 // what is there before must not matter
		}
		f(par, dst, guarded, &scratch)
		requireSame(t, want, dst, "%+v way %d", shape, i)
		scratch = s.copyOf(fill(len(scratch), func() float32 { return -777 }))
	}
	if len(scratch) > 0 { // once more with the scratch in s.Memory
		dst := s.Memory.New(len(want))
		f(nil, dst, guarded, &scratch)
		requireSame(t, want, dst, "%+v with its own scratch", shape)
	}
	require.NoError(t, s.Memory.Check(), "%+v", shape)
}

// alone runs f on every image by itself: batch size must not matter.
func (s Suite) alone(t *testing.T, shape kernels.ConvShape, want, src []float32,
	f func(image int, dst, src []float32, shape kernels.ConvShape)) {
	t.Helper()
	one := shape
	one.N = 1
	for n := range shape.N {
		dst := make([]float32, one.OutLen())
		f(n, dst, src[n*one.InLen():][:one.InLen()], one)
		requireSame(t, want[n*one.OutLen():][:one.OutLen()], dst, "%+v image %d", shape, n)
	}
}

// within runs f into the middle of a wider tensor: what lies on both sides stays as it is.
func (s Suite) within(t *testing.T, shape kernels.ConvShape, want []float32, f func(dst []float32, ldd int)) {
	t.Helper()
	const before, after, mark = 3, 2, 777
	m := shape.M
	ldd := before + m + after
	wide := fill(len(want)/m*ldd, func() float32 { return mark })
	if len(want) == 0 {
		return
	}
	f(wide[before:], ldd)
	got := make([]float32, 0, len(want))
	for ; len(wide) > 0; wide = wide[ldd:] {
		got = append(got, wide[before:before+m]...)
		for _, v := range append(wide[:before:before], wide[before+m:ldd]...) {
			require.Equal(t, float32(mark), v, "%+v", shape)
		}
	}
	requireSame(t, want, got, "%+v in a wider tensor", shape)
}
