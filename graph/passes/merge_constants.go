package passes

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
)

// MergeConstants makes nodes that read equal constants read the same one, the first by name.
var MergeConstants = Pass{
	Name:  "merge-constants",
	Doc:   "Makes equal constants one.",
	sweep: mergeConstants,
}

func mergeConstants(c *Context) error {
	g := c.G
	var list []graph.ValueID
	for _, v := range g.Values() {
		if g.Const(v) != nil && len(g.Uses(v)) > 0 && !g.IsInput(v) && !c.isOutput(v) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b graph.ValueID) int { return strings.Compare(g.Value(a).Name, g.Value(b).Name) })
	groups := map[string][]graph.ValueID{}
	for _, v := range list {
		key := fingerprint(g.Const(v))
		g.Forget(g.Const(v))
		kept, found := graph.NoValue, false
		for _, other := range groups[key] {
			same := tensor.Equal(g.Const(other), g.Const(v))
			g.Forget(g.Const(other))
			g.Forget(g.Const(v))
			if same {
				kept, found = other, true
				break
			}
		}
		if !found {
			groups[key] = append(groups[key], v)
			continue
		}
		c.log.Applied = append(c.log.Applied, Entry{Pass: c.pass,
			What: fmt.Sprintf("constant %q is equal to %q", g.Value(v).Name, g.Value(kept).Name)})
		g.ReplaceUses(v, kept)
		if !g.Captured(v) {
			g.RemoveValue(v)
		}
	}
	return nil
}

// fingerprint tells most constants apart by type, shape and the first elements.
func fingerprint(t *tensor.Tensor) string {
	const sample = 64
	h := fnv.New64a()
	switch d := t.Data.(type) {
	case []float32:
		fmt.Fprint(h, d[:min(len(d), sample)])
	case []int64:
		fmt.Fprint(h, d[:min(len(d), sample)])
	case []int8:
		fmt.Fprint(h, d[:min(len(d), sample)])
	case []uint8:
		fmt.Fprint(h, d[:min(len(d), sample)])
	}
	return fmt.Sprintf("%s %x", t.Type(), h.Sum64())
}
