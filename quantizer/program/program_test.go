package program_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/programtest"
	"qwb/internal/targettest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// each runs f for the program of every network on every target.
func each(t *testing.T, f func(t *testing.T, p *lower.Program, feeds map[string]*tensor.Tensor)) {
	for name, text := range lowertest.Networks {
		for _, tg := range targettest.Distinct() {
			t.Run(name+"/"+tg.Name, func(t *testing.T) {
				g, set, feeds := lowertest.Configured(t, text, tg.Name)
				f(t, programtest.Compiled(t, g, set, tg.Name, tg.Profile).Program(), feeds)
			})
		}
	}
}

func TestThreadsChangeNothing(t *testing.T) {
	each(t, func(t *testing.T, p *lower.Program, feeds map[string]*tensor.Tensor) {
		want, err := programtest.Reference(t, p, 1).Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		for _, n := range []int{2, 7} {
			got, err := programtest.Reference(t, p, n).Run(context.Background(), feeds, nil)
			require.NoError(t, err)
			programtest.Same(t, want, got, n)
		}
	})
}

// A step by itself computes what it computes in a run, and leaves its inputs alone.
func TestRunStep(t *testing.T) {
	each(t, func(t *testing.T, p *lower.Program, feeds map[string]*tensor.Tensor) {
		alone := programtest.Reference(t, p, 2)
		steps := 0
		_, err := programtest.Reference(t, p, 1).Run(context.Background(), feeds,
			func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
				var before []*tensor.Tensor
				for _, x := range in {
					before = append(before, x.Clone())
				}
				got, err := alone.RunStep(context.Background(), s.ID, in)
				if err != nil {
					return nil, err
				}
				programtest.Same(t, before, in)
				for k := range out {
					if s.Outputs[k] != lower.NoTensor {
						require.True(t, tensor.Equal(out[k], got[k]), lower.FormatStep(p, s.ID))
					}
				}
				steps++
				return nil, nil
			})
		require.NoError(t, err)
		require.Len(t, p.Steps, steps)
	})
}

// What a hook returns is what the following steps read.
func TestHooksReplaceOutputs(t *testing.T) {
	g, set, feeds := lowertest.Configured(t, lowertest.Networks["squeezenet"], "onnxruntime")
	e := programtest.Compiled(t, g, set, "onnxruntime", "ort")
	var seen *tensor.Tensor
	_, err := e.Run(context.Background(), feeds, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		switch s.Op.(type) {
		case *lower.Quantize:
			return []*tensor.Tensor{tensor.New(out[0].DType, out[0].Shape...)}, nil
		case *lower.Linear:
			if seen == nil {
				seen = in[0].Clone()
			}
		}
		return nil, nil
	})
	require.NoError(t, err)
	require.True(t, tensor.Equal(tensor.New(tensor.Uint8, 1, 3, 8, 8), seen))
}

// A value that two readers see on two grids is written twice by the step that computes it, from one accumulator.
func TestTwoEncodingsOfOneValue(t *testing.T) {
	text := `
input x: f32[1,3,6,6]
const w: f32[4,3,3,3] = normal(seed=1, std=0.3)
const b: f32[4] = normal(2)
const v: f32[5,4,1,1] = normal(seed=3, std=0.4)
const u: f32[4,4,1,1] = normal(seed=4, std=0.4)
a: f32[1,4,4,4] = Conv(x, w, b) "a"
r: f32[1,4,4,4] = Relu(a) "r"
m: f32[1,4,2,2] = MaxPool(r) {kernel_shape=[2,2], strides=[2,2]} "m"
y: f32[1,5,2,2] = Conv(m, v) "y"
z: f32[1,4,4,4] = Conv(r, u) "z"
s: f32[1,4,4,4] = Add(z, r) "s"
q: f32[1,5,4,4] = Conv(s, v) "q"
output y
output q
output r
`
	g, set, feeds := lowertest.Configured(t, text, "trt_int8")
	// Every reader gets a scale of its own.
	saved := make([]tqc.Saved, set.NumSlots())
	factor := float32(1)
	for i := range saved {
		saved[i] = set.Save(tqc.SlotID(i))
		if sl := set.Slot(tqc.SlotID(i)); sl.Kind == tqc.Input && !sl.Weight && sl.State().Quantizes() {
			factor *= 1.25
			saved[i].State, saved[i].Root = tqc.Activated, tqc.SlotID(i)
			saved[i].Params = tqc.Params{Scale: []float32{set.Params(sl.ID).Scale[0] * factor}, ZeroPoint: []int32{0}}
		}
	}
	require.NoError(t, set.Restore(saved))
	for _, profile := range []string{"trt", "onnx"} {
		e := programtest.Compiled(t, g, set, "trt_int8", profile)
		step := e.Program().Steps[1]
		require.Equal(t, "a", e.Program().Name(step.ID))
		require.Len(t, step.Outputs, 4, "for the pool, for the convolution, for the residual, and the real value\n%s", lower.Format(e.Program()))
		hook, b := stepwise(t, e.Program(), set, 1e-4)
		_, err := e.Run(context.Background(), feeds, hook)
		require.NoError(t, err)
		require.Equal(t, 3*36+3*64+16+64, b.compared, "x, r three times, m, s")
	}
}

