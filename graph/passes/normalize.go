package passes

// Normalize is the list that brings a loaded graph into the normal form described at the package. The order matters for
// speed and for the reasons in Constraints; Run repeats the list until nothing changes.
var Normalize = []Pass{
	ConstantNodes,
	EinsumToMatMul,
	FoldConstants,
	Empty,
	Widen,
	Branches,
	DeadCode,
	NoOps,
	Dropouts,
	Bounds,
	Slopes,
	Casts,
	Transposes,
	Reshapes,
	CommonSubexpressions,
	FoldBatchNorm,
	LoneBatchNorm,
	ConstantChains,
	FoldScaleAfter,
	FoldBias,
	FoldScaleBefore,
	FoldOffsetBefore,
	MatMulVectors,
	MatMulAddToGemm,
	GemmFactors,
	FoldPad,
	MergeConstants,
	SweepConstants,
}

// Constraint says that pass Before must stand before pass After in every list that has both.
type Constraint struct {
	Before, After string
	Why           string
}

// Constraints hold for Normalize: a test checks them.
var Constraints = []Constraint{
	{"constant-nodes", "fold-constants", "the operands of what can be folded are constants only once Constant nodes are"},
	{"empty", "no-ops", "a concatenation of one part that is left hands on its input"},
	{"einsum-to-matmul", "fold-constants", "transposed and reshaped weights are computed"},
	{"fold-constants", "fold-batch-norm", "weights and statistics that are computed from constants count as constants only then"},
	{"fold-constants", "widen", "constants are computed with all the digits that the network has"},
	{"widen", "casts", "Casts between float types do nothing once all compute in float32"},
	{"fold-constants", "branches", "conditions that are computed from constants are known to later passes only then"},
	{"branches", "dead-code", "what only the other branch read is dead once the branch is taken"},
	{"dead-code", "fold-batch-norm", "a reader that no output depends on must not keep a value from being fused away"},
	{"no-ops", "fold-batch-norm", "an Identity or Dropout between convolution and normalization hides the pair"},
	{"dropouts", "fold-batch-norm", "an Identity or Dropout between convolution and normalization hides the pair"},
	{"bounds", "constant-chains", "an idiom written with Max and Min is known, and left whole, only once they are a Clip"},
	{"common-subexpressions", "constant-chains", "a part that was exported twice gives its idiom a second reader until it is merged"},
	{"fold-batch-norm", "lone-batch-norm", "a normalization that can be folded into weights in one rounding must not be split first"},
	{"constant-chains", "fold-scale-after", "a chain that is one factor is folded with one rounding"},
	{"fold-scale-after", "fold-scale-before", "a factor between two convolutions goes to the one before it, where it is per output channel"},
	{"fold-scale-after", "matmul-add-to-gemm", "a factor between product and sum keeps the two apart"},
	{"matmul-vectors", "matmul-add-to-gemm", "a matrix behind an axis of length 1 becomes the weights of a Gemm"},
	{"matmul-add-to-gemm", "gemm-factors", "the product that becomes a Gemm has factors 1"},
	{"fold-scale-after", "merge-constants", "folds make constants that may be equal"},
	{"merge-constants", "sweep-constants", "a merged constant has lost its readers"},
}
