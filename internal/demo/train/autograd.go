package main

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// chunks is the fixed number of pieces a batch is split into: sums over pieces are added in order, so that the trained bytes
// do not depend on how many of them run at a time.
const chunks = 8

// batch is a stack of n feature maps with c channels of h x w pixels, and the gradient of the loss with respect to it.
type batch struct {
	n, c, h, w int
	x, g       []float32
}

func newBatch(n, c, h, w int) *batch {
	return &batch{n, c, h, w, make([]float32, n*c*h*w), make([]float32, n*c*h*w)}
}

func (b *batch) sample(x []float32, i int) []float32 {
	s := b.c * b.h * b.w
	return x[i*s : (i+1)*s]
}

// tape records what to do, in reverse, to turn the gradient of the result into gradients of the parameters.
type tape struct {
	train    bool
	backward []func()
}

func (t *tape) back() {
	for i := len(t.backward) - 1; i >= 0; i-- {
		t.backward[i]()
	}
}

// parameter is a trained array, its gradient and its momentum.
type parameter struct {
	x, g, v []float32
	decay   bool
}

func newParameter(n int, decay bool) *parameter {
	return &parameter{make([]float32, n), make([]float32, n), make([]float32, n), decay}
}

// eachChunk runs f for every chunk [lo, hi) of n samples, two at a time.
func eachChunk(n int, f func(chunk, lo, hi int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{}, 2)
	for c := range chunks {
		wg.Add(1)
		gate <- struct{}{}
		go func() {
			defer func() { <-gate; wg.Done() }()
			f(c, c*n/chunks, (c+1)*n/chunks)
		}()
	}
	wg.Wait()
}

// reduce adds the chunks' partial sums, in order, to dst.
func reduce(dst []float32, parts [][]float32) {
	for _, p := range parts {
		for i, v := range p {
			dst[i] += v
		}
	}
}

func makeParts(n int) [][]float32 {
	parts := make([][]float32, chunks)
	for i := range parts {
		parts[i] = make([]float32, n)
	}
	return parts
}

var sgemm = blas32.Implementation()

// conv is a convolution without bias: w is [m, in.c, k, k], padding k/2, stride 1.
func (t *tape) conv(in *batch, w *parameter, m, k int) *batch {
	out := newBatch(in.n, m, in.h, in.w)
	rows, cols := in.c*k*k, in.h*in.w
	eachChunk(in.n, func(_, lo, hi int) {
		col := make([]float32, rows*cols)
		for i := lo; i < hi; i++ {
			im2col(col, in.sample(in.x, i), in.c, in.h, in.w, k)
			sgemm.Sgemm(blas.NoTrans, blas.NoTrans, m, cols, rows, 1, w.x, rows, col, cols, 0, out.sample(out.x, i), cols)
		}
	})
	t.backward = append(t.backward, func() {
		parts := makeParts(len(w.g))
		eachChunk(in.n, func(c, lo, hi int) {
			col, dcol := make([]float32, rows*cols), make([]float32, rows*cols)
			for i := lo; i < hi; i++ {
				g := out.sample(out.g, i)
				im2col(col, in.sample(in.x, i), in.c, in.h, in.w, k)
				sgemm.Sgemm(blas.NoTrans, blas.Trans, m, rows, cols, 1, g, cols, col, cols, 1, parts[c], rows)
				sgemm.Sgemm(blas.Trans, blas.NoTrans, rows, cols, m, 1, w.x, rows, g, cols, 0, dcol, cols)
				col2im(in.sample(in.g, i), dcol, in.c, in.h, in.w, k)
			}
		})
		reduce(w.g, parts)
	})
	return out
}

func im2col(col, x []float32, c, h, w, k int) {
	if k == 1 {
		copy(col, x)
		return
	}
	eachTap(c, h, w, k, func(row, src, y, x0, x1, dx int) {
		d := col[row*h*w+y*w:][:w]
		clear(d)
		if src >= 0 {
			copy(d[x0:x1], x[src+x0+dx:src+x1+dx])
		}
	})
}

func col2im(x, col []float32, c, h, w, k int) {
	if k == 1 {
		for i, v := range col {
			x[i] += v
		}
		return
	}
	eachTap(c, h, w, k, func(row, src, y, x0, x1, dx int) {
		if src < 0 {
			return
		}
		s := col[row*h*w+y*w:][:w]
		for i := x0; i < x1; i++ {
			x[src+i+dx] += s[i]
		}
	})
}

// eachTap visits every row of the column matrix and image row: src is the start of the source row (-1: padding), and
// columns [x0, x1) read from column + dx.
func eachTap(c, h, w, k int, f func(row, src, y, x0, x1, dx int)) {
	for ch := range c {
		for ky := range k {
			for kx := range k {
				dy, dx := ky-k/2, kx-k/2
				for y := range h {
					src := -1
					if yy := y + dy; yy >= 0 && yy < h {
						src = ch*h*w + yy*w
					}
					f((ch*k+ky)*k+kx, src, y, max(0, -dx), min(w, w-dx), dx)
				}
			}
		}
	}
}

