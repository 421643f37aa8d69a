package passes

import "testing"

const foldHead = `opset 13
	input x: f32[2,4,5,6]
	input m: f32[3,4]
	input t: f32[2,3,4]
	input one: f32[2,1,5,6]
	const w: f32[6,4,3,3] = normal(seed=1)
	const wd: f32[4,1,3,3] = normal(seed=2)
	const wt: f32[4,3,3,3] = normal(seed=4)
	const wg: f32[4,6] = normal(seed=5)
	const wgt: f32[6,4] = normal(seed=6)
	const wl: f32[6,3] = normal(seed=26)
	const b: f32[6] = normal(seed=7)
	const k: f32[] = 1.7
	const k1: f32[1] = [0.3]
	const kc: f32[6,1,1] = uniform(seed=8, low=0.5, high=2)
	const kn: f32[1,6,1,1] = uniform(seed=9, low=-2, high=-0.5)
	const kw: f32[4] = uniform(seed=10, low=0.5, high=2)
	const kl: f32[6] = uniform(seed=11, low=0.5, high=2)
	const krow: f32[3,1] = uniform(seed=12, low=0.5, high=2)
	const k6row: f32[6,1] = uniform(seed=18, low=0.5, high=2)
	const k5: f32[1,1,6,1,1] = fill(2)
	const k4: f32[1,4,1,1] = uniform(seed=13, low=0.5, high=2)
	const k4l: f32[4] = uniform(seed=14, low=0.5, high=2)
	const zero: f32[] = 0
	const f64: f64[] = 2`

func TestFoldScaleAfter(t *testing.T) {
	runCases(t, FoldScaleAfter, foldHead, []passCase{
		{"scalar after Conv", "c = Conv(x, w, b); y = Mul(c, k); output y", "Conv", ""},
		{"the constant first", "c = Conv(x, w, b); y = Mul(k1, c); output y", "Conv", ""},
		{"per channel", "c = Conv(x, w, b); y = Mul(c, kc); output y", "Conv", ""},
		{"Div per channel", "c = Conv(x, w); y = Div(c, kn); output y", "Conv", ""},
		{"ConvTranspose in groups", "c = ConvTranspose(x, wt, b) {group=2}; y = Mul(c, kn); output y", "ConvTranspose", ""},
		{"Gemm keeps alpha", "c = Gemm(m, wgt, b) {alpha=0.5, beta=2.0, transB=1}; y = Div(c, kl); output y", "Gemm", ""},
		{"MatMul of rank 3", "c = MatMul(t, wg); y = Mul(c, kl); output y", "MatMul", ""},
		{"constant on the left of MatMul, per row", "c = MatMul(wl, t); y = Mul(c, k6row); output y", "MatMul", ""},
		{"constant on the left of MatMul, per column", "c = MatMul(wl, t); y = Mul(c, k4l); output y", "MatMul Mul", "varies along axis 2"},
		{"batched constant times a vector, along the batch", "input v: f32[4]; const wb: f32[6,6,4] = normal(seed=27); c = MatMul(wb, v); " +
			"y = Mul(c, k6row); output y", "MatMul Mul", "varies along axis 0"},
		{"batched constant times a vector, per row", "input v: f32[4]; const wb: f32[6,6,4] = normal(seed=27); c = MatMul(wb, v); y = Mul(c, " +
			"kl); output y", "MatMul", ""},
		{"along the width", "c = Conv(x, w) ; y = Mul(c, kw); output y", "Conv Mul", "varies along axis 3"},
		{"along the rows of a Gemm", "c = Gemm(m, wg); y = Mul(c, krow); output y", "Gemm Mul", "varies along axis 0"},
		{"a constant that raises the rank", "c = Conv(x, w); y = Mul(c, k5); output y", "Conv Mul", "more dimensions"},
		{"a quotient with the constant above", "c = Conv(x, w); y = Div(k, c); output y", "Conv Div", ""},
		{"another reader", "c = Conv(x, w); y = Mul(c, k); z = Relu(c); output y, z", "Conv Mul Relu", "also read by"},
		{"output", "c = Conv(x, w); y = Mul(c, k); output y, c", "Conv Mul", "graph output"},
		{"the sixth of a HardSwish", `c = Gemm(m, wg)
			const c3: f32[] = 3; const c0: f32[] = 0; const c6: f32[] = 6
			a = Add(c, c3); l = Clip(a, c0, c6); p = Mul(c, l); q = Div(p, c6)
			y = MatMul(q, wgt); output y`, "Gemm Add Clip Mul Div MatMul", ""},
	})
}

func TestDivisionByZeroIsNotFolded(t *testing.T) {
	g := parseGraph(t, foldHead+"\nc = Conv(x, w); y = Div(c, zero); output y")
	requireReason(t, normalize(t, g, FoldScaleAfter), "not be finite")
	requireOps(t, g, "Conv Div")
}

func TestFoldBias(t *testing.T) {
	runCases(t, FoldBias, foldHead, []passCase{
		{"new bias", "c = Conv(x, w); y = Add(c, kc); output y", "Conv", ""},
		{"bias on a bias", "c = Conv(x, w, b); y = Add(kn, c); output y", "Conv", ""},
		{"scalar", "c = ConvTranspose(x, wt) {group=2}; y = Add(c, k); output y", "ConvTranspose", ""},
		{"Sub", "c = Conv(x, w, b); y = Sub(c, kc); output y", "Conv", ""},
		{"Sub the other way round", "c = Conv(x, w, b); y = Sub(kc, c); output y", "Conv Sub", ""},
		{"Sum", "c = Conv(x, w, b); y = Sum(c, kc); output y", "Conv", ""},
		{"Gemm with beta", "c = Gemm(m, wg, b) {alpha=2.0, beta=0.5}; y = Add(c, kl); output y", "Gemm", ""},
		{"along the width, where PPQ's squeezed constant would land", "c = Conv(x, w, b); y = Add(c, kw); output y", "Conv Add",
			"varies along axis 3"},
		{"along the rows of a Gemm", "c = Gemm(m, wg, b); y = Add(c, krow); output y", "Gemm Add", "varies along axis 0"},
		{"not constant", "c = Conv(x, w); d = Conv(x, w); y = Add(c, d); output y", "Conv Conv Add", ""},
		{"a residual connection", "c = Conv(x, w); r = Relu(c); y = Add(c, r); output y", "Conv Relu Add", ""},
	})
}
