package gpu

import (
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// Places gives the offsets of values of so many bytes, needed from their first to their last call, and the size of the arena.
func Places(sizes, births, deaths []int) (offsets []int, total int) {
	var list []*value
	for i, n := range sizes {
		v := newValue(tensor.Uint8, []int{n}, false)
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
func KeepOnHost(e program.Engine, some func(s *lower.Step) bool) {
	for _, s := range e.(*engine).steps {
		if some(s.Step) {
			s.kernel, s.why = nil, "a test wants it so"
		}
	}
}

// DevicePlans is how many plans an engine keeps, and Segments how many parts the latest has.
func DevicePlans(e program.Engine) int { return len(e.(*engine).plans) }

func Segments(e program.Engine) int { return len(e.(*engine).plans[0].plan.segments) }
