package espdl

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// ESP-DL's convolutions have one group, or one channel in and out of each. Several outputs per channel are written as a convolution of one
// each behind a Gather that repeats the channels, groups of several channels as one group whose weights from other groups are 0: the
// integers are the same.

// fileGroup is how many groups the file's convolution has.
func fileGroup(outs, ins, group int) int {
	if group > 1 && ins == 1 {
		return outs
	}
	return 1
}

// origins are the channels of the model that a depthwise convolution of so many outputs reads; nil where it reads them as they are.
func origins(outs, ins, group int) []int64 {
	if group == 1 || ins > 1 || outs == group {
		return nil
	}
	list := make([]int64, outs)
	for o := range list {
		list[o] = int64(o / (outs / group))
	}
	return list
}

// originsOf are the origins of a step that is a convolution.
func originsOf(n *graph.Node, op *lower.Linear) []int64 {
	if n.Op != "Conv" || op.Weights == nil {
		return nil
	}
	shape := op.Weights.Codes.Shape
	return origins(shape[0], shape[1], n.Conv().Group)
}

// repeated is a tensor with the channels last that a convolution of several outputs per channel reads.
func (b *builder) repeated(id lower.TensorID, in string, list []int64) (string, error) {
	if list == nil {
		return in, nil
	}
	key := fmt.Sprint(in, list)
	if name, ok := b.moved[key]; ok {
		return name, nil
	}
	v := b.value(id)
	layout := channelsLast(len(v.Shape))
	for i, axis := range layout {
		v.Shape[i] = int64(b.held[id].Shape[axis])
	}
	v.Shape[len(v.Shape)-1] = int64(len(list))
	v.Name = b.unique(in + "_repeated")
	index, err := b.int64s(v.Name+"_input", list)
	if err != nil {
		return "", err
	}
	b.node(v.Name, "Gather", []string{in, index}, v, Attr{"axis", int64(len(v.Shape) - 1)}, b.kind(id))
	b.moved[key] = v.Name
	return v.Name, nil
}

// dense are weights [outs, ins of a group, ...] of groups of several channels as those of one group.
func dense(codes *tensor.Tensor, group int) *tensor.Tensor {
	outs, ins := codes.Shape[0], codes.Shape[1]
	if group == 1 || ins == 1 {
		return codes
	}
	shape := slices.Clone(codes.Shape)
	shape[1] = ins * group
	area := tensor.Count(shape[2:])
	out, list := tensor.New(codes.DType, shape...), codes.ToRowMajor().Integers()
	for o := range outs {
		for k, q := range list[o*ins*area : (o+1)*ins*area] {
			set(out, (o*shape[1]+o/(outs/group)*ins)*area+k, q)
		}
	}
	return out
}

// ofGroups is the opposite of dense, for a model's shape. Weights from other groups that are not 0 are an error.
func ofGroups(list []int64, shape []int, group int) ([]int64, error) {
	outs, ins := shape[0], shape[1]
	if group == 1 || ins == 1 {
		return list, nil
	}
	row := ins * tensor.Count(shape[2:])
	var out []int64
	for o := range outs {
		for g := range group {
			part := list[(o*group+g)*row:][:row]
			if g == o/(outs/group) {
				out = append(out, part...)
			} else if slices.ContainsFunc(part, func(q int64) bool { return q != 0 }) {
				return nil, fmt.Errorf("weights of output %d from group %d are not 0", o, g)
			}
		}
	}
	return out, nil
}
