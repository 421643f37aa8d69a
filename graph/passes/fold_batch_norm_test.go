package passes

import "testing"

const batchNormHead = `opset 13
	input x: f32[2,4,5,6]
	input m: f32[3,4]
	input v: f32[2,4,7]
	const w: f32[6,4,3,3] = normal(seed=1)
	const wd: f32[4,1,3,3] = normal(seed=2)
	const w1: f32[6,4,3] = normal(seed=3)
	const wt: f32[4,3,3,3] = normal(seed=4)
	const wg: f32[4,6] = normal(seed=5)
	const wgt: f32[6,4] = normal(seed=6)
	const b: f32[6] = normal(seed=7)
	const s6: f32[6] = normal(seed=8, mean=1)
	const o6: f32[6] = normal(seed=9)
	const m6: f32[6] = normal(seed=10)
	const v6: f32[6] = uniform(seed=11, low=0.1, high=2)
	const s4: f32[4] = normal(seed=12, mean=1)
	const o4: f32[4] = normal(seed=13)
	const m4: f32[4] = normal(seed=14)
	const v4: f32[4] = uniform(seed=15, low=0.1, high=2)`

func TestFoldBatchNorm(t *testing.T) {
	runCases(t, FoldBatchNorm, batchNormHead, []passCase{
		{"Conv without bias", "c = Conv(x, w); y = BatchNormalization(c, s6, o6, m6, v6); output y", "Conv", ""},
		{"Conv with bias and padding", "c = Conv(x, w, b) {pads=[1, 1, 1, 1]}; y = BatchNormalization(c, s6, o6, m6, v6) {epsilon=0.1}; output y",
			"Conv", ""},
		{"depthwise", "c = Conv(x, wd) {group=4}; y = BatchNormalization(c, s4, o4, m4, v4); output y", "Conv", ""},
		{"one spatial axis", "c = Conv(v, w1, b); y = BatchNormalization(c, s6, o6, m6, v6); output y", "Conv", ""},
		{"ConvTranspose in two groups", "c = ConvTranspose(x, wt, b) {group=2, strides=[2, 2]}; y = BatchNormalization(c, s6, o6, m6, " +
			"v6); output y", "ConvTranspose", ""},
		{"Gemm", "c = Gemm(m, wg, b); y = BatchNormalization(c, s6, o6, m6, v6); output y", "Gemm", ""},
		{"Gemm with alpha, beta and transB", "c = Gemm(m, wgt, b) {alpha=0.5, beta=-3.0, transB=1}; y = BatchNormalization(c, s6, o6, m6, " +
			"v6); output y", "Gemm", ""},
		{"another reader of the convolution", "c = Conv(x, w); y = BatchNormalization(c, s6, o6, m6, v6); z = Relu(c); output y, z",
			"Conv BatchNormalization Relu", `"c" is also read by node "z"`},
		{"the convolution is an output", "c = Conv(x, w); y = BatchNormalization(c, s6, o6, m6, v6); output y, c", "Conv BatchNormalization",
			`"c" is a graph output`},
		{"weights another node reads", "c = Conv(x, w); y = BatchNormalization(c, s6, o6, m6, v6); z = Conv(x, w); output y, z", "Conv Conv", ""},
		{"computed weights", "r = Relu(w); c = Conv(x, r); y = BatchNormalization(c, s6, o6, m6, v6); output y", "Relu Conv BatchNormalization",
			"weights are not constant"},
		{"computed bias", "r = Relu(b); c = Conv(x, w, r); y = BatchNormalization(c, s6, o6, m6, v6); output y", "Relu Conv BatchNormalization",
			"bias is not constant"},
	})
}

func TestLoneBatchNorm(t *testing.T) {
	runCases(t, LoneBatchNorm, batchNormHead+`
		input d: f32[1,4,3,3,3]
		const far: f32[4] = fill(1e6)
		const tiny: f32[4] = fill(1e-6)`, []passCase{
		{"two spatial axes", "y = BatchNormalization(x, s4, o4, m4, v4); output y", "Mul Add", ""},
		{"one spatial axis", "y = BatchNormalization(v, s4, o4, m4, v4); output y", "Mul Add", ""},
		{"three spatial axes", "y = BatchNormalization(d, s4, o4, m4, v4); output y", "Mul Add", ""},
		{"a matrix", "y = BatchNormalization(m, s4, o4, m4, v4) {epsilon=0.01}; output y", "Mul Add", ""},
		{"means far from 0", "y = BatchNormalization(x, s4, o4, far, tiny); output y", "BatchNormalization", "would lose digits"},
	})
}

func TestTrainingBatchNormStays(t *testing.T) {
	g := parseGraph(t, "opset 15\n"+batchNormHead[len("opset 13"):]+"\nc = Conv(x, w)\ny = BatchNormalization(c, s6, o6, m6, "+
		"v6) {training_mode=1}\noutput y")
	log := normalize(t, g, FoldBatchNorm, LoneBatchNorm)
	requireReason(t, log, "training mode")
	requireOps(t, g, "Conv BatchNormalization")
}
