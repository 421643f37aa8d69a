package exec

import (
	"math"
	"math/bits"
)

// point is a complex number.
type point[T float] struct{ re, im T }

func (a point[T]) plus(b point[T]) point[T]  { return point[T]{a.re + b.re, a.im + b.im} }
func (a point[T]) minus(b point[T]) point[T] { return point[T]{a.re - b.re, a.im - b.im} }

// times is a*(b.re + i*s*b.im); products are rounded.
func (a point[T]) times(b point[T], s T) point[T] {
	im := s * b.im
	return point[T]{T(a.re*b.re) - T(a.im*im), T(a.re*im) + T(a.im*b.re)}
}

// fourier is the discrete Fourier transform of one length in the precision of T. The length is divided by 4, 2, 3, 5 and other
// primes, in the order and with the sums of pocketfft, so that float32 transforms have the last bits of NumPy's where no other
// factor occurs. Lengths with large prime factors are transformed as a convolution in float64 (Bluestein).
type fourier[T float] struct {
	n       int
	factors []int
	roots   []point[T] // exp(2*pi*i*k/n)
	spare   []point[T]
	chirp   *chirp
}

// largestFactor is the largest prime factor that is transformed by the definition.
const largestFactor = 47

func newFourier[T float](n int) *fourier[T] {
	f := &fourier[T]{n: n}
	rest := n
	for rest%4 == 0 {
		f.factors, rest = append(f.factors, 4), rest/4
	}
	if rest%2 == 0 {
		f.factors, rest = append(f.factors, 2), rest/2
		last := len(f.factors) - 1
		f.factors[0], f.factors[last] = f.factors[last], f.factors[0]
	}
	for p := 3; p <= largestFactor; p += 2 {
		for rest%p == 0 {
			f.factors, rest = append(f.factors, p), rest/p
		}
	}
	if rest > 1 {
		f.chirp = newChirp(n)
		return f
	}
	f.roots, f.spare = make([]point[T], n), make([]point[T], n)
	for k := range f.roots {
		f.roots[k] = rootOf[T](k, n)
	}
	return f
}

// clone shares what is only read, for another goroutine.
func (f *fourier[T]) clone() *fourier[T] {
	other := *f
	other.spare = make([]point[T], len(f.spare))
	if f.chirp != nil {
		other.chirp = f.chirp.clone()
	}
	return &other
}

// rootOf is exp(2*pi*i*k/n) for 0 <= k < n. Only angles up to an eighth of a turn are computed, the others are their mirror
// images, so that symmetries are exact.
func rootOf[T float](k, n int) point[T] {
	at := 8 * k // in eighths of 1/n turns
	switch {
	case at > 4*n:
		w := rootOf[T](n-k, n)
		return point[T]{w.re, -w.im}
	case at > 3*n:
		sin, cos := sincos(4*n-at, n)
		return point[T]{T(-cos), T(sin)}
	case at > 2*n:
		sin, cos := sincos(at-2*n, n)
		return point[T]{T(-sin), T(cos)}
	case at > n:
		sin, cos := sincos(2*n-at, n)
		return point[T]{T(sin), T(cos)}
	}
	sin, cos := sincos(at, n)
	return point[T]{T(cos), T(sin)}
}

// sincos is of at/(8*n) turns.
func sincos(at, n int) (sin, cos float64) {
	return math.Sincos(2 * math.Pi * float64(at) / (8 * float64(n)))
}

// forward sets x[k] to the sum over j of x[j] * exp(-2*pi*i*j*k/n).
func (f *fourier[T]) forward(x []point[T]) { f.run(x, -1) }

// inverse sets x[k] to the sum over j of x[j] * exp(2*pi*i*j*k/n), times 1/n.
func (f *fourier[T]) inverse(x []point[T]) {
	f.run(x, 1)
	scale := T(1 / float64(f.n))
	for i, v := range x {
		x[i] = point[T]{v.re * scale, v.im * scale}
	}
}

// run transforms with the sign s of the exponent.
func (f *fourier[T]) run(x []point[T], s T) {
	if f.chirp != nil { // the other sign by conjugation
		wide := make([]point[float64], f.n)
		for i, v := range x {
			wide[i] = point[float64]{float64(v.re), float64(-s * v.im)}
		}
		f.chirp.forward(wide)
		for i, v := range wide {
			x[i] = point[T]{T(v.re), -s * T(v.im)}
		}
		return
	}
	from, to := x, f.spare
	done := 1 // product of the factors so far
	for _, p := range f.factors {
		f.pass(to, from, p, done, s)
		from, to = to, from
		done *= p
	}
	if len(f.factors)%2 == 1 {
		copy(x, from)
	}
}

