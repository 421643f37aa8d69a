package verify_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/programtest"
	"qwb/internal/targettest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// samples is a data set in memory.
type samples struct {
	feeds []map[string]*tensor.Tensor
	at    int
}

func (s *samples) Len() int { return len(s.feeds) }

func (s *samples) Next(context.Context) (*exec.Sample, error) {
	if s.at == len(s.feeds) {
		return nil, io.EOF
	}
	s.at++
	return &exec.Sample{Feeds: s.feeds[s.at-1]}, nil
}

// lowered is a small network with its program.
type lowered struct {
	g     *graph.Graph
	set   *tqc.Set
	p     *lower.Program
	feeds map[string]*tensor.Tensor
}

func compile(t testing.TB, text, platform, profile string) (*lowered, error) {
	t.Helper()
	g, set, feeds := lowertest.Configured(t, text, platform)
	tg, err := target.Find(platform)
	require.NoError(t, err)
	pr, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	p, err := lower.Compile(g, set, tg, pr)
	return &lowered{g, set, p, feeds}, err
}

func (l *lowered) verify(t testing.TB, b program.Backend) *analysis.Verification {
	t.Helper()
	v, err := l.run(b)
	require.NoError(t, err)
	return v
}

func (l *lowered) run(b program.Backend) (*analysis.Verification, error) {
	s, err := sim.New(l.g, l.set, sim.Options{})
	if err != nil {
		return nil, err
	}
	return verify.Run(context.Background(), &samples{feeds: []map[string]*tensor.Tensor{l.feeds}},
		verify.Config{Set: l.set, Program: l.p, Backend: b, Simulator: s, Threads: 2})
}

// Programs of every network on every target under every profile that can be had are what graph and plan say, and their integers
// those of real arithmetic but for ties.
func TestProgramsHold(t *testing.T) {
	held := map[string]bool{}
	for name, text := range lowertest.Networks {
		for _, tg := range targettest.Distinct() {
			for _, pr := range qmath.Profiles() {
				t.Run(name+"/"+tg.Name+"/"+pr.Name, func(t *testing.T) {
					if pr.Form == qmath.FloatTwice && strings.HasPrefix(tg.Name, "tflite") {
						t.Skip("does not apply: ncnn has no codes below -127, which zero points make part of the grid")
					}
					l, err := compile(t, text, tg.Name, pr.Name)
					if err != nil {
						t.Skip("does not apply: " + err.Error())
					}
					if !slices.Contains(l.set.Domains, tqc.DomainInt) {
						t.Skip("does not apply: the target leaves the whole network float")
					}
					held[tg.Name] = true
					v := l.verify(t, program.Reference)
					require.Empty(t, v.Static.Faults, lower.Format(l.p))
					require.Positive(t, v.Static.Values)
					require.Positive(t, v.IntegersCompared)
					if v.First != nil {
						t.Logf("%+v", *v.First)
					}
					require.Zero(t, v.IntegersDifferent, "%+v\n%s", v.First, lower.Format(l.p))
					require.True(t, v.Holds())
				})
			}
		}
	}
	require.Len(t, held, len(targettest.Distinct()))
}

// The networks that engines answered are what graph and plan say, their integers those of real arithmetic but for ties, on all backends.
// Each number of a step of the second derivation counts: a program with another is found at that step.
func TestEnginesHold(t *testing.T) {
	for _, a := range lowertest.Engines(t) {
		t.Run(a.Name, func(t *testing.T) {
			l := &lowered{a.Graph, a.Set, a.Program, a.Feeds}
			for _, b := range programtest.Available() {
				v := l.verify(t, b)
				require.True(t, v.Holds(), "%s: %+v", b.Name, v.First)
				require.Empty(t, v.Static.Faults)
				require.Empty(t, v.Simulated)
			}
			changed := 0
			for i := range l.p.Steps {
				numbers(reflect.ValueOf(l.p.Steps[i].Op), func(v reflect.Value) {
					old := reflect.ValueOf(v.Interface())
					switch {
					case v.CanInt():
						v.SetInt(v.Int() + 1)
					case v.CanUint():
						v.SetUint(v.Uint() + 1)
					case v.CanFloat():
						v.SetFloat(v.Float()*1.5 + 1)
					}
					static, err := verify.Static(l.set, l.p)
					require.NoError(t, err)
					require.NotEmpty(t, static.Faults, "%s: %s", l.p.Steps[i].Op.Name(), v.Type())
					v.Set(old)
					changed++
				})
			}
			require.Greater(t, changed, 10)
			t.Logf("%d numbers, each of them found", changed)
		})
	}
}

// numbers calls f for every number of plain data, of tensors one in twenty.
func numbers(v reflect.Value, f func(v reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			numbers(v.Elem(), f)
		}
	case reflect.Struct:
		if x, ok := v.Addr().Interface().(*tensor.Tensor); ok {
			codes := reflect.ValueOf(x.Data)
			for i := 0; i < codes.Len(); i += 20 {
				numbers(codes.Index(i), f)
			}
			return
		}
		for i := range v.NumField() {
			numbers(v.Field(i), f)
		}
	default:
		if v.CanInt() || v.CanUint() || v.CanFloat() {
			f(v)
		}
	}
}

func TestAnEmptyDataSetIsAnError(t *testing.T) {
	l, err := compile(t, lowertest.Networks["squeezenet"], "onnxruntime", "ort")
	require.NoError(t, err)
	_, err = verify.Run(context.Background(), &samples{}, verify.Config{Set: l.set, Program: l.p})
	require.ErrorContains(t, err, "empty")
}

func TestCancellation(t *testing.T) {
	l, err := compile(t, lowertest.Networks["squeezenet"], "onnxruntime", "ort")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	_, err = verify.Run(ctx, &samples{feeds: []map[string]*tensor.Tensor{l.feeds}}, verify.Config{Set: l.set, Program: l.p,
		Progress: func(done int) {
			if done == 2 {
				cancel()
			}
		}})
	require.True(t, errors.Is(err, context.Canceled))
}

func networkText(name string) string { return lowertest.Networks[name] }
