package cuda_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
)

// bench is a device with a stream, and the memory of one test.
type bench struct {
	t *testing.T
	d *cuda.Device
	s *cuda.Stream
	r *rand.Rand
}

func newBench(t *testing.T, d *cuda.Device, seed uint64) *bench {
	t.Helper()
	s, err := d.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &bench{t, d, s, rand.New(rand.NewPCG(seed, 5))}
}

// room returns memory that nobody has written yet; off bytes lie before it.
func (b *bench) room(n, off int) cuda.Buffer {
	b.t.Helper()
	m, err := b.d.Alloc(n + off)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { b.d.Free(m) })
	return m.Slice(off, n)
}

// put returns memory that holds raw bytes.
func (b *bench) put(raw []byte, off int) cuda.Buffer {
	b.t.Helper()
	m := b.room(len(raw), off)
	require.NoError(b.t, b.s.Upload(m, raw))
	require.NoError(b.t, b.s.Synchronize())
	return m
}

// get reads memory when everything before is done.
func (b *bench) get(m cuda.Buffer) []byte {
	b.t.Helper()
	raw := make([]byte, m.Bytes)
	require.NoError(b.t, b.s.Synchronize())
	require.NoError(b.t, b.s.Download(raw, m))
	require.NoError(b.t, b.s.Synchronize())
	return raw
}

// element is the type of the codes of a grid.
func element(g qmath.Grid) cuda.Element {
	switch {
	case g.QMin >= -128 && g.QMax < 128 && g.QMin < 0:
		return cuda.Int8
	case g.QMin >= 0 && g.QMax < 256:
		return cuda.Uint8
	case g.QMin < 0:
		return cuda.Int16
	}
	return cuda.Uint16
}

// some draws n codes of a grid.
func (b *bench) some(g qmath.Grid, n int) []int32 {
	q := make([]int32, n)
	for i := range q {
		q[i] = code(b.r, g)
	}
	return q
}

// offsets are where buffers begin: aligned, and not.
var offsets = []int{0, 0, 2}

// off draws one of them for a type.
func (b *bench) off(e cuda.Element) int { return offsets[b.r.IntN(len(offsets))] * e.Size() }

func TestMapCodes(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newBench(t, d, 1)
		types := []cuda.Element{cuda.Int8, cuda.Uint8, cuda.Int16, cuda.Uint16}
		for i, l := range []cuda.Lines{{N: 1}, {N: 15}, {N: 16}, {N: 1000}, {N: 4099}, {N: 24 * 7, Width: 24, Stride: 40},
			{N: 48 * 5, Width: 48, Stride: 96},
			{N: 5 * 3, Width: 5, Stride: 11}, {N: 0}} {
			for k := range 4 {
				in, out := types[(i+k)%4], types[(i+k*k+k/2)%4]
				src := rawCodes(cuda.Int32, func() (q []int32) {
					for range l.N {
						q = append(q, int32(b.r.Uint32()))
					}
					return q
				}())
				src = src[:l.N*in.Size()]
				table := make([]byte, out.Size()<<(8*in.Size()))
				for j := range table {
					table[j] = byte(b.r.Uint32())
				}
				width, stride := l.Width, l.Stride
				if width == 0 {
					width, stride = max(l.N, 1), max(l.N, 1)
				}
				span := max(0, (l.N/width-1)*stride+width)
				if l.N == 0 {
					span = 0
				}
				before := make([]byte, span*out.Size())
				for j := range before {
					before[j] = byte(j)
				}
				dst := b.put(before, b.off(out))
				require.NoError(t, cuda.MapCodes(b.s, dst, b.put(src, b.off(in)), out, in, l, b.put(table, 0)))
				want, unsigned := before, map[int]cuda.Element{1: cuda.Uint8, 2: cuda.Uint16}[in.Size()]
				for j, q := range codesFrom(unsigned, src) {
					copy(want[(j/width*stride+j%width)*out.Size():], table[int(q)*out.Size():][:out.Size()])
				}
				require.Equal(t, want, b.get(dst), "%s to %s, %+v", in, out, l)
			}
		}
		require.ErrorContains(t, cuda.MapCodes(b.s, b.room(3, 0), b.room(4, 0), cuda.Int8, cuda.Int8, cuda.Lines{N: 4}, b.room(256, 0)),
			"output: 3 bytes for 4")
		require.ErrorContains(t, cuda.MapCodes(b.s, b.room(4, 0), b.room(4, 0), cuda.Int8, cuda.Int8, cuda.Lines{N: 4}, b.room(255, 0)), "table")
		require.ErrorContains(t, cuda.MapCodes(b.s, b.room(4, 0), b.room(4, 0), cuda.Int8, cuda.Int8, cuda.Lines{N: 4, Width: 3, Stride: 3},
			b.room(256, 0)), "lines of 3")
		require.ErrorContains(t, cuda.MapCodes(b.s, b.room(4, 0), b.room(4, 0), cuda.Float32, cuda.Int8, cuda.Lines{N: 1}, b.room(256, 0)),
			"no codes")
	})
}

