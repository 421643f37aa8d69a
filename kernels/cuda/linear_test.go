package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/internal/longtest"
	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
	"qwb/kernels/ref"
)

// sums are what a LinearOp says, by plain loops: rows of channels, wrapped as it says.
func sums(op *cuda.LinearOp, x, right []int32) (acc []int64, channels int) {
	zero := func(c int) int32 {
		if len(op.WeightZero) == 0 {
			return 0
		}
		return op.WeightZero[c%len(op.WeightZero)]
	}
	if op.Window != nil {
		acc, channels = windowSums(op, x, zero), op.Window.Full().M
	} else {
		w, wzero := op.Weights, zero
		if w == nil {
			w, wzero = right, func(int) int32 { return op.Y.Zero }
		}
		acc, channels = matrixSums(op, x, w, wzero), op.Right.Cols
	}
	for i := range acc {
		if op.Bias != nil {
			acc[i] += int64(op.Bias[i%channels%len(op.Bias)])
		}
		if !op.Wide {
			acc[i] = int64(int32(acc[i]))
		}
	}
	return acc, channels
}

// pairs is a sum whose products are added two and two in int16 where it saturates.
type pairs struct {
	op    *cuda.LinearOp
	sum   int64
	raise int32
	first *int32
}

func newPairs(op *cuda.LinearOp) *pairs {
	p := &pairs{op: op}
	if op.X.Type == cuda.Int8 {
		p.raise = 128
	}
	return p
}

// add adds the product of code x, which may be that of padding, and w without its zero point.
func (p *pairs) add(x, w int32) {
	if !p.op.Saturating {
		p.sum += int64(x-p.op.X.Zero) * int64(w)
		return
	}
	p.sum -= int64(p.op.X.Zero+p.raise) * int64(w)
	v := (x + p.raise) * w
	if p.first == nil {
		p.first = &v
		return
	}
	p.sum += int64(min(max(*p.first+v, math.MinInt16), math.MaxInt16))
	p.first = nil
}

func (p *pairs) total() int64 {
	if p.first != nil {
		p.sum += int64(min(max(*p.first, math.MinInt16), math.MaxInt16))
	}
	return p.sum
}

func windowSums(op *cuda.LinearOp, x []int32, zero func(c int) int32) []int64 {
	s := op.Window.Full()
	cg, mg := s.C/s.Group, s.M/s.Group
	var acc []int64
	at := func(n, z, y, xx, c int) int32 {
		if z < 0 || z >= s.D || y < 0 || y >= s.H || xx < 0 || xx >= s.W {
			return op.X.Zero
		}
		return x[(((n*s.D+z)*s.H+y)*s.W+xx)*s.C+c]
	}
	// from is the input position that tap k of output o reads, -1 for none.
	from := func(o, k, stride, pad, dil int) int {
		if !op.Transposed {
			return o*stride - pad + k*dil
		}
		if i := o + pad - k*dil; i >= 0 && i%stride == 0 {
			return i / stride
		}
		return -1
	}
	each(s.N, s.OutD, s.OutH, s.OutW, s.M, func(n, z, y, xx, m int) {
		p := newPairs(op)
		for kz := range s.KD {
			for ky := range s.KH {
				for kx := range s.KW {
					for c := range cg {
						i := ((m*cg+c)*s.KD+kz)*s.KH + ky
						if op.Transposed {
							i = (((m/mg*cg+c)*mg+m%mg)*s.KD+kz)*s.KH + ky
						}
						w := op.Weights[i*s.KW+kx] - zero(m)
						p.add(at(n, from(z, kz, s.StrideD, s.PadFront, s.DilD), from(y, ky, s.StrideH, s.PadTop, s.DilH),
							from(xx, kx, s.StrideW, s.PadLeft, s.DilW), m/mg*cg+c), w)
					}
				}
			}
		}
		acc = append(acc, p.total())
	})
	return acc
}

func each(n, d, h, w, m int, f func(n, z, y, x, m int)) {
	for i := range n * d * h * w * m {
		f(i/m/w/h/d, i/m/w/h%d, i/m/w%h, i/m%w, i%m)
	}
}

func matrixSums(op *cuda.LinearOp, x, w []int32, zero func(c int) int32) []int64 {
	a, b := op.Left, op.Right
	rank := max(len(a.Stack), len(b.Stack))
	dim := func(stack []int, i int) int {
		if j := i - (rank - len(stack)); j >= 0 {
			return stack[j]
		}
		return 1
	}
	var acc []int64
	var walk func(axis, ia, ib int)
	walk = func(axis, ia, ib int) {
		if axis < rank {
			da, db := dim(a.Stack, axis), dim(b.Stack, axis)
			for i := range max(da, db) {
				walk(axis+1, ia*da+i%da, ib*db+i%db)
			}
			return
		}
		for i := range a.Rows {
			for j := range b.Cols {
				p := newPairs(op)
				for k := range a.Cols {
					p.add(x[ia*a.Rows*a.Cols+i*a.ByRow+k*a.ByCol], w[ib*b.Rows*b.Cols+k*b.ByRow+j*b.ByCol]-zero(j))
				}
				acc = append(acc, p.total())
			}
		}
	}
	walk(0, 0, 0)
	return acc
}

