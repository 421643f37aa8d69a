package onnx

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
	"qwb/internal/longtest"
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

// graphsWithin is a model with so many graphs inside each other. Lengths are written before what they measure without copying it.
func graphsWithin(depth int) []byte {
	head := func(num protowire.Number, size int) msg {
		return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.BytesType), uint64(size))
	}
	x, kind := msg{}.add(12, info("x", 1)), msg{}.int(20, 5)
	size := len(x)
	heads, tail := make([]msg, 0, depth), slices.Clone(x)
	for i := range depth {
		attr := append(msg{}.str(1, "then_branch"), head(6, size)...)
		size += len(attr) + len(kind)
		n := append(node("If", "", []string{fmt.Sprintf("y%d", i)}, []string{"x"}), head(5, size)...)
		size += len(n)
		g := head(1, size)
		size += len(g) + len(x)
		heads = append(heads, slices.Concat(g, n, attr))
		tail = append(append(tail, kind...), x...)
	}
	slices.Reverse(heads)
	return model(slices.Concat(slices.Concat(heads...), tail, msg{}.add(11, info("x", 1))))
}

// TestDeepModels nests graphs up to the limit and beyond.
func TestDeepModels(t *testing.T) {
	m := mustRead(t, graphsWithin(maxDepth-2))
	m.Graph.Doc = "changed"
	mustRead(t, written(t, m))
	for _, depth := range []int{maxDepth + 1, 1000, 10_000} {
		_, _, err := read(graphsWithin(depth))
		require.ErrorContains(t, err, "nested more than 64 deep")
		require.NotContains(t, err.Error(), "\n")
		assert.Less(t, len(err.Error()), 20_000, "the error repeats itself")
		assert.NotContains(t, strings.ToLower(err.Error()), "panic")
	}
}

// TestDeepGroups nests groups, which no model has, in a field that nobody knows: within the model and within a node.
func TestDeepGroups(t *testing.T) {
	const field = 1000
	groups := func(depth int) msg {
		b := msg(bytes.Repeat(protowire.AppendTag(nil, field, protowire.StartGroupType), depth))
		return append(b, bytes.Repeat(protowire.AppendTag(nil, field, protowire.EndGroupType), depth)...)
	}
	x := msg{}.add(11, info("x", 1)).add(12, info("y", 1))
	relu := node("Relu", "", []string{"y"}, []string{"x"})
	for _, depth := range []int{10, 10_000, 1_000_000} {
		for what, b := range map[string]msg{
			"model": slices.Concat(model(slices.Concat(msg{}.add(1, relu), x)), groups(depth)),
			"node":  model(slices.Concat(msg{}.add(1, slices.Concat(relu, groups(depth))), x)),
		} {
			_, _, err := read(b)
			if depth <= 10_000 {
				require.NoError(t, err, "%s, %d deep: fields that are not known are carried", what, depth)
				continue
			}
			require.ErrorContains(t, err, "field 1000")
			require.NotContains(t, err.Error(), "\n")
		}
	}
	_, _, err := read(slices.Concat(model(x), groups(10_000)[:25_000]))
	require.ErrorContains(t, err, "truncated", "groups without an end")
}

// TestHugeTensors declares 2^45 elements where there are a few bytes, in every way that a tensor can be stored.
func TestHugeTensors(t *testing.T) {
	const many = 1 << 45
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "w.bin"), little(1, 2), 0o644))
	path := filepath.Join(dir, "m.onnx")
	for what, w := range map[string]msg{
		"raw_data":              floats("w", []int64{many}, "12345678"),
		"raw_data, in factors":  floats("w", []int64{1 << 15, 1 << 15, 1 << 15}, "12345678"),
		"no data":               msg{}.int(1, many).int(2, 1).str(8, "w"),
		"float_data":            msg{}.int(1, many).int(2, 1).str(8, "w").str(4, "12345678"),
		"int64_data":            msg{}.int(1, many).int(2, 7).str(8, "w").str(7, "\x01\x02"),
		"string_data":           msg{}.int(1, many).int(2, 8).str(8, "w").str(6, "text"),
		"4-bit":                 msg{}.int(1, many).int(2, 22).str(8, "w").str(9, "\x12"),
		"external":              external("w", "w.bin", "", "", many),
		"external, with length": external("w", "w.bin", "0", "140737488355328", many),
		"a product of 2^64":     floats("w", []int64{1 << 32, 1 << 32}, ""),
	} {
		t.Run(what, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, around(w), 0o644))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := Open(path)
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, `initializer "w"`)
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
			t.Log(err)
		})
	}
}

// TestLongChains loads, orders and infers a chain of a million nodes: time and memory stay proportional to the file.
func TestLongChains(t *testing.T) {
	nodes := 1_000_000
	if !longtest.Wanted(t) {
		nodes = 100_000
	}
	g := make(msg, 0, 32*nodes).add(11, info("v0", 1)).add(12, info(fmt.Sprintf("v%d", nodes), 1))
	for i := range nodes {
		g = g.add(1, node("Relu", "", []string{fmt.Sprintf("v%d", i+1)}, []string{fmt.Sprintf("v%d", i)}))
	}
	b := model(g)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	m := mustRead(t, b)
	loaded := time.Since(start)
	order, err := m.Graph.Order()
	require.NoError(t, err)
	require.Len(t, order, nodes)
	require.Empty(t, graph.InferShapes(m.Graph))
	runtime.ReadMemStats(&after)
	t.Logf("%d nodes, %d bytes: loaded in %v, inferred after %v, %.0f bytes allocated per node", nodes, len(b), loaded, time.Since(start),
		float64(after.TotalAlloc-before.TotalAlloc)/float64(nodes))
	require.Less(t, time.Since(start), longtest.Hang)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(nodes)*8000)
}
