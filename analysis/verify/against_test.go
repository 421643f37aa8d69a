package verify_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
)

// recording is what an engine left, in memory.
type recording map[string]*tensor.Tensor

func (r recording) Tensor(name string) (*tensor.Tensor, error) { return r[name], nil }

// record runs a program and keeps every tensor of integers.
func (l *lowered) record(t *testing.T) recording {
	t.Helper()
	x, err := program.New(l.p, program.Reference, 1)
	require.NoError(t, err)
	r := recording{}
	_, err = x.Run(context.Background(), l.feeds, func(s *lower.Step, _, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		for k, id := range s.Outputs {
			if id != lower.NoTensor && l.p.Tensors[id].Quantized() {
				r[l.p.Tensors[id].Name] = out[k].Clone()
			}
		}
		return nil, nil
	})
	require.NoError(t, err)
	return r
}

func (l *lowered) against(t *testing.T, r recording, profiles ...string) (*analysis.Verification, error) {
	t.Helper()
	tg, err := target.Find(l.p.Target)
	require.NoError(t, err)
	cfg := verify.AgainstConfig{Set: l.set, Program: l.p, Threads: 2}
	for _, name := range profiles {
		pr, err := qmath.ProfileNamed(name)
		require.NoError(t, err)
		p, err := lower.Compile(l.g, l.set, tg, pr)
		require.NoError(t, err)
		cfg.Others = append(cfg.Others, p)
	}
	return verify.Against(context.Background(), r, cfg)
}

// What a program computed under a profile holds under it, with no integer different, and no other profile explains it better.
func TestTheRightProfileFitsBest(t *testing.T) {
	profiles := []string{"tflite2", "tvm-upward", "ort", "onnx", "avx2-saturating"}
	different := int64(0)
	for _, network := range []string{"mobilenet", "squeezenet", "resnet", "matrices", "windows"} {
		for i, profile := range profiles {
			l, err := compile(t, lowertest.Networks[network], "onnxruntime", profile)
			require.NoError(t, err)
			others := append(append([]string(nil), profiles[:i]...), profiles[i+1:]...)
			v, err := l.against(t, l.record(t), others...)
			require.NoError(t, err)
			require.True(t, v.Holds(), "%s %s: %+v", network, profile, v.First)
			require.Len(t, v.Fits, len(profiles))
			for _, f := range v.Fits {
				if f.Profile == profile {
					require.Zero(t, f.Different)
					require.Positive(t, f.Compared)
				}
				different += f.Different
			}
			require.Zero(t, v.Fits[0].Different)
		}
	}
	require.Positive(t, different, "all profiles are alike")
}

func TestARecordedErrorIsNamed(t *testing.T) {
	l, err := compile(t, lowertest.Networks["resnet"], "onnxruntime", "ort")
	require.NoError(t, err)
	r := l.record(t)
	s, _ := step[*lower.Sum](t, l, nil)
	name := l.p.Tensors[s.Outputs[0]].Name
	r[name].Data.([]uint8)[7] ^= 2
	v, err := l.against(t, r)
	require.NoError(t, err)
	require.Equal(t, analysis.VerdictDifferent, v.Verdict)
	require.Positive(t, v.IntegersDifferent) // at its readers too, which did not read it
	require.Equal(t, name, v.First.Tensor)
	require.Equal(t, 7, v.First.Index)
	require.EqualValues(t, 2, v.MaxDifference)
}

func TestRecordingsInOtherTypesAndWithHoles(t *testing.T) {
	l, err := compile(t, lowertest.Networks["squeezenet"], "onnxruntime", "ort")
	require.NoError(t, err)
	r := l.record(t)
	name := l.p.Tensors[l.p.Steps[2].Outputs[0]].Name
	delete(r, name)
	for other, x := range r { // as a board may write them
		wide := tensor.New(tensor.Int64, x.Shape...)
		for i, q := range x.Data.([]uint8) {
			wide.I64()[i] = int64(q)
		}
		r[other] = wide
	}
	v, err := l.against(t, r)
	require.NoError(t, err)
	require.True(t, v.Holds())
	require.Equal(t, []string{name}, v.Missing)

	first := l.p.Tensors[l.p.Steps[1].Outputs[0]].Name
	r[first].I64()[0] = 256
	_, err = l.against(t, r)
	require.ErrorContains(t, err, first)
	r[first] = tensor.New(tensor.Uint8, 3)
	_, err = l.against(t, r)
	require.Error(t, err)
	_, err = l.against(t, recording{})
	require.ErrorContains(t, err, "recorded")
}

// An engine whose integers real arithmetic explains, but the profile that was asked for does not, is not that profile.
func TestAnotherEngineIsNoTie(t *testing.T) {
	others := 0
	for name, text := range lowertest.Networks {
		engine, err := compile(t, text, "onnxruntime", "ort")
		require.NoError(t, err)
		recorded := engine.record(t)
		v, err := engine.against(t, recorded, "tflite2")
		require.NoError(t, err)
		require.True(t, v.Holds(), "%s is %s", name, v.Verdict)
		for _, profile := range []string{"tflite2", "tflite1", "tvm-upward", "onnx"} {
			asked, err := compile(t, text, "onnxruntime", profile)
			require.NoError(t, err)
			v, err := asked.against(t, recorded, "ort")
			require.NoError(t, err)
			switch {
			case v.IntegersDifferent > 0:
				require.Equal(t, analysis.VerdictDifferent, v.Verdict)
			case profile == "onnx":
				require.True(t, v.Holds(), "the profile leaves the order of float sums open")
			case v.Fit(profile).Different > 0:
				others++
				require.Zero(t, v.Fit("ort").Different)
				require.Equal(t, analysis.VerdictOther, v.Verdict, "%s %s", name, profile)
				require.False(t, v.Holds())
			default:
				require.True(t, v.Holds())
			}
		}
	}
	require.Positive(t, others)
}