func TestClampCodes(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newBench(t, d, 3)
		for _, c := range codes {
			g := qmath.Grid{QMin: c[0], QMax: c[1]}
			e, q := element(g), b.some(g, 517)
			dst := b.room(517*e.Size(), b.off(e))
			require.NoError(t, cuda.ClampCodes(b.s, dst, b.put(rawCodes(e, q), b.off(e)), e, cuda.Lines{N: len(q)}, c[0]/2+1, c[1]/3))
			for i := range q {
				q[i] = min(max(q[i], c[0]/2+1), c[1]/3)
			}
			require.Equal(t, q, codesFrom(e, b.get(dst)), "%v", c)
		}
	})
}

// perProfile runs a test of every profile on every device.
func perProfile(t *testing.T, test func(b *bench, p qmath.Profile)) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		for i, p := range qmath.Profiles() {
			for round := range max(1, cases(t, 80)/20) { // 4, in short mode 1
				test(newBench(t, d, uint64(100*round+i)), p)
			}
		}
	})
}

func TestRescaleCodes(t *testing.T) {
	perProfile(t, func(b *bench, p qmath.Profile) {
		for done := 0; done < 4; {
			x, y := grid(b.r, p, -9, 3, true), limited(b.r, grid(b.r, p, -9, 3, true))
			rescale, err := p.PrepareRescale(x, y)
			if err != nil {
				continue
			}
			done++
			r, err := cuda.RescaleOf(&rescale)
			require.NoError(b.t, err)
			in, out, n := element(x), element(y), 1+b.r.IntN(300)
			q := b.some(x, n)
			dst := b.room(n*out.Size(), b.off(out))
			require.NoError(b.t, cuda.RescaleCodes(b.s, dst, b.put(rawCodes(in, q), b.off(in)), out, in, cuda.Lines{N: n}, r, y.QMin+1, y.QMax))
			for i := range q {
				q[i] = min(max(rescale.At(q[i]), y.QMin+1), y.QMax)
			}
			require.Equal(b.t, q, codesFrom(out, b.get(dst)), "%s: %+v", p.Name, rescale)
		}
	})
}

