package analysis

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer/target"
)

// rows lists what two networks do not share, as kind: a | b: why.
func (s *Structure) rows() (list []string) {
	names := func(l []Operator) string {
		words := []string{}
		for _, o := range l {
			words = append(words, o.Op+" "+o.Node)
		}
		return strings.Join(words, ", ")
	}
	for _, r := range s.Rows {
		list = append(list, r.Kind+": "+names(r.A)+" | "+names(r.B)+": "+r.Why)
	}
	return list
}

func TestStructures(t *testing.T) {
	for name, c := range map[string]struct {
		replace []string // old, new, ...
		want    []string
		both    int
	}{
		"the same":    {nil, nil, 12},
		"only in one": {[]string{"r1 = Relu(c1)", "k = Abs(c1)\nr1 = Relu(k)"}, []string{"only_b:  | Abs k: "}, 12},
		"another name": {[]string{"c2 = Conv(r1, w2)", "other = Conv(r1, w2)", "Add(c2, r1)", "Add(other, r1)"},
			[]string{"renamed: Conv c2 | Conv other: the same operator under another name"}, 12},
		"another type": {[]string{"r2 = Relu(s)", "r2 = HardSwish(s)"}, []string{"form: Relu r2 | HardSwish r2: the same name, another type"},
			11},
		"several for one": {[]string{"r2 = Relu(s)", "u = Sigmoid(s)\nv = Mul(s, u)", "Conv(r2, w3)", "Conv(v, w3)", "Concat(r2, r3)",
			"Concat(v, r3)"}, []string{"form: Relu r2 | Sigmoid u, Mul v: other operators in the same place"}, 11},
		"other sizes": {[]string{"f32[16,16,1,1]", "f32[24,16,1,1]", "f32[8,32,1,1]", "f32[8,40,1,1]"},
			[]string{"form: Conv c3 | Conv c3: input 2 has 16×16×1×1 in A, 24×16×1×1 in B",
				"form: Conv c4 | Conv c4: input 2 has 8×32×1×1 in A, 8×40×1×1 in B"}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := graphtest.Parse(t, residualNet), graphtest.Parse(t, strings.NewReplacer(c.replace...).Replace(residualNet))
			s, err := Structures(Configured{Graph: a}, Configured{Graph: b})
			require.NoError(t, err)
			assert.Equal(t, c.want, s.rows())
			assert.Equal(t, c.both, s.Both)
			assert.True(t, s.Comparable)
			assert.Equal(t, len(a.Nodes()), s.Both+s.OnlyA+s.FormA)
			assert.Equal(t, len(b.Nodes()), s.Both+s.OnlyB+s.FormB)
			back, err := Structures(Configured{Graph: b}, Configured{Graph: a})
			require.NoError(t, err)
			assert.Equal(t, c.both, back.Both, "the other way round")
			assert.Equal(t, [4]int{s.OnlyB, s.OnlyA, s.FormB, s.FormA}, [4]int{back.OnlyA, back.OnlyB, back.FormA, back.FormB})
		})
	}
}

// The same network, where two targets compute other operators together.
func TestStructuresOfOtherFusing(t *testing.T) {
	data := samplesOf(2, 1, 8, 10, 10)
	g, q := configured(t, residualNet, &target.ONNXRuntime, data, 1)
	set := q.Set().Clone()
	relu, _ := g.LookupNode("r1")
	require.NotEqual(t, graph.NoNode, set.Fused[relu])
	set.Fused[relu] = graph.NoNode
	s, err := Structures(Configured{g, q.Set()}, Configured{g, set})
	require.NoError(t, err)
	assert.Equal(t, []string{"form: Relu r1 | Relu r1: computed together with c1 in A, by itself in B"}, s.rows())
}

func TestNetworksWithNothingInCommon(t *testing.T) {
	a := graphtest.Parse(t, residualNet)
	b := graphtest.Parse(t, "graph other\nopset 13\ninput x: f32[1,4]\nconst w: f32[4,4] = normal(seed=1, std=0.1)\nc1 = Gemm(x, w)\n"+
		"q = Tanh(c1)\ny = Exp(q)\noutput y")
	s, err := Structures(Configured{Graph: a}, Configured{Graph: b})
	require.NoError(t, err)
	assert.False(t, s.Comparable)
	assert.Equal(t, "the two networks are too different to be compared operator by operator: 0 of 12 and 3 operators are in both",
		s.Different())
}