// finish makes output o of sums, as integers or the bits of real numbers.
func finish(op *cuda.LinearOp, o *cuda.LinearOut, acc []int64, channels int, residual []int32) []int32 {
	out := make([]int32, len(acc))
	for i, v := range acc {
		c := i % channels
		if o.Type == cuda.Float32 {
			r := o.Channels[c%len(o.Channels)].Accumulated64(v)
			if op.Adds {
				r += float32(o.Grid.Dequantize(residual[i]))
			}
			out[i] = int32(math.Float32bits(min(max(r, o.RealLo), o.RealHi)))
			continue
		}
		profile, m := qmath.Profile{Scaling: o.Scaling}, o.Multipliers[c%len(o.Multipliers)]
		switch {
		case op.Adds:
			out[i] = profile.RequantizeAdd64(v, m, residual[i], o.Skip, o.Zero, o.Lo, o.Hi)
		case op.Wide:
			out[i] = profile.Requantize64(v, m, o.Zero, o.Lo, o.Hi)
		default:
			out[i] = profile.Requantize(int32(v), m, o.Zero, o.Lo, o.Hi)
		}
	}
	return out
}

// limits are the ends of a type of codes.
func limits(e cuda.Element) (lo, hi int32) {
	switch e {
	case cuda.Int8:
		return -128, 127
	case cuda.Uint8:
		return 0, 255
	case cuda.Int16:
		return -32768, 32767
	}
	return 0, 65535
}

func random(r *rand.Rand, lo, hi int32, n int) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = lo + r.Int32N(hi-lo+1)
	}
	return v
}

func randomCodes(r *rand.Rand, e cuda.Element, n int) []int32 {
	lo, hi := limits(e)
	return random(r, lo, hi, n)
}

// addOut gives op an output of a type under a profile, with scales under which codes spread over most of the type.
func addOut(r *rand.Rand, t testing.TB, op *cuda.LinearOp, e cuda.Element, profile qmath.Profile, channels, terms int) {
	n := channels
	if r.IntN(3) == 0 {
		n = 1
	}
	o := cuda.LinearOut{Type: e, Scaling: profile.Scaling}
	spread := float32(math.Sqrt(float64(terms))) * 5000
	if op.X.Type.Size() == 2 {
		spread *= 200
	}
	if op.Weights == nil && op.Y.Type.Size() == 2 {
		spread *= 200
	}
	if e == cuda.Float32 {
		for range n {
			o.Channels = append(o.Channels, qmath.Channel{X: r.Float32() / 100, W: r.Float32(), Y: 1, Bias: r.Float32() - 0.5})
		}
		o.RealLo, o.RealHi = float32(math.Inf(-1)), float32(math.Inf(1))
		if r.IntN(2) == 0 {
			o.RealLo, o.RealHi = 0, 6
		}
		o.Grid = qmath.Grid{Scale: 0.25, ZeroPoint: 3, QMin: -128, QMax: 127}
		op.Outputs = append(op.Outputs, o)
		return
	}
	lo, hi := limits(e)
	o.Zero = lo + (hi-lo)/2 + r.Int32N(7) - 3
	if r.IntN(4) == 0 {
		o.Zero = lo
	}
	if o.Lo, o.Hi = lo, hi; r.IntN(3) == 0 {
		o.Lo = o.Zero
	}
	y := float32(spread) / float32(hi-lo)
	for range n {
		c := qmath.Channel{X: 1, W: 0.3 + r.Float32(), Y: y, Bias: (r.Float32() - 0.5) * spread}
		if profile.Form == qmath.ShiftOnly {
			c = qmath.Channel{X: 1, W: 1, Y: float32(math.Exp2(math.Round(math.Log2(float64(y))))) * float32(int(1)<<r.IntN(2))}
		}
		m, err := profile.Prepare(c)
		require.NoError(t, err)
		o.Multipliers = append(o.Multipliers, m)
	}
	if op.Adds {
		l, h := limits(op.Residual)
		o.Skip = profile.PrepareSkip(qmath.Grid{Scale: spread / 300, ZeroPoint: (l + h) / 2}, y)
	}
	op.Outputs = append(op.Outputs, o)
}

// outputs gives op outputs and a bias under a profile.
func outputs(r *rand.Rand, t testing.TB, op *cuda.LinearOp, profile qmath.Profile, types ...cuda.Element) {
	channels, terms := op.Right.Cols, op.Left.Cols
	if op.Window != nil {
		s := op.Window.Full()
		channels, terms = s.M, s.C/s.Group*s.KD*s.KH*s.KW
	}
	for _, e := range types {
		addOut(r, t, op, e, profile, channels, max(terms, 1))
	}
	if !profile.FloatBias() {
		op.Bias = random(r, -3000, 3000, channels)
	}
}

