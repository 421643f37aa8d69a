package passes

import "testing"

func TestFoldScaleBefore(t *testing.T) {
	runCases(t, FoldScaleBefore, foldHead, []passCase{
		{"scalar before a padded Conv", "s = Mul(x, k); y = Conv(s, w, b) {pads=[1, 1, 1, 1]}; output y", "Conv", ""},
		{"per channel", "s = Mul(k4, x); y = Conv(s, w); output y", "Conv", ""},
		{"Div per channel, depthwise", "s = Div(x, k4); y = Conv(s, wd) {group=4, pads=[1, 1, 1, 1]}; output y", "Conv", ""},
		{"ConvTranspose in groups", "s = Mul(x, k4); y = ConvTranspose(s, wt, b) {group=2}; output y", "ConvTranspose", ""},
		{"Gemm", "s = Mul(m, k4l); y = Gemm(s, wg, b) {alpha=3.0}; output y", "Gemm", ""},
		{"Gemm with transB", "s = Mul(m, k4l); y = Gemm(s, wgt, b) {transB=1}; output y", "Gemm", ""},
		{"MatMul of rank 3", "s = Mul(t, k4l); y = MatMul(s, wg); output y", "MatMul", ""},
		{"constant on the left of MatMul", "s = Mul(t, k); y = MatMul(wl, s); output y", "MatMul", ""},
		{"constant on the left of MatMul, per row of the right", "s = Mul(t, krow); y = MatMul(wl, s); output y", "MatMul", ""},
		{"constant on the left of MatMul, per column", "s = Mul(t, k4l); y = MatMul(wl, s); output y", "Mul MatMul", "varies along axis 2"},
		{"along the width", "const k3: f32[6] = fill(2); s = Mul(x, k3); y = Conv(s, w); output y", "Mul Conv", "varies along axis 3"},
		{"the constant repeats the only channel", "s = Mul(one, k4); y = Conv(s, w); output y", "Mul Conv", "may have one channel"},
		{"the constant raises the rank of a Conv's input", "input i: f32[4,5,6]; const k1111: f32[1,1,1,1] = fill(2); s = Mul(i, k1111); " +
			"y = Conv(s, w); output y", "Mul Conv", "more dimensions than"},
		{"the constant raises the rank of a MatMul's operand", "const k111: f32[1,1,1] = fill(2); s = Mul(m, k111); y = MatMul(s, wg); output y",
			"Mul MatMul", "more dimensions than"},
		{"other readers of the product", "s = Mul(x, k); y = Conv(s, w); z = Relu(s); output y, z", "Mul Conv Relu", "also read by"},
		{"other readers of its input", "r = Relu(x); s = Mul(r, k); y = Conv(s, w); output y, r", "Relu Conv", ""},
		{"the product is an output", "s = Mul(x, k); y = Conv(s, w); output y, s", "Mul Conv", "graph output"},
		{"through an offset, padded", "r = Relu(x); s = Mul(r, k); a = Add(s, k4); y = Conv(a, w, b) {pads=[1, 1, 1, 1]}; output y",
			"Relu Add Conv", ""},
		{"through an offset that is taken off", "n = Relu(m); s = Mul(k, n); a = Sub(s, k4l); y = Gemm(a, wg, b); output y", "Relu Sub Gemm", ""},
		{"through an offset, by channel", "r = Relu(x); s = Mul(r, k4); a = Add(s, k4); y = Conv(a, w); output y", "Relu Mul Add Conv",
			"not one number"},
		{"through an offset that others read", "r = Relu(x); s = Mul(r, k); a = Add(s, k4); y = Conv(a, w); z = Relu(a); output y, z",
			"Relu Mul Add Conv Relu", "also read by"},
		{"through an offset, of the graph's input", "s = Mul(x, k); a = Add(s, k4); y = Conv(a, w); output y", "Mul Add Conv",
			"part of something else"},
		{"the constant above", "s = Div(k, x); y = Conv(s, w); output y", "Div Conv", ""},
	})
}

func TestFoldOffsetBefore(t *testing.T) {
	runCases(t, FoldOffsetBefore, foldHead, []passCase{
		{"Conv without padding", "r = Relu(x); s = Add(r, k4); y = Conv(s, w, b); output y", "Relu Conv", ""},
		{"Sub, depthwise", "r = Relu(x); s = Sub(r, k4); y = Conv(s, wd) {group=4}; output y", "Relu Conv", ""},
		{"Gemm with alpha and beta", "n = Relu(m); s = Add(n, k4l); y = Gemm(s, wg, b) {alpha=3.0, beta=0.5}; output y", "Relu Gemm", ""},
		{"padding", "r = Relu(x); s = Add(r, k4); y = Conv(s, w, b) {pads=[0, 0, 1, 1]}; output y", "Relu Add Conv", "pads with 0"},
		{"automatic padding", "r = Relu(x); s = Add(r, k4); y = Conv(s, w, b) {auto_pad=\"SAME_UPPER\"}; output y", "Relu Add Conv",
			"pads with 0"},
		{"of the graph's input", "s = Add(x, k4); y = Conv(s, w, b); output y", "Add Conv", "centres an input"},
		{"of the graph's input, scaled", "s = Mul(x, k); a = Add(s, k4); y = Conv(a, w, b); output y", "Mul Add Conv", "centres an input"},
		{"ConvTranspose sees less of it at the border", "r = Relu(x); s = Add(r, k4); y = ConvTranspose(s, wt) {group=2}; output y",
			"Relu Add ConvTranspose", ""},
	})
}
