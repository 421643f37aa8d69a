package cuda_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
)

// The requests of testdata/host.cpp.
const (
	hostRequantize = iota
	hostRequantize64
	hostRequantizeAdd
	hostAccumulated
	hostAccumulatedAdd
	hostQuantize
	hostDequantize
	hostRescale
	hostSum
	hostProduct
	hostAverage
	hostAverageReal
	hostSoftmax
	hostDivide
	hostWindow
	hostHalfSum
)

// hostSmall are the forms of small products.
const hostSmall = 9

// host is the arithmetic of the kernels, compiled as C++ for this machine.
type host struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

// The arithmetic of the kernels, compiled for this machine, against qmath. Skipped where there is no compiler.
func TestHost(t *testing.T) {
	compiler, err := exec.LookPath("c++")
	if err != nil {
		t.Skip("no C++ compiler (c++) to build the kernels' arithmetic for the host")
	}
	program := filepath.Join(t.TempDir(), "host")
	text, err := exec.Command(compiler, "-std=c++17", "-O2", "-ffp-contract=off", "-o", program, "testdata/host.cpp").CombinedOutput()
	require.NoError(t, err, "%s", text)
	for _, c := range []struct {
		name string
		run  func(h *host)
	}{{"requantize", hostTestRequantize}, {"accumulated", hostTestAccumulated}, {"quantizer", hostTestQuantizer},
		{"rescale", hostTestRescale}, {"sum and product", hostTestSumAndProduct}, {"average", hostTestAverage},
		{"softmax", hostTestSoftmax}, {"divide", hostTestDivide}, {"window", hostTestWindow}} {
		t.Run(c.name, func(t *testing.T) { c.run(startHost(t, program)) })
	}
}

func startHost(t *testing.T, program string) *host {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	h := &host{t: t}
	var err error
	h.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	h.out = bufio.NewReaderSize(out, 1<<16)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, h.in.Close())
		require.NoError(t, cmd.Wait())
	})
	return h
}

// ask computes what on all cases a, b with the parameter p and its table.
func ask[P any](h *host, what, forms int, p P, table []byte, a []int64, b []int32) []int32 {
	h.t.Helper()
	parameter := unsafe.Slice((*byte)(unsafe.Pointer(&p)), unsafe.Sizeof(p))
	head := make([]byte, 0, 20)
	for _, v := range [...]int{what, forms, len(a), len(parameter), len(table)} {
		head = binary.LittleEndian.AppendUint32(head, uint32(v))
	}
	written := make(chan error, 1)
	go func() {
		for _, part := range [...][]byte{head, parameter, table, bytesOf(a), bytesOf(b)} {
			if _, err := h.in.Write(part); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	out := make([]int32, len(a))
	_, err := io.ReadFull(h.out, bytesOf(out))
	require.NoError(h.t, err)
	require.NoError(h.t, <-written)
	return out
}

// bytesOf is the memory of s.
func bytesOf[T any](s []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(one)))
}

// equal compares what the host gave with what qmath gives, case by case.
func equal(t *testing.T, name string, p, got any, a []int64, b []int32, want func(i int) int32) {
	t.Helper()
	for i, v := range got.([]int32) {
		if w := want(i); v != w {
			t.Fatalf("%s: case %d, %d and %d: %d (%#x), qmath %d (%#x), with %+v", name, i, a[i], b[i], v, uint32(v), w, uint32(w), p)
		}
	}
}

// cases is how many cases a test gives each profile.
func cases(t *testing.T, full int) int {
	if !longtest.Wanted(t) {
		return full / 40
	}
	return full
}

const batch = 1 << 14

// extremes are accumulators at which something ends.
var extremes = []int64{0, 1, -1, 2, -2, 127, -128, 1<<23 - 1, 1 << 24, 1<<24 + 1, 1<<30 - 1, 1 << 30, -1 << 30, math.MaxInt32,
	math.MinInt32, math.MaxInt32 - 1, math.MinInt32 + 1}

