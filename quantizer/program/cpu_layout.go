package program

import (
	"slices"

	"qwb/quantizer/lower"
)

// wantedLast says, by tensor, whether its first readers compute channels-last: convolutions and pools, and what passes bytes on to
// them.
func wantedLast(p *lower.Program) []bool {
	wants := make([]bool, len(p.Tensors))
	for _, s := range slices.Backward(p.Steps) {
		want := false
		switch op := s.Op.(type) {
		case *lower.Linear:
			want = op.Kind == "Conv"
		case *lower.MaxPool, *lower.Average:
			want = true
		case *lower.Requantize, *lower.Clamp, *lower.Table, *lower.Sum, *lower.Product, *lower.Concat:
			want = s.Outputs[0] != lower.NoTensor && wants[s.Outputs[0]]
		}
		for _, id := range s.Inputs {
			wants[id] = wants[id] || want && len(p.Tensors[id].Shape) > 2
		}
	}
	return wants
}

// channelsLast returns v with its bytes channels-last; v has at least three axes.
func (s *cpuStep) channelsLast(m *memory, v *value) *value { return s.laid(m, v, true) }

// rowMajor returns v with its bytes row-major.
func (s *cpuStep) rowMajor(m *memory, v *value) *value { return s.laid(m, v, false) }

func (s *cpuStep) laid(m *memory, v *value, last bool) *value {
	if v.last == last || len(v.shape) < 3 {
		return v
	}
	if !v.moved() {
		return m.alias(v, v.shape, last)
	}
	out := m.codes(v.dtype, v.shape, last)
	n, c, size := v.planes()
	if last {
		transposePlanes(out.codes, v.codes, n, c, size)
	} else {
		transposePlanes(out.codes, v.codes, n, size, c)
	}
	return out
}