// check runs op on random codes and compares every number with plain loops.
func check(t *testing.T, d *cuda.Device, r *rand.Rand, op cuda.LinearOp, name string) *cuda.Linear {
	t.Helper()
	var x, right []int32
	if op.Window != nil {
		x = randomCodes(r, op.X.Type, op.Window.InLen())
	} else {
		n, k := 1, 1
		for _, s := range op.Left.Stack {
			n *= s
		}
		for _, s := range op.Right.Stack {
			k *= s
		}
		x = randomCodes(r, op.X.Type, n*op.Left.Rows*op.Left.Cols)
		if op.Weights == nil {
			right = randomCodes(r, op.Y.Type, k*op.Right.Rows*op.Right.Cols)
		}
	}
	acc, channels := sums(&op, x, right)
	var residual []int32
	if op.Adds {
		residual = randomCodes(r, op.Residual, len(acc))
	}
	l, err := d.NewLinear(op)
	require.NoError(t, err, name)
	s, err := d.NewStream()
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	var held []cuda.Buffer
	put := func(b []byte) cuda.Buffer {
		if len(b) == 0 {
			return cuda.Buffer{}
		}
		buf, err := d.Alloc(len(b))
		require.NoError(t, err)
		held = append(held, buf)
		require.NoError(t, s.Upload(buf, b))
		return buf
	}
	room := func(n int) cuda.Buffer {
		if n == 0 {
			return cuda.Buffer{}
		}
		buf, err := d.Alloc(n)
		require.NoError(t, err)
		held = append(held, buf)
		return buf
	}
	args := cuda.LinearArgs{X: put(rawCodes(op.X.Type, x)), Right: put(rawCodes(op.Y.Type, right)),
		Residual:  put(rawCodes(op.Residual, residual)),
		Constants: put(l.Constants()), Workspace: room(l.WorkspaceBytes())}
	rows := len(acc) / max(channels, 1)
	for i := range op.Outputs {
		o := &op.Outputs[i]
		args.Outputs = append(args.Outputs, room(rows*max(o.Stride, channels)*o.Type.Size()))
	}
	require.NoError(t, l.Launch(s, args), name)
	for i := range op.Outputs {
		o := &op.Outputs[i]
		stride := max(o.Stride, channels)
		got := make([]int32, 0, len(acc))
		for row := range rows {
			raw := make([]byte, channels*o.Type.Size())
			require.NoError(t, s.Download(raw, args.Outputs[i].Slice(row*stride*o.Type.Size(), len(raw))))
			require.NoError(t, s.Synchronize(), name)
			got = append(got, codesFrom(o.Type, raw)...)
		}
		want := finish(&op, o, acc, channels, residual)
		require.Equal(t, len(want), len(got), name)
		for k := range want {
			if want[k] != got[k] {
				require.Failf(t, "different", "%s, %s: output %d, row %d, channel %d: %d, should be %d", name, l.Method(), i, k/channels,
					k%channels, got[k], want[k])
			}
		}
	}
	for _, b := range held {
		d.Free(b)
	}
	return l
}

// randomWeights gives op constant weights, with zero points where zeros says so.
func randomWeights(r *rand.Rand, op *cuda.LinearOp, n, channels int, kind int) {
	switch kind {
	case 0: // int8, symmetric
		op.Weights = random(r, -127, 127, n)
	case 1: // uint8 with one zero point
		op.Weights, op.WeightZero = random(r, 0, 255, n), []int32{128}
	case 2: // zero points by channel
		op.Weights, op.WeightZero = random(r, 0, 255, n), random(r, 0, 255, channels)
	case 3:
		op.Weights, op.WeightZero = random(r, -128, 127, n), random(r, -128, 127, channels)
	}
}

func someCodes(r *rand.Rand, e cuda.Element) cuda.Codes {
	lo, hi := limits(e)
	return cuda.Codes{Type: e, Zero: lo + r.Int32N(hi-lo+1)}
}

func rowMajor(stack []int, rows, cols int) cuda.Factor {
	return cuda.Factor{Stack: stack, Rows: rows, Cols: cols, ByRow: cols, ByCol: 1}
}

func named(t testing.TB, name string) qmath.Profile {
	p, err := qmath.ProfileNamed(name)
	require.NoError(t, err)
	return p
}

// TestTiles: every tile multiplies matrices of sizes around its own, in one slice and in several.
func TestTiles(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, tile := range cuda.Tiles() {
			if !tile.On(d.Arch) {
				continue
			}
			for i, c := range []struct{ m, n, k, splits int }{
				{1, 1, 16, 1}, {tile.M, tile.N, 64, 1}, {tile.M + 1, tile.N + 1, 80, 1}, {3, 20, 768, 3}, {2, 24, 1536, 12},
				{tile.M - 3, 2*tile.N - 4, 144, 2},
			} {
				op := cuda.LinearOp{Left: rowMajor(nil, c.m, c.k), Right: rowMajor(nil, c.k, c.n), Method: "product", Tile: tile.Name, Splits: c.splits}
				op.X = someCodes(r, []cuda.Element{cuda.Int8, cuda.Uint8}[i%2])
				randomWeights(r, &op, c.k*c.n, c.n, 0)
				outputs(r, t, &op, named(t, []string{"ort", "tflite2"}[i/2%2]), []cuda.Element{cuda.Uint8, cuda.Int8}[i%2])
				check(t, d, r, op, fmt.Sprintf("%s, %+v", tile.Name, c))
			}
		}
	})
}