// The rule that steps are held to catches wrong numbers in a program.
func TestPlantedFaults(t *testing.T) {
	faults := map[string]func(p *lower.Program, s *lower.Step) bool{
		"multiplier": func(p *lower.Program, s *lower.Step) bool {
			op, ok := s.Op.(*lower.Linear)
			if ok {
				op.Scales[0].Multipliers[0].Scale *= 1.02
			}
			return ok
		},
		"zero point": func(p *lower.Program, s *lower.Step) bool {
			op, ok := s.Op.(*lower.Linear)
			if ok {
				op.Scales[0].ZeroPoint++
			}
			return ok
		},
		"bias": func(p *lower.Program, s *lower.Step) bool {
			op, ok := s.Op.(*lower.Linear)
			if ok && op.Bias != nil {
				op.Bias = nil
				return true
			}
			return false
		},
		"clamp": func(p *lower.Program, s *lower.Step) bool {
			op, ok := s.Op.(*lower.Linear)
			if ok {
				op.Scales[0].Hi -= 20
			}
			return ok
		},
		"weight": func(p *lower.Program, s *lower.Step) bool {
			op, ok := s.Op.(*lower.Linear)
			if ok {
				tensor.Of[int8](op.Weights.Codes)[0] ^= 16
			}
			return ok
		},
		"table": func(p *lower.Program, s *lower.Step) bool {
			op, ok := s.Op.(*lower.Table)
			if ok {
				codes := tensor.Of[uint8](op.Codes)
				for i := range codes {
					codes[i] ^= 2
				}
			}
			return ok
		},
		"sum": func(p *lower.Program, s *lower.Step) bool {
			op, ok := s.Op.(*lower.Sum)
			if ok {
				op.Sum.RB *= 1.1
			}
			return ok
		},
	}
	for name, plant := range faults {
		t.Run(name, func(t *testing.T) {
			g, set, feeds := lowertest.Configured(t, lowertest.Networks["residual"], "onnxruntime")
			pr, err := qmath.ProfileNamed("ort")
			require.NoError(t, err)
			p, err := lower.Compile(g, set, &target.ONNXRuntime, pr)
			require.NoError(t, err)
			var where string
			for i := range p.Steps {
				if plant(p, &p.Steps[i]) {
					where = p.Name(lower.StepID(i))
					break
				}
			}
			require.NotEmpty(t, where)
			hook, _ := stepwise(t, p, set, 1e-3)
			_, err = programtest.Reference(t, p, 1).Run(context.Background(), feeds, hook)
			require.ErrorContains(t, err, where)
		})
	}
}

// The saturating profile differs where pairs leave int16, and nowhere else.
func TestSaturatingProfile(t *testing.T) {
	g, set, feeds := lowertest.Configured(t, lowertest.Networks["residual"], "onnxruntime")
	exact := programtest.Compiled(t, g, set, "onnxruntime", "ort")
	saturating := programtest.Compiled(t, g, set, "onnxruntime", "avx2-saturating")
	different := 0
	_, err := exact.Run(context.Background(), feeds, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		got, err := saturating.RunStep(context.Background(), s.ID, in)
		if err == nil && !tensor.Equal(out[0], got[0]) {
			different++
			require.IsType(t, &lower.Linear{}, s.Op)
		}
		return nil, err
	})
	require.NoError(t, err)
	require.Positive(t, different)

	reduced := target.ONNXRuntime
	reduced.Weight.QMin, reduced.Weight.QMax = reduced.ReducedWeight[0], reduced.ReducedWeight[1]
	g, set, feeds = lowertest.ConfiguredFor(t, lowertest.Networks["residual"], &reduced)
	want, err := programtest.CompiledFor(t, g, set, &reduced, "ort").Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	got, err := programtest.CompiledFor(t, g, set, &reduced, "avx2-saturating").Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	programtest.Same(t, want, got, "7-bit weights do not saturate")
}

func TestErrors(t *testing.T) {
	g, set, feeds := lowertest.Configured(t, lowertest.Networks["squeezenet"], "onnxruntime")
	e := programtest.Compiled(t, g, set, "onnxruntime", "ort")
	_, err := e.Run(context.Background(), nil, nil)
	require.EqualError(t, err, `run: input "x" is missing`)
	_, err = e.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.New(tensor.Float32, 1, 3, 8, 9)}, nil)
	require.EqualError(t, err, `run: input "x" is f32[1,3,8,8], got f32[1,3,8,9]`)
	_, err = e.RunStep(context.Background(), 1, nil)
	require.EqualError(t, err, `run: node "squeeze" (Conv, f32[1,3,8,8], f32[4,3,3,3]): 0 inputs given, it has 1`)
	_, err = e.RunStep(context.Background(), 1, []*tensor.Tensor{tensor.New(tensor.Int8, 1, 3, 8, 8)})
	require.ErrorContains(t, err, "input 0 is not u8[1,3,8,8]")
	_, err = e.RunStep(context.Background(), 1, []*tensor.Tensor{tensor.New(tensor.Uint8, 1, 4, 8, 8)})
	require.ErrorContains(t, err, `node "squeeze"`)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = e.Run(cancelled, feeds, nil)
	require.ErrorIs(t, err, context.Canceled)

	p := *e.Program()
	p.Steps = append([]lower.Step{{Node: graph.NoNode, Op: strange{}}}, p.Steps...)
	_, err = program.New(&p, program.Reference, 1)
	require.Error(t, err)
	require.True(t, strings.Contains(err.Error(), "no kernel"), err)
}

// strange is an operation that no backend knows.
type strange struct{ lower.Op }

func (strange) Name() string { return "Strange" }
