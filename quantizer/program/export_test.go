package program

import (
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Functions counts the islands that the CPU backend looks up.
func Functions(e *Executor) (n int) {
	for _, s := range e.engine.(*cpuEngine).steps {
		if s.function != nil {
			n++
		}
	}
	return n
}

// Places gives the offsets of values of so many bytes, needed from their first to their last call, and the size of the arena.
func Places(sizes, births, deaths []int) (offsets []int, total int) {
	var list []*cudaValue
	for i, n := range sizes {
		v := newCUDAValue(tensor.Uint8, []int{n}, false)
		v.birth, v.death = births[i], deaths[i]
		list = append(list, v)
	}
	total = placeValues(list)
	for _, v := range list {
		offsets = append(offsets, v.offset)
	}
	return offsets, total
}

// KeepOnHost takes the kernels of some steps away.
func KeepOnHost(e *Executor, some func(s *lower.Step) bool) {
	for _, s := range e.engine.(*cudaEngine).steps {
		if some(s.Step) {
			s.kernel, s.why = nil, "a test wants it so"
		}
	}
}

// DevicePlans is how many plans an executor keeps, and Segments how many parts the latest has.
func DevicePlans(e *Executor) int { return len(e.engine.(*cudaEngine).plans) }

func Segments(e *Executor) int { return len(e.engine.(*cudaEngine).plans[0].plan.segments) }
