package analysis_test

import (
	"context"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

type oneSample struct {
	feeds map[string]*tensor.Tensor
	done  bool
}

func (s *oneSample) Len() int { return 1 }

func (s *oneSample) Next(context.Context) (*exec.Sample, error) {
	if s.done {
		return nil, io.EOF
	}
	s.done = true
	return &exec.Sample{Feeds: s.feeds}, nil
}

func explained(t *testing.T, network, platform, profile string) *analysis.Explanation {
	t.Helper()
	g, set, feeds := lowertest.Configured(t, lowertest.Networks[network], platform)
	tg, err := target.Find(platform)
	require.NoError(t, err)
	pr, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	p, err := lower.Compile(g, set, tg, pr)
	require.NoError(t, err)
	x, err := analysis.Explain(context.Background(), &oneSample{feeds: feeds}, analysis.ExplainConfig{Set: set, Program: p, Threads: 2})
	require.NoError(t, err)
	return x
}

func parts(l analysis.Loss) []float64 {
	return []float64{l.Weights, l.Clip, l.Round, l.Bias, l.Tables, l.Profile}
}

// The parts sum to the whole, at the outputs and for every step; the whole is not zero, and weights and rounding have a part in it.
func TestPartsSumToTheLoss(t *testing.T) {
	for name := range lowertest.Networks {
		for platform, profile := range map[string]string{"onnxruntime": "tflite2", "trt_int8": "trt"} {
			x := explained(t, name, platform, profile)
			require.NotEmpty(t, x.Outputs)
			require.NotEmpty(t, x.Layers)
			var all []analysis.Loss
			for _, o := range x.Outputs {
				require.Positive(t, o.NSR, "%s %s", name, o.Output)
				all = append(all, o.Loss)
			}
			for _, l := range x.Layers {
				all = append(all, l.Loss)
				if l.Op == "Conv" || l.Op == "Gemm" {
					require.NotZero(t, l.Weights, "%s %s", name, l.Node)
					require.NotZero(t, l.Round, "%s %s", name, l.Node)
				}
			}
			for _, l := range all {
				sum := l.Rest
				for _, p := range parts(l) {
					require.False(t, math.IsNaN(p))
					sum += p
				}
				require.InDelta(t, l.NSR, sum, 1e-12*l.NSR)
				require.LessOrEqual(t, math.Abs(l.Rest), 1e-9*l.NSR)
			}
		}
	}
}

// What a profile adds to the simulation is its own part: nearly nothing where it rounds as the simulation does, more where products
// of pairs saturate.
func TestProfilesHaveAPartOfTheirOwn(t *testing.T) {
	exact, saturating := explained(t, "squeezenet", "onnxruntime", "onnx"), explained(t, "squeezenet", "onnxruntime", "avx2-saturating")
	most := 0.0
	for i := range exact.Layers {
		a, b := exact.Layers[i], saturating.Layers[i]
		require.LessOrEqual(t, math.Abs(a.Profile), 0.05*a.NSR, "%+v", a)
		most = max(most, b.Profile/b.NSR)
	}
	require.Greater(t, most, 0.2)
}