// pass combines p transforms at a time: dst[i + ido*(k + done*u)] out of src[i + ido*(u + p*k)], ido = n/(done*p).
func (f *fourier[T]) pass(dst, src []point[T], p, done int, s T) {
	ido := f.n / (done * p)
	var in, out [largestFactor]point[T]
	for k := range done {
		for i := range ido {
			for u := range p {
				in[u] = src[i+ido*(u+p*k)]
			}
			f.small(out[:p], in[:p], s)
			for u := range p {
				v := out[u]
				if i > 0 && u > 0 {
					v = v.times(f.roots[u*done*i], s)
				}
				dst[i+ido*(k+done*u)] = v
			}
		}
	}
}

// small is a transform of length p.
func (f *fourier[T]) small(y, x []point[T], s T) {
	switch len(x) {
	case 2:
		y[0], y[1] = x[0].plus(x[1]), x[0].minus(x[1])
	case 3:
		small3(y, x, s)
	case 4:
		a, b, c, d := x[0].plus(x[2]), x[0].minus(x[2]), x[1].plus(x[3]), x[1].minus(x[3])
		d = point[T]{-s * d.im, s * d.re}
		y[0], y[2], y[1], y[3] = a.plus(c), a.minus(c), b.plus(d), b.minus(d)
	case 5:
		small5(y, x, s)
	default:
		step := f.n / len(x)
		for u := range y {
			y[u] = x[0]
			for v := 1; v < len(x); v++ {
				y[u] = y[u].plus(x[v].times(f.roots[u*v%len(x)*step], s))
			}
		}
	}
}

func small3[T float](y, x []point[T], s T) {
	im := s * T(0.86602540378443864676)
	sum, d := x[1].plus(x[2]), x[1].minus(x[2])
	a := point[T]{x[0].re - T(sum.re*0.5), x[0].im - T(sum.im*0.5)}
	b := point[T]{-(d.im * im), d.re * im}
	y[0], y[1], y[2] = x[0].plus(sum), a.plus(b), a.minus(b)
}

func small5[T float](y, x []point[T], s T) {
	re1, im1 := T(0.3090169943749474241), s*T(0.95105651629515357212)
	re2, im2 := T(-0.8090169943749474241), s*T(0.58778525229247312917)
	t1, t4, t2, t3 := x[1].plus(x[4]), x[1].minus(x[4]), x[2].plus(x[3]), x[2].minus(x[3])
	y[0] = x[0].plus(t1).plus(t2)
	pair := func(u, v int, ra, rb, ia, ib T) {
		a := point[T]{x[0].re + T(ra*t1.re) + T(rb*t2.re), x[0].im + T(ra*t1.im) + T(rb*t2.im)}
		b := point[T]{-(T(ia*t4.im) + T(ib*t3.im)), T(ia*t4.re) + T(ib*t3.re)}
		y[u], y[v] = a.plus(b), a.minus(b)
	}
	pair(1, 4, re1, re2, im1, im2)
	pair(2, 3, re2, re1, im2, -im1)
}

// chirp is Bluestein's transform: since j*k = (j*j + k*k - (j-k)*(j-k)) / 2, a transform is a convolution with exp(pi*i*k*k/n).
type chirp struct {
	wide         *fourier[float64]
	wave, filter []point[float64] // exp(pi*i*k*k/n), and its transform
	x            []point[float64]
}

func newChirp(n int) *chirp {
	c := &chirp{wide: newFourier[float64](1 << bits.Len(uint(2*n-2))), wave: make([]point[float64], n)}
	c.filter, c.x = make([]point[float64], c.wide.n), make([]point[float64], c.wide.n)
	for k := range n {
		hi, lo := bits.Mul64(uint64(k), uint64(k)) // the angle has a period of 2n
		c.wave[k] = rootOf[float64](int(bits.Rem64(hi, lo, uint64(2*n))), 2*n)
		c.filter[k] = c.wave[k]
		c.filter[(c.wide.n-k)%c.wide.n] = c.wave[k]
	}
	c.wide.forward(c.filter)
	return c
}

func (c *chirp) clone() *chirp {
	other := *c
	other.wide, other.x = c.wide.clone(), make([]point[float64], len(c.x))
	return &other
}

func (c *chirp) forward(x []point[float64]) {
	clear(c.x)
	for k, v := range x {
		c.x[k] = v.times(c.wave[k], -1)
	}
	c.wide.forward(c.x)
	for k, v := range c.x {
		c.x[k] = v.times(c.filter[k], 1)
	}
	c.wide.inverse(c.x)
	for k := range x {
		x[k] = c.x[k].times(c.wave[k], -1)
	}
}
