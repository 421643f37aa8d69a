package quantizer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// configure configures a graph for a target without regard to the cost of borders, which tiny graphs never repay. The
// selectors name nodes that the user keeps in float.
func configure(t testing.TB, g *graph.Graph, platform, selectors string) (*tqc.Set, error) {
	t.Helper()
	tg, err := target.Find(platform)
	require.NoError(t, err)
	free := *tg
	free.BorderCost = 0
	var forced []dispatch.Forced
	if selectors != "" {
		nodes, err := decision.Nodes(g, selectors)
		require.NoError(t, err)
		forced = []dispatch.Forced{{Nodes: nodes, Who: dispatch.ByUser, Why: selectors}}
	}
	a, err := dispatch.Assign(g, &free, dispatch.Options{Forced: forced})
	if err != nil {
		return nil, err
	}
	set, _, err := quantizer.Configure(g, a, &free, quantizer.Options{})
	return set, err
}

// describe writes one line per node: name, domain, then the state of every slot that is not FP32, with the slot that governs it
// and what is special about its policy; for nodes that stay float the reason.
func describe(g *graph.Graph, set *tqc.Set) string {
	var b strings.Builder
	order, _ := g.Order()
	for _, id := range order {
		fmt.Fprintf(&b, "%s %s", g.Node(id).Name, set.Domains[id])
		if f := set.Fused[id]; f != graph.NoNode {
			fmt.Fprintf(&b, " (with %s)", g.Node(f).Name)
		}
		if set.Domains[id] != tqc.DomainInt {
			fmt.Fprintf(&b, " | %s", set.Why[id])
		}
		for _, s := range append(slices.Clone(set.Inputs(id)), set.Outputs(id)...) {
			if s == tqc.NoSlot || set.Slot(s).State() == tqc.FP32 {
				continue
			}
			sl := set.Slot(s)
			fmt.Fprintf(&b, " %s%d=%s", sl.Kind, sl.Index, sl.State())
			if sl.Config.Policy.Has(tqc.PerChannel) {
				fmt.Fprintf(&b, "/channel%d", sl.Config.Axis)
			}
			if sl.Config.Observer == tqc.ObserverFixed {
				fmt.Fprintf(&b, "/%g", sl.Config.FixedScale)
			}
			if r := set.Slot(set.Root(s)); r.ID != s {
				fmt.Fprintf(&b, "<%s.%s%d", g.Node(r.Node).Name, r.Kind, r.Index)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestGolden runs testdata/*.txt. A case is a claim in lines starting with "#", the platform with the selectors of float nodes, a
// graph, "----" and what becomes of its slots; "====" separates cases. Each case says what would be wrong if it changed.
func TestGolden(t *testing.T) {
	graphtest.Golden(t, "testdata/*.txt", func(t *testing.T, c graphtest.Case) string {
		g := graphtest.Parse(t, c.Text)
		require.Empty(t, graph.InferShapes(g))
		platform, selectors := c.Platform()
		set, err := configure(t, g, platform, selectors)
		if err != nil {
			return err.Error()
		}
		return describe(g, set)
	})
}

// Configuring twice, and with the nodes stored in another order, gives the same states under the same names.
func TestConfigureDoesNotDependOnTheOrderOfNodes(t *testing.T) {
	for _, c := range graphtest.Cases(t, "testdata/*.txt") {
		g := graphtest.Parse(t, c.Text)
		graph.InferShapes(g)
		perm := make([]int, g.NumNodes())
		for i := range perm {
			perm[i] = len(perm) - 1 - i
		}
		g.Shuffle(perm)
		platform, selectors := c.Platform()
		set, err := configure(t, g, platform, selectors)
		if err == nil {
			require.Equal(t, c.Want, strings.TrimSpace(describe(g, set)))
		}
	}
}
