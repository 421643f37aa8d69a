package passes

import "testing"

func TestEmpty(t *testing.T) {
	const head = `opset 13
		input x: f32[2,3,4]
		input open: f32[N,3,4]
		input none: f32[2,0,4]
		const zero: i64[1] = [0]; const one: i64[1] = [1]; const two: i64[1] = [2]; const parts: i64[2] = [3, 0]`
	runCases(t, Empty, head, []passCase{
		{"a part of a concatenation", "a = Slice(x, zero, zero, one); y = Concat(a, x, x) {axis=1}; output y", "Concat Slice", ""},
		{"an input", "y = Concat(x, none, x) {axis=-2}; output y", "Concat", ""},
		{"a part of an open batch", "a = Slice(open, zero, zero, one); y = Concat(a, open, open) {axis=1}; output y", "Concat Slice", ""},
		{"one of two results", "a, b = Split(x, parts) {axis=1}; c = Relu(b); y = Concat(a, c) {axis=1}; output y", "Split Concat Relu", ""},
		{"all parts", "y = Concat(none, none) {axis=1}; output y", "Concat", ""},
		{"none along another axis", "y = Concat(none, none) {axis=2}; output y", "Concat", ""},
		{"an output", "y = Slice(x, zero, zero, one); output y", "Slice", ""},
		{"a sum of nothing is something", "y = ReduceSum(none, one); output y", "ReduceSum", ""},
	})
}
