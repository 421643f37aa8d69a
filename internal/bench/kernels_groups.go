package bench

import (
	"fmt"

	"qwb/kernels"
)

// groupsKernels are the products of language models: one token at a time, bound by memory, and many, bound by arithmetic.
func groupsKernels() []Kernel {
	var list []Kernel
	for _, bits := range []int{8, 4} {
		list = append(list, groups(bits, 1, 768, 288, 32), groups(bits, 1, 2048, 768, 64), groups(bits, 1, 5632, 2048, 64),
			groups(bits, 1, 32000, 2048, 64), groups(bits, 128, 768, 768, 64), groups(bits, 128, 2048, 2048, 64), groups(bits, 8, 96, 96, 32))
	}
	return append(list, quantizeGroups(1, 2048, 64), quantizeGroups(128, 2048, 64), combine(64, 512), combine(4*64, 64))
}

// groups is the product of m rows of activations with rows x cols codes.
func groups(bits, m, rows, cols, size int) Kernel {
	k := Kernel{Op: kernels.OpGroups8, Shape: fmt.Sprintf("m=%d n=%d k=%d group=%d", m, rows, cols, size), Mode: "int8", Unit: GOPS,
		Bound: kernels.PeakInteger, Ops: 2 * float64(m) * float64(rows) * float64(cols), Bytes: float64(rows*cols*bits/8 + 4*rows*cols/size)}
	if bits == 4 {
		k.Op = kernels.OpGroups4
	}
	if m == 1 {
		k.Unit, k.Bound = GBps, kernels.PeakRead
	}
	k.Prepare = func(t *kernels.Table) func(kernels.Parallel) {
		g := groupMatrix(t, bits, rows, cols, size)
		x := new(kernels.GroupRows)
		g.Quantize(x, nil, numbers(m*cols), m)
		products := []kernels.GroupsProduct{{Matrix: g, Dst: make([]float32, m*rows)}}
		return func(par kernels.Parallel) { t.MulGroups(par, x, products) }
	}
	return k
}

// groupMatrix packs random codes.
func groupMatrix(t *kernels.Table, bits, rows, cols, size int) *kernels.Groups {
	all := codes[int8](1 << 16)
	g, err := t.PackGroups(nil, kernels.GroupMatrix{Rows: rows, Cols: cols, Size: size, Bits: bits, Read: func(c []int8, scales []float32, from int) {
		for i := range c {
			c[i] = all[(from+i)%len(all)] >> (8 - bits)
		}
		for i := range scales {
			scales[i] = 1. / 1024
		}
	}})
	if err != nil {
		panic(err) // the shapes are those above
	}
	return g
}

func quantizeGroups(m, cols, size int) Kernel {
	return Kernel{Op: kernels.OpQuantizeGroups, Shape: fmt.Sprintf("m=%d k=%d group=%d", m, cols, size), Mode: "int8", Unit: GElems,
		Bound: kernels.PeakRead, Ops: float64(m * cols), Bytes: 5 * float64(m*cols),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			g, x, to := groupMatrix(t, 8, 16, cols, size), numbers(m*cols), new(kernels.GroupRows)
			return func(par kernels.Parallel) { g.Quantize(to, par, x, m) }
		}}
}

// combine is a weighted sum of n vectors of width elements: the values of an attention head, or the scores of four blocks of keys.
func combine(width, n int) Kernel {
	return Kernel{Op: kernels.OpCombine, Shape: fmt.Sprintf("width=%d n=%d", width, n), Mode: "fp32", Unit: GOPS, Bound: kernels.PeakFloat,
		Ops: 2 * float64(width) * float64(n), Bytes: 4 * float64(width) * float64(n),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			dst, s, m := make([]float32, width), numbers(n), numbers(width*n)
			return func(kernels.Parallel) { t.Combine(dst, s, m, kernels.CombineBlock, kernels.CombineBlock*n) }
		}}
}
