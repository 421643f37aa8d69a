package decision_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

const network = `
input x: f32[1,4,8,8]
const w1: f32[4,1,3,3] = normal(1)
const b1: f32[4] = normal(2)
const w2: f32[4,4,1,1] = normal(3)
a = Conv(x, w1, b1) {group=4, pads=[1,1,1,1]} "conv1"
r = Relu(a) "relu1"
c = Conv(r, w2) "conv2"
s = Sigmoid(c) "sig"
m = Mul(c, s) "mul"
y = MaxPool(m) {kernel_shape=[2,2]} "pool"
output y
`

func parse(t testing.TB, text string) *graph.Graph {
	g := graphtest.Parse(t, text)
	require.Empty(t, graph.InferShapes(g))
	return g
}

// describe writes what a table holds, a line per operator and slot, with the numbers of the decisions.
func describe(g *graph.Graph, t *decision.Table) string {
	var b strings.Builder
	line := func(name string, c *decision.Cell) {
		words := c.Words()
		for i, w := range words {
			key, _, _ := strings.Cut(w, "=")
			words[i] = fmt.Sprintf("%s(#%d)", w, c.By(key))
		}
		if len(words) > 0 {
			fmt.Fprintf(&b, "%s %s\n", name, strings.Join(words, " "))
		}
	}
	line("plan", &t.Plan)
	set := tqc.NewSet(g)
	order, _ := g.Order()
	for _, id := range order {
		line(g.Node(id).Name, &t.Nodes[id])
		for _, slots := range [][]tqc.SlotID{set.Inputs(id), set.Outputs(id)} {
			for _, s := range slots {
				if s != tqc.NoSlot {
					line(g.Node(id).Name+":"+decision.At(set.Slot(s).Kind, set.Slot(s).Index), &t.Slots[s])
				}
			}
		}
	}
	return b.String()
}

// TestFold runs testdata/fold.txt on one network. A case is a claim, a list of decisions, "----" and the folded table or the error.
func TestFold(t *testing.T) {
	g := parse(t, network)
	graphtest.Golden(t, "testdata/fold.txt", func(t *testing.T, c graphtest.Case) string {
		var list []decision.Decision
		for i, line := range strings.Split(strings.TrimSpace(c.Head+"\n"+c.Text), "\n") {
			d, err := decision.Parse(fmt.Sprintf("#%d", i+1), []byte(line))
			require.NoError(t, err)
			list = append(list, *d)
		}
		require.NoError(t, decision.CheckList(list))
		table, err := decision.Fold(g, list)
		if err != nil {
			return "error: " + err.Error()
		}
		return describe(g, table)
	})
}
