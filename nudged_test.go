package qwb

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// nudged is the reference, which also finds out how far its outputs move where codes are one step off, as where an engine rounds a tie
// otherwise, and floats a last bit. Reach has the largest NSR of each output, by name: signal is the larger sum of squares of the two.
type nudged struct {
	Reach map[string]float64
	rng   *rand.Rand
}

func (n *nudged) Backend() program.Backend {
	return program.Backend{Name: "nudged", New: func(p *lower.Program, threads int) (program.Engine, error) {
		e, err := program.Reference.New(p, threads)
		return &nudgedEngine{Engine: e, program: p, by: n}, err
	}}
}

type nudgedEngine struct {
	program.Engine
	program *lower.Program
	by      *nudged
}

// Run runs once as it is, and then with one code of one tensor moved, up and down (300 codes by chance where there are more), and
// 150 times each with a quarter and a fortieth of all codes moved.
func (e *nudgedEngine) Run(ctx context.Context, feeds []*tensor.Tensor, hook program.Hook) ([]*tensor.Tensor, error) {
	codes := 0
	want, err := e.Engine.Run(ctx, feeds, func(s *lower.Step, _, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		codes += e.codes(s, out)
		return nil, nil
	})
	if err != nil {
		return want, err
	}
	trial := func(move func(at int) int64) error {
		at := 0
		got, err := e.Engine.Run(ctx, feeds, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
			if island, is := s.Op.(*lower.Island); is {
				return e.floats(ctx, island.Graph, in, out)
			}
			return e.moved(s, out, func() int64 { at++; return move(at - 1) }), nil
		})
		for k := range got {
			name := e.program.Tensors[e.program.Outputs[k]].Name
			e.by.Reach[name] = max(e.by.Reach[name], distance(got[k], want[k]))
		}
		return err
	}
	for k := range min(codes, 300) {
		one := k
		if codes > 300 {
			one = e.by.rng.IntN(codes)
		}
		for _, d := range []int64{-1, 1} {
			if err := trial(func(at int) int64 { return map[bool]int64{true: d}[at == one] }); err != nil {
				return nil, err
			}
		}
	}
	for k := range 300 {
		if err := trial(func(int) int64 { return map[int]int64{0: -1, 1: 1}[e.by.rng.IntN([]int{8, 80}[k%2])] }); err != nil {
			return nil, err
		}
	}
	return want, nil
}

// codes counts the integers that a step rounds; those that it only moves are none.
func (e *nudgedEngine) codes(s *lower.Step, out []*tensor.Tensor) (n int) {
	if _, moves := s.Op.(*lower.Move); moves {
		return 0
	}
	for k, id := range s.Outputs {
		if id != lower.NoTensor && out[k] != nil && e.program.Tensors[id].Quantized() {
			n += out[k].Len()
		}
	}
	return n
}

// floats are the results of operators in float each of which is a last bit off.
func (e *nudgedEngine) floats(ctx context.Context, g *graph.Graph, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
	s, err := exec.New(g, exec.Options{})
	if err != nil {
		return nil, err
	}
	feeds := map[string]*tensor.Tensor{}
	for i, v := range g.Inputs {
		feeds[g.Value(v).Name] = in[i]
	}
	got, err := s.NewRunner().Run(ctx, feeds, &exec.Hooks{Output: func(_ *graph.Node, _ int, t *tensor.Tensor) error {
		if t.DType == tensor.Float32 {
			e.lastBits(t)
		}
		return nil
	}})
	if err != nil || len(got) != len(out) {
		return nil, err
	}
	return got, nil
}

// lastBits moves numbers by up to a last bit.
func (e *nudgedEngine) lastBits(t *tensor.Tensor) {
	for i, x := range t.F32() {
		t.F32()[i] += x * float32(e.by.rng.IntN(3)-1) * 0x1p-23
	}
}

func (e *nudgedEngine) moved(s *lower.Step, out []*tensor.Tensor, by func() int64) []*tensor.Tensor {
	if e.codes(s, out) == 0 {
		return nil
	}
	out = slices.Clone(out)
	for k, id := range s.Outputs {
		if id == lower.NoTensor || out[k] == nil || !e.program.Tensors[id].Quantized() {
			continue
		}
		enc, codes := e.program.Tensors[id].Encoding, out[k].Integers()
		for i, q := range codes {
			codes[i] = int32(min(max(int64(q)+by(), int64(enc.QMin)), int64(enc.QMax)))
		}
		out[k] = out[k].WithIntegers(codes)
	}
	return out
}

// distance is the NSR between two outputs as random_graphs.py measures it.
func distance(got, want *tensor.Tensor) float64 {
	number := func(t *tensor.Tensor) func(i int) float64 {
		if f := exec.Floats(t); f != nil {
			t = f
		}
		v := reflect.ValueOf(t.Data)
		return func(i int) float64 {
			switch x := v.Index(i); {
			case x.CanFloat():
				return x.Float()
			case x.CanInt():
				return float64(x.Int())
			case x.CanUint():
				return float64(x.Uint())
			default:
				return map[bool]float64{true: 1}[x.Bool()]
			}
		}
	}
	var noise, a, b float64
	x, y := number(got), number(want)
	for i := range want.Len() {
		x, y := x(i), y(i)
		if d := x - y; d-d == 0 {
			noise, a, b = noise+d*d, a+x*x, b+y*y
		}
	}
	return noise / max(a, b, 1e-24)
}
