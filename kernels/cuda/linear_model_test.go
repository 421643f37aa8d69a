package cuda_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
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