func TestQuantizeCodes(t *testing.T) {
	perProfile(t, func(b *bench, p qmath.Profile) {
		for i := range 5 {
			g := limited(b.r, grid(b.r, p, -20, 10, true))
			quantizer := p.Quantizer(g)
			if i > 2 {
				quantizer = qmath.Quantizer{Grid: g} // of any rounding
			}
			q, err := cuda.QuantizerOf(quantizer)
			require.NoError(b.t, err)
			e, n := element(g), 1+b.r.IntN(300)
			if e.Size() == 1 && quantizer.QMin < -128 {
				continue
			}
			x, want := make([]float32, n), make([]int32, n)
			for i := range x {
				x[i] = number(b.r, g.Scale)
				want[i] = quantizer.At(x[i])
			}
			dst := b.room(n*e.Size(), b.off(e))
			require.NoError(b.t, cuda.QuantizeCodes(b.s, dst, b.put(bytesOf(x), b.off(cuda.Float32)), e, n, q, cuda.Buffer{}))
			require.Equal(b.t, codesFrom(e, rawCodes(e, want)), codesFrom(e, b.get(dst)), "%s: %+v", p.Name, quantizer)
			for _, v := range []float64{0, math.Inf(-1), math.NaN()} {
				x[b.r.IntN(n)] = float32(v)
				odd := b.put(make([]byte, 8), 0)
				require.NoError(b.t, cuda.QuantizeCodes(b.s, dst, b.put(bytesOf(x), b.off(cuda.Float32)), e, n, q, odd))
				met := b.get(odd)
				require.Equal(b.t, slices.ContainsFunc(x, func(v float32) bool { return v != v }), met[0] != 0)
				require.Equal(b.t, slices.ContainsFunc(x, func(v float32) bool { return math.IsInf(float64(v), 0) }), met[4] != 0)
			}
			codes := b.some(g, n)
			real := b.room(4*n, b.off(cuda.Float32))
			require.NoError(b.t, cuda.DequantizeCodes(b.s, real, b.put(rawCodes(e, codes), b.off(e)), e, n, g.ZeroPoint, g.Scale))
			for i := range codes {
				x[i] = g.Dequantize(codes[i])
			}
			require.Equal(b.t, bytesOf(x), b.get(real), p.Name)
		}
	})
}

// broadcastIndex says which element of a shape belongs to element i of out.
func broadcastIndex(out, shape []int, i int) int {
	at, size := 0, 1
	for a := len(out) - 1; a >= 0; a-- {
		k := a - (len(out) - len(shape))
		if k < 0 {
			break
		}
		if shape[k] != 1 {
			at += i % out[a] * size
		}
		i, size = i/out[a], size*shape[k]
	}
	return at
}

func count(shape []int) int {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return n
}

// pairShapes are outputs with two operands.
var pairShapes = [][3][]int{
	{{513}, {513}, {513}},
	{{2, 3, 5, 32}, {2, 3, 5, 32}, {2, 3, 5, 32}},
	{{2, 7, 48}, {2, 7, 48}, {48}},
	{{2, 7, 48}, {2, 1, 48}, {2, 7, 48}},
	{{3, 5, 9}, {3, 5, 9}, {5, 1}},
	{{300}, {1}, {300}},
	{{4, 6, 3}, {4, 1, 3}, {1, 6, 1}},
	{{2, 3, 2, 3, 2, 3, 2, 3}, {2, 1, 2, 1, 2, 1, 2, 1}, {1, 3, 1, 3, 1, 3, 1, 3}},
	{{1}, {1}, {}},
	{{0, 4}, {0, 4}, {4}},
}

