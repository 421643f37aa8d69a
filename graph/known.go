package graph

import "qwb/graph/tensor"

// KnownElements infers shapes as InferShapes does and returns a function that tells the elements of a tensor of integers or bools
// (0 and 1), where all of them follow from constants and fixed dimensions; false for others. It holds until g is changed.
func KnownElements(g *Graph) func(ValueID) ([]int64, bool) {
	var errs []error
	r := newInferrer(g, nil, &errs)
	r.run()
	return func(v ValueID) ([]int64, bool) {
		c := InferCtx{in: []InferInput{r.input(v)}}
		return c.Ints(0)
	}
}

// ProvenShapes returns a function that tells the shape of a value as it follows from the shapes of the graph's inputs and from
// constants alone, nil where it does not: what a file records of a value in between may be wrong. g is not changed; of values that it
// gets later the function knows nothing.
func ProvenShapes(g *Graph) func(ValueID) Shape {
	c := g.Clone()
	for i := range c.values {
		if v := &c.values[i]; v.producer != NoNode {
			v.DType, v.Shape = tensor.Undefined, nil
		}
	}
	InferShapes(c)
	return func(v ValueID) Shape {
		if v < 0 || int(v) >= len(c.values) {
			return nil
		}
		return c.values[v].Shape
	}
}
