package analysis

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
	"qwb/internal/targettest"
)

// randomNet writes a graph with branches that divide and join, values that several nodes read, activations that are fused, nodes
// that only pass values on, and up to three outputs. Every tensor but those behind the pools is [1,16,6,6].
func randomNet(rng *rand.Rand) string {
	var b strings.Builder
	b.WriteString("graph random\nopset 13\ninput x: f32[1,16,6,6]\nconst lo: f32[] = -0.5\nconst hi: f32[] = 1\n" +
		"const flat: i64[3] = [1,16,36]\nconst square: i64[4] = [1,16,6,6]\nconst half: f32[] = 0.5\n")
	values := []string{"x"}
	n := 0
	node := func(format string, args ...any) string {
		n++
		v := fmt.Sprintf("v%d", n)
		fmt.Fprintf(&b, "%s = %s\n", v, fmt.Sprintf(format, args...))
		return v
	}
	weight := func(shape string, std float64) string {
		n++
		fmt.Fprintf(&b, "const w%d: f32[%s] = normal(seed=%d, std=%g)\n", n, shape, rng.IntN(1000)+1, std)
		return fmt.Sprintf("w%d", n)
	}
	pick := func() string { // mostly a late value
		return values[max(rng.IntN(len(values)), rng.IntN(len(values)))]
	}
	conv := func(x string) string {
		switch rng.IntN(3) {
		case 0:
			return node("Conv(%s, %s, %s) {pads=[1,1,1,1]}", x, weight("16,16,3,3", 0.15), weight("16", 0.1))
		case 1:
			return node("Conv(%s, %s) {pads=[1,1,1,1], group=16}", x, weight("16,1,3,3", 0.3))
		}
		return node("Conv(%s, %s)", x, weight("16,16,1,1", 0.35))
	}
	for range 4 + rng.IntN(10) {
		x := pick()
		switch rng.IntN(9) {
		case 0, 1:
			x = conv(x)
		case 2:
			x = node("Relu(%s)", conv(x))
		case 3:
			x = node("Clip(%s, lo, hi)", conv(x))
		case 4:
			x = node("Relu(%s)", node("Add(%s, %s)", conv(x), pick()))
		case 5:
			both := node("Concat(%s, %s) {axis=1}", x, pick())
			x = node("Conv(%s, %s)", both, weight("16,32,1,1", 0.25))
		case 6:
			c := conv(x)
			x = node("Mul(%s, %s)", c, node("Sigmoid(%s)", c))
		case 7:
			x = node("Reshape(%s, square)", node("Reshape(%s, flat)", node("MaxPool(%s) {kernel_shape=[3,3], pads=[1,1,1,1]}", x)))
		case 8:
			x = node("Add(%s, %s)", x, node("Mul(%s, half)", pick()))
		}
		values = append(values, x)
	}
	f := node("Flatten(%s)", node("GlobalAveragePool(%s)", conv(values[len(values)-1])))
	y := node("Gemm(%s, %s) {transB=1}", f, weight("5,16", 0.4))
	outputs := []string{y}
	for range rng.IntN(3) {
		if v := pick(); v != "x" && !strings.Contains(strings.Join(outputs, " ")+" ", v+" ") {
			outputs = append(outputs, v)
		}
	}
	fmt.Fprintf(&b, "output %s\n", strings.Join(outputs, ", "))
	return b.String()
}

// Whatever the graph, the target, the memory and the threads: the numbers are those of running the whole graph for every operator; those at
// the outputs are near them where they are estimated.
func TestLayerwiseOfRandomGraphsEqualsNaiveRepetition(t *testing.T) {
	graphs := 24
	if !longtest.Wanted(t) {
		graphs = 8
	}
	all := targettest.Distinct()
	for i := range graphs {
		rng := rand.New(rand.NewPCG(uint64(i), 77))
		text := randomNet(rng)
		tgt := *all[i%len(all)]
		tgt.BorderCost = 0 // everything is small here
		t.Run(fmt.Sprintf("%d/%s", i, tgt.Name), func(t *testing.T) {
			data := samplesOf(2, 1, 16, 6, 6)
			g, q := configured(t, text, &tgt, data, []float64{1, 0.6}[rng.IntN(2)])
			want := repeated(t, g, q, data)
			require.NotEmpty(t, want, text)
			for _, cfg := range []Config{{}, {Memory: 1}, {Memory: int64(1 + rng.IntN(20_000)), Threads: 2}} {
				cfg.Layerwise, cfg.Split = true, true
				r := analyze(t, g, q, data, cfg)
				require.Len(t, r.Layerwise, len(want))
				for k, l := range r.Layerwise {
					got := LayerError{Node: l.Node, Error: l.Error, Spread: l.Spread, Local: l.Local, Clip: l.Clip, Round: l.Round, Weight: l.Weight,
						Activation: l.Activation, Read: l.Read}
					if l.Bounded > 0 { // estimated, as far as the outputs
						require.LessOrEqual(t, got.NSR, 10*want[k].NSR, text)
						require.GreaterOrEqual(t, got.NSR, want[k].NSR/10, text)
						got.Error, got.Spread = want[k].Error, want[k].Spread
					}
					require.Equal(t, want[k], got, text)
				}
			}
		})
	}
}