func TestAddAndMultiplyCodes(t *testing.T) {
	perProfile(t, func(b *bench, p qmath.Profile) {
		sums, products := 0, 0
		for i := 0; sums < 16 || products < 16; i++ {
			wide := i%4 == 3
			shapes := pairShapes[b.r.IntN(len(pairShapes))]
			x1, x2, y := grid(b.r, p, -7, -1, wide), grid(b.r, p, -7, -1, wide), limited(b.r, grid(b.r, p, -6, 0, wide))
			to, err := cuda.NewBroadcast(shapes[0], shapes[1], shapes[2])
			require.NoError(b.t, err)
			e1, e2, out := element(x1), element(x2), element(y)
			q1, q2, n := b.some(x1, count(shapes[1])), b.some(x2, count(shapes[2])), count(shapes[0])
			m1, m2 := b.put(rawCodes(e1, q1), b.off(e1)), b.put(rawCodes(e2, q2), b.off(e2))
			want := func(f func(a, b int32) int32) []int32 {
				list := make([]int32, n)
				for i := range list {
					list[i] = f(q1[broadcastIndex(shapes[0], shapes[1], i)], q2[broadcastIndex(shapes[0], shapes[2], i)])
				}
				return codesFrom(out, rawCodes(out, list))
			}
			if sum, err := p.PrepareSum(x1, x2, y, b.r.IntN(3) == 0); err == nil {
				sums++
				s, err := cuda.SumOf(sum)
				require.NoError(b.t, err)
				dst := b.room(n*out.Size(), b.off(out))
				require.NoError(b.t, cuda.AddCodes(b.s, dst, out, cuda.Operand{Codes: m1, Type: e1}, cuda.Operand{Codes: m2, Type: e2}, &to, s))
				require.Equal(b.t, want(sum.At), codesFrom(out, b.get(dst)), "%s: %v %+v", p.Name, shapes, sum)
			}
			if product, err := p.PrepareProduct(x1, x2, y); err == nil {
				products++
				m, err := cuda.ProductOf(product)
				require.NoError(b.t, err)
				dst := b.room(n*out.Size(), b.off(out))
				require.NoError(b.t, cuda.MultiplyCodes(b.s, dst, out, cuda.Operand{Codes: m1, Type: e1}, cuda.Operand{Codes: m2, Type: e2}, &to, m))
				require.Equal(b.t, want(product.At), codesFrom(out, b.get(dst)), "%s: %v %+v", p.Name, shapes, product)
			}
		}
	})
	_, err := cuda.NewBroadcast([]int{3, 4}, []int{3})
	require.ErrorContains(t, err, "cannot be repeated")
	_, err = cuda.NewBroadcast([]int{4}, []int{3, 4})
	require.ErrorContains(t, err, "cannot be repeated")
}

// TestAddCodesToAFarSmallerScale: sums of TFLite's whose result has a scale so small that it is not made smaller in the end. Random grids
// never have one.
func TestAddCodesToAFarSmallerScale(t *testing.T) {
	perProfile(t, func(b *bench, p qmath.Profile) {
		if p.Family != qmath.TFLite {
			return
		}
		for _, shapes := range pairShapes {
			x1, x2 := qmath.Grid{Scale: 0.5, QMin: -128, QMax: 127, ZeroPoint: -3}, qmath.Grid{Scale: 0.3, QMin: -128, QMax: 127, ZeroPoint: 7}
			y := qmath.Grid{Scale: 1 / (0.75 * (1 << 20)), QMin: -128, QMax: 127, ZeroPoint: 1}
			sum, err := p.PrepareSum(x1, x2, y, len(shapes[0])%2 == 0)
			require.NoError(b.t, err)
			s, err := cuda.SumOf(sum)
			require.NoError(b.t, err)
			_, _, half := s.Half()
			require.False(b.t, half)
			to, err := cuda.NewBroadcast(shapes[0], shapes[1], shapes[2])
			require.NoError(b.t, err)
			q1, q2, n := b.some(x1, count(shapes[1])), b.some(x2, count(shapes[2])), count(shapes[0])
			want := make([]int32, n)
			for i := range want {
				if i%3 == 0 && len(q1) == n { // sums near zero, which are not beyond the result's range
					q1[i], q2[broadcastIndex(shapes[0], shapes[2], i)] = -3, 7
				}
			}
			for i := range want {
				want[i] = sum.At(q1[broadcastIndex(shapes[0], shapes[1], i)], q2[broadcastIndex(shapes[0], shapes[2], i)])
			}
			dst := b.room(n, 0)
			require.NoError(b.t, cuda.AddCodes(b.s, dst, cuda.Int8, cuda.Operand{Codes: b.put(rawCodes(cuda.Int8, q1), 0), Type: cuda.Int8},
				cuda.Operand{Codes: b.put(rawCodes(cuda.Int8, q2), 0), Type: cuda.Int8}, &to, s))
			require.Equal(b.t, codesFrom(cuda.Int8, rawCodes(cuda.Int8, want)), codesFrom(cuda.Int8, b.get(dst)), "%s: %v %+v", p.Name, shapes, sum)
		}
	})
}

