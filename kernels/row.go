package kernels

import (
	"math"

	"qwb/kernels/elementary"
	"qwb/kernels/ref"
)

// The row operations work on rows of n elements; dst may be src. Sums are in float64 and have the shape of ref.Sum, so that
// a row's result depends neither on the rows beside it nor on the vector width: but for the exponential function, all tables
// give the same bits.

// rowLanes is how many partial sums a row has.
const rowLanes = ref.Lanes

// Softmax computes ref.Softmax on each of len(dst)/n rows of n elements.
func (t *Table) Softmax(par Parallel, dst, src []float32, n int) {
	if n > 0 {
		checkLen("src", len(src), len(dst))
		t.perRow(par, len(dst)/n, rowJob{dst: dst, src: src, n: n, row: softmaxRow})
	}
}

func softmaxRow(j *rowJob, w *rowArgs, i int) {
	d, x := j.dst[i*j.n:][:j.n], j.input(i)
	if w.table.Arith() == ref.Float64 {
		ref.Softmax(ref.Float64, d, x)
		return
	}
	sum := w.exp(d, x, w.max(x))
	w.tile.a, w.tile.dst, w.tile.cols, w.tile.lo = d, d, j.n, float32(sum)
	w.table.rows[OpDivScalar].tile(&w.tile)
}

// LogSoftmax computes ref.LogSoftmax on each of len(dst)/n rows of n elements.
func (t *Table) LogSoftmax(par Parallel, dst, src []float32, n int) {
	if n > 0 {
		checkLen("src", len(src), len(dst))
		t.perRow(par, len(dst)/n, rowJob{dst: dst, src: src, n: n, row: logSoftmaxRow})
	}
}

func logSoftmaxRow(j *rowJob, w *rowArgs, i int) {
	d, x := j.dst[i*j.n:][:j.n], j.input(i)
	if w.table.Arith() == ref.Float64 {
		ref.LogSoftmax(ref.Float64, d, x)
		return
	}
	top := w.max(x)
	shift := float64(top) + math.Log(w.expSum(x, top))
	for k, v := range x {
		d[k] = float32(float64(v) - shift)
	}
}

// LayerNorm computes ref.LayerNorm on each of len(dst)/n rows of n elements. scale and bias have n elements or are nil. mean
// and inv, unless nil, take one element per row.
func (t *Table) LayerNorm(par Parallel, dst, src, scale, bias []float32, n int, eps float64, mean, inv []float32) {
	if n <= 0 {
		return
	}
	checkLen("src", len(src), len(dst))
	checkAffine(scale, bias, n)
	t.perRow(par, len(dst)/n, rowJob{dst: dst, src: src, n: n, scale: scale, bias: bias, number: eps, mean: mean, inv: inv, row: layerNormRow})
}

func layerNormRow(j *rowJob, w *rowArgs, i int) {
	x := j.input(i)
	m := w.sum(x) / float64(j.n)
	v := 1 / math.Sqrt(w.squares(x, m)/float64(j.n)+j.number)
	w.normalize(j.dst[i*j.n:][:j.n], x, j.scale, j.bias, m, v)
	if j.mean != nil {
		j.mean[i] = float32(m)
	}
	if j.inv != nil {
		j.inv[i] = float32(v)
	}
}

// RMSNorm computes ref.RMSNorm on each of len(dst)/n rows of n elements. scale has n elements or is nil.
func (t *Table) RMSNorm(par Parallel, dst, src, scale []float32, n int, eps float64) {
	if n <= 0 {
		return
	}
	checkLen("src", len(src), len(dst))
	checkAffine(scale, nil, n)
	t.perRow(par, len(dst)/n, rowJob{dst: dst, src: src, n: n, scale: scale, number: eps, row: rmsNormRow})
}

func rmsNormRow(j *rowJob, w *rowArgs, i int) {
	x := j.input(i)
	w.normalize(j.dst[i*j.n:][:j.n], x, j.scale, nil, 0, 1/math.Sqrt(w.squares(x, 0)/float64(j.n)+j.number))
}

// Sums is dst[i] = ref.Sum(row i of src) / divisor, rounded once, for rows of n elements.
func (t *Table) Sums(par Parallel, dst, src []float32, n int, divisor float64) {
	checkLen("src", len(src), len(dst)*n)
	t.perRow(par, len(dst), rowJob{dst: dst, src: src, n: n, number: divisor, row: sumRow})
}

func sumRow(j *rowJob, w *rowArgs, i int) { j.dst[i] = float32(w.sum(j.input(i)) / j.number) }

// SquareSums is dst[i] = ref.SumSquares(row i of src, 0), rounded once, for rows of n elements.
func (t *Table) SquareSums(par Parallel, dst, src []float32, n int) {
	checkLen("src", len(src), len(dst)*n)
	t.perRow(par, len(dst), rowJob{dst: dst, src: src, n: n, row: squareSumRow})
}

func squareSumRow(j *rowJob, w *rowArgs, i int) { j.dst[i] = float32(w.squares(j.input(i), 0)) }

// Maxima is dst[i] = the largest element of row i of src, NaN if there is one, -Inf if n is 0; rows have n elements.
func (t *Table) Maxima(par Parallel, dst, src []float32, n int) {
	checkLen("src", len(src), len(dst)*n)
	t.perRow(par, len(dst), rowJob{dst: dst, src: src, n: n, row: maxRow})
}

func maxRow(j *rowJob, w *rowArgs, i int) { j.dst[i] = w.max(j.input(i)) }

