package exec_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/passes"
	"qwb/internal/graphtest"
)

// TestInputsThatAreAbsent takes the inputs of every operator of the ONNX vectors away, one at a time, once in every version and with
// every number of inputs. Without one that the operator needs, loading, normalising and executing are errors that name node and
// input; without one that it does not always need there is a result or an error. Nothing panics: neither that nor a second node that
// computes nothing.
func TestInputsThatAreAbsent(t *testing.T) {
	type variant struct {
		op      exec.Operator
		version int64
		inputs  int
	}
	seen, operators, needed := map[variant]bool{}, map[exec.Operator]bool{}, 0
	for _, c := range readCases(t) {
		if c.folder != "node" {
			continue
		}
		m, err := c.read()
		require.NoError(t, err, c.name)
		if gapOf(m) != "" {
			continue
		}
		for _, id := range m.Graph.Nodes() {
			n := m.Graph.Node(id)
			v := variant{exec.Operator{Domain: n.Domain, Op: n.Op}, m.Graph.Opset(n.Domain), len(n.Inputs)}
			if n.Spec() == nil || seen[v] {
				continue
			}
			seen[v], operators[v.op] = true, true
			for i := range n.Inputs {
				if n.Inputs[i] == graph.NoValue {
					continue
				}
				g := m.Graph.Clone()
				g.SetInput(id, i, graph.NoValue)
				if i < n.Spec().MinIn {
					needed++
					want := fmt.Sprintf("node %q (%s", n.Name, n.Op)
					for _, err := range []error{g.CheckInputs(), normalised(g), executed(c, g)} {
						assert.ErrorContains(t, err, want, c.name)
						assert.ErrorContains(t, err, fmt.Sprintf("input %d is missing", i), c.name)
					}
				} else {
					withoutPanic(t, c, g, fmt.Sprintf("%s without input %d", n.Op, i))
				}
			}
			for _, outputs := range [][]graph.ValueID{nil, {graph.NoValue}} {
				g := m.Graph.Clone()
				copied := *n
				copied.Name, copied.Outputs = "", outputs
				_, err := g.AddNode(copied)
				require.NoError(t, err, c.name)
				withoutPanic(t, c, g, fmt.Sprintf("%s with outputs %v", n.Op, outputs))
			}
			for _, op := range []string{"Relu", "Add"} { // they may be computed together with what they read
				g := m.Graph.Clone()
				_, err := g.AddNode(graph.Node{Op: op, Inputs: slices.Repeat([]graph.ValueID{n.Output(0)}, graph.Spec("", op).MinIn)})
				require.NoError(t, err, c.name)
				withoutPanic(t, c, g, n.Op+" before a "+op+" without output")
			}
		}
	}
	assert.Greater(t, len(operators), 150)
	assert.Greater(t, needed, 400)
}

func normalised(g *graph.Graph) error {
	_, err := passes.Run(context.Background(), g.Clone(), passes.Normalize)
	return err
}

// executed runs the first data set of a case, as far as its inputs are tensors.
func executed(c *vectorCase, g *graph.Graph) error {
	feeds, err := c.feeds(g, c.sets[0])
	if err != nil {
		return err
	}
	for name := range feeds { // an input whose reader was taken away is still one
		if _, ok := g.Lookup(name); !ok {
			delete(feeds, name)
		}
	}
	s, err := exec.New(g, exec.Options{Memory: 64 << 20})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // a Loop may have lost what ends it
	defer cancel()
	_, err = s.NewRunner().Run(ctx, feeds, nil)
	return err
}

func withoutPanic(t *testing.T, c *vectorCase, g *graph.Graph, what string) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s: %s: panic: %v %s", c.name, what, p, debug.Stack())
		}
	}()
	_ = normalised(g)
	_ = executed(c, g)
}

// TestCastWithoutInput is the least graph that says it: a node that reads nothing at all, or an input that is absent.
func TestCastWithoutInput(t *testing.T) {
	for _, text := range []string{"y = Cast() {to=1}", "y = Cast(_) {to=1}"} {
		g := graphtest.Parse(t, "opset 13; input x: f32[1]; "+text+"; output y")
		for _, err := range []error{normalised(g), executed(&vectorCase{sets: []dataSet{{map[int][]byte{}, nil}}}, g)} {
			assert.ErrorContains(t, err, `(Cast`, text)
			assert.ErrorContains(t, err, "input 0 is missing", text)
		}
	}
}