var extremes64 = append([]int64{math.MaxInt64, math.MinInt64, math.MinInt64 + 1, 1 << 31, 1 << 53, 1<<53 + 1, -1 << 31, 1 << 40, -1 << 62,
	1 << 62}, extremes...)

// accumulator draws numbers of all magnitudes.
func accumulator(r *rand.Rand, bits int) int64 {
	if r.IntN(16) == 0 {
		list := extremes
		if bits > 32 {
			list = extremes64
		}
		return list[r.IntN(len(list))]
	}
	return int64(r.Uint64()) >> (64 - bits + r.IntN(bits))
}

// scale draws a scale between 2^lo and 2^hi, a power of two where the profile needs that.
func scale(r *rand.Rand, p qmath.Profile, lo, hi float64) float32 {
	e := lo + r.Float64()*(hi-lo)
	if p.Family == qmath.PowerOfTwo || r.IntN(16) == 0 {
		e = math.Floor(e)
	}
	return float32(math.Exp2(e))
}

// codes are the ranges of integers that activations have.
var codes = [][2]int32{{-128, 127}, {0, 255}, {-127, 127}, {-32768, 32767}, {0, 65535}, {-8, 7}}

// grid draws a grid.
func grid(r *rand.Rand, p qmath.Profile, lo, hi float64, wide bool) qmath.Grid {
	c := codes[r.IntN(3)]
	if wide {
		c = codes[r.IntN(len(codes))]
	}
	g := qmath.Grid{Scale: scale(r, p, lo, hi), QMin: c[0], QMax: c[1], Rounding: qmath.Rounding(r.IntN(7))}
	switch r.IntN(4) {
	case 0:
		g.ZeroPoint = g.QMin
	case 1:
		g.ZeroPoint = min(max(0, g.QMin), g.QMax)
	default:
		g.ZeroPoint = g.QMin + r.Int32N(g.QMax-g.QMin+1)
	}
	return g
}

// code draws a code of a grid.
func code(r *rand.Rand, g qmath.Grid) int32 {
	switch r.IntN(16) {
	case 0:
		return g.QMin
	case 1:
		return g.QMax
	}
	return g.QMin + r.Int32N(g.QMax-g.QMin+1)
}

// limited narrows a grid as a fused activation does.
func limited(r *rand.Rand, g qmath.Grid) qmath.Grid {
	if r.IntN(3) == 0 {
		g.QMin += r.Int32N((g.QMax - g.QMin) / 2)
		g.QMax -= r.Int32N((g.QMax - g.QMin) / 2)
	}
	return g
}

// number draws a float32, most of them of the magnitude of codes times scale.
func number(r *rand.Rand, scale float32) float32 {
	switch r.IntN(12) {
	case 0:
		return math.Float32frombits(r.Uint32())
	case 1:
		special := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
			math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32}
		return special[r.IntN(len(special))]
	case 2, 3: // a tie, as far as the scale lets it be one, or a number next to it
		x := (float32(r.IntN(600)-300) + 0.5) * scale
		return math.Float32frombits(math.Float32bits(x) + uint32(r.IntN(9)-4))
	}
	return float32(r.NormFloat64()*100) * scale
}

// everyProfile runs a test for each.
func everyProfile(h *host, test func(t *testing.T, r *rand.Rand, p qmath.Profile)) {
	for i, p := range qmath.Profiles() {
		test(h.t, rand.New(rand.NewPCG(uint64(i), 77)), p)
	}
}

// multipliers draws channels whose factors a profile can hold, and their multipliers.
func multipliers(t *testing.T, r *rand.Rand, p qmath.Profile, n int) ([]qmath.Channel, []qmath.Multiplier) {
	t.Helper()
	var list []qmath.Channel
	var out []qmath.Multiplier
	y := scale(r, p, -9, 3)
	for len(out) < n {
		c := qmath.Channel{X: scale(r, p, -12, 4), W: scale(r, p, -20, 4), Y: y, Bias: float32(r.NormFloat64() * 5), Dense: r.IntN(2) == 0}
		if r.IntN(8) == 0 {
			c.X, c.W = scale(r, p, -14, -2), scale(r, p, -16, 12)
		}
		if m, err := p.Prepare(c); err == nil {
			list, out = append(list, c), append(out, m)
		}
	}
	return list, out
}

