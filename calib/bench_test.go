package calib_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// convolutions is three stages of a residual network, small enough for a benchmark and with the ratio of work to activations
// of a large one.
const convolutions = `
opset 17
input x: f32[1,3,112,112]
const w0: f32[64,3,7,7] = normal(1, std=0.1)
const w1: f32[64,64,1,1] = normal(2, std=0.1)
const w2: f32[64,64,3,3] = normal(3, std=0.05)
const w3: f32[256,64,1,1] = normal(4, std=0.1)
const w4: f32[256,64,1,1] = normal(5, std=0.1)
c0 = Conv(x, w0) {pads=[3, 3, 3, 3], strides=[2, 2]}
r0 = Relu(c0)
c1 = Conv(r0, w1)
r1 = Relu(c1)
c2 = Conv(r1, w2) {pads=[1, 1, 1, 1]}
r2 = Relu(c2)
c3 = Conv(r2, w3)
c4 = Conv(r0, w4)
a = Add(c3, c4)
y = Relu(a)
output y
`

// BenchmarkCalibrate runs the float graph alone, with minima and maxima observed, and with everything observed. The shares
// are those of the time per image that observers took; ns/op of mode=float is what the others are compared with.
func BenchmarkCalibrate(b *testing.B) {
	g := parse(b, convolutions)
	require.Empty(b, graph.InferShapes(g))
	var samples []*exec.Sample
	for i := range 8 {
		samples = append(samples, sampleOf(fmt.Sprint(i), graphtest.Normal(uint64(i), 1, 3, 112, 112).F32(), 1, 3, 112, 112))
	}
	b.Run("mode=float", func(b *testing.B) {
		session, err := exec.New(g, exec.Options{})
		require.NoError(b, err)
		runner := session.NewRunner()
		for i := 0; b.Loop(); i++ {
			_, err := runner.Run(context.Background(), map[string]*tensor.Tensor{"x": samples[i%8].Feeds["x"]}, nil)
			require.NoError(b, err)
		}
	})
	for _, mode := range []string{"minmax", "bins"} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("mode=%s/threads=%d", mode, threads), func(b *testing.B) {
				start := time.Now()
				var spent calib.Spent
				_, err := calib.Run(context.Background(), g, &endless{samples: samples, n: b.N}, calib.Config{Threads: threads,
					MinMaxOnly: mode == "minmax", Clock: func() time.Duration { return time.Since(start) }, Spent: &spent})
				require.NoError(b, err)
				b.ReportMetric(float64(spent.Observe)/float64(spent.Forward), "observe/forward")
			})
		}
	}
}

// endless repeats samples until there were n.
type endless struct {
	samples []*exec.Sample
	n, next int
}

func (e *endless) Len() int { return e.n }

func (e *endless) Next(ctx context.Context) (*exec.Sample, error) {
	if e.next == e.n {
		return nil, io.EOF
	}
	e.next++
	return e.samples[e.next%len(e.samples)], ctx.Err()
}
