package onnx

import "slices"

// meanings lists the operators whose nodes do not mean the same in all versions. Since says from which opsets on a node of an older
// one means something else, or nothing; More says which ones only let a node say more than before. Changes of element types
// alone are not listed. It follows from the history of operators that package onnx.defs has, and from their documentation.
var meanings = []struct {
	Ops         []string
	Since, More []int64
}{
	{[]string{"Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Greater", "Less", "Pow"}, []int64{7}, nil},
	{[]string{"Sum", "Mean", "Max", "Min"}, []int64{8}, nil},
	{[]string{"Cast"}, []int64{6}, []int64{19, 24}},
	{[]string{"CastLike"}, nil, []int64{19, 24}},
	{[]string{"Selu", "Tile"}, []int64{6}, nil},
	{[]string{"Concat"}, []int64{4}, nil},
	{[]string{"Reshape"}, []int64{5}, []int64{14}},
	{[]string{"Gemm"}, []int64{7}, []int64{11}},
	{[]string{"PRelu"}, []int64{7}, nil},
	{[]string{"BatchNormalization"}, []int64{7, 9, 14}, nil},
	{[]string{"Dropout"}, []int64{7, 10, 12}, nil},
	{[]string{"Upsample"}, []int64{7, 9}, nil},
	{[]string{"LSTM", "GRU", "RNN"}, []int64{3, 7}, []int64{14}},
	{[]string{"Pad"}, []int64{2, 11}, []int64{18, 19}},
	{[]string{"Split"}, []int64{2, 13}, []int64{18}},
	{[]string{"Scan"}, []int64{9}, nil},
	{[]string{"Slice"}, []int64{10}, nil},
	{[]string{"TopK"}, []int64{10}, []int64{11}},
	{[]string{"Resize"}, []int64{11, 13}, []int64{18, 19}},
	{[]string{"Clip"}, []int64{6, 11}, nil},
	{[]string{"Softmax", "LogSoftmax", "Hardmax", "Squeeze", "Unsqueeze"}, []int64{13}, nil},
	{[]string{"ReduceSum"}, []int64{13}, nil},
	{[]string{"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
		"ReduceSumSquare"}, []int64{18}, nil},
	{[]string{"GroupNormalization"}, []int64{21}, nil},
	{[]string{"GridSample", "DFT"}, []int64{20}, nil},
	{[]string{"RoiAlign"}, []int64{16}, nil},
	{[]string{"LpPool"}, []int64{2}, []int64{18}},
	{[]string{"GlobalLpPool"}, []int64{2}, nil},
	{[]string{"AveragePool"}, nil, []int64{7, 10, 19}},
	{[]string{"MaxPool"}, nil, []int64{8, 10}},
	{[]string{"ArgMax", "ArgMin", "GatherND"}, nil, []int64{12}},
	{[]string{"Constant"}, nil, []int64{11, 12}},
	{[]string{"DepthToSpace"}, nil, []int64{11}},
	{[]string{"Shape"}, nil, []int64{15}},
	{[]string{"ScatterElements", "ScatterND"}, nil, []int64{16, 18}},
	{[]string{"QuantizeLinear", "DequantizeLinear"}, nil, []int64{13, 19, 21, 23}},
	{[]string{"Attention"}, nil, []int64{24, 25}},
	{[]string{"Range"}, []int64{27}, nil},
}

// sameMeaning reports whether a node of opset `from` means the same in opset `to`.
func sameMeaning(op string, from, to int64) bool {
	low, high := min(from, to), max(from, to)
	within := func(v int64) bool { return low < v && v <= high }
	for i := range meanings {
		if m := &meanings[i]; slices.Contains(m.Ops, op) {
			return !slices.ContainsFunc(m.Since, within) && (from <= to || !slices.ContainsFunc(m.More, within))
		}
	}
	return true
}
