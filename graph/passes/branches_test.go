package passes

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
)

func TestBranches(t *testing.T) {
	const two = "then_branch=graph { a = Abs(x); output a }, else_branch=graph { a = Neg(x); output a }"
	runCases(t, Branches, "opset 13\nconst yes: bool[] = true\nconst no: bool[1] = [false]\nconst one: i64[] = 1\nconst three: i64[] = 3\n"+
		"input x: f32[2,3]\ninput n: f32[batch,3]", []passCase{
		{"true", "y = If(yes) {" + two + "}; output y", "Abs Identity", ""},
		{"false, of one dimension", "y = If(no) {" + two + "}; output y", "Neg Identity", ""},
		{"from a fixed dimension", "s = Shape(x); d = Gather(s, one); c = Equal(d, three); y = If(c) {" + two + "}; output y",
			"Abs Identity Shape Gather Equal", ""},
		{"by way of Not and Cast", "s = Shape(x); d = Gather(s, one); c = Equal(d, three); m = Not(c); k = Cast(m) {to=9}; y = If(k) {" + two +
			"}; output y", "Neg Identity Shape Gather Equal Not Cast", ""},
		{"a fixed dimension beside an open one", "s = Shape(n); d = Gather(s, one); c = Equal(d, three); y = If(c) {" + two + "}; output y",
			"Abs Identity Shape Gather Equal", ""},
		{"an open dimension", "const zero: i64[] = 0; s = Shape(n); d = Gather(s, zero); c = Equal(d, three); y = If(c) {" + two + "}; output y",
			"Shape Gather Equal If", ""},
		{"two with the same names inside", "y = If(yes) {" + two + "}; z = If(no) {" + two + "}; output y, z", "Abs Identity Neg Identity", ""},
		{"a name that another branch keeps", "input c: bool[]; y = If(yes) {" + two + "}; z = If(c) {" + two + "}; output y, z",
			"Abs Identity If", ""},
	})
}

// An If inside a branch that is taken is resolved in the same sweep, and reads what the branch computed under its new name.
func TestBranchesWithin(t *testing.T) {
	body := "p = Add(a, x); output p"
	for depth := range 20 {
		body = fmt.Sprintf("q%d = If(yes) {then_branch=graph { %s }, else_branch=graph { n = Neg(x); output n }}; output q%d", depth, body, depth)
	}
	g, log := rewrite(t, `opset 13
		const yes: bool[] = true
		input x: f32[2,3]
		input c: bool[]
		u = If(c) {then_branch=graph { a = Abs(x); output a }, else_branch=graph { a = Neg(x); output a }}
		y = If(yes) {then_branch=graph { a = Mul(x, x); `+body+` }, else_branch=graph { b = Neg(x); output b }}
		output u, y`, Normalize...)
	requireOps(t, g, "If Mul Add")
	require.LessOrEqual(t, log.Rounds, 4)
	for _, id := range g.Nodes() {
		for _, sub := range g.Node(id).Subgraphs() {
			for _, v := range sub.Values() {
				if val := sub.Value(v); !val.Outer {
					_, taken := g.Lookup(val.Name)
					assert.False(t, taken, "%q is defined in a branch and around it", val.Name)
				}
			}
		}
	}
}

// The weights of a branch become the graph's own, with types, so that what reads them can be quantized.
func TestBranchesBringTheirConstants(t *testing.T) {
	g, _ := rewrite(t, `opset 13
		const yes: bool[] = true
		input x: f32[1,3,8,8]
		y = If(yes) {then_branch=graph { const w: f32[4,3,3,3] = normal(seed=1); k: f32[1,4,6,6] = Conv(x, w); output k }, else_branch=graph { n = Neg(x); output n }}
		output y`, Normalize...)
	requireOps(t, g, "Conv")
	id := g.Producer(g.Outputs[0])
	require.NotNil(t, g.Const(g.Node(id).Input(1)))
	require.Equal(t, "f32[1,4,6,6]", graph.FormatType(g.Value(g.Outputs[0]).DType, g.Value(g.Outputs[0]).Shape))
}
