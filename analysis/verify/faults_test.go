package verify_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/graph"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// step returns the first step whose operation is a T and that accept takes.
func step[T lower.Op](t *testing.T, l *lowered, accept func(op T) bool) (*lower.Step, T) {
	t.Helper()
	for i := range l.p.Steps {
		if op, ok := l.p.Steps[i].Op.(T); ok && (accept == nil || accept(op)) {
			return &l.p.Steps[i], op
		}
	}
	var none T
	require.Failf(t, "no such step", "%T in\n%s", none, lower.Format(l.p))
	return nil, none
}

// faults are changes of a program, each of which must be found at the step that it was planted in.
var faults = []struct {
	name, network, platform, profile string
	plant                            func(t *testing.T, l *lowered) *lower.Step
	quiet                            bool // no integer need change
}{
	{name: "multiplier+1", network: "squeezenet", platform: "onnxruntime", profile: "tflite2", quiet: true,
		plant: func(t *testing.T, l *lowered) *lower.Step {
			s, op := step[*lower.Linear](t, l, nil)
			op.Scales[0].Multipliers[2].M++
			return s
		}},
	{name: "shift", network: "squeezenet", platform: "onnxruntime", profile: "tflite2", plant: func(t *testing.T, l *lowered) *lower.Step {
		s, op := step[*lower.Linear](t, l, nil)
		op.Scales[0].Multipliers[1].Shift++
		return s
	}},
	{name: "float factor", network: "squeezenet", platform: "onnxruntime", profile: "ort", plant: func(t *testing.T, l *lowered) *lower.Step {
		s, op := step[*lower.Linear](t, l, nil)
		op.Scales[0].Multipliers[0].Scale *= 1.01
		return s
	}},
	{name: "zero point+1", network: "mobilenet", platform: "onnxruntime", profile: "ort", plant: func(t *testing.T, l *lowered) *lower.Step {
		s, op := step(t, l, func(op *lower.Linear) bool {
			return op.Weights != nil && op.Kind == "Conv" && len(op.Weights.Scale) == 12
		})
		op.Scales[0].ZeroPoint++
		return s
	}},
	{name: "swapped table bytes", network: "resnet", platform: "onnxruntime", profile: "ort",
		plant: func(t *testing.T, l *lowered) *lower.Step {
			s, op := step[*lower.Table](t, l, nil)
			codes := op.Codes.Data.([]uint8)
			codes[0], codes[255] = codes[255], codes[0]
			return s
		}, quiet: true},
	{name: "dropped bias", network: "mobilenet", platform: "onnxruntime", profile: "ort", plant: func(t *testing.T, l *lowered) *lower.Step {
		s, op := step[*lower.Linear](t, l, nil)
		op.Bias = nil
		return s
	}},
	{name: "dropped float bias", network: "residual", platform: "trt_int8", profile: "trt", plant: func(t *testing.T, l *lowered) *lower.Step {
		s, op := step[*lower.Linear](t, l, nil)
		for c := range op.Scales[0].Multipliers {
			op.Scales[0].Multipliers[c].Bias = 0
		}
		return s
	}},
	{name: "wrong clamp", network: "mobilenet", platform: "onnxruntime", profile: "ort", plant: func(t *testing.T, l *lowered) *lower.Step {
		s, op := step(t, l, func(op *lower.Linear) bool { return op.Scales[0].Lo == 0 && op.Kind == "Conv" })
		op.Scales[0].Hi -= 90
		return s
	}},
	{name: "weight code", network: "matrices", platform: "onnxruntime", profile: "onnx", plant: func(t *testing.T, l *lowered) *lower.Step {
		s, op := step(t, l, func(op *lower.Linear) bool { return op.Weights != nil })
		op.Weights.Codes.Data.([]int8)[5] ^= 64
		return s
	}},
	{name: "zero-point term", network: "matrices", platform: "onnxruntime", profile: "ort", quiet: true,
		plant: func(t *testing.T, l *lowered) *lower.Step {
			s, op := step(t, l, func(op *lower.Linear) bool { return op.Weights != nil })
			op.Weights.Sum[3]++
			return s
		}},
	{name: "stale scale", network: "resnet", platform: "onnxruntime", profile: "ort", quiet: true,
		plant: func(t *testing.T, l *lowered) *lower.Step {
			s, _ := step[*lower.Product](t, l, nil)
			l.p.Tensors[s.Outputs[0]].Encoding.Scale *= 1.5
			return s
		}},
	{name: "scale of a sum", network: "resnet", platform: "onnxruntime", profile: "tflite2",
		plant: func(t *testing.T, l *lowered) *lower.Step {
			s, op := step[*lower.Sum](t, l, nil)
			op.Sum.MA.M -= 1 << 26
			return s
		}},
	{name: "input zero point of a mean", network: "mobilenet", platform: "onnxruntime", profile: "ort",
		plant: func(t *testing.T, l *lowered) *lower.Step {
			s, op := step[*lower.Average](t, l, nil)
			op.ByCount[0].X.ZeroPoint += 40
			return s
		}},
	{name: "quantizer", network: "squeezenet", platform: "trt_int8", profile: "trt", plant: func(t *testing.T, l *lowered) *lower.Step {
		s, op := step[*lower.Quantize](t, l, nil)
		op.Quantizer.Scale *= 1.25
		return s
	}},
}

// name is how a verification names a step.
func (l *lowered) name(s *lower.Step) string {
	if s.Node != graph.NoNode {
		return l.g.Node(s.Node).Name
	}
	return l.p.Tensors[s.Outputs[0]].Name
}

func TestPlantedFaultsAreNamed(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			l, err := compile(t, networkText(f.network), f.platform, f.profile)
			require.NoError(t, err)
			before := l.verify(t, program.Reference)
			require.True(t, before.Holds(), "%+v", before.First)
			s := f.plant(t, l)
			static, err := verify.Static(l.set, l.p)
			require.NoError(t, err)
			require.NotEmpty(t, static.Faults)
			for _, d := range static.Faults {
				require.Equal(t, l.name(s), d.Node, "%+v", d)
			}
			v := l.verify(t, program.Reference)
			require.Equal(t, analysis.VerdictDifferent, v.Verdict)
			require.Equal(t, l.name(s), v.First.Node)
			require.Equal(t, "plan", v.First.ExpectedBy)
			t.Logf("%+v", *v.First)
			if f.quiet {
				return
			}
			// The integers alone show it too, and at no other step.
			for _, c := range v.PerTensor {
				require.Equal(t, c.Node == l.name(s), c.Different > 0, fmt.Sprintf("%+v", c))
			}
		})
	}
}
