package checkpoint

import "qwb/internal/file"

// With is the model with other tensors for some parts, whose shapes are those of its own. It needs m open, and is not to be closed itself.
func (m *Model) With(tensors map[Part]*Tensor) *Model {
	if m.spills == nil {
		m.spills = &file.Maps{} // of both
	}
	n := *m
	n.release, n.tensors = nil, make(map[Part]*Tensor, len(m.tensors))
	for p, t := range m.tensors {
		n.tensors[p] = t
		if other := tensors[p]; other != nil {
			n.tensors[p] = other
		}
	}
	return &n
}
