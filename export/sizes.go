package export

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Batch and OpenSizes are the options of formats whose files have fixed sizes; BoundSizes reads them.
var (
	Batch = Option{Name: "batch", Kind: Whole, Min: 1, Optional: true,
		Doc: "samples per run, if the model leaves its first axis open and --size does not give it; 1 where neither does"}
	OpenSizes = Option{Name: "size", Kind: Sizes, Min: 1, Doc: "sizes of dimensions that the model leaves open, for example H=96,W=96; " +
		"those of the first sample where none is given"}
)

// BoundSizes returns the sizes of the dimensions that the model of in leaves open, by their symbol: those of OpenSizes, and for the first
// axis of an input that has none there that of Batch. A size by both is an error, and so is one that no input has.
func BoundSizes(in *Input) (map[string]int64, error) {
	given, batch := in.Options.Sizes(OpenSizes.Name), in.Options.Whole(Batch.Name)
	sizes := maps.Clone(given)
	if sizes == nil {
		sizes = map[string]int64{}
	}
	g, taken := in.Program.Graph, batch == 0
	var open, inputs []string
	for _, v := range g.Inputs {
		t, s := g.Value(v), g.Value(v).Shape
		inputs = append(inputs, fmt.Sprintf("%q is %s", t.Name, graph.FormatType(t.DType, s)))
		for i, d := range s {
			if taken = taken || i == 0 && (!d.Known() || d.N == batch); !d.Known() {
				open = append(open, d.Symbol)
			}
		}
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
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(open, func(symbol string) bool { return symbol == name || name != "" && strings.Contains(symbol, name) }) {
			return nil, fmt.Errorf("export: --size %s=%d: no input has such an open dimension: %s", name, given[name], strings.Join(inputs, ", "))
		}
	}
	if !taken {
		return nil, fmt.Errorf("export: --batch %d: the size of the batch is fixed: %s", batch, strings.Join(inputs, ", "))
	}
	return sizes, nil
}

// QuotientScales is an error where a Resize of a tensor of shape x to one of shape y maps coordinates by scales that are not the quotients
// of the sizes, as files have them that hold the size alone: 7 elements by 0.5 are 3.
func QuotientScales(g *graph.Graph, n *graph.Node, x, y []int) error {
	_, at, _ := graph.ResizeInputs(g.Opset(""))
	if n.Op == "Upsample" {
		at = 1
	}
	c := g.Const(n.Input(at))
	if c == nil || c.DType != tensor.Float32 || c.Len() == 0 {
		return nil
	}
	_, scales, err := graph.ResizeGeometry(n, x, nil, c.F32(), nil)
	for a := 0; err == nil && a < len(scales); a++ {
		if math.Abs(float64(scales[a])*float64(x[a])/float64(y[a])-1) > 1e-6 {
			return fmt.Errorf("%d elements by %g: the file has the quotient of the sizes, %d/%d", x[a], scales[a], y[a], x[a])
		}
	}
	return err
}