// TestWindows: convolutions of many kinds, by every way that can do them.
func TestWindows(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(3, 4))
		for i, c := range []struct {
			ref.ConvShape
			method, tile string
			splits       int
		}{
			{ConvShape: ref.ConvShape{N: 2, H: 5, W: 6, C: 16, M: 20, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 6}},
			{ConvShape: ref.ConvShape{N: 1, H: 9, W: 7, C: 32, M: 8, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 4},
				splits: 2},
			{ConvShape: ref.ConvShape{N: 1, H: 12, W: 12, C: 3, M: 17, KH: 7, KW: 7, StrideH: 2, StrideW: 2, PadTop: 3, PadLeft: 3,
				OutH: 6, OutW: 6}},
			{ConvShape: ref.ConvShape{N: 1, H: 8, W: 8, C: 1, M: 4, KH: 5, KW: 5, OutH: 4, OutW: 4}},
			{ConvShape: ref.ConvShape{N: 2, H: 4, W: 4, C: 24, M: 12, KH: 1, KW: 1, OutH: 4, OutW: 4}},
			{ConvShape: ref.ConvShape{N: 2, H: 4, W: 4, C: 48, M: 12, KH: 1, KW: 1, OutH: 4, OutW: 4}},
			{ConvShape: ref.ConvShape{N: 1, H: 6, W: 6, C: 30, M: 9, KH: 2, KW: 3, DilH: 2, DilW: 2, PadTop: 1, PadLeft: 2, OutH: 5, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 1, H: 1, W: 40, C: 16, M: 16, KH: 1, KW: 5, StrideW: 3, PadLeft: 2, OutH: 1, OutW: 13}},
			{ConvShape: ref.ConvShape{N: 1, D: 4, H: 4, W: 3, C: 16, M: 8, KD: 2, KH: 3, KW: 2, StrideD: 2, PadFront: 1, PadTop: 1, OutD: 2,
				OutH: 3, OutW: 2}},
			{ConvShape: ref.ConvShape{N: 1, H: 5, W: 5, C: 32, M: 32, Group: 2, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 1, H: 5, W: 5, C: 24, M: 30, Group: 3, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 1, H: 5, W: 5, C: 12, M: 8, Group: 4, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 2, H: 6, W: 5, C: 20, M: 20, Group: 20, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 6, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 2, H: 7, W: 9, C: 12, M: 12, Group: 12, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1,
				OutH: 4, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 1, H: 3, W: 2, C: 4, M: 4, Group: 4, KH: 3, KW: 3, PadTop: 3, PadLeft: 2, OutH: 6, OutW: 7}},
			{ConvShape: ref.ConvShape{N: 1, H: 7, W: 6, C: 4, M: 4, Group: 4, KH: 3, KW: 3, DilH: 2, DilW: 2, PadTop: 1, PadLeft: 2,
				OutH: 5, OutW: 6}},
			{ConvShape: ref.ConvShape{N: 1, H: 4, W: 9, C: 8, M: 8, Group: 8, KH: 3, KW: 3, StrideH: 1, StrideW: 2, PadTop: 1, OutH: 4, OutW: 4}},
			{ConvShape: ref.ConvShape{N: 1, H: 9, W: 9, C: 8, M: 8, Group: 8, KH: 5, KW: 5, StrideH: 2, StrideW: 2, PadTop: 2, PadLeft: 2,
				OutH: 5, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 1, H: 6, W: 5, C: 8, M: 8, Group: 8, KH: 7, KW: 7, PadTop: 3, PadLeft: 3, OutH: 6, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 1, H: 4, W: 5, C: 6, M: 6, Group: 6, KH: 3, KW: 2, PadTop: 1, OutH: 4, OutW: 4}},
			{ConvShape: ref.ConvShape{N: 1, H: 5, W: 6, C: 16, M: 20, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 6}, method: "direct"},
			{ConvShape: ref.ConvShape{N: 1, H: 2, W: 2, C: 16, M: 5, KH: 3, KW: 3, PadTop: 4, PadLeft: 4, OutH: 8, OutW: 8}},
		} {
			for k := range 4 {
				s := c.Full()
				op := cuda.LinearOp{Window: &c.ConvShape, Method: c.method, Tile: c.tile, Splits: c.splits}
				op.X = someCodes(r, []cuda.Element{cuda.Uint8, cuda.Int8}[(i+k)%2])
				randomWeights(r, &op, s.WeightLen(), s.M, k)
				profile := named(t, []string{"ort", "trt", "tflite2", "onnx"}[(i+k)%4])
				if k == 3 && profile.FusesAdd() {
					op.Adds, op.Residual = true, cuda.Uint8
				}
				outputs(r, t, &op, profile, []cuda.Element{cuda.Int8, cuda.Uint8}[k%2])
				check(t, d, r, op, fmt.Sprintf("window %d, weights %d", i, k))
			}
		}
	})
}

