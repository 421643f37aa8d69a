package cuda

import (
	"fmt"

	"qwb/kernels/cuda/driver"
)

// FloatChainLinks is how many functions a chain has at most.
const FloatChainLinks = 8

// FloatLink is one function of a chain: of one number, or of two.
type FloatLink struct {
	Function FloatFunction // of one number, with parameters A and B
	A, B     float32

	Binary    bool
	Operation FloatOperation // of two numbers, A being the scale
	Left      bool           // the other operand is the left one
	Step      []int          // of the other operand along the axes of the chain, 0 where it repeats
}

// FloatChain is y = f(g(h(x))) and so on, the functions in order, in one pass: x and y have the elements of Sizes one after the other, the
// other operands are broadcast. The results are those of the single functions.
type FloatChain struct {
	Sizes []int
	Links []FloatLink
}

// chainLink and chainParams mirror Link and FloatChain of float_elementwise.cu.
type chainLink struct {
	other            driver.Ptr
	op               int32
	a, b             float32
	swapped, wide, _ int32
	step             [floatAxes]int32
}

type chainParams struct {
	x, y        driver.Ptr
	count, wide uint32
	axes, links int32
	size        [floatAxes]Divisor
	link        [FloatChainLinks]chainLink
}

// Launch computes y from x; others holds the addresses of the other operands by link, 0 where there is none. y may be x, and an operand
// that does not repeat.
func (f *FloatChain) Launch(s *Stream, y, x driver.Ptr, others []driver.Ptr) error {
	if len(f.Links) == 0 || len(f.Links) > FloatChainLinks || len(others) != len(f.Links) {
		return fmt.Errorf("cuda: a chain of %d functions with %d operands", len(f.Links), len(others))
	}
	if err := fits("an array", f.Sizes...); err != nil {
		return err
	}
	var steps [][]int
	var at []driver.Ptr
	for k := range f.Links {
		if f.Links[k].Binary {
			steps, at = append(steps, f.Links[k].Step), append(at, others[k])
		}
	}
	sizes, steps := joinAxes(f.Sizes, steps...)
	p := chainParams{x: x, y: y, links: int32(len(f.Links))}
	wide := inFours(sizes, steps, y|x, at...)
	if wide != 0 {
		p.wide = 1
		sizes[len(sizes)-1] /= 4
		for k := range steps {
			steps[k][len(sizes)-1] *= 4
		}
	}
	var err error
	if p.count, p.axes, err = putAxes(&p.size, sizes, nil); err != nil {
		return err
	}
	number := 0 // of other operands
	for k, l := range f.Links {
		to := &p.link[k]
		to.op, to.a, to.b = int32(l.Function), l.A, l.B
		if l.Binary {
			to.op, to.other, to.swapped, to.wide = int32(l.Operation), others[k], flag(l.Left), int32(wide>>(number+1)&1)
			for a, step := range steps[number] {
				to.step[a] = int32(step)
			}
			number++
		}
	}
	return overElements(s, "float_elementwise", "chain", int(p.count), 256, &p)
}
