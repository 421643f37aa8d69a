package pattern

// weighted makes the activation's input the result of an operator with weights.
const weighted = "x = Conv|ConvTranspose|Gemm|MatMul(input, weight, bias?)"

var simpleActivations = []string{"y = Relu|LeakyRelu|Sigmoid|Tanh|HardSigmoid|Elu|Selu|Softplus|Celu|ThresholdedRelu(x)",
	"y = Clip(x, const min?, const max?)", "y = PRelu(x, const slope)"}

// WeightedActivation is an operator with weights followed by an activation, which may itself be a family (the root is then the
// last node of its form). Names: x is the operator's node and result; input, weight, bias its inputs; y the activation's result.
var WeightedActivation = &Family{Name: "WeightedActivation",
	Doc: "Conv, ConvTranspose, Gemm or MatMul followed by an activation",
	Forms: parseAll(product([]string{weighted}, geluErf), product([]string{weighted}, geluTanh),
		product([]string{weighted}, geluOps), product([]string{weighted}, hardSwishForms),
		product([]string{weighted}, mishForms), product([]string{weighted}, swishForms),
		product([]string{weighted}, simpleActivations))}