// TestTransposedWindows: what only the direct kernel does.
func TestTransposedWindows(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(5, 6))
		for i, s := range []ref.ConvShape{
			{N: 2, H: 3, W: 4, C: 4, M: 3, KH: 3, KW: 2, StrideH: 2, StrideW: 3, OutH: 7, OutW: 11},
			{N: 1, H: 4, W: 4, C: 6, M: 4, Group: 2, KH: 4, KW: 4, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1, OutH: 8, OutW: 8},
			{N: 1, D: 2, H: 2, W: 3, C: 2, M: 2, KD: 2, KH: 2, KW: 2, StrideD: 2, DilW: 2, OutD: 4, OutH: 3, OutW: 5},
		} {
			for _, e := range []cuda.Element{cuda.Int8, cuda.Uint8, cuda.Int16, cuda.Uint16} {
				full := s.Full()
				op := cuda.LinearOp{Window: &s, Transposed: true, X: someCodes(r, e), Wide: e.Size() == 2 && i == 1}
				randomWeights(r, &op, full.C*full.M/full.Group*full.KD*full.KH*full.KW, s.M, i+1)
				outputs(r, t, &op, named(t, []string{"tflite2", "trt", "pow2"}[i]), e)
				check(t, d, r, op, fmt.Sprintf("window %d of %s", i, e))
			}
		}
	})
}

// TestWideSums: activations of 16 bits, for every profile.
func TestWideSums(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(7, 8))
		for i, profile := range qmath.Profiles() {
			e := []cuda.Element{cuda.Int16, cuda.Uint16}[i%2]
			s := ref.ConvShape{N: 1, H: 4, W: 3, C: 10, M: 6, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 4, OutW: 3}
			op := cuda.LinearOp{Window: &s, X: someCodes(r, e), Wide: i%3 != 0}
			if profile.FusesAdd() {
				op.Adds, op.Residual = true, e
			}
			randomWeights(r, &op, s.WeightLen(), s.M, i%4)
			outputs(r, t, &op, profile, e)
			check(t, d, r, op, profile.Name)
		}
	})
}

// TestSaturatingSums: pairs of products in int16.
func TestSaturatingSums(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(9, 10))
		profile := named(t, "avx2-saturating")
		for i, s := range []ref.ConvShape{
			{N: 1, H: 4, W: 5, C: 3, M: 7, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 4, OutW: 5},
			{N: 1, H: 4, W: 5, C: 16, M: 8, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 4, OutW: 5},
			{N: 1, H: 4, W: 5, C: 16, M: 8, Group: 2, KH: 1, KW: 1, OutH: 4, OutW: 5},
		} {
			op := cuda.LinearOp{Window: &s, X: someCodes(r, []cuda.Element{cuda.Uint8, cuda.Int8}[i%2]), Saturating: true}
			randomWeights(r, &op, s.WeightLen(), s.M, 0)
			outputs(r, t, &op, profile, op.X.Type)
			check(t, d, r, op, fmt.Sprintf("window %d", i))
		}
		op := cuda.LinearOp{Left: rowMajor(nil, 5, 33), Right: rowMajor(nil, 33, 9), X: someCodes(r, cuda.Uint8), Saturating: true}
		randomWeights(r, &op, 33*9, 9, 0)
		outputs(r, t, &op, profile, cuda.Uint8)
		check(t, d, r, op, "matrices")
	})
}

// More products than a launch takes are refused before anything is put on the device.
func TestTooManyProducts(t *testing.T) {
	d := cudatest.Device(t, 80)
	op := cuda.LinearOp{Left: rowMajor([]int{70000}, 1, 4), Right: rowMajor([]int{70000}, 4, 1), X: cuda.Codes{Type: cuda.Int8},
		Y:       cuda.Codes{Type: cuda.Int8},
		Outputs: []cuda.LinearOut{{Type: cuda.Int32}}}
	_, err := d.NewLinear(op)
	require.ErrorContains(t, err, "70000 products of matrices are too many for one step")
}

// Tiles that are chosen by measuring compute the same.
func TestMeasureTiles(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		d.MeasureTiles = true
		r := rand.New(rand.NewPCG(21, 22))
		op := cuda.LinearOp{Left: rowMajor(nil, 40, 64), Right: rowMajor(nil, 64, 24), X: someCodes(r, cuda.Int8)}
		randomWeights(r, &op, 64*24, 24, 1)
		outputs(r, t, &op, qmath.Profiles()[0], cuda.Int8)
		check(t, d, r, op, "measured")
	})
}