func hostTestRequantize(h *host) {
	everyProfile(h, func(t *testing.T, r *rand.Rand, p qmath.Profile) {
		const channels = 64
		for done := 0; done < cases(t, 3<<20); done += batch {
			y, g := grid(r, p, -9, 3, true), grid(r, p, -9, 3, true)
			y = limited(r, y)
			list, m := multipliers(t, r, p, channels)
			skip := qmath.Skip{}
			if p.FusesAdd() {
				skip = p.PrepareSkip(g, list[0].Y)
			}
			q, err := cuda.NewRequantize(p.Scaling, m, 0, skip, y.ZeroPoint, y.QMin, y.QMax)
			require.NoError(t, err)
			table := cuda.PackMultipliers(p.Scaling, m, channels)
			a, wide, b := make([]int64, batch), make([]int64, batch), make([]int32, batch)
			for i := range a {
				a[i], wide[i], b[i] = accumulator(r, 32), accumulator(r, 64), code(r, g)
				// Codes are made of accumulators of this size.
				if f := float64(m[i%channels].Scale); f > 0 && i%2 == 0 {
					a[i] = int64(int32(min(max(r.NormFloat64()*150/f, math.MinInt32), math.MaxInt32)))
				} else if m[i%channels].M != 0 && i%2 == 0 {
					a[i] = int64(int32(min(max(r.NormFloat64()*150*math.Exp2(-float64(m[i%channels].Shift)), math.MinInt32), math.MaxInt32)))
				}
				if i%3 == 0 {
					wide[i] = a[i]
				}
			}
			at := func(i int) qmath.Multiplier { return m[i%channels] }
			for _, forms := range []cuda.Forms{cuda.AnyForm, cuda.FormsOf(p.Scaling)} {
				got := ask(h, hostRequantize, int(forms), q, table, a, b)
				equal(t, p.Name, q, got, a, b, func(i int) int32 { return p.Requantize(int32(a[i]), at(i), y.ZeroPoint, y.QMin, y.QMax) })
				if p.Form == qmath.DoubleUpAway || p.Form == qmath.SingleUp {
					for i := range wide { // the 15-bit multiplier is shifted by 15-Shift, at least 1
						if at(i).Shift > 14 {
							wide[i] = 0
						}
					}
				}
				defined := func(i int) bool {
					return at(i).Shift <= 14 || p.Form != qmath.DoubleUpAway && p.Form != qmath.SingleUp
				}
				got = ask(h, hostRequantize64, int(forms), q, table, wide, b)
				equal(t, p.Name+" 64", q, got, wide, b, func(i int) int32 {
					if !defined(i) {
						return got[i]
					}
					return p.Requantize64(wide[i], at(i), y.ZeroPoint, y.QMin, y.QMax)
				})
				if !p.FusesAdd() {
					continue
				}
				got = ask(h, hostRequantizeAdd, int(forms), q, table, wide, b)
				equal(t, p.Name+" add", q, got, wide, b, func(i int) int32 {
					return p.RequantizeAdd64(wide[i], at(i), b[i], skip, y.ZeroPoint, y.QMin, y.QMax)
				})
			}
		}
	})
}