func TestSelectCodes(t *testing.T) {
	perProfile(t, func(b *bench, p qmath.Profile) {
		for i := range 4 {
			shapes := pairShapes[b.r.IntN(len(pairShapes))]
			third := shapes[1+i%2]
			x1, x2, y := grid(b.r, p, -7, -5, i == 3), grid(b.r, p, -7, -5, i == 3), grid(b.r, p, -7, -5, i == 3)
			var prepared [2]*qmath.Rescale
			var rescale [2]cuda.Rescale
			for k, x := range []qmath.Grid{x1, x2} {
				r, err := p.PrepareRescale(x, y)
				require.NoError(b.t, err)
				if k == i%3 {
					continue // as it is
				}
				prepared[k] = &r
				rescale[k], err = cuda.RescaleOf(&r)
				require.NoError(b.t, err)
			}
			to, err := cuda.NewBroadcast(shapes[0], shapes[1], shapes[2], third)
			require.NoError(b.t, err)
			e1, e2, out, n := element(x1), element(x2), element(y), count(shapes[0])
			q1, q2 := b.some(x1, count(shapes[1])), b.some(x2, count(shapes[2]))
			cond := make([]byte, count(third))
			for i := range cond {
				cond[i] = byte(b.r.IntN(2))
			}
			dst := b.room(n*out.Size(), b.off(out))
			require.NoError(b.t, cuda.SelectCodes(b.s, dst, out, b.put(cond, 0), cuda.Operand{Codes: b.put(rawCodes(e1, q1), b.off(e1)), Type: e1},
				cuda.Operand{Codes: b.put(rawCodes(e2, q2), b.off(e2)), Type: e2}, &to, rescale, y.QMin, y.QMax-1))
			want := make([]int32, n)
			for i := range want {
				q, r := q2[broadcastIndex(shapes[0], shapes[2], i)], prepared[1]
				if cond[broadcastIndex(shapes[0], third, i)] != 0 {
					q, r = q1[broadcastIndex(shapes[0], shapes[1], i)], prepared[0]
				}
				if r != nil {
					q = r.At(q)
				}
				want[i] = min(max(q, y.QMin), y.QMax-1)
			}
			require.Equal(b.t, want, codesFrom(out, b.get(dst)), "%s: %v", p.Name, shapes)
		}
	})
}

// reductions are axes of shapes.
var reductions = []struct{ shape, axes []int }{
	{[]int{2, 49, 24}, []int{1}}, {[]int{2, 7, 7, 132}, []int{1, 2}}, {[]int{9, 260}, []int{0}}, {[]int{3, 5, 50}, []int{2}},
	{[]int{700}, []int{0}}, {[]int{4, 3, 5, 6}, []int{1, 3}}, {[]int{2, 3, 4}, []int{}},
	{[]int{1, 3000, 2}, []int{1}}, {[]int{130, 2}, []int{1}}, {[]int{2, 3, 2, 3, 2, 3, 2, 3}, []int{0, 2, 4, 6}},
}

// groupsOf lists, for every output, the elements that are reduced to it.
func groupsOf(shape, axes []int) [][]int {
	kept := append([]int(nil), shape...)
	for _, a := range axes {
		kept[a] = 1
	}
	groups := make([][]int, count(kept))
	for i := range count(shape) {
		g := broadcastIndex(shape, kept, i)
		groups[g] = append(groups[g], i)
	}
	return groups
}

func TestMeanCodes(t *testing.T) {
	perProfile(t, func(b *bench, p qmath.Profile) {
		for done := 0; done < 8; {
			c, wide := reductions[b.r.IntN(len(reductions))], b.r.IntN(4) == 0
			x, y := grid(b.r, p, -7, -5, wide), limited(b.r, grid(b.r, p, -7, -5, wide))
			groups := groupsOf(c.shape, c.axes)
			n := len(groups[0])
			a, by, ok := b.averages(p, x, y, n, n, qmath.GlobalMean, 0)
			if !ok {
				continue
			}
			done++
			q := b.some(x, count(c.shape))
			in, out := element(x), element(y)
			dst := b.room(len(groups)*out.Size(), 0)
			require.NoError(b.t, cuda.MeanCodes(b.s, dst, b.put(rawCodes(in, q), b.off(in)), out, in, c.shape, c.axes, a))
			want := make([]int32, len(groups))
			for g, members := range groups {
				list := make([]int32, 0, n)
				for _, i := range members {
					list = append(list, q[i])
				}
				want[g] = meanOf(by[n], list, 0)
			}
			require.Equal(b.t, codesFrom(out, rawCodes(out, want)), codesFrom(out, b.get(dst)), "%s: %v over %v, %+v", p.Name, c.shape,
				c.axes, by[n])
		}
	})
}