// TestStacks: products of two tensors, with stacks that broadcast, either side transposed.
func TestStacks(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(11, 12))
		for i, c := range []struct {
			left, right    []int
			m, k, n        int
			transA, transB bool
			constant       bool
			x, y           cuda.Element
			method         string
		}{
			{left: []int{2, 3}, right: []int{2, 3}, m: 20, k: 32, n: 20},
			{left: []int{2, 3}, right: []int{2, 3}, m: 20, k: 32, n: 20, transB: true, x: cuda.Uint8, y: cuda.Uint8},
			{left: []int{2, 3}, right: []int{3}, m: 7, k: 30, n: 9, y: cuda.Uint8},
			{left: []int{1, 3}, right: []int{2, 1}, m: 7, k: 36, n: 12, x: cuda.Uint8},
			{left: []int{4}, right: nil, m: 5, k: 17, n: 33},
			{left: []int{4}, right: nil, m: 5, k: 16, n: 8, constant: true},
			{left: []int{2}, right: []int{2}, m: 5, k: 48, n: 8, constant: true, x: cuda.Uint8},
			{left: nil, right: []int{3}, m: 5, k: 20, n: 8, constant: true, transB: true},
			{left: nil, right: nil, m: 19, k: 70, n: 8, transA: true, constant: true},
			{left: []int{2}, right: []int{2}, m: 6, k: 35, n: 10, transA: true, transB: true, y: cuda.Uint8},
			{left: nil, right: nil, m: 1, k: 100, n: 1, constant: true},
			{left: nil, right: nil, m: 130, k: 1, n: 3, constant: true},
			{left: []int{2}, right: []int{2}, m: 6, k: 35, n: 10, x: cuda.Int16, y: cuda.Int16},
			{left: []int{2}, right: []int{1}, m: 6, k: 35, n: 10, x: cuda.Uint16, y: cuda.Int8},
			{left: []int{2}, right: []int{2}, m: 6, k: 5, n: 10, x: cuda.Uint8, y: cuda.Uint8, method: "direct"},
			{left: nil, right: nil, m: 4, k: 0, n: 5, constant: true},
		} {
			op := cuda.LinearOp{Left: rowMajor(c.left, c.m, c.k), Right: rowMajor(c.right, c.k, c.n), X: someCodes(r, c.x), Method: c.method}
			if c.transA {
				op.Left.ByRow, op.Left.ByCol = 1, c.m
			}
			if c.transB {
				op.Right.ByRow, op.Right.ByCol = 1, c.k
			}
			if c.constant {
				stack := 1
				for _, n := range c.right {
					stack *= n
				}
				randomWeights(r, &op, stack*c.k*c.n, c.n, i%4)
				if op.Weights == nil {
					op.Weights = []int32{}
				}
			} else {
				op.Y = someCodes(r, c.y)
			}
			for k, profile := range []qmath.Profile{named(t, "ort"), named(t, "tflite1"), named(t, "onnx")} {
				op := op
				op.Outputs = nil
				outputs(r, t, &op, profile, [][]cuda.Element{{cuda.Int8}, {cuda.Uint8, cuda.Int16}, {cuda.Float32}}[k]...)
				check(t, d, r, op, fmt.Sprintf("stack %d, %s", i, profile.Name))
			}
		}
	})
}

// TestEpilogues: every profile, several outputs, real ones, residuals, rows that are further apart, with products in slices and not.
func TestEpilogues(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(13, 14))
		for i, profile := range qmath.Profiles() {
			for k, types := range [][]cuda.Element{{cuda.Uint8}, {cuda.Float32}, {cuda.Int8, cuda.Float32, cuda.Uint16}} {
				n := []int{24, 13, 8}[(i+k)%3]
				op := cuda.LinearOp{Left: rowMajor(nil, 33, 128), Right: rowMajor(nil, 128, n), X: someCodes(r, cuda.Uint8), Splits: 1 + (i+k)%2}
				randomWeights(r, &op, 128*n, n, (i+k)%4)
				if profile.FusesAdd() && k != 1 {
					op.Adds, op.Residual = true, []cuda.Element{cuda.Uint8, cuda.Int8, cuda.Int16}[i%3]
				}
				outputs(r, t, &op, profile, types...)
				if i%2 == 0 {
					op.Outputs[0].Stride = n + 8
				}
				check(t, d, r, op, fmt.Sprintf("%s, %v", profile.Name, types))
			}
		}
	})
}

func TestLinearErrors(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(15, 16))
		good := func() cuda.LinearOp {
			op := cuda.LinearOp{Left: rowMajor(nil, 2, 16), Right: rowMajor(nil, 16, 4)}
			randomWeights(r, &op, 64, 4, 0)
			outputs(r, t, &op, named(t, "ort"), cuda.Int8)
			return op
		}
		for name, spoil := range map[string]func(op *cuda.LinearOp){
			"cannot be multiplied": func(op *cuda.LinearOp) { op.Left.Cols = 15 },
			"weights for":          func(op *cuda.LinearOp) { op.Weights = op.Weights[1:] },
			"without outputs":      func(op *cuda.LinearOp) { op.Outputs = nil },
			"type float32":         func(op *cuda.LinearOp) { op.X.Type = cuda.Float32 },
			"no tile":              func(op *cuda.LinearOp) { op.Tile = "1x1" },
			"no method":            func(op *cuda.LinearOp) { op.Method = "guess" },
			"wider than 8 bits":    func(op *cuda.LinearOp) { op.Weights[0] = 1000 },
			"no multipliers":       func(op *cuda.LinearOp) { op.Outputs[0].Multipliers = nil },
			"elements apart":       func(op *cuda.LinearOp) { op.Outputs[0].Stride = 3 },
			"depthwise":            func(op *cuda.LinearOp) { op.Method = "depthwise" },
		} {
			op := good()
			spoil(&op)
			_, err := d.NewLinear(op)
			assert.ErrorContains(t, err, name)
		}
		l, err := d.NewLinear(good())
		require.NoError(t, err)
		assert.Error(t, l.Launch(nil, cuda.LinearArgs{}))
	})
}