func hostTestAccumulated(h *host) {
	t := h.t
	r := rand.New(rand.NewPCG(1, 78))
	const channels = 64
	inf := float32(math.Inf(1))
	limits := [][2]float32{{-inf, inf}, {0, inf}, {0, 6}, {-1, 1}, {float32(math.Copysign(0, -1)), 3}}
	for done := 0; done < cases(t, 4<<20); done += batch {
		p := qmath.Profiles()[r.IntN(len(qmath.Profiles()))]
		list, _ := multipliers(t, r, p, channels)
		for i := range list {
			if i%4 == 0 {
				list[i].Bias = float32(math.Copysign(0, -1))
			}
		}
		g, lim := grid(r, p, -9, 3, true), limits[r.IntN(len(limits))]
		q := cuda.NewAccumulated(list, 0, g, lim[0], lim[1])
		a, b := make([]int64, batch), make([]int32, batch)
		for i := range a {
			a[i], b[i] = accumulator(r, 64), code(r, g)
		}
		table := cuda.PackChannels(list, channels)
		got := ask(h, hostAccumulated, 0, q, table, a, b)
		equal(t, "real", q, got, a, b, func(i int) int32 {
			return int32(math.Float32bits(min(max(list[i%channels].Accumulated64(a[i]), lim[0]), lim[1])))
		})
		got = ask(h, hostAccumulatedAdd, 0, q, table, a, b)
		equal(t, "real", q, got, a, b, func(i int) int32 {
			v := list[i%channels].Accumulated64(a[i]) + float32(g.Dequantize(b[i]))
			return int32(math.Float32bits(min(max(v, lim[0]), lim[1])))
		})
	}
}

func hostTestQuantizer(h *host) {
	everyProfile(h, func(t *testing.T, r *rand.Rand, p qmath.Profile) {
		for done := 0; done < cases(t, 1<<20); done += batch {
			g := limited(r, grid(r, p, -20, 10, true))
			quantizer := p.Quantizer(g)
			if r.IntN(4) == 0 {
				quantizer = qmath.Quantizer{Grid: g} // of any rounding
			}
			q, err := cuda.QuantizerOf(quantizer)
			require.NoError(t, err)
			a, b := make([]int64, batch), make([]int32, batch)
			for i := range a {
				a[i] = int64(math.Float32bits(number(r, g.Scale)))
			}
			for forms := range 2 {
				got := ask(h, hostQuantize, forms, q, nil, a, b)
				equal(t, p.Name, q, got, a, b, func(i int) int32 { return quantizer.At(math.Float32frombits(uint32(a[i]))) })
			}
			for i := range a {
				a[i] = int64(code(r, g))
			}
			got := ask(h, hostDequantize, 0, cuda.Quantizer{Scale: g.Scale, Zero: g.ZeroPoint}, nil, a, b)
			equal(t, p.Name, q, got, a, b, func(i int) int32 { return int32(math.Float32bits(g.Dequantize(int32(a[i])))) })
		}
	})
}

func hostTestRescale(h *host) {
	everyProfile(h, func(t *testing.T, r *rand.Rand, p qmath.Profile) {
		for done := 0; done < cases(t, 1<<20); {
			x, y := grid(r, p, -9, 3, true), limited(r, grid(r, p, -9, 3, true))
			rescale, err := p.PrepareRescale(x, y)
			if err != nil {
				continue
			}
			done += batch
			q, err := cuda.RescaleOf(&rescale)
			require.NoError(t, err)
			a, b := codesOf(r, x, x)
			got := ask(h, hostRescale, 0, q, nil, a, b)
			equal(t, p.Name, q, got, a, b, func(i int) int32 { return rescale.At(int32(a[i])) })
		}
	})
}

// codesOf draws a batch of codes of two grids.
func codesOf(r *rand.Rand, x, y qmath.Grid) ([]int64, []int32) {
	a, b := make([]int64, batch), make([]int32, batch)
	for i := range a {
		a[i], b[i] = int64(code(r, x)), code(r, y)
	}
	return a, b
}

