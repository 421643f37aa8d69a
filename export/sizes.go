package export

import (
	"fmt"
	"maps"
)

// Batch and OpenSizes are the options of formats whose files have fixed sizes; BoundSizes reads them.
var (
	Batch = Option{Name: "batch", Kind: Whole, Min: 1, Optional: true,
		Doc: "samples per run, if the model leaves its first axis open and --size does not give it; 1 where neither does"}
	OpenSizes = Option{Name: "size", Kind: Sizes, Min: 1, Doc: "sizes of dimensions that the model leaves open, for example H=96,W=96"}
)

// BoundSizes returns the sizes of the dimensions that the model of in leaves open, by their symbol: those of OpenSizes, and for the first axis
// of an input that has none there that of Batch. A size by both is an error.
func BoundSizes(in *Input) (map[string]int64, error) {
	given, batch := in.Options.Sizes(OpenSizes.Name), in.Options.Whole(Batch.Name)
	sizes := maps.Clone(given)
	if sizes == nil {
		sizes = map[string]int64{}
	}
	g := in.Program.Graph
	for _, v := range g.Inputs {
		s := g.Value(v).Shape
		if len(s) == 0 || s[0].Known() {
			continue
		}
		symbol := s[0].Symbol
		switch n, both := given[symbol]; {
		case both && batch != 0:
			return nil, fmt.Errorf("export: --size %s=%d and --batch %d: both are the first axis of input %q", symbol, n, batch, g.Value(v).Name)
		case !both:
			sizes[symbol] = max(batch, 1)
		}
	}
	return sizes, nil
}
