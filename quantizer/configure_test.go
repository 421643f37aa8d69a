package quantizer_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
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

var rewrite = flag.Bool("rewrite", false, "write what the golden cases give as what they want")

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
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		var out []string
		for _, c := range strings.Split(strings.TrimSpace(string(src)), "\n====\n") {
			input, want, ok := strings.Cut(c, "\n----\n")
			require.True(t, ok, "%s: no ---- in %s", file, c)
			claim, rest, _ := strings.Cut(input, "\nplatform ")
			require.True(t, strings.HasPrefix(claim, "# "), "%s: a case starts with its claim: %s", file, c)
			head, text, _ := strings.Cut(rest, "\n")
			platform, selectors, _ := strings.Cut(head, " ")
			var got string
			t.Run(filepath.Base(file)+"/"+claim[2:], func(t *testing.T) {
				g := graphtest.Parse(t, text)
				require.Empty(t, graph.InferShapes(g))
				set, err := configure(t, g, platform, selectors)
				got = fmt.Sprintln(err)
				if err == nil {
					got = describe(g, set)
				}
				if !*rewrite {
					require.Equal(t, strings.TrimSpace(want), strings.TrimSpace(got), claim)
				}
			})
			out = append(out, input+"\n----\n"+strings.TrimSpace(got))
		}
		if *rewrite {
			require.NoError(t, os.WriteFile(file, []byte(strings.Join(out, "\n====\n")+"\n"), 0o644))
		}
	}
}

// Configuring twice, and with the nodes stored in another order, gives the same states under the same names.
func TestConfigureDoesNotDependOnTheOrderOfNodes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, c := range strings.Split(strings.TrimSpace(string(src)), "\n====\n") {
			input, want, _ := strings.Cut(c, "\n----\n")
			_, rest, _ := strings.Cut(input, "\nplatform ")
			head, text, _ := strings.Cut(rest, "\n")
			platform, selectors, _ := strings.Cut(head, " ")
			g := graphtest.Parse(t, text)
			graph.InferShapes(g)
			perm := make([]int, g.NumNodes())
			for i := range perm {
				perm[i] = len(perm) - 1 - i
			}
			g.Shuffle(perm)
			set, err := configure(t, g, platform, selectors)
			if err == nil {
				require.Equal(t, strings.TrimSpace(want), strings.TrimSpace(describe(g, set)))
			}
		}
	}
}