func hostTestSumAndProduct(h *host) {
	everyProfile(h, func(t *testing.T, r *rand.Rand, p qmath.Profile) {
		seen := 0
		for done := 0; done < cases(t, 2<<20); {
			wide := r.IntN(3) == 0
			x1, x2, y := grid(r, p, -7, -1, wide), grid(r, p, -7, -1, wide), limited(r, grid(r, p, -6, 0, wide))
			a, b := codesOf(r, x1, x2)
			if sum, err := p.PrepareSum(x1, x2, y, r.IntN(3) == 0); err == nil {
				done, seen = done+batch, seen|1
				q, err := cuda.SumOf(sum)
				require.NoError(t, err)
				for forms := range 2 {
					got := ask(h, hostSum, forms, q, nil, a, b)
					equal(t, p.Name, q, got, a, b, func(i int) int32 { return sum.At(int32(a[i]), b[i]) })
				}
				half, swapped, ok := q.Half()
				require.False(t, !ok && !wide && sum.Form == qmath.SumShifted && sum.MY.Shift < 0, "%+v", sum)
				if ok {
					x, y := a, b
					if swapped {
						x, y = make([]int64, batch), make([]int32, batch)
						for i := range x {
							x[i], y[i] = int64(b[i]), int32(a[i])
						}
					}
					got := ask(h, hostHalfSum, 128*r.IntN(2), half, nil, x, y)
					equal(t, p.Name, half, got, a, b, func(i int) int32 { return sum.At(int32(a[i]), b[i]) })
				}
			}
			if product, err := p.PrepareProduct(x1, x2, y); err == nil {
				done, seen = done+batch, seen|2
				q, err := cuda.ProductOf(product)
				require.NoError(t, err)
				own := cuda.OnlyFixed
				if product.Float || product.Scaling.Float() {
					own = cuda.OnlyFloat
				}
				all := []cuda.Forms{cuda.AnyForm, own}
				if !wide && p.Family == qmath.TFLite && product.M.Shift < 0 {
					all = append(all, hostSmall)
				}
				for _, forms := range all {
					got := ask(h, hostProduct, int(forms), q, nil, a, b)
					equal(t, p.Name, q, got, a, b, func(i int) int32 { return product.At(int32(a[i]), b[i]) })
				}
			}
		}
		require.Equal(t, 3, seen, "%s: neither sums nor products are left out", p.Name)
	})
}

func hostTestAverage(h *host) {
	everyProfile(h, func(t *testing.T, r *rand.Rand, p qmath.Profile) {
		for done := 0; done < cases(t, 1<<20); {
			wide, kind := r.IntN(3) == 0, qmath.AverageKind(r.IntN(3))
			x, y := grid(r, p, -7, -1, wide), limited(r, grid(r, p, -7, -1, wide))
			if r.IntN(3) == 0 { // a pool whose grids are the same
				y.Scale, y.ZeroPoint, y.QMin, y.QMax = x.Scale, x.ZeroPoint, x.QMin, x.QMax
			}
			most := 1 << r.IntN(12)
			by := make([]*qmath.Average, most+1)
			for n := 1; n <= most; n++ {
				if a, err := p.PrepareAverage(x, y, n, kind); err == nil {
					by[n] = &a
				}
			}
			if by[1] == nil || by[most] == nil {
				continue
			}
			done += batch
			table := cuda.PackAverages(1, most, func(n int) *qmath.Average { return by[n] })
			q, err := cuda.AverageOf(by[most], 0, 1, 0)
			require.NoError(t, err)
			a, b := make([]int64, batch), make([]int32, batch)
			if by[1].Float() {
				for i := range a {
					b[i] = 1 + r.Int32N(int32(most))
					a[i] = int64(math.Float32bits(float32(b[i]) * x.Dequantize(code(r, x)) * (0.5 + r.Float32())))
				}
				got := ask(h, hostAverageReal, 0, q, table, a, b)
				equal(t, p.Name, q, got, a, b, func(i int) int32 { return by[b[i]].AtFloat(math.Float32frombits(uint32(a[i]))) })
				continue
			}
			for i := range a {
				b[i] = r.Int32N(int32(most) + 1)
				a[i] = int64(code(r, x))
				if b[i] > 0 {
					a[i] = int64(by[1].Term(code(r, x)))*int64(b[i])/2 + int64(by[1].Term(code(r, x)))
				}
			}
			got := ask(h, hostAverage, 0, q, table, a, b)
			equal(t, p.Name, q, got, a, b, func(i int) int32 {
				if b[i] == 0 {
					return by[1].Term(int32(a[i]))
				}
				return by[b[i]].At(int32(a[i]))
			})
		}
	})
}

