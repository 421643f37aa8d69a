package qdq_test

import (
	"context"
	"os"
	"sort"
	"testing"

	"qwb/graph"
	"qwb/quantizer/qdq"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
)

// FuzzImport mutates quantized graphs: whatever they have become, import gives an error or a graph that is sound and can be
// simulated. It never panics.
func FuzzImport(f *testing.F) {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		f.Add(files[name], uint64(0))
		f.Add(files[name], uint64(0x1234567))
	}
	text, err := os.ReadFile("testdata/qoperators.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text), uint64(99))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if len(text) > 20_000 {
			return
		}
		g, err := graph.Parse(text)
		if err != nil || g.Check() != nil {
			return
		}
		mutate(g, seed)
		if g.Check() != nil {
			return
		}
		graph.InferShapes(g)
		q, err := qdq.Read(context.Background(), g)
		if err != nil {
			return
		}
		for _, tg := range append(q.Platforms(target.Builtin()), &target.TRTInt8, &target.TFLite) {
			im, err := q.Configure(tg)
			if err != nil {
				continue
			}
			if err := im.Graph.Check(); err != nil {
				t.Fatalf("%v\n%s\nbecame\n%s", err, graph.Format(g), graph.Format(im.Graph))
			}
			if _, err := sim.New(im.Graph, im.Set, sim.Options{}); err != nil {
				t.Fatalf("%v\n%s", err, graph.Format(im.Graph))
			}
		}
	})
}

// mutate rewires inputs, as the digits of seed say.
func mutate(g *graph.Graph, seed uint64) {
	nodes, values := g.Nodes(), g.Values()
	next := func(n int) int {
		k := int(seed % uint64(n))
		seed = seed/uint64(n) ^ seed<<7>>3
		return k
	}
	for range seed % 4 {
		if len(nodes) == 0 || len(values) == 0 {
			return
		}
		id := nodes[next(len(nodes))]
		n := g.Node(id)
		if len(n.Inputs) == 0 {
			continue
		}
		old := n.Inputs[next(len(n.Inputs))]
		v := values[next(len(values))]
		for i, in := range n.Inputs {
			if in == old {
				g.SetInput(id, i, v)
				if _, err := g.Order(); err != nil { // a cycle
					g.SetInput(id, i, in)
				}
				break
			}
		}
	}
}

// Rewired graphs, many of them, without the fuzzer.
func TestMutated(t *testing.T) {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	imported, refused := 0, 0
	for _, name := range names {
		for seed := range uint64(400) {
			g, err := graph.Parse(files[name])
			if err != nil {
				t.Fatal(err)
			}
			mutate(g, seed*0x9e3779b97f4a7c15)
			graph.InferShapes(g)
			q, err := qdq.Read(context.Background(), g)
			if err != nil {
				refused++
				continue
			}
			im, err := q.Configure(q.Platforms(target.Builtin())[0])
			if err != nil {
				refused++
				continue
			}
			imported++
			if err := im.Graph.Check(); err != nil {
				t.Fatalf("%v\n%s\nbecame\n%s", err, graph.Format(g), graph.Format(im.Graph))
			}
			if _, err := sim.New(im.Graph, im.Set, sim.Options{}); err != nil {
				t.Fatalf("%v\n%s", err, graph.Format(im.Graph))
			}
		}
	}
	if imported < 100 || refused < 100 {
		t.Errorf("%d graphs were imported, %d refused: the mutations do not reach both", imported, refused)
	}
}
