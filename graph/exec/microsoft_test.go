package exec_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// runtimeCase is an operator that ONNX Runtime answered: see testdata/microsoft.py.
type runtimeCase struct {
	Op, Domain      string
	Opset           int64
	Attributes      map[string]any
	Inputs, Outputs []*runtimeTensor // nil: absent
}

type runtimeTensor struct {
	Type  string
	Shape []int
	Data  []byte
}

func (r *runtimeTensor) tensor(t *testing.T) *tensor.Tensor {
	t.Helper()
	d, err := tensor.ParseDType(r.Type)
	require.NoError(t, err)
	out := tensor.New(d, r.Shape...)
	require.NoError(t, binary.Read(bytes.NewReader(r.Data), binary.LittleEndian, out.Data))
	return out
}

func runtimeCases(t *testing.T, file string) (cases []runtimeCase) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(z).Decode(&cases))
	return cases
}

// attributes returns the attributes of the case, sorted by name. JSON has one kind of number: one that is whole is an integer,
// unless its name says otherwise.
func (c *runtimeCase) attributes(t *testing.T) (list []graph.Attr) {
	t.Helper()
	floats := []string{"alpha", "epsilon", "activation_alpha"}
	for name, v := range c.Attributes {
		switch v := v.(type) {
		case string:
			list = append(list, graph.Str(name, v))
		case float64:
			if slices.Contains(floats, name) || v != math.Trunc(v) {
				list = append(list, graph.Float(name, float32(v)))
			} else {
				list = append(list, graph.Int(name, int64(v)))
			}
		case []any:
			a := graph.Attr{Name: name, Kind: graph.AttrInts}
			if name == "activation_params" {
				a.Kind = graph.AttrFloats
			}
			for _, e := range v {
				switch e := e.(type) {
				case string:
					a.Kind, a.Strings = graph.AttrStrings, append(a.Strings, e)
				case float64:
					if a.Kind == graph.AttrFloats {
						a.Floats = append(a.Floats, float32(e))
					} else {
						a.Ints = append(a.Ints, int64(e))
					}
				}
			}
			list = append(list, a)
		default:
			t.Fatalf("attribute %s is %T", name, v)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// build makes a graph of the case; with constant true all inputs but the first are constants.
func (c *runtimeCase) build(t *testing.T, constant bool) (*graph.Graph, map[string]*tensor.Tensor) {
	t.Helper()
	g := graph.New("", c.Opset)
	g.Opsets = append(g.Opsets, graph.Opset{Domain: "com.microsoft", Version: 1})
	n := graph.Node{Name: "n", Op: c.Op, Domain: c.Domain, Attrs: c.attributes(t)}
	feeds := map[string]*tensor.Tensor{}
	for i, in := range c.Inputs {
		if in == nil {
			n.Inputs = append(n.Inputs, graph.NoValue)
			continue
		}
		x, name := in.tensor(t), fmt.Sprintf("i%d", i)
		v, err := g.AddValue(graph.Value{Name: name, DType: x.DType, Shape: graph.Static(x.Shape...)})
		require.NoError(t, err)
		if n.Inputs = append(n.Inputs, v); constant && i > 0 {
			g.SetConst(v, x)
			continue
		}
		feeds[name] = x
		g.Inputs = append(g.Inputs, v)
	}
	for i, out := range c.Outputs {
		if out == nil {
			n.Outputs = append(n.Outputs, graph.NoValue)
			continue
		}
		v, err := g.AddValue(graph.Value{Name: fmt.Sprintf("o%d", i)})
		require.NoError(t, err)
		n.Outputs, g.Outputs = append(n.Outputs, v), append(g.Outputs, v)
	}
	_, err := g.AddNode(n)
	require.NoError(t, err)
	return g, feeds
}

// TestMatchesONNXRuntime holds the operators of com.microsoft, and those that ONNX Runtime puts into the domain of ONNX, against
// its own answers: integers exactly, floats within a few units in the last place of the largest element.
func TestMatchesONNXRuntime(t *testing.T) {
	seen := map[exec.Operator]bool{}
	for i, c := range runtimeCases(t, "testdata/microsoft.json.gz") {
		seen[exec.Operator{Domain: c.Domain, Op: c.Op}] = true
		t.Run(fmt.Sprintf("%d-%s", i, c.Op), func(t *testing.T) {
			for _, constant := range []bool{false, true} {
				g, feeds := c.build(t, constant)
				s, err := exec.NewPoisoned(g, exec.Options{Threads: 2})
				require.NoError(t, err)
				r := s.NewRunner()
				for range 2 {
					got, err := r.Run(context.Background(), feeds, nil)
					require.NoError(t, err)
					c.compare(t, got)
				}
			}
		})
	}
	for _, op := range exec.Operators() {
		if op.Domain != "" && op.Domain != graph.OwnDomain {
			require.True(t, seen[op], "no case for %v", op)
		}
	}
}

// runtimeULPs is how far float results may lie apart, in units in the last place of the largest: both sides sum in orders of their
// own and approximate exp, tanh and erf.
const runtimeULPs = 24

func (c *runtimeCase) compare(t *testing.T, got []*tensor.Tensor) {
	t.Helper()
	for _, out := range c.Outputs {
		if out == nil {
			continue
		}
		want := out.tensor(t)
		require.Equal(t, want.Type(), got[0].Type())
		if u, ok := errorOf(got[0], want); ok {
			most := float64(runtimeULPs)
			if c.Op == "DynamicQuantizeLSTM" && c.Attributes["activations"] == nil {
				most = 0 // the engine's own functions in its own order
			}
			require.LessOrEqual(t, u.largest, most, "%v, want %v", got[0].Data, want.Data)
			require.False(t, math.IsNaN(u.own))
		} else {
			require.True(t, tensor.Equal(got[0], want), "%v, want %v", got[0].Data, want.Data)
		}
		got = got[1:]
	}
}
