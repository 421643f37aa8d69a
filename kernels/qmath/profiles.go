package qmath

// What several profiles say of themselves in the same words.
const (
	q31Double = "s_x * s_w/s_y in float64, as M * 2^(Shift-31) with 31 bits, half away from zero"
	q31Float  = "s_x * s_w in float32, divided by s_y in float64, as M * 2^(Shift-31) with 31 bits, half away from zero"
	floatOrt  = "m = (s_x * s_w)/s_y, two float32 operations"
	powerOf2  = "scales are powers of two, so the factor is 2^-n"
	after     = "after rounding"
)

// Profiles returns all arithmetic profiles, in the order of docs/profiles.md.
func Profiles() []Profile {
	return []Profile{
		{Name: "tflite2", Scaling: Scaling{Form: DoubleUpAway}, Family: TFLite, Doc: ProfileDoc{
			Formula:  "RDPOT(SRDHM(acc << max(Shift,0), M), max(-Shift,0)) + z",
			Factor:   q31Double + "; Gemm and MatMul with one weight scale: s_x * s_w in float32",
			Rounding: "twice: half up, then half away from zero", ZeroPoint: after,
			Exact: "TFLite reference kernels, TFLite Micro, CMSIS-NN",
			Differs: "TFLite with XNNPACK (the default delegate): `ort` on x86, `rndnu` on NEON; its optimized kernels, which round half up both " +
				"times; FULLY_CONNECTED of LiteRT 2's reference (float64, half away)",
		}},
		{Name: "tflite1", Scaling: Scaling{Form: SingleUp}, Family: TFLite, Doc: ProfileDoc{
			Formula:  "((acc*M + 2^(t-1)) >> t) + z, t = 31-Shift",
			Factor:   q31Double + "; Gemm and MatMul with one weight scale: s_x * s_w in float32",
			Rounding: "once, half up", ZeroPoint: after,
			Exact:   "TFLite built with TFLITE_SINGLE_ROUNDING, CMSIS-NN built with CMSIS_NN_USE_SINGLE_ROUNDING",
			Differs: "TFLite as it is built by default: `tflite2`, one step away on about 0.2 % of accumulators",
		}},
		{Name: "litert", Scaling: Scaling{Form: DoubleUpAway}, Family: TFLite, Double: true, Doc: ProfileDoc{
			Formula:  "as `tflite2`; Gemm and MatMul by constant weights: half-away(acc*f) + z",
			Factor:   "as `tflite2`; there f = s_x * s_w/s_y in float64",
			Rounding: "as `tflite2`; there once, half away from zero", ZeroPoint: after,
			Exact:   "LiteRT 2.3's reference kernels",
			Differs: "earlier TFLite, TFLite Micro and CMSIS-NN: `tflite2`; LiteRT's other kernels (XNNPACK: `ort` on x86)",
		}},
		{Name: "tvm-upward", Scaling: Scaling{Form: SingleUpShift}, Family: TVM, Doc: ProfileDoc{
			Formula: "((acc*M + 2^(t-1)) >> t) + z, t = 31-Shift; a power of two: a shift in int32", Factor: q31Float,
			Rounding: "once, half up", ZeroPoint: after,
			Exact:   "TVM relay QNN, rounding UPWARD, compute_dtype int64",
			Differs: "TVM on x86 with SSE4.1, whose default compute_dtype is float32; AArch64 with vectors: `tvm-a64`",
		}},
		{Name: "tvm-nearest", Scaling: Scaling{Form: SingleAway}, Family: TVM, Doc: ProfileDoc{
			Formula: "((acc*M + 2^(t-1) - (acc < 0)) >> t) + z, t = 31-Shift", Factor: q31Float,
			Rounding: "once, half away from zero", ZeroPoint: after,
			Exact:   "TVM relay QNN, rounding TONEAREST, compute_dtype int64",
			Differs: "TVM on x86 with SSE4.1, whose default compute_dtype is float32",
		}},
		{Name: "tvm-a64", Scaling: Scaling{Form: DoubleUpUp}, Family: TVM, Doc: ProfileDoc{
			Formula: "((h + 2^(r-1)) >> r) + z, h = (acc*M + 2^30) >> 31, r = -Shift", Factor: q31Float,
			Rounding: "twice: half up, then half up", ZeroPoint: after,
			Exact:   "TVM relay QNN, rounding UPWARD, where AArch64 vectors lower it to SQRDMULH and SRSHL",
			Differs: "TVM where the operator is not vectorized by four",
		}},
		{Name: "ort", Scaling: Scaling{Form: FloatAfter}, Family: ORT, Doc: ProfileDoc{
			Formula: "half-even(clamp(float32(acc)*m)) + z", Factor: floatOrt,
			Rounding: "float32 product, then half to even", ZeroPoint: after,
			Exact:   "ONNX Runtime, x64: fused QLinearConv, QLinearMatMul; XNNPACK's fp32 requantization",
			Differs: "ONNX Runtime on x64 without VNNI for u8 x s8: `avx2-saturating`; graphs it does not fuse: `onnx`",
		}},
		{Name: "onnx-ref", Scaling: Scaling{Form: FloatInside}, Family: FloatFamily, Doc: ProfileDoc{
			Formula: "clamp(half-even(float32(acc)*m + z))", Factor: floatOrt,
			Rounding: "float32 product and sum, then half to even", ZeroPoint: "inside the rounding",
			Exact:   "QLinearConv and QLinearMatMul of the ONNX reference evaluator",
			Differs: "ONNX Runtime: ties with an odd zero point",
		}},
		{Name: "rndnu", Scaling: Scaling{Form: SingleUp}, Family: XNNPACK, Doc: ProfileDoc{
			Formula: "((acc*M + 2^(t-1)) >> t) + z, t = 31-Shift", Factor: "(s_x * s_w)/s_y in float32; its 24 bits are M without rounding",
			Rounding: "once, half up", ZeroPoint: after,
			Exact:   "XNNPACK on NEON: qs8 and qu8 with one weight scale",
			Differs: "XNNPACK on x86 and with a scale per channel: `ort`; on NEON where it shifts before it multiplies (factors below 2^-16 or so)",
		}},
		{Name: "ncnn", Scaling: Scaling{Form: FloatTwice, Rounding: HalfAwayFromZero}, Family: FloatFamily, Doc: ProfileDoc{
			Formula:  "half-away((float32(acc)*d + b) * (1/s_y)), clamped to [-127,127]",
			Factor:   "d = 1/((1/s_x) * (1/s_w)), float32: ncnn stores reciprocals",
			Rounding: "float32 throughout, then half away from zero", ZeroPoint: "there is none",
			Exact: "ncnn's int8 layers, scales as 1/scale in float32",
			Differs: "its packed depthwise kernels on x86, whose reciprocal has 12 bits; compilers that fuse multiply and add; tables read from " +
				"text with six decimals",
		}},
		{Name: "mnn", Scaling: Scaling{Form: FloatAfter, Rounding: HalfAwayFromZero}, Family: FloatFamily, Doc: ProfileDoc{
			Formula: "clamp(half-away(float32(acc)*m + b/s_y) + z)", Factor: floatOrt,
			Rounding: "float32 product and sum, then half away from zero", ZeroPoint: after,
			Exact:   "MNN's CPU kernels of convolutions but the depthwise ones",
			Differs: "its depthwise kernels, which round the bias to int32; Winograd and vectors that fuse multiply and add",
		}},
		pow2("pow2", HalfUp, "half up: add 2^(n-1), shift", "ap_fixed with AP_RND; NPUs that add half and shift"),
		pow2("pow2-floor", Down, "floor: shift", "ap_fixed with AP_TRN (the default)"),
		pow2("pow2-half-away", HalfAwayFromZero, "half away from zero", "ap_fixed with AP_RND_INF; NPUs that round magnitudes"),
		pow2("pow2-half-even", HalfEven, "half to even", "ap_fixed with AP_RND_CONV"),
		{Name: "avx2-saturating", Scaling: Scaling{Form: FloatAfter}, Family: ORT, Saturates: true, Doc: ProfileDoc{
			Formula: "as `ort`, the products of two neighbouring taps being added with saturation to int16", Factor: floatOrt,
			Rounding: "float32 product, then half to even", ZeroPoint: after,
			Exact:   "u8 x s8 by VPMADDUBSW, pairs along K in memory order",
			Differs: "CPUs with VNNI; real arithmetic (it saturates): its differences are measured, not bounded",
		}},
		{Name: "onnx", Scaling: Scaling{Form: FloatDivide}, Family: FloatFamily, Doc: ProfileDoc{
			Formula: "clamp(half-even((float32(acc)*float32(s_x*s_w) + b) / s_y) + z)", Factor: "float32(s_x * s_w); s_y divides",
			Rounding: "float32 product, sum and quotient, then half to even", ZeroPoint: after,
			Exact:   "a Q/DQ graph run unfused by float operators, up to the order and rounding of their float sums",
			Differs: "runtimes that fuse Q/DQ: `ort`",
		}},
		{Name: "trt", Scaling: Scaling{Form: FloatAfter}, Family: FloatFamily, Doc: ProfileDoc{
			Formula: "clamp(half-even(float32(acc)*m + b/s_y) + z)", Factor: floatOrt,
			Rounding: "float32 product and sum, then half to even", ZeroPoint: after + "; zero in TensorRT",
			Exact:   "nothing outside qwb",
			Differs: "TensorRT, whose kernels round ties differently: within one step, never promised equal",
		}},
	}
}

func pow2(name string, r Rounding, words, exact string) Profile {
	return Profile{Name: name, Scaling: Scaling{Form: ShiftOnly, Rounding: r}, Family: PowerOfTwo, Doc: ProfileDoc{
		Formula: "round(acc * 2^-n) + z", Factor: powerOf2, Rounding: words, ZeroPoint: after,
		Exact: exact, Differs: "anything with a scale that is not a power of two: refused",
	}}
}
