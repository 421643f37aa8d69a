package exec

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// loopEvals repeat a graph.
var loopEvals = []evaluator{
	{"Loop", buildLoop},
	{"Scan", buildScan},
}

// buildLoop runs the body while the iterations are fewer than input 0 and the condition holds: input 1 at first, then the body's
// first output. An absent trip count is no limit, an absent condition is true at first; that the body's condition counts all the
// same is what runtimes do, though the table in the standard has it ignored.
func buildLoop(n *graph.Node, _ int64) (evalFunc, error) {
	carried := max(len(n.Inputs)-2, 0)
	g, err := bodyGraph(n, carried+2, len(n.Outputs)+1)
	if err != nil {
		return nil, err
	}
	if len(n.Outputs) < carried {
		return nil, fmt.Errorf("%d outputs for %d carried values", len(n.Outputs), carried)
	}
	return func(c *call) error { return runLoop(c, g, carried) }, nil
}

func runLoop(c *call, g *graph.Graph, carried int) error {
	limit, goOn, err := loopBounds(c)
	if err != nil {
		return err
	}
	b := c.body(g)
	for i := range carried {
		if !c.has(2 + i) {
			return fmt.Errorf("input %d is missing", 2+i)
		}
		b.feed(2+i, c.in(2+i))
	}
	counter := tensor.New(tensor.Int64, loopScalar(g, 0)...)
	cond := tensor.New(tensor.Bool, loopScalar(g, 1)...)
	tensor.Of[bool](cond)[0] = goOn
	b.feed(0, counter)
	b.feed(1, cond)
	stacks := make([]*stack, len(g.Outputs)-1)
	for i := carried; i < len(stacks); i++ {
		stacks[i] = newStack(c, 0)
	}
	var outs []*tensor.Tensor
	for i := 0; goOn && i < limit; i++ {
		counter.I64()[0] = int64(i)
		if outs, err = b.iterate(); err != nil {
			return err
		}
		if goOn, err = truth(outs[0]); err != nil {
			return err
		}
		tensor.Of[bool](cond)[0] = goOn
		for k, t := range outs[1:] {
			switch {
			case k < carried:
				b.feed(2+k, t)
			case c.wants(k):
				if err := stacks[k].put(i, t); err != nil {
					return fmt.Errorf("output %d in iteration %d: %w", k, i, err)
				}
			}
		}
	}
	c.chose(b.count)
	for k := range c.outs {
		switch {
		case k >= carried:
			t, err := stacks[k].tensor(g.Value(g.Outputs[k+1]))
			if err != nil {
				return err
			}
			c.own(k, t)
		case outs == nil:
			if err := c.pass(k, 2+k); err != nil {
				return err
			}
		default:
			c.own(k, outs[k+1])
		}
	}
	return nil
}

// loopBounds returns how often a loop runs at most, and whether it runs at all.
func loopBounds(c *call) (limit int, goOn bool, err error) {
	limit, goOn = math.MaxInt, true
	if c.has(0) {
		if limit, err = scalarInt(c.in(0)); err != nil {
			return 0, false, fmt.Errorf("trip count: %w", err)
		}
	}
	if c.has(1) {
		goOn, err = truth(c.in(1))
	}
	return limit, goOn, err
}

// loopScalar is the shape of the iteration's number or condition: bodies declare them as scalars or as vectors of one.
func loopScalar(g *graph.Graph, i int) []int {
	if len(g.Value(g.Inputs[i]).Shape) == 1 {
		return []int{1}
	}
	return []int{}
}

// truth returns the only element of a condition.
func truth(t *tensor.Tensor) (bool, error) {
	if d, ok := t.Data.([]bool); ok && len(d) == 1 {
		return d[0], nil
	}
	return false, fmt.Errorf("condition %s", t.Type())
}
