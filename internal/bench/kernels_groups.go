package bench

import (
	"fmt"

	"qwb/kernels"
)

// groupsKernels are the products of language models: one token at a time, bound by memory, and many, bound by arithmetic.
func groupsKernels() []Kernel {
	var list []Kernel
	for _, op := range []kernels.Op{kernels.OpGroups8, kernels.OpGroups4, kernels.OpGroupsFloat8, kernels.OpGroupsFloat4} {
		list = append(list, groups(op, 1, 768, 288, 32), groups(op, 1, 5632, 2048, 64), groups(op, 1, 32000, 2048, 64),
			groups(op, 128, 2048, 2048, 64), groups(op, 8, 96, 96, 32))
	}
	return append(list, quantizeGroups(1, 2048, 64), quantizeGroups(128, 2048, 64), combine(1, 64, 512),
		combine(1, 4*64, 64), combine(8, 64, 512))
}

// groups is the product of m rows of activations with rows x cols codes.
func groups(op kernels.Op, m, rows, cols, size int) Kernel {
	bits, float := 8, op == kernels.OpGroupsFloat8 || op == kernels.OpGroupsFloat4
	if op == kernels.OpGroups4 || op == kernels.OpGroupsFloat4 {
		bits = 4
	}
	k := Kernel{Op: op, Shape: fmt.Sprintf("m=%d n=%d k=%d group=%d", m, rows, cols, size), Mode: "int8", Unit: GOPS,
		Bound: kernels.PeakInteger, Ops: 2 * float64(m) * float64(rows) * float64(cols), Bytes: float64(rows*cols*bits/8 + 4*rows*cols/size)}
	if float {
		k.Mode, k.Bound = "fp32", kernels.PeakFloat
	}
	if m == 1 {
		k.Unit, k.Bound = GBps, kernels.PeakRead
	}
	k.Prepare = func(t *kernels.Table) func(kernels.Parallel) {
		g := groupMatrix(t, bits, rows, cols, size, float)
		x := new(kernels.GroupRows)
		g.Prepare(x, nil, numbers(m*cols), m)
		products := []kernels.GroupsProduct{{Matrix: g, Dst: make([]float32, m*rows)}}
		return func(par kernels.Parallel) { t.MulGroups(par, x, products) }
	}
	return k
}

// groupMatrix packs random codes.
func groupMatrix(t *kernels.Table, bits, rows, cols, size int, float bool) *kernels.Groups {
	all := codes[int8](1 << 16)
	g, err := t.PackGroups(nil, kernels.GroupMatrix{Rows: rows, Cols: cols, Size: size, Bits: bits, Float: float,
		Read: func(c []int8, scales []float32, from int) {
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
			g, x, to := groupMatrix(t, 8, 16, cols, size, false), numbers(m*cols), new(kernels.GroupRows)
			return func(par kernels.Parallel) { g.Prepare(to, par, x, m) }
		}}
}

// combine is rows weighted sums of n vectors of width elements: the values of an attention head, or the scores of four blocks of keys.
func combine(rows, width, n int) Kernel {
	return Kernel{Op: kernels.OpCombine, Shape: fmt.Sprintf("m=%d n=%d k=%d", rows, width, n), Mode: "fp32", Unit: GOPS,
		Bound: kernels.PeakFloat, Ops: 2 * float64(rows) * float64(width) * float64(n), Bytes: 4 * float64(width) * float64(n),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			c := kernels.Combination{Dst: make([]float32, rows*width), S: numbers(rows * n), M: numbers(width * n), Rows: rows, N: n, StepS: n,
				StepDst: width, Blocks: width / kernels.CombineBlock, Step: kernels.CombineBlock, BlockStep: kernels.CombineBlock * n}
			return func(kernels.Parallel) { t.Combine(c) }
		}}
}