func TestReduceCodes(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newBench(t, d, 9)
		for i := range 4 * len(reductions) { // each for the largest and the smallest, and for several types
			c, largest := reductions[i/4], i%2 == 0
			g := qmath.Grid{QMin: codes[i%5][0], QMax: codes[i%5][1]}
			e, q := element(g), b.some(g, count(c.shape))
			groups := groupsOf(c.shape, c.axes)
			dst := b.room(len(groups)*e.Size(), 0)
			require.NoError(t, cuda.ReduceCodes(b.s, dst, b.put(rawCodes(e, q), b.off(e)), e, c.shape, c.axes, largest))
			want := make([]int32, len(groups))
			for g, members := range groups {
				want[g] = q[members[0]]
				for _, i := range members {
					if largest {
						want[g] = max(want[g], q[i])
					} else {
						want[g] = min(want[g], q[i])
					}
				}
			}
			require.Equal(t, want, codesFrom(e, b.get(dst)), "%v over %v", c.shape, c.axes)
		}
		require.ErrorContains(t, cuda.ReduceCodes(b.s, b.room(1, 0), b.room(1, 0), cuda.Int8, []int{1, 0}, []int{1}, true), "have no elements")
		require.ErrorContains(t, cuda.ReduceCodes(b.s, b.room(1, 0), b.room(1, 0), cuda.Int8, []int{1}, []int{1}, true), "axis 1")
	})
}

func TestSoftmaxCodes(t *testing.T) {
	perProfile(t, func(b *bench, p qmath.Profile) {
		shapes := [][3]int{{3, 10, 1}, {1, 197, 1}, {2, 5, 7}, {1, 1, 3}, {1, 1024, 1}, {300, 2, 1}, {70, 128, 1}, {9, 16, 1},
			{3, 1040, 1}, {2, 48, 1}}
		for done := 0; done < 8; {
			x, y := grid(b.r, p, -7, 0, b.r.IntN(4) == 0), grid(b.r, p, -9, -5, false)
			if b.r.IntN(2) == 0 {
				y.Scale, y.ZeroPoint = 1.0/256, y.QMin
			}
			shape := shapes[b.r.IntN(len(shapes))]
			outer, n, inner := shape[0], shape[1], shape[2]
			s, err := p.PrepareSoftmax(x, y, n)
			if err != nil {
				continue
			}
			done++
			q := b.some(x, outer*n*inner)
			want := make([]int32, len(q))
			row := make([]int32, n)
			for o := range outer {
				for i := range inner {
					for k := range n {
						row[k] = q[(o*n+k)*inner+i]
					}
					s.Row(row, row)
					for k := range n {
						want[(o*n+k)*inner+i] = row[k]
					}
				}
			}
			in, out := element(x), element(y)
			var table cuda.Buffer
			if raw := cuda.PackSoftmax(&s); raw != nil {
				table = b.put(raw, 0)
			}
			dst := b.room(len(q)*out.Size(), 0)
			require.NoError(b.t, cuda.SoftmaxCodes(b.s, dst, b.put(rawCodes(in, q), b.off(in)), out, in, outer, n, inner,
				cuda.SoftmaxOf(&s, table.Ptr)))
			require.Equal(b.t, want, codesFrom(out, b.get(dst)), "%s: %s of %v", p.Name, s.Form, shape)
		}
	})
}