// depthwise is a 3x3 depthwise convolution without bias, padding 1: w is [in.c, 1, 3, 3].
func (t *tape) depthwise(in *batch, w *parameter, stride int) *batch {
	oh, ow := (in.h+stride-1)/stride, (in.w+stride-1)/stride
	out := newBatch(in.n, in.c, oh, ow)
	// rows visits, for one plane and every tap, the rows of the output and of the input that meet in it.
	rows := func(p int, f func(tap, y, x, x0, x1 int)) {
		for tap := range 9 {
			dx := tap%3 - 1
			x0, x1 := 0, ow
			if dx < 0 {
				x0 = 1
			}
			if (ow-1)*stride+dx >= in.w {
				x1--
			}
			for oy := range oh {
				if iy := oy*stride + tap/3 - 1; iy >= 0 && iy < in.h {
					f(tap, (p*oh+oy)*ow, (p*in.h+iy)*in.w+dx, x0, x1)
				}
			}
		}
	}
	eachChunk(in.n, func(_, lo, hi int) {
		for p := lo * in.c; p < hi*in.c; p++ {
			rows(p, func(tap, y, x, x0, x1 int) {
				k := w.x[p%in.c*9+tap]
				for i := x0; i < x1; i++ {
					out.x[y+i] += k * in.x[x+i*stride]
				}
			})
		}
	})
	t.backward = append(t.backward, func() {
		parts := makeParts(len(w.g))
		eachChunk(in.n, func(c, lo, hi int) {
			for p := lo * in.c; p < hi*in.c; p++ {
				rows(p, func(tap, y, x, x0, x1 int) {
					k, sum := w.x[p%in.c*9+tap], float32(0)
					for i := x0; i < x1; i++ {
						d := out.g[y+i]
						sum += d * in.x[x+i*stride]
						in.g[x+i*stride] += d * k
					}
					parts[c][p%in.c*9+tap] += sum
				})
			}
		})
		reduce(w.g, parts)
	})
	return out
}

// linear is x*w^T + b over the flattened samples: w is [m, in.c*in.h*in.w].
func (t *tape) linear(in *batch, w, b *parameter, m int) *batch {
	out := newBatch(in.n, m, 1, 1)
	k := in.c * in.h * in.w
	sgemm.Sgemm(blas.NoTrans, blas.Trans, in.n, m, k, 1, in.x, k, w.x, k, 0, out.x, m)
	for i := range out.x {
		out.x[i] += b.x[i%m]
	}
	t.backward = append(t.backward, func() {
		sgemm.Sgemm(blas.Trans, blas.NoTrans, m, k, in.n, 1, out.g, m, in.x, k, 1, w.g, k)
		sgemm.Sgemm(blas.NoTrans, blas.NoTrans, in.n, k, m, 1, out.g, m, w.x, k, 1, in.g, k)
		for i, g := range out.g {
			b.g[i%m] += g
		}
	})
	return out
}

// norm is batch normalization (Ioffe and Szegedy 2015) with running statistics for inference.
type norm struct {
	gamma, beta *parameter
	mean, vari  []float32
}

const bnEpsilon = 1e-5

func (t *tape) norm(in *batch, bn *norm) *batch {
	out := newBatch(in.n, in.c, in.h, in.w)
	plane, count := in.h*in.w, float64(in.n*in.h*in.w)
	mean, inv := make([]float64, in.c), make([]float64, in.c)
	perChannel := func(f func(c int)) {
		eachChunk(in.c, func(_, lo, hi int) {
			for c := lo; c < hi; c++ {
				f(c)
			}
		})
	}
	each := func(c int, f func(i int)) {
		for s := range in.n {
			base := (s*in.c + c) * plane
			for i := base; i < base+plane; i++ {
				f(i)
			}
		}
	}
	perChannel(func(c int) {
		mu, va := float64(bn.mean[c]), float64(bn.vari[c])
		if t.train {
			var s, q float64
			each(c, func(i int) { s += float64(in.x[i]) })
			mu = s / count
			each(c, func(i int) { d := float64(in.x[i]) - mu; q += d * d })
			va = q / count
			const momentum = 0.1
			bn.mean[c] += momentum * (float32(mu) - bn.mean[c])
			bn.vari[c] += momentum * (float32(va) - bn.vari[c])
		}
		mean[c], inv[c] = mu, 1/math.Sqrt(va+bnEpsilon)
		each(c, func(i int) {
			out.x[i] = float32((float64(in.x[i])-mu)*inv[c])*bn.gamma.x[c] + bn.beta.x[c]
		})
	})
	t.backward = append(t.backward, func() {
		perChannel(func(c int) {
			var sg, sgx float64
			each(c, func(i int) {
				xh := (float64(in.x[i]) - mean[c]) * inv[c]
				sg += float64(out.g[i])
				sgx += float64(out.g[i]) * xh
			})
			bn.beta.g[c] += float32(sg)
			bn.gamma.g[c] += float32(sgx)
			scale := float64(bn.gamma.x[c]) * inv[c]
			each(c, func(i int) {
				xh := (float64(in.x[i]) - mean[c]) * inv[c]
				in.g[i] += float32(scale * (float64(out.g[i]) - sg/count - xh*sgx/count))
			})
		})
	})
	return out
}

