package qwb

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/analysis/advise"
	"qwb/export/all"
	"qwb/internal/advisetest"
	"qwb/internal/work/measure"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// admit writes a patient's network and data and calibrates it.
func admit(t *testing.T, a advisetest.Patient) *Project {
	t.Helper()
	store := new(Memory)
	for name, b := range a.Files(t) {
		store.Write(name, b)
	}
	p := &Project{Model: "m.onnx", Plan: "m" + PlanSuffix, Store: store,
		Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
	free := 0.0
	if a.Platform == "" {
		a.Platform = "onnxruntime"
	}
	o := CalibrateOptions{Platform: a.Platform, BorderCost: &free, PerTensor: a.PerTensor,
		Data: DataOptions{Paths: []string{"m"}, Samples: a.Only}, Threads: 2}
	_, _, err := p.Calibrate(context.Background(), o)
	require.NoError(t, err)
	if len(a.Set) > 0 {
		_, _, err = p.Set(context.Background(), a.Set[0], a.Set[1:], 2)
		require.NoError(t, err)
	}
	return p
}

func adviceOf(t *testing.T, p *Project, try bool) *analysis.Report {
	t.Helper()
	o := AnalyzeOptions{Try: try, Data: DataOptions{Samples: 24}}
	o.Layerwise, o.Outputs, o.Threads = true, true, 2
	r, _, err := p.Analyze(context.Background(), o)
	require.NoError(t, err)
	return r
}

// Each of twelve illnesses is found and named, at the operator that has it, and the command that is advised makes the outputs better as it
// was predicted to.
func TestIllnessesAreFound(t *testing.T) {
	require.Len(t, advisetest.Patients, 12)
	for i, a := range advisetest.Patients {
		require.Equal(t, advise.Causes[i].Name, a.Name)
		t.Run(a.Name, func(t *testing.T) {
			r := adviceOf(t, admit(t, a), true)
			for _, x := range r.Advice {
				t.Logf("%s %v: %s", x.Cause, x.Nodes, x.Evidence)
				t.Logf("   %s", x.Command)
				if x.Predicted != nil && x.Trial != nil {
					t.Logf("   %.3g -> %.3g, tried %.3g -> %.3g %s", *x.Before, *x.Predicted, x.Trial.Before.NSR, x.Trial.Measured.NSR, x.Trial.Failed)
				}
			}
			at := slices.IndexFunc(r.Advice, func(x analysis.Advice) bool { return x.Cause == a.Name })
			require.GreaterOrEqual(t, at, 0, "not found; NSR %.3g", measure.Floor(r).Mean)
			x := r.Advice[at]
			for _, n := range a.Nodes {
				require.Contains(t, x.Nodes, n)
			}
			require.NotEmpty(t, x.Evidence)
			if a.Only > 0 {
				require.Equal(t, "qwb calibrate m.onnx --data m --platform onnxruntime --border-cost 0 -o m.plan.json", x.Command)
				require.Empty(t, x.Trial.Failed)
			}
			if a.Cured {
				require.NotNil(t, x.Trial)
				require.Empty(t, x.Trial.Failed)
				require.Less(t, x.Trial.Change, -2**x.Trial.ChangeError)
			}
		})
	}
}

// What is tried is bounded, and said before.
func TestTrialsAreBounded(t *testing.T) {
	i := slices.IndexFunc(advisetest.Patients, func(a advisetest.Patient) bool { return a.Name == advise.WeightBits.Name })
	p, said := admit(t, advisetest.Patients[i]), &listener{}
	p.Events = said
	o := AnalyzeOptions{Try: true, Trials: 1, Data: DataOptions{Samples: 24}}
	o.Layerwise, o.Outputs, o.Threads = true, true, 2
	r, _, err := p.Analyze(t.Context(), o)
	require.NoError(t, err)
	untried := 0
	for _, x := range r.Advice {
		if x.Trial == nil {
			untried++
		}
	}
	require.Equal(t, 1, untried, "of two")
	const note = "advice: each of [0-9]+ commands is run on a copy of the plan and measured on [0-9]+ samples; at most 1 trials"
	require.Regexp(t, note, said.notes)

	o.Trials, o.Causes = 0, []string{r.Advice[1].Cause}
	r, _, err = p.Analyze(t.Context(), o)
	require.NoError(t, err)
	for _, x := range r.Advice {
		require.Equal(t, x.Cause == o.Causes[0], x.Trial != nil, x.Cause)
	}
}

// Where an operator loses a part of the outputs beside others that are far larger, its bits are what is advised, whatever clipping makes of
// its result as a whole, and the figure named is that of the part.
func TestLostPartsAreAdvised(t *testing.T) {
	r := adviceOf(t, admit(t, advisetest.LostPart), true)
	require.Greater(t, r.Judged().Judged().NSR, 0.5)
	at := slices.IndexFunc(r.Advice, func(x analysis.Advice) bool { return x.Cause == "coarse-grid" })
	require.GreaterOrEqual(t, at, 0, "%v", r.Advice)
	require.Equal(t, []string{"gemm"}, r.Advice[at].Nodes)
	require.Contains(t, r.Advice[at].Evidence, "with the integers of gemm (Gemm) alone the outputs have an NSR of 1,")
	require.Less(t, r.Advice[at].Trial.Measured.NSR, 0.05)
}

// Healthy plans get no advice, on whatever platform.
func TestHealthyPlansGetNoAdvice(t *testing.T) {
	for _, platform := range []string{"onnxruntime", "openvino_int8", "trt_int8"} {
		p := admit(t, advisetest.Patient{Platform: platform})
		r := adviceOf(t, p, false)
		require.Less(t, measure.Floor(r).Mean, advise.Harmless)
		require.Empty(t, r.Advice, platform)
	}
}

// Where the engine computes other bits than eight in float they are not advised, who decides them is told so, and they are in no share.
func TestBitsInFloatAreNotAdvised(t *testing.T) {
	patient := advisetest.LostPart
	for platform, wide := range map[string]bool{"onnxruntime": false, "qnn": true} {
		patient.Platform = platform
		r := adviceOf(t, admit(t, patient), false)
		at := slices.IndexFunc(r.Advice, func(x analysis.Advice) bool { return x.Cause == "coarse-grid" })
		require.GreaterOrEqual(t, at, 0, platform)
		require.Equal(t, wide, strings.Contains(strings.Join(append(r.Advice[at].Others, r.Advice[at].Command), " "), "activations="), platform)
	}
	patient.Platform = "onnxruntime"
	p := admit(t, patient)
	share := func() float64 {
		r, _, err := p.Export(t.Context(), ExportOptions{Unverified: true, Out: "m.q.onnx"})
		require.NoError(t, err)
		return *r.IntegerShare
	}
	require.EqualValues(t, 1, share())
	_, _, err := p.Set(t.Context(), "*", []string{"activations=uint16-asym-tensor"}, 1)
	require.NoError(t, err)
	require.Contains(t, string(get(t, p, p.Plan)), "onnxruntime multiplies integers of eight bits alone: ")
	require.Zero(t, share())
}
