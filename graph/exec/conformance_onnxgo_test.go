package exec_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	stock "github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend"
	"github.com/owulveryck/onnx-go/backend/testbackend"
	_ "github.com/owulveryck/onnx-go/backend/testbackend/onnx" // registers the cases
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	gorgonia "gorgonia.org/tensor"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/onnx/onnxgo"
	"qwb/graph/tensor"
)

// gapUndecoded is a case that onnx-go's own decoder cannot load: its error comes before qwb is asked.
const gapUndecoded gapKind = "onnx-go's decoder cannot load the model"

// gapMistyped is a case with a tensor that is not of the type and shape that its model declares: onnx-go's generator of cases
// writes the integers and strings that it does not know as an empty float scalar.
const gapMistyped gapKind = "onnx-go's case has a tensor that does not fit its model"

// onnxGoBackend makes qwb's graph a backend that computes: what onnx-go's decoder builds is executed, and the outputs are put
// back into the nodes that it reads them from.
type onnxGoBackend struct {
	*onnxgo.Backend
	model *stock.Model
	// opset is the version of ai.onnx to execute with. onnx-go's interface carries none.
	opset int64
}

var _ backend.ComputationBackend = (*onnxGoBackend)(nil)

// Run executes the graph with the tensors that the nodes of its inputs carry.
func (b *onnxGoBackend) Run() error {
	g, err := b.Graph(b.model.Input, b.model.Output)
	if err != nil {
		return err
	}
	g.Opsets = []graph.Opset{{Domain: "", Version: b.opset}}
	s, err := exec.New(g, exec.Options{Threads: 2})
	if err != nil {
		return err
	}
	feeds := map[string]*tensor.Tensor{}
	for i, id := range b.model.Input {
		if i >= len(g.Inputs) { // an input that nobody reads
			break
		}
		t, err := fromDense(b.Node(id).(stock.DataCarrier).GetTensor())
		if err != nil {
			return err
		}
		feeds[g.Value(g.Inputs[i]).Name] = t
	}
	outs, err := s.NewRunner().Run(context.Background(), feeds, nil)
	if err != nil {
		return err
	}
	for i, id := range b.model.Output {
		t := gorgonia.New(gorgonia.WithShape(outs[i].Shape...), gorgonia.WithBacking(outs[i].Data))
		if err := b.Node(id).(stock.DataCarrier).SetTensor(t); err != nil {
			return err
		}
	}
	return nil
}

// fromDense wraps the elements of a tensor of onnx-go's tensor library; scalars of that library are plain numbers.
func fromDense(t gorgonia.Tensor) (*tensor.Tensor, error) {
	shape := slices.Clone([]int(t.Shape()))
	switch d := t.Data().(type) {
	case []float32:
		return &tensor.Tensor{DType: tensor.Float32, Shape: shape, Data: d}, nil
	case float32:
		return tensor.FromF32([]float32{d}), nil
	case []float64:
		return &tensor.Tensor{DType: tensor.Float64, Shape: shape, Data: d}, nil
	case []int64:
		return tensor.FromI64(d, shape...), nil
	case int64:
		return tensor.FromI64([]int64{d}), nil
	case []int32:
		return &tensor.Tensor{DType: tensor.Int32, Shape: shape, Data: d}, nil
	case []bool:
		return &tensor.Tensor{DType: tensor.Bool, Shape: shape, Data: d}, nil
	case bool:
		return &tensor.Tensor{DType: tensor.Bool, Data: []bool{d}}, nil
	default:
		return nil, fmt.Errorf("elements of type %T", d)
	}
}

// mistyped reports whether a tensor of a case is of another type or shape than its model declares.
func mistyped(tc *testbackend.TestCase, g *graph.Graph) bool {
	differ := func(list []gorgonia.Tensor, declared []graph.ValueID) bool {
		for i, v := range declared[:min(len(list), len(declared))] {
			t, err := fromDense(list[i])
			if err != nil || t.DType != g.Value(v).DType {
				return true
			}
			if shape, known := g.Value(v).Shape.Ints(); known && !slices.Equal(shape, t.Shape) {
				return true
			}
		}
		return false
	}
	return differ(tc.Input, g.Inputs) || differ(tc.ExpectedOutput, g.Outputs)
}

// runOnnxGo executes a case as onnx-go's test harness does: decode into the backend, set the inputs, run, get the outputs. loaded
// says whether onnx-go decoded it.
func runOnnxGo(tc *testbackend.TestCase, opset int64) (loaded bool, err error) {
	b := &onnxGoBackend{Backend: onnxgo.NewBackend(), opset: opset}
	b.model = stock.NewModel(b)
	if err := b.model.UnmarshalBinary(tc.ModelB); err != nil {
		return false, err
	}
	for i, t := range tc.Input {
		if err := b.model.SetInput(i, t); err != nil {
			return true, err
		}
	}
	if err := b.Run(); err != nil {
		return true, err
	}
	got, err := b.model.GetOutputTensors()
	if err != nil {
		return true, err
	}
	if len(got) != len(tc.ExpectedOutput) {
		return true, fmt.Errorf("%w: %d outputs, want %d", errWrong, len(got), len(tc.ExpectedOutput))
	}
	for i := range got {
		g, err := fromDense(got[i])
		if err != nil {
			return true, err
		}
		w, err := fromDense(tc.ExpectedOutput[i])
		if err != nil {
			return true, err
		}
		if err := near(g, w, onnxRelative, onnxAbsolute); err != nil {
			return true, fmt.Errorf("%w: output %d: %w", errWrong, i, err)
		}
	}
	return true, nil
}

// TestConformanceOnnxGo runs the operator tests that ship inside the onnx-go module against qwb's graph, through onnx-go's own
// Backend interface. That interface carries no opset: a case is executed with the one that its model file imports.
func TestConformanceOnnxGo(t *testing.T) {
	var cases []*testbackend.TestCase
	for _, c := range testbackend.GetAllRegisteredTests() {
		cases = append(cases, c())
	}
	slices.SortFunc(cases, func(a, b *testbackend.TestCase) int { return strings.Compare(a.Title, b.Title) })
	var o outcome
	o.kinds = map[gapKind]int{}
	opsets := map[int64]int{}
	for _, tc := range cases {
		m, _, err := onnx.Read(bytes.NewReader(tc.ModelB), int64(len(tc.ModelB)), nil)
		require.NoError(t, err, tc.Title)
		opset := m.Graph.Opset("")
		opsets[opset]++
		kind := gapOf(m)
		loaded, err := runOnnxGo(tc, opset)
		switch {
		case !loaded:
			kind = gapUndecoded
		case mistyped(tc, m.Graph):
			kind = gapMistyped
		}
		switch {
		case err == nil:
			o.passed++
		case kind != "":
			o.gap++
			o.kinds[kind]++
		default:
			o.failed++
			t.Errorf("%s: %v", tc.Title, err)
		}
	}
	for _, kind := range append(slices.Clone(gapKinds), gapUndecoded, gapMistyped) {
		if o.kinds[kind] > 0 {
			t.Logf("onnx-go gap, %s: %d", kind, o.kinds[kind])
		}
	}
	for _, opset := range slices.Sorted(maps.Keys(opsets)) {
		t.Logf("onnx-go cases executed with opset %d, which their models import: %d", opset, opsets[opset])
	}
	t.Logf("onnx-go passed=%d gap=%d failed=%d", o.passed, o.gap, o.failed)
	assert.Len(t, cases, o.passed+o.gap+o.failed)
}
