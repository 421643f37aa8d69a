package exec

import (
	"slices"

	"qwb/graph"
)

// evalFunc computes one node: it reads inputs from the call and sets every output that the node has.
type evalFunc func(c *call) error

// evaluator is one operator. build reads the attributes of a node once, when the session is made, and refuses forms that
// are not supported; its reason becomes part of the UnsupportedError.
type evaluator struct {
	op    string
	build func(n *graph.Node, version int64) (evalFunc, error)
}

// domainEvals are the operators of one domain.
type domainEvals struct {
	domain string // "" is ai.onnx
	evals  []evaluator
}

// evalTable is every operator that can be executed. To add one: write its evaluator in the file of its family, add it to that
// family's list. A test holds that package graph can infer its shapes.
var evalTable = []domainEvals{
	{"", slices.Concat(
		unaryEvals, binaryEvals, compareEvals, selectEvals, castEvals,
		convEvals, poolEvals, gemmEvals, normEvals, softmaxEvals, reduceEvals, argEvals,
		shapeEvals, moveEvals, padEvals, gatherEvals, scatterEvals, resizeEvals,
		fillEvals, scanEvals, einsumEvals, quantEvals, integerEvals,
		controlEvals, loopEvals, recurrentEvals, boxEvals,
		attentionEvals, sampleEvals, signalEvals, matrixEvals, imageEvals, setEvals, simplifiedNormEvals,
	)},
	{"com.microsoft", slices.Concat(
		microsoftQuantEvals, qlinearEvals, qlinearPoolEvals, qgemmEvals, nbitsEvals, fusedEvals, skipNormEvals,
		microsoftAttentionEvals, []evaluator{{"DynamicQuantizeLSTM", buildDynamicLSTM}},
	)},
	{graph.OwnDomain, []evaluator{{"HybridLSTM", buildHybridLSTM}, {"IntegerLSTM", buildIntegerLSTM}}},
}

// simple is a build function for operators without attributes.
func simple(f evalFunc) func(*graph.Node, int64) (evalFunc, error) {
	return func(*graph.Node, int64) (evalFunc, error) { return f, nil }
}

// findEvaluator returns the evaluator of an operator, nil if there is none.
func findEvaluator(domain, op string) *evaluator {
	if domain == "ai.onnx" {
		domain = ""
	}
	for _, d := range evalTable {
		if d.domain != domain {
			continue
		}
		for i := range d.evals {
			if d.evals[i].op == op {
				return &d.evals[i]
			}
		}
	}
	return nil
}