// TestRandomLinears: windows, matrices and outputs as chance has them.
func TestRandomLinears(t *testing.T) {
	count := 120
	if !longtest.Wanted(t) {
		count = 20
	}
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		profiles := qmath.Profiles()
		for seed := range uint64(count) {
			r := rand.New(rand.NewPCG(seed, 17))
			profile := profiles[r.IntN(len(profiles))]
			op := cuda.LinearOp{X: someCodes(r, []cuda.Element{cuda.Int8, cuda.Uint8, cuda.Uint8, cuda.Int16}[r.IntN(4)])}
			if r.IntN(3) == 0 {
				randomMatrices(r, &op)
			} else {
				randomWindow(r, &op)
			}
			op.Wide = op.X.Type == cuda.Int16 && r.IntN(2) == 0
			op.Saturating = profile.Saturates && op.X.Type.Size() == 1 && op.Weights != nil && len(op.WeightZero) == 0 && !op.Transposed &&
				(op.Window == nil || op.Window.C == 1 || op.Window.Group != op.Window.C)
			if profile.FusesAdd() && r.IntN(2) == 0 {
				op.Adds, op.Residual = true, []cuda.Element{cuda.Int8, cuda.Uint8, cuda.Uint16}[r.IntN(3)]
			}
			types := []cuda.Element{[]cuda.Element{cuda.Int8, cuda.Uint8, cuda.Int16, cuda.Float32}[r.IntN(4)]}
			if r.IntN(4) == 0 {
				types = append(types, []cuda.Element{cuda.Uint16, cuda.Float32}[r.IntN(2)])
			}
			if r.IntN(3) == 0 {
				op.Splits = 1 + r.IntN(3)
			}
			outputs(r, t, &op, profile, types...)
			check(t, d, r, op, fmt.Sprintf("seed %d", seed))
		}
	})
}

func randomWindow(r *rand.Rand, op *cuda.LinearOp) {
	group := []int{1, 1, 1, 2, 3, 4, 8}[r.IntN(7)]
	s := ref.ConvShape{N: 1 + r.IntN(2), H: 1 + r.IntN(8), W: 1 + r.IntN(8), C: group * []int{1, 1, 2, 3, 4, 16, 32}[r.IntN(7)], Group: group,
		M: group * (1 + r.IntN(20)), KH: 1 + r.IntN(4), KW: 1 + r.IntN(4), StrideH: 1 + r.IntN(3), StrideW: 1 + r.IntN(2),
		DilH: 1 + r.IntN(2), DilW: 1 + r.IntN(2), PadTop: r.IntN(3), PadLeft: r.IntN(3)}
	if s.C == group && r.IntN(2) == 0 {
		s.M = group
	}
	s.OutH, s.OutW = 1+r.IntN(6), 1+r.IntN(6)
	op.Transposed = r.IntN(5) == 0
	full := s.Full()
	op.Window = &s
	randomWeights(r, op, full.M*full.C/full.Group*full.KD*full.KH*full.KW, s.M, r.IntN(4))
}

func randomMatrices(r *rand.Rand, op *cuda.LinearOp) {
	m, k, n := 1+r.IntN(70), 1+r.IntN(100), 1+r.IntN(70)
	if r.IntN(2) == 0 {
		k = multipleOf(k, 16)
	}
	stacks := [][2][]int{{nil, nil}, {{3}, nil}, {nil, {2}}, {{2, 2}, {2, 2}}, {{2, 1}, {3}}}[r.IntN(5)]
	op.Left, op.Right = rowMajor(stacks[0], m, k), rowMajor(stacks[1], k, n)
	if r.IntN(4) == 0 {
		op.Left.ByRow, op.Left.ByCol = 1, m
	}
	if r.IntN(2) == 0 {
		op.Right.ByRow, op.Right.ByCol = 1, k
	}
	if r.IntN(2) == 0 {
		op.Y = someCodes(r, []cuda.Element{cuda.Int8, cuda.Uint8}[r.IntN(2)])
		return
	}
	count := k * n
	for _, d := range stacks[1] {
		count *= d
	}
	randomWeights(r, op, count, n, r.IntN(4))
}

func multipleOf(n, to int) int { return (n + to - 1) / to * to }

