package groupsums

import (
	"fmt"

	"qwb/graph/language/checkpoint"
	"qwb/kernels"
	"qwb/kernels/ref"
)

// slabElements is about how many elements of a matrix are packed at once.
const slabElements = 1 << 20

// product multiplies the rows of x with a matrix; where that is integers, on kernels and plain loops, and compares the sums.
func (r *run) product(t *checkpoint.Tensor, x []float32) []float32 {
	if r.err != nil {
		return nil
	}
	dst := make([]float32, r.n*t.Rows)
	step := slabRows(t)
	for row := 0; row < t.Rows; row += step {
		if r.err = r.ctx.Err(); r.err != nil {
			return nil
		}
		rows := min(step, t.Rows-row)
		var out []float32
		if t.Quantized() {
			out, r.err = r.both(t, row, rows, x)
		} else {
			out = r.floats(t, row, rows, x)
		}
		if r.err != nil {
			return nil
		}
		for i := range r.n {
			copy(dst[i*t.Rows+row:][:rows], out[i*rows:])
		}
		if r.done += int64(rows) * int64(t.Cols); r.o.Progress != nil {
			r.o.Progress(r.done)
		}
	}
	r.m.Forget(t)
	return dst
}

// slabRows is how many rows are multiplied at once: as many as begin and end with a group.
func slabRows(t *checkpoint.Tensor) int {
	whole := 1
	if size := t.GroupSize(); size > 0 {
		for whole*t.Cols%size != 0 {
			whole++
		}
	}
	return max(1, slabElements/(whole*t.Cols)) * whole
}

func (r *run) floats(t *checkpoint.Tensor, row, rows int, x []float32) []float32 {
	w := make([]float32, rows*t.Cols)
	t.Read(w, row*t.Cols)
	out := make([]float32, r.n*rows)
	r.o.Table.PackGemmF32(w, t.Cols, rows, t.Cols, true).Run(r.o.Parallel, out, rows, x, t.Cols, r.n, ref.Epilogue{})
	return out
}

// both multiplies rows of a matrix on the kernels and on plain loops, and returns what the kernels gave.
func (r *run) both(t *checkpoint.Tensor, row, rows int, x []float32) ([]float32, error) {
	w, err := r.o.Table.PackGroups(r.o.Parallel, kernels.GroupMatrix{Rows: rows, Cols: t.Cols, Size: t.GroupSize(), Bits: bits(t.Type),
		Read: func(codes []int8, scales []float32, from int) { t.Codes(codes, scales, row*t.Cols+from) }})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Part, err)
	}
	var in kernels.GroupRows
	w.Prepare(&in, r.o.Parallel, x, r.n)
	out, sums := make([]float32, r.n*rows), make([]int32, r.n*w.TotalPieces())
	r.o.Table.MulGroups(r.o.Parallel, &in, []kernels.GroupsProduct{{Matrix: w, Dst: out, Sums: sums}})
	r.compare(fmt.Sprintf("%s, rows %d to %d", t.Part, row, row+rows-1), sums, r.plain(t, row, rows, x))
	return out, nil
}

// plain returns the sums of the same product as package ref defines them, in the same order.
func (r *run) plain(t *checkpoint.Tensor, row, rows int, x []float32) []int32 {
	size := t.GroupSize()
	codes, scales := make([]int8, rows*t.Cols), make([]float32, rows*t.Cols/size)
	t.Codes(codes, scales, row*t.Cols)
	perX := (t.Cols + size - 1) / size
	xCodes, xScales := make([]int8, len(x)), make([]float32, r.n*perX)
	for i := range r.n {
		ref.QuantizeRow(xCodes[i*t.Cols:][:t.Cols], xScales[i*perX:][:perX], x[i*t.Cols:][:t.Cols], size)
	}
	first := make([]int, rows+1) // sum of a row
	for k := range rows {
		first[k+1] = first[k] + ref.Pieces(t.Cols, size, k*t.Cols%size)
	}
	sums := make([]int32, r.n*first[rows])
	r.o.Parallel.Run(rows, func(k int) {
		at := k * t.Cols
		for i := range r.n {
			ref.DotGroups(codes[at:][:t.Cols], scales[at/size:], xCodes[i*t.Cols:][:t.Cols], xScales[i*perX:], size, at%size,
				sums[i*first[rows]+first[k]:])
		}
	})
	return sums
}

// compare counts the sums that differ, and remembers the first.
func (r *run) compare(where string, fast, plain []int32) {
	for i, s := range fast {
		if s == plain[i] {
			continue
		}
		if r.result.Different == 0 {
			each := len(fast) / r.n
			r.result.First = fmt.Sprintf("%s, token %d, sum %d: %d on the kernels, %d on plain loops", where, i/each, i%each, s, plain[i])
		}
		r.result.Different++
	}
	r.result.Sums += int64(len(fast))
}

func bits(t checkpoint.Type) int {
	if t == checkpoint.GGQ4 || t == checkpoint.WideQ4 {
		return 4
	}
	return 8
}
