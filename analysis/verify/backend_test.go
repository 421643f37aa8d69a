package verify_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph/tensor"
	"qwb/internal/programtest"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
)

// broken is the reference with one element of one step's result changed.
type broken struct {
	program.Engine
	p  *lower.Program
	at lower.StepID
	i  int
}

func (b *broken) Run(ctx context.Context, feeds []*tensor.Tensor, hook program.Hook) ([]*tensor.Tensor, error) {
	if hook == nil {
		return b.Engine.Run(ctx, feeds, nil)
	}
	return b.Engine.Run(ctx, feeds, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		changed := append([]*tensor.Tensor(nil), out...)
		if s.ID == b.at {
			changed[0] = out[0].Clone()
			switch d := changed[0].Data.(type) {
			case []uint8:
				d[b.i] ^= 1
			case []int8:
				d[b.i] ^= 1
			case []float32:
				d[b.i]++
			}
		}
		other, err := hook(s, in, changed)
		if other == nil {
			other = changed
		}
		return other, err
	})
}

func brokenAt(at lower.StepID, i int) program.Backend {
	return program.Backend{Name: "broken", New: func(p *lower.Program, threads int) (program.Engine, error) {
		e, err := program.Reference.New(p, threads)
		return &broken{e, p, at, i}, err
	}}
}

// One integer of one step of a backend that is not the reference's is found there and nowhere else.
func TestABackendsWrongIntegerIsNamed(t *testing.T) {
	for name, text := range lowertest.Networks {
		l, err := compile(t, text, "onnxruntime", "ort")
		require.NoError(t, err)
		for i := range l.p.Steps {
			s := &l.p.Steps[i]
			if _, island := s.Op.(*lower.Island); island || len(s.Outputs) != 1 || !l.p.Tensors[s.Outputs[0]].Quantized() {
				continue
			}
			v := l.verify(t, brokenAt(s.ID, 3))
			require.Equal(t, analysis.VerdictDifferent, v.Verdict, name)
			require.EqualValues(t, 1, v.Backends.Different, lower.FormatStep(l.p, s.ID))
			require.EqualValues(t, 1, v.IntegersDifferent)
			require.Equal(t, l.name(s), v.First.Node)
			require.Equal(t, 3, v.First.Index)
			require.Equal(t, "reference", v.First.ExpectedBy)
		}
	}
}

// unseen is the reference, but for runs that nobody looks at: those give something else.
type unseen struct{ program.Engine }

func (u unseen) Run(ctx context.Context, feeds []*tensor.Tensor, hook program.Hook) ([]*tensor.Tensor, error) {
	out, err := u.Engine.Run(ctx, feeds, hook)
	if hook == nil && err == nil {
		out[0].F32()[0]++
	}
	return out, err
}

// A backend whose steps are right may still be wrong as a whole.
func TestABackendsWholeRunIsHeld(t *testing.T) {
	l, err := compile(t, lowertest.Networks["residual"], "onnxruntime", "ort")
	require.NoError(t, err)
	_, err = l.run(program.Backend{Name: "unseen", New: func(p *lower.Program, threads int) (program.Engine, error) {
		e, err := program.Reference.New(p, threads)
		return unseen{e}, err
	}})
	require.ErrorContains(t, err, "of a run without a hook")
}

// The backends of this build compute the reference's integers.
func TestBackendsHold(t *testing.T) {
	for name, text := range lowertest.Networks {
		for _, b := range programtest.Available()[1:] {
			l, err := compile(t, text, "onnxruntime", "ort")
			require.NoError(t, err)
			v := l.verify(t, b)
			require.True(t, v.Holds(), "%s: %+v", name, v.First)
			require.Positive(t, v.Backends.Compared)
		}
	}
}
