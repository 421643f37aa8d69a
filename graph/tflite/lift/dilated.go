package lift

import (
	"encoding/binary"
	"maps"
	"slices"

	"qwb/graph/tflite"
)

// dilate makes one convolution with dilation of what converters wrote for it before the operator had that option: SPACE_TO_BATCH_ND, a
// convolution without padding, BATCH_TO_SPACE_ND. What lies between is read by nobody else, and nothing is scaled on the way.
func dilate(s *tflite.Subgraph) {
	readers, makers := map[int][]int{}, map[int]int{}
	for i := range s.Operators {
		for _, t := range s.Operators[i].Inputs {
			readers[t] = append(readers[t], i)
		}
		for _, t := range s.Operators[i].Outputs {
			makers[t] = i
		}
	}
	gone := map[int]bool{}
	operators := slices.Clone(s.Operators)
	for i := range operators {
		op := &operators[i]
		if op.Op != "CONV_2D" && op.Op != "DEPTHWISE_CONV_2D" || len(op.Inputs) < 2 || len(op.Outputs) != 1 {
			continue
		}
		before, made := makers[op.Inputs[0]]
		after := readers[op.Outputs[0]]
		if !made || len(after) != 1 || len(readers[op.Inputs[0]]) != 1 || slices.Contains(s.Outputs, op.Inputs[0]) ||
			slices.Contains(s.Outputs, op.Outputs[0]) {
			continue
		}
		apart, together := &s.Operators[before], &s.Operators[after[0]]
		d, padding, ok := dilation(s, apart, op, together)
		if !ok {
			continue
		}
		op.Options = maps.Clone(op.Options)
		op.Options["dilation_h_factor"], op.Options["dilation_w_factor"], op.Options["padding"] = d[0], d[1], padding
		op.Inputs, op.Outputs = append([]int{apart.Inputs[0]}, op.Inputs[1:]...), together.Outputs
		gone[before], gone[after[0]] = true, true
	}
	s.Operators = nil
	for i := range operators {
		if !gone[i] {
			s.Operators = append(s.Operators, operators[i])
		}
	}
}

// dilation is that of a convolution op between two operators that move blocks into the batch and back, and the padding it then has.
func dilation(s *tflite.Subgraph, apart, op, together *tflite.Operator) (d [2]int, padding int, ok bool) {
	if apart.Op != "SPACE_TO_BATCH_ND" || together.Op != "BATCH_TO_SPACE_ND" || op.Options.Int("padding") != tflite.Valid ||
		max(op.Options.Int("dilation_h_factor"), op.Options.Int("dilation_w_factor")) > 1 || len(apart.Inputs) != 3 ||
		len(together.Inputs) != 3 ||
		max(op.Options.Int("stride_h"), op.Options.Int("stride_w")) > 1 || len(apart.Outputs) != 1 || len(together.Outputs) != 1 {
		return d, 0, false
	}
	filter := &s.Tensors[op.Inputs[1]]
	blocks, pads := wholes(s, apart.Inputs[1], 2), wholes(s, apart.Inputs[2], 4)
	again, crops := wholes(s, together.Inputs[1], 2), wholes(s, together.Inputs[2], 4)
	if len(filter.Shape) != 4 || pads == nil || crops == nil || blocks == nil || !slices.Equal(blocks, again) ||
		!sameScale(s, apart.Inputs[0], apart.Outputs[0]) || !sameScale(s, together.Inputs[0], together.Outputs[0]) {
		return d, 0, false
	}
	valid, same := true, true
	for i := range 2 {
		d[i] = blocks[i]
		all := (filter.Shape[1+i] - 1) * d[i]
		begin, end := pads[2*i]-crops[2*i], pads[2*i+1]-crops[2*i+1]
		valid = valid && begin == 0 && end == 0 && crops[2*i] == 0
		same = same && begin == all/2 && end == all-all/2 && crops[2*i] == 0
	}
	switch {
	case valid:
		return d, tflite.Valid, true
	case same:
		return d, tflite.Same, true
	}
	return d, 0, false
}

// wholes are the numbers of a constant of int32, nil where it is none of so many.
func wholes(s *tflite.Subgraph, id, n int) []int {
	if id < 0 || s.Tensors[id].Type != tflite.Int32 || len(s.Tensors[id].Data) != 4*n {
		return nil
	}
	list := make([]int, n)
	for i := range list {
		list[i] = int(int32(binary.LittleEndian.Uint32(s.Tensors[id].Data[4*i:])))
	}
	return list
}

// sameScale reports whether the integers of two tensors mean the same.
func sameScale(s *tflite.Subgraph, a, b int) bool {
	x, y := s.Tensors[a].Quantization, s.Tensors[b].Quantization
	if x == nil || y == nil || len(x.Scale) == 0 || len(y.Scale) == 0 {
		return (x == nil || len(x.Scale) == 0) && (y == nil || len(y.Scale) == 0)
	}
	return slices.Equal(x.Scale, y.Scale) && slices.Equal(x.ZeroPoint, y.ZeroPoint)
}
