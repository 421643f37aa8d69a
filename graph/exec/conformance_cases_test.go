package exec_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// vectorCase is one case of the ONNX backend tests: a model and its data sets in the order of their numbers.
type vectorCase struct {
	folder, name string
	model        []byte
	sets         []dataSet
}

// dataSet is the serialized inputs and outputs of one run, by position.
type dataSet struct{ inputs, outputs map[int][]byte }

// readCases returns all cases, sorted by folder and name. The files of a case are FOLDER/NAME/model.onnx and
// FOLDER/NAME/test_data_set_N/{input,output}_M.pb; those of folder light are light/NAME.onnx and light/NAME_output_0.pb.
func readCases(t *testing.T) []*vectorCase {
	t.Helper()
	byName := map[string]*vectorCase{}
	at := func(folder, name string) *vectorCase {
		c := byName[folder+"/"+name]
		if c == nil {
			c = &vectorCase{folder: folder, name: name}
			byName[folder+"/"+name] = c
		}
		return c
	}
	graphtest.EachVectorFile(t, func(file string, b []byte) {
		parts := strings.Split(file, "/")
		if len(parts) == 2 && parts[0] == "light" {
			if name, ok := strings.CutSuffix(parts[1], ".onnx"); ok {
				at("light", name).model = b
			} else if name, ok := strings.CutSuffix(parts[1], "_output_0.pb"); ok {
				at("light", name).set(0).outputs[0] = b
			}
			return
		}
		if len(parts) < 3 {
			return
		}
		c := at(parts[0], parts[1])
		if parts[2] == "model.onnx" {
			c.model = b
			return
		}
		var number, i int
		var kind string
		_, err := fmt.Sscanf(strings.NewReplacer("test_data_set_", "", "/", " ", "put_", "put ", ".pb", "").Replace(parts[2]+"/"+parts[3]),
			"%d %s %d", &number, &kind, &i)
		require.NoError(t, err, file)
		if kind == "input" {
			c.set(number).inputs[i] = b
		} else {
			c.set(number).outputs[i] = b
		}
	})
	cases := make([]*vectorCase, 0, len(byName))
	for _, c := range byName {
		require.NotEmpty(t, c.model, c.name)
		require.NotEmpty(t, c.sets, c.name)
		cases = append(cases, c)
	}
	slices.SortFunc(cases, func(a, b *vectorCase) int {
		return strings.Compare(a.folder+"/"+a.name, b.folder+"/"+b.name)
	})
	return cases
}

func (c *vectorCase) set(i int) *dataSet {
	for len(c.sets) <= i {
		c.sets = append(c.sets, dataSet{map[int][]byte{}, map[int][]byte{}})
	}
	return &c.sets[i]
}

// read decodes the model.
func (c *vectorCase) read() (*onnx.Model, error) {
	m, _, err := onnx.Read(bytes.NewReader(c.model), int64(len(c.model)), nil)
	return m, err
}

// feeds decodes the inputs of a data set. The light cases have none: each float input that is no initializer is arange(n)/n in
// its shape, open dimensions being 1.
func (c *vectorCase) feeds(g *graph.Graph, set dataSet) (map[string]*tensor.Tensor, error) {
	feeds := map[string]*tensor.Tensor{}
	if c.folder == "light" {
		for _, v := range g.Inputs {
			if val := g.Value(v); val.Const == nil && val.DType == tensor.Float32 {
				feeds[val.Name] = rampOf(val.Shape)
			}
		}
		return feeds, nil
	}
	for i, b := range set.inputs {
		_, t, err := onnx.ReadTensor(b)
		if err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
		if i >= len(g.Inputs) {
			return nil, fmt.Errorf("input %d of a graph with %d", i, len(g.Inputs))
		}
		feeds[g.Value(g.Inputs[i]).Name] = t
	}
	return feeds, nil
}

func rampOf(shape graph.Shape) *tensor.Tensor {
	dims := make([]int, len(shape))
	for i, d := range shape {
		dims[i] = 1
		if d.Known() {
			dims[i] = int(d.N)
		}
	}
	t := tensor.New(tensor.Float32, dims...)
	for i := range t.F32() {
		t.F32()[i] = float32(float64(i) / float64(t.Len()))
	}
	return t
}

// wants decodes the expected outputs of a data set.
func (set dataSet) wants() (map[int]*tensor.Tensor, error) {
	outs := map[int]*tensor.Tensor{}
	for i, b := range set.outputs {
		_, t, err := onnx.ReadTensor(b)
		if err != nil {
			return nil, fmt.Errorf("expected output %d: %w", i, err)
		}
		outs[i] = t
	}
	return outs, nil
}
