package tune

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/observers"
	"qwb/quantizer/target"
)

// grams returns the moments of every operator, and, by the definition, the traces of x xT and of (f - x) xT.
func grams(t *testing.T, threads int, memory int64) (list []*observers.Gram, h, cross []float64) {
	b, _ := bench(t, &target.ONNXRuntime, 6, 16)
	b.Threads, b.Memory = threads, memory
	_, err := b.Sweep(context.Background(), &Proposer{Name: "look", Trials: 1, Float: true,
		Propose: func(ctx context.Context, l *LayerBench) ([]Proposal, error) {
			g, err := l.Gram(ctx)
			require.NoError(t, err)
			again, err := l.Gram(ctx)
			require.NoError(t, err)
			require.Same(t, g, again)
			list = append(list, g)
			if g == nil {
				return nil, nil
			}
			u, err := calib.NewUnfold(l.Graph, l.Node)
			require.NoError(t, err)
			var sumH, sumCross float64
			err = l.Inputs(ctx, func(xq, xf *tensor.Tensor) error {
				rows, err := u.Rows(xq, g.X, nil)
				require.NoError(t, err)
				for _, base := range rows.Base {
					for _, off := range rows.Offset {
						q := float64(rows.Codes[base+off]) * g.X.Step
						sumH += q * q
					}
				}
				if g.F.Step > 0 {
					other, err := u.Rows(xf, g.F, nil)
					require.NoError(t, err)
					require.Zero(t, other.Limited)
					for r, base := range rows.Base {
						for i, off := range rows.Offset {
							q, f := float64(rows.Codes[base+off])*g.X.Step, float64(other.Codes[other.Base[r]+other.Offset[i]])*g.F.Step
							sumCross += (f - q) * q
						}
					}
				}
				return nil
			})
			h, cross = append(h, sumH), append(cross, sumCross)
			return nil, err
		}})
	require.NoError(t, err)
	return list, h, cross
}

func trace(g *observers.Gram, of func(int) []float64) (sum float64) {
	for group := range g.Groups {
		m := of(group)
		for i := range g.K {
			sum += m[i*g.K+i]
		}
	}
	return sum
}

// Moments are those of what operators read in both lanes, the same for any number of threads.
func TestGramOfLayers(t *testing.T) {
	one, h, cross := grams(t, 1, 0)
	require.Len(t, one, 5)
	require.Equal(t, []int{1, 16, 1, 1, 1}, []int{one[0].Groups, one[1].Groups, one[2].Groups, one[3].Groups, one[4].Groups})
	for i, g := range one {
		require.InEpsilon(t, h[i], trace(g, g.H), 1e-9)
		require.InDelta(t, cross[i], trace(g, g.Cross), 1e-9*h[i])
		require.LessOrEqual(t, g.X.Limit, int32(255), "codes of the grid %d", i)
		require.Zero(t, g.Limited)
	}
	seven, _, _ := grams(t, 7, 0)
	for i, g := range one {
		a, err := g.MarshalBinary()
		require.NoError(t, err)
		b, err := seven[i].MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, a, b)
	}
}

// What does not fit into memory is left out, the float lane first.
func TestGramWithinMemory(t *testing.T) {
	few, _, _ := grams(t, 1, 2*observers.GramBytes(1, 144, false))
	require.NotNil(t, few[3])
	require.Nil(t, few[3].Cross(0))
	none, _, _ := grams(t, 1, 1)
	require.Nil(t, none[3])
}

// Fitted on Gram statistics of the float graph, rounding lowers the error nearly as much as fitted on samples.
func TestRoundingOnGramStatistics(t *testing.T) {
	ratio := func(fit int, statistics bool) float64 {
		b, _ := bench(t, &target.ONNXRuntime, fit, 24)
		if statistics {
			ops := map[string]*observers.Gram{}
			stats, err := calib.Run(context.Background(), b.Reference, &exec.InMemory{Samples: b.Fit}, calib.Config{MinMaxOnly: true})
			require.NoError(t, err)
			passes, _, err := calib.GramPasses(b.Reference, stats, 1<<30, 2, func(string) bool { return false })
			require.NoError(t, err)
			_, err = calib.RunGrams(context.Background(), b.Reference, passes[0], &exec.InMemory{Samples: b.Fit}, calib.GramSamples{}, nil, 2, nil)
			require.NoError(t, err)
			for _, op := range passes[0] {
				ops[op.Node] = op.Gram
			}
			b.Fit, b.Grams = nil, func(node string) (*observers.Gram, error) { return ops[node], nil }
		}
		reports, err := b.Tune(context.Background(), &GPTQ)
		require.NoError(t, err)
		require.Positive(t, reports[0].Kept)
		return reports[0].After.NSR / reports[0].Before.NSR
	}
	samples, statistics := ratio(40, false), ratio(40, true)
	t.Logf("NSR after/before: %.3f on samples, %.3f on Gram statistics", samples, statistics)
	require.Less(t, statistics, 0.6)
	require.Less(t, statistics, 2*samples)
}

// Moments that no rounding has room for are not taken: they would be as large themselves.
func TestNoMomentsWithoutRoomForRounding(t *testing.T) {
	b, _ := bench(t, &target.ONNXRuntime, 6, 16)
	refused := 0
	_, err := b.Sweep(context.Background(), &Proposer{Name: "look", Trials: 1,
		Propose: func(ctx context.Context, l *LayerBench) ([]Proposal, error) {
			u, err := calib.NewUnfold(l.Graph, l.Node)
			require.NoError(t, err)
			l.Memory = 2 * observers.GramBytes(u.Groups, u.K, false) // they would fit themselves
			x, err := l.rounding(ctx)
			require.NoError(t, err)
			if x == nil {
				require.True(t, l.gram == nil)
				refused++
			}
			return nil, nil
		}})
	require.NoError(t, err)
	require.Positive(t, refused)
}

// What several operators read is counted once, also where each has it under a name of its own.
func TestSizeOfSharedConstants(t *testing.T) {
	g := graphtest.Parse(t, `opset 17
		input x: f32[1,4]
		const w: f32[4,4] = [1,2,3,4, 5,6,7,8, 1,2,1,2, 3,4,3,4]
		a = Gemm(x, w) "first"
		b = Relu(a)
		y = Gemm(b, w) "second"
		output y: f32[1,4]`)
	require.Equal(t, 16.0, SizeOf(g).Elements)
	second, _ := g.LookupNode("second")
	g.OwnConst(second, 1, g.Const(g.Node(second).Inputs[1]))
	require.Equal(t, 16.0, SizeOf(g).Elements)
	g.OwnConst(second, 1, g.Const(g.Node(second).Inputs[1]).Clone())
	require.Equal(t, 32.0, SizeOf(g).Elements)
}