func checkAffine(scale, bias []float32, n int) {
	if scale != nil {
		checkLen("scale", len(scale), n)
	}
	if bias != nil {
		checkLen("bias", len(bias), n)
	}
}

// The functions below give the elements up to a multiple of rowLanes to the table's row and finish in Go, with the same
// operations in the same lanes.

func whole(n int) int { return n &^ (rowLanes - 1) }

// call gives x[:n] to the row of an operation.
func (w *rowArgs) call(op Op, x []float32, n int) {
	if n > 0 {
		w.tile.a, w.tile.cols, w.tile.lanes = x, n, &w.sums
		w.table.rows[op].tile(&w.tile)
	}
}

func (w *rowArgs) sum(x []float32) float64 {
	n := whole(len(x))
	clear(w.sums[:])
	w.call(OpRowSum, x, n)
	for i, v := range x[n:] {
		w.sums[i] += float64(v)
	}
	return ref.FoldLanes(&w.sums)
}

// squares is the sum of (x[i]-mean)^2.
func (w *rowArgs) squares(x []float32, mean float64) float64 {
	n := whole(len(x))
	clear(w.sums[:])
	w.tile.mean = mean
	w.call(OpRowSquares, x, n)
	for i, v := range x[n:] {
		d := float64(v) - mean
		w.sums[i] += float64(d * d)
	}
	return ref.FoldLanes(&w.sums)
}

func (w *rowArgs) max(x []float32) float32 {
	top := float32(math.Inf(-1))
	n := whole(len(x))
	if n > 0 {
		for i := range w.tops {
			w.tops[i] = top
		}
		w.tile.dst = w.tops[:]
		w.call(OpRowMax, x, n)
		for _, v := range w.tops {
			top = ref.Larger(top, v)
		}
	}
	for _, v := range x[n:] {
		top = ref.Larger(top, v)
	}
	return top
}

// exp is dst[i] = exp(src[i]-top); it returns the sum of dst.
func (w *rowArgs) exp(dst, src []float32, top float32) float64 {
	n := whole(len(src))
	clear(w.sums[:])
	w.tile.dst, w.tile.lo = dst, top
	w.call(OpRowExp, src, n)
	w.expRest(src[n:], top)
	copy(dst[n:], w.rest[:])
	return ref.FoldLanes(&w.sums)
}

// expRest adds fewer than rowLanes elements to the sums, their exponentials are in w.rest.
func (w *rowArgs) expRest(src []float32, top float32) {
	if len(src) == 0 {
		return
	}
	for i := copy(w.rest[:], src); i < rowLanes; i++ {
		w.rest[i] = float32(math.Inf(-1)) // adds exp(-Inf) = 0, or NaN where the row is NaN anyway
	}
	w.tile.dst, w.tile.lo = w.rest[:], top
	w.call(OpRowExp, w.rest[:], rowLanes)
}

// expSum returns the sum of exp(x[i]-top).
func (w *rowArgs) expSum(x []float32, top float32) float64 {
	clear(w.sums[:])
	for ; len(x) >= rowLanes; x = x[rowLanes:] {
		w.tile.dst, w.tile.lo = w.rest[:], top
		w.call(OpRowExp, x, rowLanes)
	}
	w.expRest(x, top)
	return ref.FoldLanes(&w.sums)
}

func (w *rowArgs) normalize(dst, src, scale, bias []float32, mean, inv float64) {
	n := whole(len(src))
	if scale == nil {
		n = 0
	}
	w.tile.dst, w.tile.panel, w.tile.bias, w.tile.mean, w.tile.inv = dst, scale, bias, mean, inv
	w.call(OpNormalize, src, n)
	if n == len(src) {
		return
	}
	from := func(x []float32) []float32 {
		if x == nil {
			return nil
		}
		return x[n:]
	}
	ref.Normalize(dst[n:], src[n:], from(scale), from(bias), mean, inv)
}

// goRowRows lists the plain Go rows.
var goRowRows = []Row{
	{Name: "row-max-go", Op: OpRowMax, ISA: "go", Arith: ref.Float32, tile: goRowMax},
	{Name: "row-sum-go", Op: OpRowSum, ISA: "go", Arith: ref.Float64, tile: goRowSum},
	{Name: "row-squares-go", Op: OpRowSquares, ISA: "go", Arith: ref.Float64, tile: goRowSquares},
	{Name: "row-exp-go", Op: OpRowExp, ISA: "go", Arith: ref.Float64, tile: goRowExp},
	{Name: "normalize-go", Op: OpNormalize, ISA: "go", Arith: ref.Float64, tile: goNormalize},
}

func goRowMax(t *tile) {
	for i, v := range t.a[:t.cols] {
		t.dst[i%rowLanes] = ref.Larger(t.dst[i%rowLanes], v)
	}
}

func goRowSum(t *tile) {
	for i, v := range t.a[:t.cols] {
		t.lanes[i%rowLanes] += float64(v)
	}
}

func goRowSquares(t *tile) {
	for i, v := range t.a[:t.cols] {
		d := float64(v) - t.mean
		t.lanes[i%rowLanes] += float64(d * d)
	}
}

func goRowExp(t *tile) {
	for i, v := range t.a[:t.cols] {
		t.dst[i] = float32(elementary.Exp(float64(v - t.lo)))
		t.lanes[i%rowLanes] += float64(t.dst[i])
	}
}

func goNormalize(t *tile) {
	ref.Normalize(t.dst[:t.cols], t.a[:t.cols], t.panel, t.bias, t.mean, t.inv)
}
