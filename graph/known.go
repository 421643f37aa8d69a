package graph

import "qwb/graph/tensor"

// KnownElements infers shapes as InferShapes does. It returns a function that gives the elements of a tensor of integers or
// bools (0 and 1) if all of them follow from constants and fixed dimensions, and false otherwise. The function is valid until g
// is changed.
func KnownElements(g *Graph) func(ValueID) ([]int64, bool) {
	var errs []error
	r := newInferrer(g, nil, &errs)
	r.run()
	return func(v ValueID) ([]int64, bool) {
		c := InferCtx{in: []InferInput{r.input(v)}}
		return c.Ints(0)
	}
}

// ProvenShapes returns a function that gives the shape of a value if it follows from the shapes of the graph inputs and from
// constants, and nil otherwise. Shapes that a file records for values in between are not trusted. g is not changed; the
// function does not know values that are added to g later.
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
