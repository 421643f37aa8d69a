package analysis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer/target"
)

// chain is one large convolution, then n small ones in pairs with a residual sum, then a classifier.
func chain(n int) string {
	var b strings.Builder
	b.WriteString("graph chain\nopset 13\ninput x: f32[1,16,20,20]\nconst w: f32[16,16,3,3] = normal(seed=1, std=0.15)\n")
	b.WriteString("big = Conv(x, w) {pads=[1,1,1,1]}\nv0 = MaxPool(big) {kernel_shape=[4,4], strides=[4,4]}\n")
	for i := range n {
		fmt.Fprintf(&b, "const w%d: f32[16,16,3,3] = normal(seed=%d, std=0.12)\nc%d = Conv(v%d, w%d) {pads=[1,1,1,1]}\nr%d = Relu(c%d)\n"+
			"v%d = Add(r%d, v%d)\n", i, i+2, i, i, i, i, i, i+1, i, i)
	}
	fmt.Fprintf(&b, "g = GlobalAveragePool(v%d)\nf = Flatten(g)\nconst wf: f32[5,16] = normal(seed=99, std=0.4)\n"+
		"y = Gemm(f, wf) {transB=1}\ns = Softmax(y) {axis=1}\noutput s\n", n)
	return b.String()
}

func tailOf(t *testing.T, text string) (*analyzer, *graph.Graph) {
	t.Helper()
	g := graphtest.Parse(t, text)
	require.Empty(t, graph.InferShapes(g))
	order, err := g.Order()
	require.NoError(t, err)
	a := &analyzer{g: g, order: order, work: newWork(g)}
	shapes := make([][]int, g.NumValues())
	for v := range shapes {
		if g.Producer(graph.ValueID(v)) != graph.NoNode {
			shapes[v], _ = g.Value(graph.ValueID(v)).Shape.Ints()
		}
	}
	a.stages = a.findStages(shapes)
	a.enterStages()
	return a, g
}

func TestTails(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"behind the large part", chain(3), "big"},
		{"behind the sum over everything", strings.Replace(residualNet, "output y, r3", "output y", 1), "cat"}, // which takes no batches itself
		{"none where an output is early", residualNet, ""},
		{"not through a mixing axis", strings.Replace(chain(2), "Softmax(y) {axis=1}", "Softmax(y) {axis=0}", 1), ""},
		{"behind what fixes the batch", strings.Replace(chain(2), "f = Flatten(g)", "const flat: i64[2] = [1,16]\nf = Reshape(g, flat)", 1), "f"},
	} {
		a, g := tailOf(t, c.text)
		if c.want == "" {
			require.Empty(t, a.stages, c.name)
			continue
		}
		require.Len(t, a.stages, 1, "without operators to analyse nothing enters behind the first")
		s := a.stages[0]
		require.Equal(t, c.want, g.Value(s.value).Name, c.name)
		require.Contains(t, g.Node(s.first).Inputs, s.value)
		for _, id := range a.order {
			require.Equal(t, a.before(0)(id), id < s.first, c.name)
		}
	}
}

// More restarts than one batch takes, several samples: the numbers are those of naive repetition.
func TestRestartsGoThroughTheTailTogether(t *testing.T) {
	const convs = stageBatch + 5
	text := strings.ReplaceAll(chain(convs), "kernel_shape=[4,4], strides=[4,4]", "kernel_shape=[2,2], strides=[2,2]") // 100 positions
	text = strings.Replace(text, fmt.Sprintf("g = GlobalAveragePool(v%d)", convs),
		fmt.Sprintf("p = MaxPool(v%d) {kernel_shape=[2,2], strides=[2,2]}\nconst we: f32[16,16,3,3] = normal(seed=98, std=0.12)\n"+
			"e = Conv(p, we) {pads=[1,1,1,1]}\ng = GlobalAveragePool(e)", convs), 1)
	data := samplesOf(2, 1, 16, 20, 20)
	tgt := target.TRTInt8
	tgt.BorderCost = 0 // everything is small here
	g, q := configured(t, text, &tgt, data, 1)
	want := repeated(t, g, q, data)
	require.Greater(t, len(want), stageBatch)
	for _, memory := range []int64{0, 1} {
		r := analyze(t, g, q, data, Config{Layerwise: true, Memory: memory})
		for i, l := range r.Layerwise {
			require.Equal(t, want[i].Error, l.Error, l.Node)
			require.Equal(t, want[i].Local, l.Local, l.Node)
		}
		if memory == 0 {
			require.InDelta(t, 1+0.5+reach(t, g, q), r.Forwards, 1e-9)
		}
	}
}
