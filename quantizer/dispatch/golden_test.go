package dispatch_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// golden reads the options of a case: words and their values, as in "platform trt_int8 dispatcher allin cost 26 fp32 a,b int c". The cost
// is 0 if there is none, for tiny graphs never repay one.
func golden(t testing.TB, g *graph.Graph, line string) (*target.Target, dispatch.Options) {
	words := strings.Fields(line)
	require.Zero(t, len(words)%2, line)
	zero := 0.0
	o := dispatch.Options{BorderCost: &zero}
	var tg *target.Target
	for i := 0; i < len(words); i += 2 {
		value := words[i+1]
		var err error
		switch words[i] {
		case "platform":
			tg, err = target.Known(value)
		case "dispatcher":
			o.Strategy = value
		case "cost":
			var cost float64
			cost, err = strconv.ParseFloat(value, 64)
			o.BorderCost = &cost
		case "fp32", "int":
			for _, text := range strings.Split(value, ",") {
				f := dispatch.Forced{Who: dispatch.ByUser, Why: text}
				if words[i] == "int" {
					f.Domain = tqc.DomainInt
				}
				if f.Nodes, err = decision.Nodes(g, text); err != nil {
					break
				}
				o.Forced = append(o.Forced, f)
			}
		default:
			t.Fatalf("unknown word %q in %q", words[i], line)
		}
		require.NoError(t, err, line)
	}
	return tg, o
}

// describe writes a line per node: name, domain, what it is fused with and why.
func describe(g *graph.Graph, a *dispatch.Assignment) string {
	var b strings.Builder
	order, _ := g.Order()
	for _, id := range order {
		fmt.Fprintf(&b, "%s %s", g.Node(id).Name, a.Domains[id])
		if f := a.Fused[id]; f != graph.NoNode {
			fmt.Fprintf(&b, " (with %s)", g.Node(f).Name)
		}
		if a.Why[id] != a.Strategy {
			fmt.Fprintf(&b, " | %s", a.Why[id])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestGolden runs testdata/*.txt. A case is a claim in lines starting with "#", the options (see golden), a graph, "----" and what
// becomes of its nodes; "====" separates cases. Each case says what would be wrong if it changed.
func TestGolden(t *testing.T) {
	graphtest.Golden(t, "testdata/*.txt", func(t *testing.T, c graphtest.Case) string {
		g := parse(t, c.Text)
		tg, o := golden(t, g, c.Head)
		a, err := dispatch.Assign(g, tg, o)
		if err != nil {
			return err.Error()
		}
		return describe(g, a)
	})
}
