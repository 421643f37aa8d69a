package decision_test

import (
	"fmt"
	"os"
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
	const file = "testdata/fold.txt"
	src, err := os.ReadFile(file)
	require.NoError(t, err)
	g := parse(t, network)
	var out []string
	for _, c := range strings.Split(strings.TrimSpace(string(src)), "\n====\n") {
		input, want, ok := strings.Cut(c+"\n", "\n----\n")
		require.True(t, ok, c)
		claim, lines, _ := strings.Cut(input, "\n")
		require.True(t, strings.HasPrefix(claim, "# "), c)
		var got string
		t.Run(claim[2:], func(t *testing.T) {
			var list []decision.Decision
			for i, line := range strings.Split(lines, "\n") {
				d, err := decision.Parse(fmt.Sprintf("#%d", i+1), []byte(line))
				require.NoError(t, err)
				list = append(list, *d)
			}
			require.NoError(t, decision.CheckList(list))
			table, err := decision.Fold(g, list)
			if err != nil {
				got = "error: " + err.Error()
			} else {
				got = describe(g, table)
			}
			if os.Getenv("QWB_REWRITE") == "" {
				require.Equal(t, strings.TrimSpace(want), strings.TrimSpace(got))
			}
		})
		out = append(out, input+"\n----\n"+strings.TrimSpace(got))
	}
	if os.Getenv("QWB_REWRITE") != "" {
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(out, "\n====\n")+"\n"), 0o644))
	}
}
