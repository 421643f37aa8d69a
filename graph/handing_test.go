package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/internal/graphtest"
)

// Class scores are found behind everything that hands elements on, and behind nothing else.
func TestScoresAt(t *testing.T) {
	for end, want := range map[string]string{
		"y = Softmax(x) {axis=1}": "Softmax",
		"s = LogSoftmax(x) {axis=1}; f = Flatten(s); i = Identity(f); u = Unsqueeze(i, one); y = Squeeze(u, one)": "LogSoftmax",
		"s = Softmax(x) {axis=1}; d = Dropout(s); y = Transpose(d) {perm=[0,2,1]}":                                "Softmax",
		"i = ArgMax(x) {axis=1}; y = Reshape(i, flat)":                                                            "ArgMax",
		"i = ArgMax(x) {axis=1}; y = Cast(i) {to=1}":                                                              "",
		"s = Softmax(x) {axis=1}; y = Slice(s, one, flat)":                                                        "",
		"s = Softmax(c) {axis=0}; y = Reshape(s, flat)":                                                           "",
		"y = Relu(x)":     "",
		"y = Identity(x)": "",
	} {
		g := graphtest.Parse(t, "opset 17\ninput x: f32[1,3,4]\nconst one: i64[1] = [1]\nconst flat: i64[1] = [-1]\n"+
			"const c: f32[5] = normal(1)\n"+end+"\noutput y")
		op := ""
		if n := g.ScoresAt(g.Outputs[0]); n != nil {
			op = n.Op
		}
		require.Equal(t, want, op, end)
	}
}

func TestWhatHandsOn(t *testing.T) {
	g := graphtest.Parse(t, `opset 17
input x: f32[1,3,4]
const flat: i64[1] = [-1]
r = Reshape(x, flat) "reshape"
i = Identity(r) "identity"
t = Transpose(x) "transpose"
a = Add(i, r) "add"
output a
output t`)
	for name, want := range map[string][3]bool{"reshape": {true, true, true}, "identity": {true, false, true}, "transpose": {true},
		"add": {}} {
		id, ok := g.LookupNode(name)
		require.True(t, ok)
		n := g.Node(id)
		require.Equal(t, want, [3]bool{n.HandsOn(), n.Reshapes(), n.HandsOnInOrder()}, name)
	}
	x := g.Inputs[0]
	id, _ := g.LookupNode("identity")
	list := g.HandedOn(g.Node(id).Outputs[0])
	require.Len(t, list, 3)
	require.Equal(t, x, list[2])
}
