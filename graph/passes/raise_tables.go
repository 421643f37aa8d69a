package passes

// What changed between opsets, by the version that brought the change. Every version of every operator of ai.onnx from 8 to 25
// stands in one of the three tables; a test compares them with the history of ONNX.

// compatible lists operators whose new version means the same for every node of the version before: more types, more
// optional inputs and attributes, wording.
var compatible = map[int64]string{
	8:  "Max MaxPool Mean Min Sum",
	9:  "Cast Constant Flatten Gemm Greater Less MatMul PRelu",
	10: "AveragePool Dropout MaxPool",
	11: "ArgMax ArgMin AveragePool Compress Concat Constant Conv ConvTranspose DepthToSpace Equal Flatten Gather Gemm Hardmax If " +
		"LogSoftmax Loop LpPool MaxPool MaxUnpool NonMaxSuppression OneHot ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp " +
		"ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Scan Slice Softmax Split Squeeze TopK Unsqueeze",
	12: "ArgMax ArgMin Clip Constant GatherND Max MaxPool Min Pow ReduceMax ReduceMin",
	13: "Abs Add ArgMax ArgMin Cast Ceil Clip Concat Constant DepthToSpace DequantizeLinear Div Dropout Equal Erf Exp Expand Flatten " +
		"Floor Gather GatherElements GatherND Gemm Greater Identity If IsNaN LRN Less Log Loop MatMul Max Mean " +
		"MeanVarianceNormalization Min Mod Mul Neg NonZero Pad Pow QuantizeLinear Reciprocal ReduceL1 ReduceL2 ReduceLogSum " +
		"ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare Relu Reshape Resize ScatterElements " +
		"ScatterND Shape Sigmoid Sign Size Slice SpaceToDepth Sqrt Sub Sum Tanh Tile Transpose NegativeLogLikelihoodLoss " +
		"SoftmaxCrossEntropyLoss",
	14: "Add CumSum Div GRU Identity LSTM Mul RNN Relu Reshape Sub",
	15: "BatchNormalization Pow Shape",
	16: "GreaterOrEqual Identity If LeakyRelu LessOrEqual Loop PRelu Scan ScatterElements ScatterND Where",
	18: "LpPool OptionalGetElement OptionalHasElement Pad Resize ScatterElements ScatterND",
	19: "AveragePool Cast CastLike Constant DequantizeLinear Equal Identity If Loop Pad QuantizeLinear Reshape Resize Scan Shape Size",
	20: "ConstantOfShape IsInf IsNaN ReduceMax ReduceMin",
	21: "Cast CastLike Constant ConstantOfShape DequantizeLinear Flatten Identity If Loop Pad QLinearMatMul QuantizeLinear Reshape " +
		"Scan Shape Size Squeeze Transpose Unsqueeze",
	// Of 22, AveragePool and MaxPool say that windows which would begin in the padding behind do not count, as all engines had it.
	22: "Acos Acosh Asin Asinh Atan Atanh AveragePool Bernoulli Conv ConvTranspose Cos Cosh DeformConv Det Dropout Elu EyeLike GRU " +
		"GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample HardSigmoid HardSwish InstanceNormalization LSTM LpNormalization LpPool " +
		"MaxPool MaxRoiPool MaxUnpool Mish Multinomial NegativeLogLikelihoodLoss RNN RandomNormal RandomNormalLike RandomUniform " +
		"RandomUniformLike RoiAlign Round Selu Sin Sinh Softplus Softsign Tan ThresholdedRelu",
	23: "Cast CastLike Constant ConstantOfShape DequantizeLinear Flatten Identity If Loop Pad QuantizeLinear Reshape Scan Shape Size " +
		"Squeeze Transpose Unsqueeze",
	24: "Attention Cast CastLike Constant ConstantOfShape DequantizeLinear Flatten Identity If Loop Pad QuantizeLinear Reshape Scan Shape " +
		"Size SplitToSequence Squeeze TopK Transpose Unsqueeze",
	25: "Attention Cast CastLike Constant ConstantOfShape DequantizeLinear Flatten Identity If Loop Pad QuantizeLinear Reshape Scan Shape " +
		"Size Squeeze Transpose Unsqueeze",
}

// conversions rewrite what a new version says differently.
var conversions = map[int64]map[string]conversion{
	9:  {"BatchNormalization": batchNormSpatial, "Upsample": upsampleScales},
	10: {"Slice": sliceInputs, "TopK": topKInput, "Upsample": upsampleToResize},
	11: {"Clip": clipInputs, "Pad": padInputs, "Resize": resizeRoi, "Scatter": scatterElements},
	12: {"Dropout": dropoutRatio},
	13: {"Softmax": softmaxAxis, "LogSoftmax": softmaxAxis, "Hardmax": softmaxAxis, "Squeeze": axesInput, "Unsqueeze": axesInput,
		"ReduceSum": axesInput, "Split": splitInput},
	14: {"BatchNormalization": batchNormOutputs},
	16: {"RoiAlign": roiAlignMode},
	18: {"ReduceL1": axesInput, "ReduceL2": axesInput, "ReduceLogSum": axesInput, "ReduceLogSumExp": axesInput, "ReduceMax": axesInput,
		"ReduceMean": axesInput, "ReduceMin": axesInput, "ReduceProd": axesInput, "ReduceSumSquare": axesInput, "Split": splitOutputs},
	20: {"GridSample": gridSampleMode},
}

// refused lists operators whose new version means something else and for which there is no conversion.
var refused = map[int64]string{
	9:  "Scan",
	20: "DFT",
	21: "GroupNormalization",
}
