package passes

import "testing"

func TestConstantChains(t *testing.T) {
	runCases(t, ConstantChains, foldHead, []passCase{
		{"factors", "a = Mul(x, k); b1 = Div(a, k4); y = Mul(k1, b1); output y", "Mul", ""},
		{"terms", "a = Add(x, k); b1 = Sub(a, k4); y = Add(k1, b1); output y", "Add", ""},
		{"a chain in the normal form", "a = Mul(x, k); y = Add(a, k4); output y", "Mul Add", ""},
		{"Mul Add Mul Add is one Mul and one Add", "a = Mul(x, k); c = Add(a, k4); d = Div(c, k1); y = Sub(d, k); output y", "Mul Add", ""},
		{"a factor passes a term when weights wait before it", "c = MatMul(t, wg); a = Add(c, kl); y = Mul(a, k); output y",
			"MatMul Mul Add", ""},
		{"and stays when nothing does", "a = Add(x, k4); y = Mul(a, k); output y", "Add Mul", ""},
		{"constants that make a larger one", "a = Mul(x, k4); const kh: f32[5,1] = fill(2); y = Mul(a, kh); output y", "Mul Mul", "as small"},
		{"another reader", "a = Mul(x, k); y = Mul(a, k1); z = Relu(a); output y, z", "Mul Mul Relu", "also read by"},
		{"an output between", "a = Mul(x, k); y = Mul(a, k1); output y, a", "Mul Mul", "graph output"},
		{"the constant above a quotient", "a = Mul(x, k); y = Div(k1, a); output y", "Mul Div", ""},
		{"the constant less the value", "a = Add(x, k); y = Sub(k1, a); output y", "Add Sub", ""},
		{"the sixth of a HardSwish", `const c3: f32[] = 3; const c0: f32[] = 0; const c6: f32[] = 6
			a = Add(x, c3); l = Clip(a, c0, c6); p = Mul(x, l); q = Div(p, c6); y = Mul(q, k); output y`,
			"Add Clip Mul Div Mul", "part of an operator written out"},
	})
}

func TestMatMulAddToGemm(t *testing.T) {
	runCases(t, MatMulAddToGemm, foldHead, []passCase{
		{"matrices", "c = MatMul(m, wg); y = Add(kl, c); output y", "Gemm", ""},
		{"scalar", "c = MatMul(m, wg); y = Add(c, k); output y", "Gemm", ""},
		{"rank 3", "c = MatMul(t, wg); y = Add(c, kl); output y", "Gemm", ""},
		{"per row", "c = MatMul(m, wg); y = Add(c, krow); output y", "MatMul Add", "varies along axis 0"},
		{"another reader", "c = MatMul(m, wg); y = Add(c, kl); z = Relu(c); output y, z", "MatMul Add Relu", "also read by"},
		{"a product of activations", "s = Relu(m); u = Transpose(m) {perm=[1, 0]}; c = MatMul(s, u); y = Add(c, k); output y",
			"Relu Transpose MatMul Add", ""},
	})
}

func TestGemmFactors(t *testing.T) {
	runCases(t, GemmFactors, foldHead, []passCase{
		{"both", "y = Gemm(m, wg, b) {alpha=0.5, beta=2.0}; output y", "Gemm", ""},
		{"transB, no bias", "y = Gemm(m, wgt) {alpha=-3.0, transB=1}; output y", "Gemm", ""},
		{"scalar bias", "y = Gemm(m, wg, k) {beta=0.25}; output y", "Gemm", ""},
		{"a bias per row", "y = Gemm(m, wg, krow) {beta=0.25}; output y", "Gemm", "varies along axis 0"},
	})
	g, _ := rewrite(t, foldHead+"\ny = Gemm(m, wg, b) {alpha=0.5, beta=2.0}\noutput y", GemmFactors)
	for _, id := range g.Nodes() {
		if a := g.Node(id).Attr("alpha"); a != nil {
			t.Error("alpha is still there")
		}
	}
}
