package passes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
)

// validate reports a list in which a name is missing or repeated, a pass has no documentation or a constraint is violated.
func validate(list []Pass, constraints []Constraint) error {
	position := map[string]int{}
	for i, p := range list {
		if p.Name == "" || p.Doc == "" || p.sweep == nil {
			return fmt.Errorf("pass %d (%q) has no name, documentation or function", i, p.Name)
		}
		if _, dup := position[p.Name]; dup {
			return fmt.Errorf("pass %q stands twice", p.Name)
		}
		position[p.Name] = i
	}
	for _, c := range constraints {
		before, hasBefore := position[c.Before]
		after, hasAfter := position[c.After]
		if c.Why == "" {
			return fmt.Errorf("the constraint between %q and %q has no reason", c.Before, c.After)
		}
		if hasBefore && hasAfter && before >= after {
			return fmt.Errorf("pass %q must stand before %q: %s", c.Before, c.After, c.Why)
		}
	}
	return nil
}

func TestTheOrderOfPasses(t *testing.T) {
	require.NoError(t, validate(Normalize, Constraints))
	known := map[string]bool{}
	for _, p := range Normalize {
		known[p.Name] = true
	}
	for _, c := range Constraints {
		assert.True(t, known[c.Before], c.Before)
		assert.True(t, known[c.After], c.After)
	}
	wrong := append([]Pass{LoneBatchNorm}, FoldBatchNorm)
	require.ErrorContains(t, validate(wrong, Constraints), `"fold-batch-norm" must stand before "lone-batch-norm"`)
	require.ErrorContains(t, validate([]Pass{NoOps, NoOps}, nil), "stands twice")
	require.ErrorContains(t, validate([]Pass{{Name: "x"}}, nil), "no name")
	require.ErrorContains(t, validate(nil, []Constraint{{Before: "a", After: "b"}}), "no reason")
}

// A normalization before a convolution that may not pad away: order matters for how it ends, and ends it does.
func TestNormalizeWholeGraph(t *testing.T) {
	g, log := rewrite(t, batchNormHead+`
		const k: f32[] = 0.5
		i = Identity(x)
		n = BatchNormalization(i, s4, o4, m4, v4)
		c = Conv(n, w)
		d = BatchNormalization(c, s6, o6, m6, v6)
		e = Mul(d, k)
		y = Relu(e)
		output y`, Normalize...)
	requireOps(t, g, "Mul Add Conv Relu") // the offset centres the graph's input and stays
	assert.Equal(t, 1, log.Count("lone-batch-norm"))
	assert.Positive(t, log.Rounds)
}

func TestPassesThatUndoEachOtherAreAnError(t *testing.T) {
	there := Pass{Name: "there", Doc: "Exp to Log.", sweep: each(swap("Exp", "Log"))}
	back := Pass{Name: "back", Doc: "Log to Exp.", sweep: each(swap("Log", "Exp"))}
	g := parseGraph(t, "opset 13\ninput x: f32[2]\ny = Exp(x)\noutput y")
	_, err := Run(context.Background(), g, []Pass{there, back})
	require.ErrorContains(t, err, "no end after")
	require.ErrorContains(t, err, "there, back")
}

func swap(from, to string) rule {
	return func(c *Context, id graph.NodeID) (*Patch, error) {
		n := *c.G.Node(id)
		if n.Op != from {
			return nil, nil
		}
		n.Op = to
		p := &Patch{What: "swap"}
		p.Drop(id)
		p.Add(n)
		return p, nil
	}
}

func TestApplyRefusesToTakeAwayWhatIsNeeded(t *testing.T) {
	const text = "opset 13\ninput x: f32[2]\na = Exp(x)\nb = Relu(a)\ny = Neg(b)\noutput y, a"
	cases := []struct {
		node, why string
	}{
		{"a", `"a" is a graph output`},
		{"b", `"b" is also read by node "y" (Neg)`},
	}
	for _, c := range cases {
		g := parseGraph(t, text)
		before := graph.Format(g)
		id, _ := g.LookupNode(c.node)
		p := &Patch{}
		p.Drop(id)
		err := (&Context{G: g, log: &Log{}}).apply(p)
		require.ErrorContains(t, err, c.why)
		require.Equal(t, before, graph.Format(g), "a refused patch changes nothing")
	}
}

// The result and the log depend on structure and names, not on where nodes lie in memory.
func TestNormalizeIsIndependentOfStorageOrder(t *testing.T) {
	base := graphtest.Parse(t, batchNormHead+`
		const k: f32[] = 0.5
		const k2: f32[] = 0.5
		n = BatchNormalization(x, s4, o4, m4, v4)
		r = Relu(n)
		c = Conv(r, w)
		c2 = Conv(r, w)
		e = Mul(c, k)
		f = Mul(c2, k2)
		y = Add(e, f)
		output y`)
	var text string
	var applied []Entry
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 6 {
		g := base.Clone()
		g.Shuffle(rng.Perm(g.NumNodes()))
		log, err := Run(context.Background(), g, Normalize)
		require.NoError(t, err)
		if i == 0 {
			text, applied = graph.Format(g), log.Applied
			continue
		}
		require.Equal(t, text, graph.Format(g))
		require.Equal(t, applied, log.Applied)
	}
}
