package exec_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOldVersions runs operators in forms that later operator sets do not have. What they compute was worked out by hand.
func TestOldVersions(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"opset 6; y = Add(x, v) {broadcast=1, axis=0}", "f32[2,3] [11 12 13 24 25 26]"},
		{"opset 1; y = Add(x, v) {broadcast=1, axis=0, consumed_inputs=[0, 0]}", "f32[2,3] [11 12 13 24 25 26]"},
		{"opset 6; y = Sub(x, one) {broadcast=1}", "f32[2,3] [0 1 2 3 4 5]"},
		{"opset 6; y = Greater(x, w) {broadcast=1}", "bool[2,3] [false false true true true true]"},
		{"opset 6; y = PRelu(n, w)", "f32[2,3] [-3 -4 -3 -12 -10 -6]"},
		{"opset 7; y = Add(x, w)", "f32[2,3] [4 4 4 7 7 7]"},
		{"opset 1; y = Reshape(x) {shape=[0, 1, -1]}", "f32[2,1,3] [1 2 3 4 5 6]"},
		{"opset 1; y = Concat(x, x)", "f32[2,6] [1 2 3 1 2 3 4 5 6 4 5 6]"},
		{"opset 1; y = Pad(w) {paddings=[1, 2], value=9.0}", "f32[6] [9 3 2 1 9 9]"},
		{"opset 2; y = Pad(w) {pads=[1, 2], mode=\"reflect\"}", "f32[6] [2 3 2 1 2 3]"},
		{"opset 1; const k: f32[1] = [2]; const a: f32[1] = [0]; y = Tile(w, k, a)", "f32[6] [3 2 1 3 2 1]"},
		{"opset 1; const k: f32[2] = [1, 2]; _, y = Split(w, k) {axis=0}", "f32[2] [2 1]"},
		{"opset 2; _, y = Split(w) {split=[2, 1]}", "f32[1] [1]"},
		{"opset 1; y = Upsample(i) {height_scale=1.0, width_scale=2.0, mode=\"bilinear\"}", "f32[1,1,1,4] [1 2 3 3]"},
		{"opset 1; y = Upsample(i) {height_scale=2.0, width_scale=1.0, mode=\"nearest\"}", "f32[1,1,2,2] [1 3 1 3]"},
		{"opset 7; y = Upsample(i) {scales=[1.0, 1.0, 1.0, 2.0]}", "f32[1,1,1,4] [1 1 3 3]"},
		{"opset 1; y = TopK(w) {k=2}", "f32[2] [3 2]"},
		{"opset 1; y = Slice(w) {starts=[-2], ends=[100]}", "f32[2] [2 1]"},
		{"opset 1; y = Selu(n)", "f32[2,3] [-1.1112876 -1.5201075 -1.670504 -1.7258317 -1.7461857 -1.7536734]"},
		{"opset 1; y = Cast(v) {to=\"INT32\"}", "i32[2] [10 20]"},
		{"opset 1; y = Clip(x) {min=2.0, max=4.0}", "f32[2,3] [2 2 3 4 4 4]"},
		{"opset 1; y = Dropout(x) {is_test=1}", "f32[2,3] [1 2 3 4 5 6]"},
		{"opset 6; y = Gemm(x, e, w) {broadcast=1}", "f32[2,3] [4 4 4 7 7 7]"},
		{"opset 11; y = Hardmax(x) {axis=0}", "f32[2,3] [0 0 0 0 0 1]"},
		{"opset 13; y = Hardmax(x) {axis=0}", "f32[2,3] [0 0 0 1 1 1]"},
		{"opset 17; y = ReduceMax(x) {axes=[0], keepdims=0}", "f32[3] [4 5 6]"},
		{"opset 18; const a: i64[1] = [0]; y = ReduceMax(x, a) {keepdims=0}", "f32[3] [4 5 6]"},
		{"opset 11; y = Unsqueeze(v) {axes=[0]}", "f32[1,2] [10 20]"},
		{"opset 11; y = Shape(x)", "i64[2] [2 3]"},
		{"opset 15; y = Shape(x) {start=1}", "i64[1] [3]"},
	} {
		got, err := runText(t, "graph g\n"+c.text+`
			const x: f32[2,3] = [1, 2, 3, 4, 5, 6]; const n: f32[2,3] = [-1, -2, -3, -4, -5, -6]; const v: f32[2] = [10, 20]
			const w: f32[3] = [3, 2, 1]; const one: f32[1] = [1]; const i: f32[1,1,1,2] = [1, 3]
			const e: f32[3,3] = [1, 0, 0, 0, 1, 0, 0, 0, 1]
			output y`)
		require.NoError(t, err, c.text)
		require.Equal(t, []string{c.want}, got, c.text)
	}
}
