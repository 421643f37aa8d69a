package export

import (
	"fmt"
	"strconv"
	"strings"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
)

// OneMessage is how many bytes of weights are written into a model file itself: a little below what readers of protobuf accept.
const OneMessage = 1_800_000_000

// ExternalAbove is the option of formats that are ONNX models.
var ExternalAbove = Option{Name: "external-above", Kind: Whole, Min: 1, Default: strconv.Itoa(OneMessage),
	Doc: "number of bytes of weights above which they go to a separate file, FILE.data beside the model"}

// DocString is the option of formats of plans that are ONNX models: doc_string is what viewers of networks show of a node or a tensor.
var DocString = Option{Name: "doc-string", Kind: Choice, Choices: []string{"none", "nodes", "tensors", "both"},
	Doc: "write into the doc_string of nodes or tensors, which viewers as Netron show, how they are quantized and by what decision, and at " +
		"nodes the errors of the last analysis"}

// Half is the option of formats that are ONNX models and write the domains fp16 and bf16.
var Half = Option{Name: "half", Kind: Choice, Choices: []string{"typed", "rounded", "float32"},
	Doc: "operators in fp16 and bf16: tensors of that type, float32 rounded by pairs of Casts (bf16 for ONNX Runtime always is), or float32"}

// Inputs is the option of formats whose files may take integers, as the choices beside float32 say.
func Inputs(choices ...string) Option {
	return Option{Name: InputsName, Kind: Choice, Choices: append([]string{"float32"}, choices...), Default: "float32",
		Doc: "what the inputs are: float32, the plan's integers, or pictures as bytes (uint8), of which the file makes numbers by the " +
			"plan's scale, mean and std"}
}

// InputsName is the name of Inputs.
const InputsName = "inputs"

// Outputs is the option of formats whose files may return integers.
var Outputs = Option{Name: "outputs", Kind: Choice, Choices: []string{"float32", "integers"}, Default: "float32",
	Doc: "what the outputs are: float32, or the plan's integers"}

// Beside is the name of a file beside an ONNX model: suffix takes the place of .onnx.
func Beside(model, suffix string) string { return strings.TrimSuffix(model, ".onnx") + suffix }

// ToFloat32 is how an error about a type ends that bind makes float32; empty for other types.
func ToFloat32(d tensor.DType) string {
	if !d.IsFloat() || d == tensor.Float32 {
		return ""
	}
	return " (qwb bind MODEL --float32 -o NEW.onnx writes the network in float32: calibrate that)"
}

// describe puts the words of in.NodeDocs and TensorDocs, where there are any, behind those that the model has.
func describe(m *onnx.Model, in *Input) *onnx.Model {
	if len(in.NodeDocs) == 0 && len(in.TensorDocs) == 0 {
		return m
	}
	add := func(doc *string, words string) {
		if *doc != "" && words != "" {
			*doc += "\n"
		}
		*doc += words
	}
	g := m.Graph.Clone()
	for _, id := range g.Nodes() {
		n := g.Node(id)
		add(&n.Doc, in.NodeDocs[n.Name])
	}
	for _, id := range g.Values() {
		v := g.Value(id)
		add(&v.Doc, in.TensorDocs[v.Name])
	}
	return m.WithGraph(g)
}

// WriteModel writes an ONNX model as the option ExternalAbove says, with the words of the input.
func WriteModel(m *onnx.Model, in *Input, out *Output) error {
	m = describe(m, in)
	o := onnx.SaveOptions{ExternalAbove: 1 << 62} // what does not fit into one message is an error then
	if above := in.Options.Whole(ExternalAbove.Name); WeightBytes(m.Graph) >= above {
		o.ExternalAbove = above
	}
	if err := m.WriteFiles(out.Name(), o, out.Create); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// ReadModel reads back what WriteModel wrote, from a mapped file where that is what the input does. It has to be closed.
func ReadModel(in *Input, out *Output) (*onnx.Model, error) {
	var back *onnx.Model
	var err error
	if path := out.Staged(out.Name()); path != "" {
		back, err = openModel(path, in.streams())
	} else {
		back, _, err = onnx.Parse(out.Bytes(out.Name()), out)
	}
	if err != nil {
		return nil, fmt.Errorf("export: what was written cannot be read: %w", err)
	}
	back.Graph = onnx.Linears(back.Graph)
	return back, nil
}

// streams reports whether the weights do not fit into the memory for work: those of what is read back do not either.
func (in *Input) streams() bool { return in.Model != nil && in.Model.Graph.Store != nil }

// openModel opens an ONNX file, and says that its weights do not fit into the memory for work.
func openModel(path string, streams bool) (*onnx.Model, error) {
	if !streams {
		m, _, err := onnx.Open(path)
		return m, err
	}
	m, _, err := onnx.Map(path)
	if err == nil {
		m.Graph.Store = m.Store()
	}
	return m, err
}

// WeightBytes is the size of all constants of a graph.
func WeightBytes(g *graph.Graph) int64 {
	var n int64
	for _, v := range g.Values() {
		if t := g.Const(v); t != nil {
			n += int64(t.DType.Bytes(t.Len()))
		}
	}
	return n
}
