package vectors

import (
	"slices"

	"qwb/quantizer/lower"
)

// A block is the smallest run of steps that can stand alone: between two places of the program where one tensor alone passes from the
// steps before to those behind. What every layer reads (a mask) passes everywhere and does not count: a tensor that at least
// sharedReaders steps read, over more than half of the program.
const sharedReaders = 5

// span is steps [from, to) of a program.
type span struct{ from, to int }

// blocks cuts a program into blocks, in order.
func blocks(p *lower.Program) []span {
	made, last := make([]int, len(p.Tensors)), make([]int, len(p.Tensors)) // the step that makes a tensor, the last that reads it
	readers := make([]int, len(p.Tensors))
	for i := range made {
		made[i], last[i] = -1, -1
	}
	for _, s := range p.Steps {
		for _, id := range s.Outputs {
			if id != lower.NoTensor {
				made[id] = int(s.ID)
			}
		}
		for _, id := range s.Inputs {
			last[id], readers[id] = int(s.ID), readers[id]+1
		}
	}
	passing := make([]int, len(p.Steps)+1) // how many tensors pass in front of step i
	for id := range p.Tensors {
		shared := readers[id] >= sharedReaders && 2*(last[id]-made[id]) > len(p.Steps)
		if p.Tensors[id].Const != nil || shared {
			continue
		}
		for i := made[id] + 1; i <= last[id]; i++ {
			passing[i]++
		}
	}
	var list []span
	from := 0
	for i := 1; i <= len(p.Steps); i++ {
		if i == len(p.Steps) || passing[i] <= 1 {
			list = append(list, span{from, i})
			from = i
		}
	}
	return list
}

// borders returns what passes into and out of steps [from, to): tensors that others compute, in the order in which they are read, and
// those that others read or that are outputs of the program, in the order in which they are made.
func borders(p *lower.Program, s span) (in, out []lower.TensorID) {
	inside := map[lower.TensorID]bool{}
	for _, step := range p.Steps[s.from:s.to] {
		for _, id := range step.Inputs {
			if !inside[id] && p.Tensors[id].Const == nil && !slices.Contains(in, id) {
				in = append(in, id)
			}
		}
		for _, id := range step.Outputs {
			if id != lower.NoTensor {
				inside[id] = true
			}
		}
	}
	leaves := map[lower.TensorID]bool{}
	for _, id := range p.Outputs {
		leaves[id] = true
	}
	for _, step := range p.Steps[s.to:] {
		for _, id := range step.Inputs {
			leaves[id] = true
		}
	}
	for _, step := range p.Steps[s.from:s.to] {
		for _, id := range step.Outputs {
			if id != lower.NoTensor && leaves[id] {
				out = append(out, id)
			}
		}
	}
	return in, out
}
