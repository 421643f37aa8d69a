package cprogram

import (
	"fmt"
	"strings"

	"qwb/graph/tensor"
)

// steps lists how far a tensor of the given shape moves along each axis of out.
func steps(out, shape []int) []int {
	step := make([]int, len(out))
	for a, size := len(shape)-1, 1; a >= 0; a-- {
		if shape[a] != 1 {
			step[a+len(out)-len(shape)] = size
		}
		size *= shape[a]
	}
	return step
}

// each calls f for every element of size, row-major, with the place that steps leads to.
func each(size, steps []int, f func(at int)) {
	at, pos := 0, make([]int, len(size))
	for range tensor.Count(size) {
		f(at)
		for a := len(size) - 1; a >= 0; a-- {
			pos[a]++
			at += steps[a]
			if pos[a] < size[a] {
				break
			}
			at -= pos[a] * steps[a]
			pos[a] = 0
		}
	}
}

const (
	maxRank     = 8 // of struct layout
	maxOperands = 3
)

// walk is what struct layout has: the sizes of axes, and how far every operand moves along them.
type walk struct {
	axes     []int
	operands [][]int
}

// walkOver is the walk over size for operands that move by the given steps. Neighbouring axes over which all operands move as over one
// are joined.
func walkOver(size []int, operands ...[]int) (walk, error) {
	var axes []int // of size, that stay
	joined := make([][]int, len(operands))
	for a, n := range size {
		if n == 1 {
			continue
		}
		last := len(axes) - 1
		join := last >= 0
		for k := range operands {
			join = join && joined[k][last] == operands[k][a]*n
		}
		if join {
			axes[last] *= n
		} else {
			axes, last = append(axes, n), last+1
			for k := range operands {
				joined[k] = append(joined[k], 0)
			}
		}
		for k := range operands {
			joined[k][last] = operands[k][a]
		}
	}
	if len(axes) == 0 {
		axes = []int{1}
		for k := range operands {
			joined[k] = []int{0}
		}
	}
	if len(axes) > maxRank || len(operands) > maxOperands {
		return walk{}, fmt.Errorf("a walk over %d axes; %d are supported", len(axes), maxRank)
	}
	return walk{axes, joined}, nil
}

// String is the initializer of struct layout.
func (l walk) String() string {
	parts := make([]string, len(l.operands))
	for k, steps := range l.operands {
		parts[k] = braces(steps)
	}
	return fmt.Sprintf("{%d, %s, {%s}}", len(l.axes), braces(l.axes), strings.Join(parts, ", "))
}

func braces(list []int) string {
	text := make([]string, len(list))
	for i, n := range list {
		text[i] = fmt.Sprint(n)
	}
	return "{" + strings.Join(text, ", ") + "}"
}

// broadcastLayout is the walk of an elementwise operation over tensors of the given shapes.
func broadcastLayout(shapes ...[]int) (walk, error) {
	out, err := tensor.Broadcast(shapes...)
	if err != nil {
		return walk{}, err
	}
	operands := make([][]int, len(shapes))
	for k, s := range shapes {
		operands[k] = steps(out, s)
	}
	return walkOver(out, operands...)
}

// reductionLayouts are the walks over the results of a reduction, and over the elements of one result.
func reductionLayouts(shape, axes []int) (of, over walk, err error) {
	reduced := make([]bool, len(shape))
	for _, a := range axes {
		if a < 0 || a >= len(shape) {
			return of, over, fmt.Errorf("axis %d of %v", a, shape)
		}
		reduced[a] = true
	}
	kept, gone := make([]int, len(shape)), make([]int, len(shape))
	for a, n := range shape {
		kept[a], gone[a] = n, 1
		if reduced[a] {
			kept[a], gone[a] = 1, n
		}
	}
	full := steps(shape, shape)
	if of, err = walkOver(kept, full); err != nil {
		return of, over, err
	}
	over, err = walkOver(gone, full)
	return of, over, err
}