// pointwise applies f to every element; df is its derivative.
func (t *tape) pointwise(in *batch, f, df func(float32) float32) *batch {
	out := newBatch(in.n, in.c, in.h, in.w)
	eachChunk(len(in.x), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			out.x[i] = f(in.x[i])
		}
	})
	t.backward = append(t.backward, func() {
		eachChunk(len(in.x), func(_, lo, hi int) {
			for i := lo; i < hi; i++ {
				in.g[i] += out.g[i] * df(in.x[i])
			}
		})
	})
	return out
}

func (t *tape) relu6(in *batch) *batch {
	return t.pointwise(in, func(x float32) float32 { return min(max(x, 0), 6) }, func(x float32) float32 {
		if x > 0 && x < 6 {
			return 1
		}
		return 0
	})
}

func (t *tape) hardSwish(in *batch) *batch {
	return t.pointwise(in, func(x float32) float32 { return x * min(max(x+3, 0), 6) / 6 }, func(x float32) float32 {
		switch {
		case x <= -3:
			return 0
		case x >= 3:
			return 1
		}
		return (2*x + 3) / 6
	})
}

func (t *tape) add(a, b *batch) *batch {
	out := newBatch(a.n, a.c, a.h, a.w)
	for i := range out.x {
		out.x[i] = a.x[i] + b.x[i]
	}
	t.backward = append(t.backward, func() {
		for i, g := range out.g {
			a.g[i] += g
			b.g[i] += g
		}
	})
	return out
}

// concat joins along channels.
func (t *tape) concat(a, b *batch) *batch {
	out := newBatch(a.n, a.c+b.c, a.h, a.w)
	na := a.c * a.h * a.w
	for i := range a.n {
		copy(out.sample(out.x, i), a.sample(a.x, i))
		copy(out.sample(out.x, i)[na:], b.sample(b.x, i))
	}
	t.backward = append(t.backward, func() {
		for i := range a.n {
			g := out.sample(out.g, i)
			for k, v := range g[:na] {
				a.sample(a.g, i)[k] += v
			}
			for k, v := range g[na:] {
				b.sample(b.g, i)[k] += v
			}
		}
	})
	return out
}

// maxPool takes the maximum over 2x2 windows.
func (t *tape) maxPool(in *batch) *batch {
	out := newBatch(in.n, in.c, in.h/2, in.w/2)
	from := make([]int32, len(out.x))
	for p := range in.n * in.c {
		for y := range out.h {
			for x := range out.w {
				best := p*in.h*in.w + 2*y*in.w + 2*x
				for _, i := range [3]int{best + 1, best + in.w, best + in.w + 1} {
					if in.x[i] > in.x[best] {
						best = i
					}
				}
				o := (p*out.h+y)*out.w + x
				out.x[o], from[o] = in.x[best], int32(best)
			}
		}
	}
	t.backward = append(t.backward, func() {
		for o, i := range from {
			in.g[i] += out.g[o]
		}
	})
	return out
}

// meanPool averages each feature map.
func (t *tape) meanPool(in *batch) *batch {
	out := newBatch(in.n, in.c, 1, 1)
	plane := in.h * in.w
	for p := range out.x {
		for _, v := range in.x[p*plane : (p+1)*plane] {
			out.x[p] += v
		}
		out.x[p] /= float32(plane)
	}
	t.backward = append(t.backward, func() {
		for i := range in.g {
			in.g[i] += out.g[i/plane] / float32(plane)
		}
	})
	return out
}

// crossEntropy sets the gradient of the mean softmax cross-entropy and returns loss and the number of correct answers.
func crossEntropy(logits *batch, labels []int) (loss float64, correct int) {
	for i, label := range labels {
		x, g := logits.sample(logits.x, i), logits.sample(logits.g, i)
		best := 0
		for c := range x {
			if x[c] > x[best] {
				best = c
			}
		}
		var sum float64
		for c := range x {
			sum += math.Exp(float64(x[c] - x[best]))
		}
		for c := range x {
			p := math.Exp(float64(x[c]-x[best])) / sum
			if c == label {
				loss -= math.Log(p) / float64(len(labels))
				p--
			}
			g[c] = float32(p / float64(len(labels)))
		}
		if best == label {
			correct++
		}
	}
	return loss, correct
}
