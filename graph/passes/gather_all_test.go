package passes

import "testing"

// A GatherND that reads every element once, in order, is a Reshape, or nothing; one that changes the order stays.
func TestGatherOfAllElements(t *testing.T) {
	for ops, indices := range map[string]string{
		"Reshape":  "i64[1,1,2,2] = [0, 0, 0, 1]",
		"GatherND": "i64[1,1,2,2] = [0, 1, 0, 0]",
	} {
		g, _ := rewrite(t, "input x: f32[1,2]\nconst i: "+indices+"\ny = GatherND(x, i)\noutput y", Reshapes)
		requireOps(t, g, ops)
	}
	// The last of the indexed axes alone, from the end, with an axis that is taken whole.
	g, _ := rewrite(t, "input x: f32[2,3]\nconst i: i64[2,1] = [-2, -1]\ny = GatherND(x, i)\noutput y", Reshapes)
	requireOps(t, g, "Identity")
	g, _ = rewrite(t, "input x: f32[2,3]\nconst i: i64[1,1] = [1]\ny = GatherND(x, i)\noutput y", Reshapes)
	requireOps(t, g, "GatherND")
}
