package onnx

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWideModels loads graphs whose parts are many in one way each: time must stay proportional to the file, which shows as
// the test ending at all.
func TestWideModels(t *testing.T) {
	const many = 10_000
	x := info("x", 1)
	name := func(i int) string { return fmt.Sprintf("v%d", i) }
	cases := map[string]func() msg{
		"one value with many readers": func() msg {
			g := msg{}.add(11, x).add(12, info("v0", 1))
			for i := range many {
				g = g.add(1, node("Relu", "", []string{name(i)}, []string{"x"}))
			}
			return g
		},
		"many inputs and many nodes": func() msg {
			g := msg{}.add(12, info("v0", 1))
			for i := range many {
				g = g.add(11, info("x"+name(i), 1)).add(1, node("Relu", "", []string{name(i)}, []string{"x" + name(i)}))
			}
			return g
		},
		"many outputs": func() msg {
			g := msg{}.add(11, x)
			for i := range many {
				g = g.add(12, info(name(i), 1)).add(1, node("Relu", "", []string{name(i)}, []string{"x"}))
			}
			return g
		},
		"one node with many inputs and outputs": func() msg {
			var in, out []string
			for i := range many {
				in, out = append(in, "x"), append(out, name(i))
			}
			return msg{}.add(11, x).add(12, info("v0", 1)).add(1, node("Many", "", out, in))
		},
		"many nodes with the same name": func() msg {
			g := msg{}.add(11, x).add(12, info("v0", 1))
			for i := range many {
				g = g.add(1, node("Relu", "same", []string{name(i)}, []string{"x"}))
			}
			return g
		},
		"many nodes without outputs": func() msg {
			g := msg{}.add(11, x).add(12, x)
			for range many {
				g = g.add(1, node("Sink", "", nil, []string{"x"}))
			}
			return g
		},
		"many nodes with graphs": func() msg {
			g := msg{}.add(11, x).add(12, x)
			sub := msg{}.add(12, info("x", 1))
			for i := range many {
				g = g.add(1, node("If", "", []string{name(i)}, []string{"x"}).add(5, msg{}.str(1, "then_branch").add(6, sub).int(20, 5)))
			}
			return g
		},
		"names that look reserved": func() msg {
			g := msg{}.add(11, x).add(12, x)
			for i := range many {
				g = g.add(1, node("Relu", "", []string{fmt.Sprintf("qwb%d.", i)}, []string{"x"}))
			}
			return g
		},
	}
	for what, build := range cases {
		t.Run(what, func(t *testing.T) {
			b := model(build())
			m := mustRead(t, b)
			assert.Equal(t, []byte(b), written(t, m))
			m.Graph.Doc = "changed"
			mustRead(t, written(t, m))
		})
	}
}

// TestDeepModels nests graphs up to the limit and beyond.
func TestDeepModels(t *testing.T) {
	nest := func(depth int) []byte {
		g := msg{}.add(12, info("x", 1))
		for i := range depth {
			n := node("If", "", []string{fmt.Sprintf("y%d", i)}, []string{"x"}).add(5, msg{}.str(1, "then_branch").add(6, g).int(20, 5))
			g = msg{}.add(1, n).add(12, info("x", 1))
		}
		return model(g.add(11, info("x", 1)))
	}
	m := mustRead(t, nest(maxDepth-2))
	m.Graph.Doc = "changed"
	mustRead(t, written(t, m))
	_, _, err := read(nest(1000))
	require.ErrorContains(t, err, "nested more than")
	assert.Less(t, len(err.Error()), 20_000, "the error repeats itself")
	assert.NotContains(t, strings.ToLower(err.Error()), "panic")
}