// TestLargeLinears: products and windows of the sizes that networks have, where a GPU computes them; small ones on the interpreter.
func TestLargeLinears(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(19, 20))
		products := [][3]int{{2048, 1024, 1024}, {1000, 777, 2304}, {197, 3072, 768}, {1, 4096, 4096}}
		windows := []ref.ConvShape{
			{N: 2, H: 112, W: 112, C: 3, M: 64, KH: 7, KW: 7, StrideH: 2, StrideW: 2, PadTop: 3, PadLeft: 3, OutH: 56, OutW: 56},
			{N: 3, H: 56, W: 56, C: 64, M: 64, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 56, OutW: 56},
			{N: 3, H: 14, W: 14, C: 256, M: 256, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 14, OutW: 14},
			{N: 1, H: 7, W: 7, C: 512, M: 512, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 7, OutW: 7},
			{N: 2, H: 28, W: 28, C: 128, M: 128, Group: 32, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 28, OutW: 28},
			{N: 3, H: 56, W: 56, C: 144, M: 144, Group: 144, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1, OutH: 28, OutW: 28},
		}
		if d.Emulated {
			products = [][3]int{{150, 100, 208}}
			windows = []ref.ConvShape{{N: 1, H: 14, W: 14, C: 32, M: 64, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 14, OutW: 14}}
		}
		profile := named(t, "trt")
		for _, tile := range append(cuda.Tiles(), cuda.Tile{}) {
			if !tile.On(d.Arch) {
				continue
			}
			for i, p := range products {
				op := cuda.LinearOp{Left: rowMajor(nil, p[0], p[2]), Right: rowMajor(nil, p[2], p[1]), Tile: tile.Name, X: someCodes(r, cuda.Uint8)}
				randomWeights(r, &op, p[1]*p[2], p[1], i%4)
				op.Adds, op.Residual = i%2 == 0, cuda.Int8
				outputs(r, t, &op, profile, cuda.Int8)
				check(t, d, r, op, fmt.Sprintf("%s: %v", tile.Name, p))
			}
		}
		for i, s := range windows {
			op := cuda.LinearOp{Window: &s, X: someCodes(r, cuda.Int8), Adds: true, Residual: cuda.Uint8}
			randomWeights(r, &op, s.WeightLen(), s.M, i%2)
			outputs(r, t, &op, profile, cuda.Uint8)
			check(t, d, r, op, fmt.Sprintf("window %d", i))
		}
	})
}

// TestTune: a tile that was measured gives the same numbers; the same shapes are not measured again; what is no product in tiles
// stays as it is.
func TestTune(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(21, 22))
		s := ref.ConvShape{N: 1, H: 6, W: 6, C: 16, M: 24, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 6, OutW: 6}
		window := cuda.LinearOp{Window: &s, X: someCodes(r, cuda.Uint8), Adds: true, Residual: cuda.Int8}
		randomWeights(r, &window, s.WeightLen(), s.M, 1)
		stack := cuda.LinearOp{Left: rowMajor([]int{2}, 9, 32), Right: rowMajor([]int{2}, 32, 20), X: someCodes(r, cuda.Int8),
			Y: someCodes(r, cuda.Uint8)}
		for i, op := range []cuda.LinearOp{window, stack} {
			outputs(r, t, &op, named(t, "trt"), cuda.Uint8)
			op.Outputs[0].Stride = 32
			best, err := d.Tune(op)
			require.NoError(t, err)
			assert.NotEmpty(t, best.Tile, i)
			assert.NotZero(t, best.Splits, i)
			check(t, d, r, best, fmt.Sprintf("tuned %d", i))
			again, err := d.Tune(op)
			require.NoError(t, err)
			assert.Equal(t, []any{best.Tile, best.Splits}, []any{again.Tile, again.Splits})
		}
		op := cuda.LinearOp{Left: rowMajor(nil, 4, 8), Right: rowMajor(nil, 8, 4), X: cuda.Codes{Type: cuda.Int16}}
		randomWeights(r, &op, 32, 4, 0)
		outputs(r, t, &op, named(t, "ort"), cuda.Int16)
		same, err := d.Tune(op)
		require.NoError(t, err)
		assert.Empty(t, same.Tile)
		op.Outputs = nil
		_, err = d.Tune(op)
		assert.Error(t, err)
	})
}

// TestTiledWindows: every tile with windows whose pixels have a multiple of 16 bytes, and with such that have one of 4, of both types of
// codes, with sums that take more steps than a ring has stages.
func TestTiledWindows(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(31, 32))
		for _, tile := range cuda.Tiles() {
			if !tile.On(d.Arch) || !tile.On(80) {
				continue
			}
			for _, s := range []ref.ConvShape{
				{N: 1, H: 6, W: 7, C: 48, M: 20, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 6, OutW: 7},
				{N: 1, H: 6, W: 7, C: 12, M: 20, KH: 7, KW: 7, PadTop: 3, PadLeft: 3, OutH: 6, OutW: 7},
			} {
				if s.C%16 != 0 && (tile.M < 64 || tile.N > 64) {
					continue // such tiles have no kernels for it
				}
				for _, e := range []cuda.Element{cuda.Uint8, cuda.Int8} {
					op := cuda.LinearOp{Window: &s, Method: "product", Tile: tile.Name, Splits: 1}
					op.X = someCodes(r, e)
					randomWeights(r, &op, s.Full().WeightLen(), s.M, 1)
					outputs(r, t, &op, named(t, "ort"), cuda.Int8)
					l := check(t, d, r, op, fmt.Sprintf("%s, %d channels, type %d", tile.Name, s.C, e))
					assert.Contains(t, l.Method(), "product "+tile.Name)
				}
			}
		}
	})
}
