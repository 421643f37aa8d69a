package measure

import (
	"context"
	"slices"

	"qwb/analysis"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/quantizer/lower"
)

// FeatureOptions are the arguments of Feature.
type FeatureOptions struct {
	AnswersOptions
	Sample  string // by its name in the data
	Node    string // whose output is wanted
	Channel int    // of a map of channels, -1 for all of them, a row each
}

// Feature runs one sample and draws a tensor inside the network. Where the integers compute an operator together with those behind it, the
// tensor is what comes out of all of them.
func Feature(ctx context.Context, j *open.Job, o FeatureOptions) (*analysis.FeatureMap, error) {
	p, err := planning.OpenPlan(j, j.Plan)
	if err != nil {
		return nil, err
	}
	node, ok := p.Reference.LookupNode(o.Node)
	if !ok {
		p.Close()
		return nil, fault.Usagef("there is no operator %q", o.Node)
	}
	x, err := newTrio(ctx, j, p, o.AnswersOptions)
	if err != nil {
		return nil, err
	}
	defer x.close()
	s, err := sampleNamed(x.set, o.Sample)
	if err != nil {
		return nil, err
	}
	value := p.Reference.Node(node).Outputs[0]
	var integers *tensor.Tensor
	if x.integers.integer != nil {
		if value, integers, err = x.decoded(ctx, s, node, value); err != nil {
			return nil, err
		}
	}
	runs := [inAll]*tensor.Tensor{inInt8: integers}
	for k, hooks := range []*exec.Hooks{nil, x.hooks} {
		all, err := x.runner.RunAll(ctx, s.Feeds, hooks, func(v graph.ValueID) bool { return v == value })
		if err != nil {
			return nil, samples.BudgetHint(err)
		}
		runs[k] = all[value]
	}
	return draw(p.Reference, value, &o, runs)
}

// sampleNamed finds a sample.
func sampleNamed(set *data.Set, name string) (*exec.Sample, error) {
	for i := range set.Len() {
		if set.Name(i) == name {
			return set.Sample(i)
		}
	}
	return nil, fault.Usagef("there is no sample %q among the %s of the data", name, plain.Count(set.Len(), "sample"))
}

// decoded runs the integers and returns the real numbers that the step with a node computes, and of which value; nil where that is not
// quantized.
func (x *trio) decoded(ctx context.Context, s *exec.Sample, node graph.NodeID, value graph.ValueID) (graph.ValueID, *tensor.Tensor, error) {
	var out *tensor.Tensor
	program := x.integers.integer.Program()
	_, err := x.integers.integer.Run(ctx, s.Feeds, func(step *lower.Step, _, outputs []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if out != nil || !slices.Contains(step.Nodes, node) || len(step.Outputs) == 0 || step.Outputs[0] == lower.NoTensor {
			return nil, nil
		}
		t := program.Tensors[step.Outputs[0]]
		switch {
		case t.Quantized():
			out = tensor.New(tensor.Float32, outputs[0].Shape...)
			for i, q := range outputs[0].Integers() {
				out.F32()[i] = t.Encoding.Scale * float32(q-t.Encoding.ZeroPoint)
			}
		case t.DType == tensor.Float32:
			out = outputs[0].ToRowMajor().Clone()
		default:
			return nil, nil
		}
		value = t.Value
		return nil, nil
	})
	return value, out, err
}

// draw makes the picture.
func draw(g *graph.Graph, value graph.ValueID, o *FeatureOptions, runs [inAll]*tensor.Tensor) (*analysis.FeatureMap, error) {
	name := g.Value(value).Name
	var x [inAll][]float32
	for k, t := range runs {
		if t == nil {
			continue
		}
		if t = exec.Floats(t); t == nil || t.Len() == 0 || !slices.Equal(t.Shape, runs[inFloat].Shape) {
			return nil, fault.Usagef("%s of %s holds no real numbers, or not the same ones in each run: there is nothing to draw", name, o.Node)
		}
		x[k] = t.ToRowMajor().F32()
	}
	if x[inFloat] == nil || x[inSim] == nil {
		return nil, fault.Usagef("%s of %s is not computed as a tensor of its own", name, o.Node)
	}
	f := &analysis.FeatureMap{Sample: o.Sample, Node: o.Node, At: name, Shape: runs[inFloat].Shape, Channel: -1}
	whole := analysis.PlaneOf(f.Shape)
	all := analysis.NewHeat(name, whole, x[inFloat], x[inSim], x[inInt8])
	f.Heat, f.Errors = all, all.NSR
	if plane, ok := analysis.ChannelOf(f.Shape, o.Channel); ok {
		f.Channel, f.Heat = o.Channel, analysis.NewHeat(name, plane, x[inFloat], x[inSim], x[inInt8])
	}
	return f, nil
}
