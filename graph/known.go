package graph

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