func hostTestSoftmax(h *host) {
	everyProfile(h, func(t *testing.T, r *rand.Rand, p qmath.Profile) {
		forms, all := map[qmath.SoftmaxForm]bool{}, 1
		if p.Family == qmath.TFLite || p.Family == qmath.ORT {
			all = 2
		}
		for done := 0; done < cases(t, 1<<19) || len(forms) < all; {
			x, y := grid(r, p, -7, 0, r.IntN(4) == 0), grid(r, p, -9, -5, false)
			if r.IntN(2) == 0 {
				y.Scale, y.ZeroPoint = 1.0/256, y.QMin
			}
			n := 1 + r.IntN(1<<r.IntN(12))
			s, err := p.PrepareSoftmax(x, y, n)
			if err != nil {
				continue
			}
			done += batch
			forms[s.Form] = true
			a, b := codesOf(r, x, x)
			if r.IntN(3) == 0 { // rows of nearly one code
				for i := range b {
					b[i] = max(x.QMin, x.QMax-r.Int32N(3))
				}
			}
			got := ask(h, hostSoftmax, n, cuda.SoftmaxOf(&s, 0), cuda.PackSoftmax(&s), a, b)
			want := make([]int32, batch)
			for i := 0; i+n <= batch; i += n {
				s.Row(want[i:][:n], b[i:][:n])
			}
			equal(t, p.Name, s.Form, got, a, b, func(i int) int32 { return want[i] })
		}
	})
}

func hostTestDivide(h *host) {
	t := h.t
	r := rand.New(rand.NewPCG(3, 4))
	for done := 0; done < cases(t, 4<<20); done += batch {
		d := 1 + r.IntN(1<<(1+r.IntN(30)))
		if r.IntN(3) == 0 {
			d = max(1, 1<<r.IntN(31)-1+r.IntN(2))
		}
		a, b := make([]int64, batch), make([]int32, batch)
		for i := range a {
			if a[i] = int64(r.Int32N(math.MaxInt32)); i%2 == 0 {
				a[i] = min(max(0, int64(d)*int64(r.IntN(1<<r.IntN(30)))+int64(r.IntN(3)-1)), math.MaxInt32)
			}
		}
		got := ask(h, hostDivide, 0, cuda.DivisorOf(d), nil, a, b)
		equal(t, "divide", d, got, a, b, func(i int) int32 { return int32(a[i] / int64(d)) })
	}
}

func hostTestWindow(h *host) {
	t := h.t
	r := rand.New(rand.NewPCG(5, 6))
	for range cases(t, 4000) {
		in, kernel, stride, dilation := 1+r.IntN(20), 1+r.IntN(5), 1+r.IntN(4), 1+r.IntN(3)
		begin, end := r.IntN(6)-1, r.IntN(6)-1
		out := max(1, (in+begin+end-(kernel-1)*dilation-1)/stride+1+r.IntN(2)) // rounded up, in half of the cases
		w, err := cuda.NewWindow([]int{in}, []int{out}, []int{kernel}, []int{stride}, []int{dilation}, []int{begin}, []int{end})
		require.NoError(t, err)
		var a []int64
		var b []int32
		for o := range out {
			for k := range kernel {
				a, b = append(a, int64(o)), append(b, int32(k))
			}
		}
		got := ask(h, hostWindow, 2, w, nil, a, b)
		equal(t, "window", w, got, a, b, func(i int) int32 {
			at := int(a[i])*stride - begin + int(b[i])*dilation
			v := int32(at) * 4
			if at >= -begin && at < in+end {
				v += 3 // it counts: positions before the padding do not occur
			}
			return v
		})
	}
	_, err := cuda.NewWindow([]int{1, 2, 3, 4}, nil, nil, nil, nil, nil, nil)
	require.ErrorContains(t, err, "4 spatial axes")
	_, err = cuda.NewWindow([]int{1}, []int{1}, []int{0}, []int{1}, []int{1}, []int{0}, []int{0})
	require.ErrorContains(t, err, "size 0")
}