// TestTheEnginesOwnNamesAndLayouts: tensors under the name of their value, with their channels last, with an axis of length 1 more, and
// dequantized are the integers that they are; real numbers that are none are listed and not compared.
func TestTheEnginesOwnNamesAndLayouts(t *testing.T) {
	l, err := compile(t, lowertest.Networks["resnet"], "onnxruntime", "ort")
	require.NoError(t, err)
	own := l.record(t)
	want, err := l.against(t, own)
	require.NoError(t, err)
	recordings := map[string]recording{"value": {}, "last": {}, "squeezed": {}, "real": {}, "dequantized": {}, "printed": {}, "off": {}}
	turned := 0
	for i := range l.p.Tensors {
		p := &l.p.Tensors[i]
		x := own[p.Name]
		if x == nil {
			continue
		}
		name := l.g.Value(p.Value).Name
		recordings["value"][name] = x
		last := x
		if len(x.Shape) == 4 {
			last = x.ToChannelsLast()
			last = &tensor.Tensor{DType: x.DType, Shape: []int{x.Shape[0], x.Shape[2], x.Shape[3], x.Shape[1]}, Data: last.Data}
			turned++
		}
		recordings["last"][name] = last
		recordings["squeezed"][p.Name] = &tensor.Tensor{DType: x.DType, Shape: append([]int{1}, x.Shape...), Data: x.Data}
		real, printed := tensor.New(tensor.Float32, x.Shape...), tensor.New(tensor.Float64, x.Shape...)
		for k, q := range x.Integers() {
			v := p.Encoding.Grid().Dequantize(q)
			real.F32()[k] = v
			text, err := strconv.ParseFloat(fmt.Sprintf("%.6g", v), 64)
			require.NoError(t, err)
			tensor.Of[float64](printed)[k] = text
		}
		recordings["real"][name], recordings["printed"][name], recordings["dequantized"][name+"_DequantizeLinear"] = real, printed, real
		off := real.Clone()
		off.F32()[0] += p.Encoding.Scale / 4
		recordings["off"][name] = off
	}
	require.Greater(t, turned, 3)
	var offGrid []analysis.OffGrid
	for name, r := range recordings {
		v, err := l.against(t, r)
		require.NoError(t, err, name)
		if name == "off" {
			require.Equal(t, analysis.VerdictNothing, v.Verdict)
			require.False(t, v.BitExact.Holds)
			require.NotEmpty(t, v.OffGrid)
			offGrid = v.OffGrid
			require.EqualValues(t, 1, v.OffGrid[0].Off)
			require.InDelta(t, 0.25, float64(v.OffGrid[0].Far), 1e-3)
			continue
		}
		require.True(t, v.Holds(), "%s: %+v", name, v.First)
		require.GreaterOrEqual(t, v.IntegersCompared, want.IntegersCompared, name) // of dequantized inputs the conversion too
		require.Empty(t, v.OffGrid)
		require.Equal(t, &analysis.BitExact{Profile: "ort", Compared: v.BitExact.Compared, Holds: true}, v.BitExact, name)
	}
	for _, f := range offGrid { // one tensor in float
		r := maps.Clone(own)
		delete(r, f.Tensor)
		name := strings.TrimSuffix(f.Tensor, "_QuantizeLinear")
		r[name] = recordings["off"][name]
		v, err := l.against(t, r)
		require.NoError(t, err)
		require.Equal(t, analysis.VerdictPartial, v.Verdict)
		require.Equal(t, []analysis.OffGrid{f}, v.OffGrid)
	}
}

// A step whose inputs were not recorded cannot fail: what differs there may come from them.
func TestWhatWasNotRecordedFailsNothing(t *testing.T) {
	for name, text := range lowertest.Networks {
		engine, err := compile(t, text, "onnxruntime", "tvm-upward")
		require.NoError(t, err)
		asked, err := compile(t, text, "onnxruntime", "ort")
		require.NoError(t, err)
		whole := engine.record(t)
		ends := recording{}
		for i := range asked.p.Steps {
			s := &asked.p.Steps[i]
			for _, id := range s.Outputs {
				if id == lower.NoTensor || !asked.p.Tensors[id].Quantized() || whole[asked.p.Tensors[id].Name] == nil {
					continue
				}
				if first := slices.Contains(asked.p.Inputs, s.Inputs[0]); first || i >= len(asked.p.Steps)-2 {
					x := whole[asked.p.Tensors[id].Name].Clone()
					if codes := x.Integers(); !first { // an engine that is another
						for k := range codes {
							codes[k] ^= 1
						}
						x = x.WithIntegers(codes)
					}
					ends[asked.p.Tensors[id].Name] = x
				}
			}
		}
		v, err := asked.against(t, ends)
		if err != nil {
			require.ErrorContains(t, err, "recorded together", name)
			continue
		}
		if len(v.Missing) > 2 {
			require.Zero(t, v.BitExact.Different, name)
			require.NotEqual(t, analysis.VerdictDifferent, v.Verdict, name)
		}
		require.Positive(t, v.Recorded)
	}
}
