package program_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// boundary says how a step's integers differ from what the simulation computes from the same inputs.
type boundary struct {
	compared, ties int
	largest        float64 // distance of a differing value from the nearest rounding boundary, in steps
}

// stepwise is a hook that computes every step again as the simulation does, in float64, from what the program's step read, and
// compares under the rule: one step apart at most, and only where the real value lies within bound of a rounding boundary.
func stepwise(t testing.TB, p *lower.Program, set *tqc.Set, bound float64) (program.Hook, *boundary) {
	b := &boundary{}
	return func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		for k, id := range s.Outputs {
			if id == lower.NoTensor || !p.Tensors[id].Quantized() {
				continue
			}
			real := simulated(t, p, set, s, in, k)
			grid := p.Tensors[id].Encoding.Grid()
			codes := out[k].Integers()
			require.Len(t, codes, real.Len(), "%s", lower.FormatStep(p, s.ID))
			for i, y := range real.F32() {
				b.compared++
				q := grid.Quantize(y)
				if q == codes[i] {
					continue
				}
				v := float64(y) / float64(grid.Scale)
				near := math.Abs(math.Abs(v-math.Floor(v)) - 0.5)
				if max(q-codes[i], codes[i]-q) > 1 || near > bound {
					return nil, fmt.Errorf("%s: element %d is %d, the simulation has %d from %g steps", lower.FormatStep(p, s.ID), i, codes[i], q, v)
				}
				b.ties++
				b.largest = max(b.largest, near)
			}
		}
		return nil, nil
	}, b
}

// simulated computes output k of a step in float, from the real values of the integers that the step read, in front of the last
// quantizer.
func simulated(t testing.TB, p *lower.Program, set *tqc.Set, s *lower.Step, in []*tensor.Tensor, k int) *tensor.Tensor {
	if s.Node == graph.NoNode {
		return dequantized(p, s.Inputs[0], in[0])
	}
	g := p.Graph.Clone()
	feeds := map[string]*tensor.Tensor{}
	var inputs []graph.ValueID
	fed := map[lower.TensorID]graph.ValueID{}
	for at, id := range s.Nodes {
		n := p.Graph.Node(id)
		for i, v := range n.Inputs {
			slot := set.Input(id, i)
			switch c := p.Graph.Const(v); {
			case v == graph.NoValue:
			case c != nil && slot != tqc.NoSlot && set.Slot(slot).State().Quantizes():
				fake := c.ToRowMajor().Clone()
				require.NoError(t, sim.Apply(fake, fake, &set.Slot(slot).Config, set.Params(slot), sim.Quantize))
				g.SetInput(id, i, g.AddConst("fake", fake))
			case c == nil && !slices.Contains(s.Nodes, p.Graph.Producer(v)):
				from := reads(p, s, v, at > 0)
				if _, ok := fed[s.Inputs[from]]; !ok {
					real := dequantized(p, s.Inputs[from], in[from])
					name := g.FreshName("fed")
					added, err := g.AddValue(graph.Value{Name: name, DType: real.DType, Shape: graph.Static(real.Shape...)})
					require.NoError(t, err)
					inputs, feeds[name], fed[s.Inputs[from]] = append(inputs, added), real, added
				}
				g.SetInput(id, i, fed[s.Inputs[from]])
			}
		}
	}
	part, err := graph.Extract(g, inputs, []graph.ValueID{p.Tensors[s.Outputs[k]].Value})
	require.NoError(t, err)
	session, err := exec.New(part, exec.Options{Float64: true})
	require.NoError(t, err)
	out, err := session.NewRunner().Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	return out[0]
}

// reads is the input of a step that holds v; a residual is the last of several.
func reads(p *lower.Program, s *lower.Step, v graph.ValueID, last bool) int {
	found := -1
	for i, id := range s.Inputs {
		if p.Tensors[id].Value == v && (found < 0 || last) {
			found = i
		}
	}
	return found
}

// dequantized returns the real numbers of a tensor of the program.
func dequantized(p *lower.Program, id lower.TensorID, t *tensor.Tensor) *tensor.Tensor {
	e := p.Tensors[id].Encoding
	if e == nil {
		return t
	}
	out := tensor.New(tensor.Float32, t.Shape...)
	for i, q := range t.Integers() {
		out.F32()[i] = e.Grid().Dequantize(q)
	}
	return out
}
