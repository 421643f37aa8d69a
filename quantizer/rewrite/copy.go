package rewrite

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
)

// Copy gives the readers in Nodes of normalization At a normalization of their own, named At/copy: factors and shifts of its channels then
// do not meet the other readers, as the sum of a residual branch.
var Copy = Kind{Name: "copy", Doc: "gives readers of a normalization a copy of their own", Apply: applyCopy}

// CopyOf is the name of the copy of a node.
func CopyOf(node string) string { return node + "/copy" }

// CanCopy finds the readers of normalization id that take factors up, where others do not, as the step that gives them a copy. way is that
// of the copy, told of the node itself, and shifts says whether the copy can be shifted. nil: there is no use in a copy.
func CanCopy(g *graph.Graph, id graph.NodeID) (step *Step, way *Way, shifts bool) {
	n := g.Node(id)
	if !slices.Contains([]string{"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"}, n.Op) {
		return nil, nil, false
	}
	axis, channels, err := produces(g, id)
	if err != nil {
		return nil, nil, false
	}
	step = &Step{Kind: Copy.Name, At: n.Name}
	uses := g.Uses(n.Output(0))
	for _, u := range uses {
		if end, err := consumes(g, u, &field{axis, iota(0, channels)}); end && err == nil {
			step.Nodes = append(step.Nodes, g.Node(u.Node).Name)
		}
	}
	if len(step.Nodes) == 0 || len(step.Nodes) == len(uses) && !g.IsOutput(n.Output(0)) && !g.Captured(n.Output(0)) {
		return nil, nil, false
	}
	after, err := Apply(g, []Step{*step})
	if err != nil {
		return nil, nil, false
	}
	at, _ := after.LookupNode(CopyOf(n.Name))
	if way, _ = CanScale(after, at); way == nil {
		return nil, nil, false
	}
	way.At, way.Producers = id, []End{{id, way.Producers[0].Channel, axis}}
	return step, way, CanShift(after, at)
}

func applyCopy(g *graph.Graph, s *Step) error {
	id, ok := g.LookupNode(s.At)
	if !ok {
		return errors.New("there is no such node")
	}
	if _, _, err := produces(g, id); err != nil {
		return err
	}
	if _, is := g.LookupNode(CopyOf(s.At)); is {
		return fmt.Errorf("it has a copy: there is a node %q", CopyOf(s.At))
	}
	n := g.Node(id)
	y := n.Output(0)
	value := g.Value(y)
	v, err := g.AddValue(graph.Value{Name: g.FreshName(CopyOf(value.Name)), DType: value.DType, Shape: value.Shape})
	if err != nil {
		return err
	}
	if _, err := g.AddNode(graph.Node{Name: CopyOf(s.At), Op: n.Op, Domain: n.Domain, Attrs: slices.Clone(n.Attrs),
		Inputs: slices.Clone(n.Inputs), Outputs: []graph.ValueID{v}}); err != nil {
		return err
	}
	if len(s.Nodes) == 0 {
		return errors.New("it names no reader")
	}
	for _, name := range s.Nodes {
		reader, ok := g.LookupNode(name)
		if !ok || !slices.Contains(g.Node(reader).Inputs, y) {
			return fmt.Errorf("node %q does not read it", name)
		}
		for i, x := range g.Node(reader).Inputs {
			if x == y {
				g.SetInput(reader, i, v)
			}
		}
	}
	return nil
}
