package layout

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// requireDrawn holds what every drawing has: nothing overlaps or lies outside, edges lead downwards, and their bends are one in each layer
// between.
func requireDrawn(t testing.TB, d *Drawing, edges [][2]int) {
	rows := map[int][]Place{}
	for _, p := range d.Places {
		require.True(t, p.X >= 0 && p.Y >= 0 && p.X+p.W <= d.W+1 && p.Y+p.H <= d.H, "%+v in %d x %d", p, d.W, d.H)
		for _, o := range rows[p.Layer] {
			require.True(t, p.X >= o.X+o.W || o.X >= p.X+p.W, "%+v over %+v", p, o)
		}
		rows[p.Layer] = append(rows[p.Layer], p)
	}
	for i, e := range edges {
		from, to := d.Places[e[0]], d.Places[e[1]]
		require.Less(t, from.Layer, to.Layer)
		require.LessOrEqual(t, from.Y+from.H, to.Y)
		require.Len(t, d.Bends[i], to.Layer-from.Layer-1)
		for k, b := range d.Bends[i] {
			require.Equal(t, from.Layer+1+k, b.Layer)
		}
	}
}

func boxes(n int) []Size {
	list := make([]Size, n)
	for i := range list {
		list[i] = Size{100 + 10*(i%5), 40}
	}
	return list
}

func TestADiamondIsSymmetric(t *testing.T) {
	edges := [][2]int{{0, 1}, {0, 2}, {1, 3}, {2, 3}, {3, 4}, {0, 4}}
	d := Draw([]Size{{100, 40}, {100, 40}, {100, 40}, {100, 40}, {100, 40}}, edges, Without)
	requireDrawn(t, d, edges)
	require.Equal(t, []int{0, 1, 1, 2, 3}, []int{d.Places[0].Layer, d.Places[1].Layer, d.Places[2].Layer, d.Places[3].Layer,
		d.Places[4].Layer})
	require.Equal(t, d.Places[1].Y, d.Places[2].Y)
	require.Equal(t, d.Bends[5][0].X, d.Bends[5][1].X, "a long edge is straight")
	require.Equal(t, 4*40+3*layerGap, d.H)
	require.Equal(t, d, Draw([]Size{{100, 40}, {100, 40}, {100, 40}, {100, 40}, {100, 40}}, edges, Without))
}

func TestAChainIsALine(t *testing.T) {
	var edges [][2]int
	for i := range 99 {
		edges = append(edges, [2]int{i, i + 1})
	}
	d := Draw(boxes(100), edges, Without)
	requireDrawn(t, d, edges)
	for _, p := range d.Places {
		require.Equal(t, d.W/2, p.X+p.W/2)
	}
}

func TestSourcesStandAboveTheirReaders(t *testing.T) {
	edges := [][2]int{{0, 1}, {1, 2}, {2, 3}, {4, 3}}
	d := Draw(boxes(5), edges, Without)
	requireDrawn(t, d, edges)
	require.Equal(t, 2, d.Places[4].Layer)
}

// TestEdgesThatCanBeUntangledDoNotCross: two columns whose edges are given crosswise.
func TestEdgesThatCanBeUntangledDoNotCross(t *testing.T) {
	edges := [][2]int{{0, 3}, {1, 2}, {2, 5}, {3, 4}, {4, 6}, {5, 6}}
	d := &drawn{size: boxes(7), nodes: 7}
	d.forward(edges)
	d.rank(Without)
	d.chains()
	d.sort()
	require.Zero(t, d.crossings())
}

func TestPortsAreAloneInTheirLayers(t *testing.T) {
	edges := [][2]int{{5, 0}, {5, 2}, {0, 1}, {1, 3}, {2, 3}, {3, 6}, {4, 3}}
	d := Draw(append(boxes(5), Size{}, Size{}), edges, Ports{5, 6})
	requireDrawn(t, d, edges)
	require.Equal(t, 0, d.Places[5].Y)
	require.Equal(t, d.H, d.Places[6].Y)
	for _, p := range d.Places[:5] {
		require.NotContains(t, []int{d.Places[5].Layer, d.Places[6].Layer}, p.Layer)
	}
}

func TestWhatIsNoNetwork(t *testing.T) {
	require.Equal(t, &Drawing{Places: []Place{}, Bends: [][]Bend{}}, Draw(nil, nil, Without))
	d := Draw(boxes(3), [][2]int{{0, 1}, {1, 2}, {2, 0}, {1, 1}, {0, 1}}, Without) // a cycle, a loop, an edge twice
	require.Equal(t, []int{0, 1, 2}, []int{d.Places[0].Layer, d.Places[1].Layer, d.Places[2].Layer})
	require.Equal(t, 1, d.Bends[2][0].Layer)
	require.Empty(t, d.Bends[3])
}

// network is like one: a long chain with skips, branches and one node that many read.
func network(n int, seed uint64) [][2]int {
	r := rand.New(rand.NewPCG(seed, 1))
	var edges [][2]int
	for i := 1; i < n; i++ {
		edges = append(edges, [2]int{max(0, i-1-r.IntN(3)), i})
		if r.IntN(3) == 0 {
			edges = append(edges, [2]int{max(0, i-1-r.IntN(12)), i})
		}
		if i%(n/40+1) == 0 {
			edges = append(edges, [2]int{0, i})
		}
	}
	return edges
}

func TestRandomNetworks(t *testing.T) {
	for seed := range uint64(60) {
		n := 2 + int(seed)*3
		edges := network(n, seed)
		d := Draw(boxes(n), edges, Without)
		requireDrawn(t, d, edges)
		require.Equal(t, d, Draw(boxes(n), edges, Without))
	}
}

// TestEverythingReadsEverything: what would take a vertex in every layer for every node is bounded.
func TestEverythingReadsEverything(t *testing.T) {
	const n = 1200
	var edges [][2]int
	for i := range n {
		for j := i + 1; j < n; j += 1 + (j-i)/4 {
			edges = append(edges, [2]int{i, j})
		}
	}
	began := time.Now()
	d := Draw(boxes(n), edges, Without)
	require.Less(t, time.Since(began), longtest.Hang)
	require.Len(t, d.Places, n)
	bends := map[Bend]bool{}
	for _, list := range d.Bends {
		for _, b := range list {
			bends[b] = true
		}
	}
	require.LessOrEqual(t, len(bends), mostVertices*n+10_000)
}

// wide is n nodes, a hundred beside each other.
func wide(n int) (edges [][2]int) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := 100; i < n; i++ {
		for range 1 + r.IntN(2) {
			edges = append(edges, [2]int{i/100*100 - 100 + r.IntN(100), i})
		}
	}
	return edges
}

func BenchmarkDraw1000(b *testing.B)      { benchmark(b, 1000, network(1000, 1)) }
func BenchmarkDraw30000(b *testing.B)     { benchmark(b, 30000, network(30000, 1)) }
func BenchmarkDrawWide30000(b *testing.B) { benchmark(b, 30000, wide(30000)) }

func benchmark(b *testing.B, n int, edges [][2]int) {
	sizes := boxes(n)
	for b.Loop() {
		Draw(sizes, edges, Without)
	}
}
