package verify_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/sim"
)

// several are so many samples like the network's own.
func (l *lowered) several(n int) *samples {
	rng := rand.New(rand.NewPCG(7, 8))
	s := &samples{feeds: []map[string]*tensor.Tensor{l.feeds}}
	for range n - 1 {
		feeds := maps.Clone(l.feeds)
		for name, t := range feeds {
			if t = t.Clone(); t.F32() != nil {
				rng.Shuffle(t.Len(), func(i, j int) { t.F32()[i], t.F32()[j] = t.F32()[j], t.F32()[i] })
			}
			feeds[name] = t
		}
		s.feeds = append(s.feeds, feeds)
	}
	return s
}

func (l *lowered) verifyOn(t *testing.T, s *samples, b program.Backend, threads int) *analysis.Verification {
	t.Helper()
	simulator, err := sim.New(l.g, l.set, sim.Options{})
	require.NoError(t, err)
	v, err := verify.Run(context.Background(), &samples{feeds: s.feeds}, verify.Config{Set: l.set, Program: l.p, Backend: b,
		Simulator: simulator, Threads: threads})
	require.NoError(t, err)
	return v
}

// What is found does not depend on the number of threads, nor on how many samples pass together: counts, first differences, digests.
func TestVerificationDoesNotDependOnThreads(t *testing.T) {
	for _, profile := range []string{"tflite2", "avx2-saturating"} {
		for _, name := range slices.Sorted(maps.Keys(lowertest.Networks)) {
			l, err := compile(t, lowertest.Networks[name], "onnxruntime", profile)
			if err != nil {
				continue
			}
			s := l.several(5)
			want := l.verifyOn(t, s, cpu.Backend, 1)
			for _, threads := range []int{2, 16} {
				require.Equal(t, want, l.verifyOn(t, s, cpu.Backend, threads), "%s under %s, %d threads", name, profile, threads)
			}
			alone := map[string]int64{}
			for _, feeds := range s.feeds {
				for _, c := range l.verifyOn(t, &samples{feeds: []map[string]*tensor.Tensor{feeds}}, program.Reference, 2).PerTensor {
					alone[c.Tensor] += c.Compared<<20 + c.Ties<<10 + c.Different
				}
			}
			for _, c := range l.verifyOn(t, s, program.Reference, 2).PerTensor {
				require.Equal(t, alone[c.Tensor], c.Compared<<20+c.Ties<<10+c.Different, "%s of %s", c.Tensor, name)
			}
		}
	}
}

// A fault in any step is found at it by the integers alone, whatever the sample that shows it: each step of every network in turn adds to
// its multiplier or zero point, and no other step differs.
func TestAFaultInAnyStepIsFoundAtIt(t *testing.T) {
	planted := 0
	for _, name := range slices.Sorted(maps.Keys(lowertest.Networks)) {
		l, err := compile(t, lowertest.Networks[name], "onnxruntime", "ort")
		require.NoError(t, err)
		s := l.several(3)
		for i := range l.p.Steps {
			step := &l.p.Steps[i]
			var undo func()
			switch op := step.Op.(type) {
			case *lower.Linear:
				if op.Weights == nil || len(op.Scales) == 0 || op.Func != nil || op.Real != nil {
					continue
				}
				op.Scales[0].ZeroPoint += 3
				undo = func() { op.Scales[0].ZeroPoint -= 3 }
			case *lower.Requantize:
				op.Rescale.Quantizer.ZeroPoint, op.Rescale.Y.ZeroPoint = op.Rescale.Quantizer.ZeroPoint+3, op.Rescale.Y.ZeroPoint+3
				undo = func() {
					op.Rescale.Quantizer.ZeroPoint, op.Rescale.Y.ZeroPoint = op.Rescale.Quantizer.ZeroPoint-3, op.Rescale.Y.ZeroPoint-3
				}
			case *lower.Quantize:
				op.Quantizer.ZeroPoint += 3
				undo = func() { op.Quantizer.ZeroPoint -= 3 }
			default:
				continue
			}
			v := l.verifyOn(t, s, program.Reference, 2)
			undo()
			require.Equal(t, analysis.VerdictDifferent, v.Verdict)
			for _, c := range v.PerTensor {
				require.Equal(t, c.Node == l.name(step), c.Different > 0, "%s of %s: %+v", lower.FormatStep(l.p, step.ID), name, c)
			}
			planted++
		}
	}
	require.Greater(t, planted, 20)
}
