package exec_test

import (
	"strings"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
)

// gapKind is a reason for which a case of the ONNX vectors need not pass.
type gapKind string

const (
	gapTraining  gapKind = "training and loss operators"
	gapModes     gapKind = "training modes of Dropout and BatchNormalization"
	gapStrings   gapKind = "strings"
	gapSequences gapKind = "sequences, optionals and maps"
	gapImages    gapKind = "image decoding"
	gapText      gapKind = "regex and text featurization"
	gapClassical gapKind = "ai.onnx.ml"
	gapRandom    gapKind = "random number generators"
	gapLate      gapKind = "operators whose first version is later than opset 24"
)

var gapKinds = []gapKind{gapTraining, gapModes, gapStrings, gapSequences, gapImages, gapText, gapClassical, gapRandom, gapLate}

// gapDomains are the domains that are a gap as a whole.
var gapDomains = map[string]gapKind{"ai.onnx.ml": gapClassical, "ai.onnx.training": gapTraining, "ai.onnx.preview.training": gapTraining}

// gapOps are the operators that are a gap, whatever their domain.
var gapOps = map[string]gapKind{
	"NegativeLogLikelihoodLoss": gapTraining, "SoftmaxCrossEntropyLoss": gapTraining,
	"StringConcat": gapStrings, "StringNormalizer": gapStrings, "StringSplit": gapStrings,
	"SequenceAt": gapSequences, "SequenceConstruct": gapSequences, "SequenceEmpty": gapSequences, "SequenceErase": gapSequences,
	"SequenceInsert": gapSequences, "SequenceLength": gapSequences, "SequenceMap": gapSequences,
	"ConcatFromSequence": gapSequences, "SplitToSequence": gapSequences,
	"Optional": gapSequences, "OptionalGetElement": gapSequences, "OptionalHasElement": gapSequences,
	"ImageDecoder":   gapImages,
	"RegexFullMatch": gapText, "TfIdfVectorizer": gapText,
	"Bernoulli": gapRandom, "Multinomial": gapRandom, "RandomNormal": gapRandom, "RandomNormalLike": gapRandom,
	"RandomUniform": gapRandom, "RandomUniformLike": gapRandom,
	"BitCast": gapLate, "CumProd": gapLate, "LinearAttention": gapLate, "CausalConvWithState": gapLate, "FlexAttention": gapLate,
}

// gapOf returns the kind of gap that a model is, "" for none. It looks at the model alone: its operators, those of subgraphs
// and functions included, their training attributes, and the types of its inputs and outputs.
func gapOf(m *onnx.Model) gapKind {
	kind := gapOfGraph(m.Graph)
	for _, f := range m.Functions {
		if kind == "" && f.Graph != nil {
			kind = gapOfGraph(f.Graph)
		}
	}
	if kind != "" {
		return kind
	}
	for _, list := range [][]graph.ValueID{m.Graph.Inputs, m.Graph.Outputs} {
		for _, v := range list {
			switch m.Graph.Value(v).DType {
			case tensor.String:
				return gapStrings
			case tensor.Undefined: // the file declares every type: this one is of no tensor
				return gapSequences
			}
		}
	}
	return ""
}

func gapOfGraph(g *graph.Graph) gapKind {
	for _, id := range g.Nodes() {
		n := g.Node(id)
		if kind := gapOfNode(n); kind != "" {
			return kind
		}
		for _, sub := range n.Subgraphs() {
			if kind := gapOfGraph(sub); kind != "" {
				return kind
			}
		}
	}
	return ""
}

func gapOfNode(n *graph.Node) gapKind {
	if kind := gapDomains[n.Domain]; kind != "" {
		return kind
	}
	switch {
	case n.Op == "BatchNormalization" && n.AttrInt("training_mode", 0) != 0:
		return gapModes
	case n.Op == "Dropout" && len(n.Inputs) > 2 && n.Inputs[2] != graph.NoValue: // training_mode
		return gapModes
	}
	return gapOps[n.Op]
}

// operatorOf returns the operator that a case is of: the only one of its model beside constants; "" for several.
func operatorOf(g *graph.Graph) string {
	op := ""
	for _, id := range g.Nodes() {
		n := g.Node(id)
		if n.Op == "Constant" {
			continue
		}
		if op != "" {
			return ""
		}
		op = strings.TrimPrefix(n.Domain+".", ".") + n.Op
	}
	return op
}
