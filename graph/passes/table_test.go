package passes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
)

// passCase is one graph that a single pass is run on. Outputs are compared on random inputs in every case.
type passCase struct {
	claim string
	text  string
	ops   string // operators afterwards, in order of execution
	why   string // part of the reason of a decline; "" if there must be none
}

func runCases(t *testing.T, pass Pass, head string, cases []passCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.claim, func(t *testing.T) {
			g, log := rewrite(t, head+"\n"+c.text, pass)
			assert.Equal(t, c.ops, ops(t, g))
			if c.why == "" {
				assert.Empty(t, log.Declined)
				return
			}
			var reasons []string
			for _, e := range log.Declined {
				reasons = append(reasons, e.String())
			}
			require.Contains(t, strings.Join(reasons, "\n"), c.why)
		})
	}
}

func ops(t testing.TB, g *graph.Graph) string {
	t.Helper()
	order, err := g.Order()
	require.NoError(t, err)
	var names []string
	for _, id := range order {
		names = append(names, g.Node(id).Op)
	}
	return strings.Join(names, " ")
}
