package analysis

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
)

// What runs a graph otherwise than the evaluator does is judged alike: a simulation that is run as if it were an engine has the losses of
// the simulation, class scores included.
func TestLossesOfAnythingThatRuns(t *testing.T) {
	const net = `opset 13
input x: f32[1,16,6,6]
const w: f32[32,16,3,3] = normal(seed=1, std=0.3)
c = Conv(x, w) "conv"
p = GlobalAveragePool(c)
f = Flatten(p)
y = Softmax(f) "softmax"
output y
output c
`
	data := samplesOf(5, 1, 16, 6, 6)
	g, q := configured(t, net, &target.TRTInt8, data, 0.2)
	ev, err := NewEvaluator(context.Background(), g, func() exec.Iterator { return &exec.InMemory{Samples: data.Samples} }, 2, 0)
	require.NoError(t, err)
	want, err := ev.Losses(context.Background(), q)
	require.NoError(t, err)
	require.Positive(t, want.Estimate().Mean)

	engine := func(watched *graph.Graph) (Forward, error) {
		require.Len(t, watched.Outputs, len(g.Outputs)+1, "the class scores are an output")
		session, err := exec.New(watched, exec.Options{})
		require.NoError(t, err)
		s, err := sim.New(watched, q.Set(), sim.Options{})
		require.NoError(t, err)
		runner := session.NewRunner()
		return func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
			return runner.Run(ctx, feeds, s.Hooks(nil))
		}, nil
	}
	got, err := ev.LossesOf(context.Background(), g, engine)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Len(t, g.Outputs, 2, "the graph itself is as it was")

	broken := errors.New("broken")
	_, err = ev.LossesOf(context.Background(), g, func(*graph.Graph) (Forward, error) { return nil, broken })
	require.ErrorIs(t, err, broken)
	_, err = ev.LossesOf(context.Background(), g, func(*graph.Graph) (Forward, error) {
		return func(context.Context, map[string]*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, nil }, nil
	})
	require.ErrorContains(t, err, "0 outputs of a graph with 3")
}
