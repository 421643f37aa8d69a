package gpu

import (
	"context"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// move moves codes: where every element comes from is found as the CPU backend does, but in the order of memory, so that no layout has to
// be changed before or behind it.
type move struct {
	e    *engine
	op   *lower.Move
	fill int32 // what is -1 among the numbers
}

func newMove(e *engine, s *lower.Step, op *lower.Move) (kernel, string, error) {
	in := &e.program.Tensors[s.Inputs[0]]
	if !in.Quantized() {
		return nil, "it moves " + in.DType.String(), nil
	}
	if slices.Contains(steps.Looks, op.Name()) {
		return &extreme{e, op}, "", nil
	}
	return &move{e: e, op: op, fill: in.Encoding.ZeroPoint}, "", nil
}

func (c *move) prepare(ctx context.Context, s *step, in []*value) (*prepared, error) {
	x := in[0]
	var others []*tensor.Tensor
	for _, v := range in[1:] {
		if !v.fixed {
			return nil, onlyHost("places that are computed from the data")
		}
		others = append(others, v.host)
	}
	outs, err := steps.MoveNumbers(ctx, c.op, memoryNumbers(x), others)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, onlyHost("the reference says what is wrong: " + err.Error())
	}
	p := &prepared{in: make([]layout, len(in)), out: make([]*output, len(s.Outputs))}
	p.in[0] = anyLayout
	var moves []runs
	var tables []cuda.Buffer
	for k, t := range outs {
		id := s.Outputs[k]
		if id == lower.NoTensor {
			continue
		}
		from, last := tensor.Of[int32](t), c.e.lasts[id] && steps.Moved(t.Shape)
		if last {
			other := make([]int32, len(from))
			rearranged(rawBytes(other), rawBytes(from), t.Shape, 4, true)
			from = other
		}
		m := steps.MoveOf(k, from, t.Shape, x.len())
		p.out[k] = &output{dtype: x.dtype, shape: slices.Clone(t.Shape), last: last, alias: -1}
		if m.Same {
			p.out[k].alias = 0
			continue
		}
		if len(from) == 0 {
			return nil, onlyHost("its result has no elements")
		}
		r, err := cuda.NewRuns(m.Starts, max(m.Size, 1), x.dtype.Bytes(1))
		if err != nil {
			return p, onlyHost(err.Error())
		}
		table, err := c.e.memory.constant(r.Table)
		if err != nil {
			return p, err
		}
		p.owned = append(p.owned, table)
		moves, tables = append(moves, runs{k, r}), append(tables, table)
	}
	if len(moves) == 0 {
		return p, nil
	}
	el := c.e.codeElement(s.Inputs[0])
	p.launch = func(s *cuda.Stream, in, out, _ []cuda.Buffer) error {
		for i := range moves {
			if err := cuda.GatherCodes(s, out[moves[i].out], in[0], tables[i], el, &moves[i].Runs, c.fill); err != nil {
				return err
			}
		}
		return nil
	}
	return p, nil
}

// runs is where the elements of one output come from.
type runs struct {
	out int
	cuda.Runs
}

// memoryNumbers numbers the elements of a value by their places in memory.
func memoryNumbers(x *value) *tensor.Tensor {
	numbers := tensor.New(tensor.Int32, x.shape...)
	list := tensor.Of[int32](numbers)
	for i := range list {
		list[i] = int32(i)
	}
	if x.last && x.moved() {
		out := tensor.New(tensor.Int32, x.shape...)
		rearranged(rawBytes(tensor.Of[int32](out)), rawBytes(list), x.shape, 4, false)
		return out
	}
	return numbers
}

// extreme is ReduceMax or ReduceMin.
type extreme struct {
	e  *engine
	op *lower.Move
}

func (k *extreme) prepare(_ context.Context, s *step, in []*value) (*prepared, error) {
	g := k.op.Graph
	n := g.Node(g.Nodes()[0])
	var list []int64
	if v := n.Input(1); v != graph.NoValue {
		t := g.Const(v)
		if t == nil && len(in) > 1 && in[1].fixed {
			t = in[1].host
		}
		if t == nil || t.I64() == nil {
			return nil, onlyHost("axes that are computed from the data")
		}
		list = t.I64()
	}
	axes, err := graph.ReduceAxes(n, len(in[0].shape), list)
	if err != nil || len(axes) == 0 && len(in[0].shape) > 0 {
		return nil, onlyHost("no such axis")
	}
	p := newReduce(k.e, s, in[0], axes, n.KeepDims(), n.Op == "ReduceMax")
	p.in = append(p.in, make([]layout, len(in)-1)...)
	return p, nil
}
