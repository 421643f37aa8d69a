package qwb

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/calib"
	"qwb/calib/data/npy"
	"qwb/internal/graphtest"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/quantizer/overlay"
)

// stores are the two kinds of stores, each with m.onnx and its data in the folder m.
func stores(t *testing.T, f func(t *testing.T, p *Project)) {
	t.Run("memory", func(t *testing.T) { f(t, place(t, new(Memory), "m", 3)) })
	t.Run("system", func(t *testing.T) {
		t.Chdir(t.TempDir())
		store := new(Memory)
		p := place(t, store, "m", 3)
		for _, name := range store.Names() {
			b, _ := store.Read(name)
			put(t, OS{}, name, b)
		}
		p.Store = OS{}
		f(t, p)
	})
}

func put(t *testing.T, s Store, name string, b []byte) {
	t.Helper()
	stage := s.Stage()
	defer stage.Discard()
	require.NoError(t, stage.Add(name, store.BytesOf(b)))
	require.NoError(t, stage.Commit())
}

func get(t *testing.T, p *Project, name string) []byte {
	t.Helper()
	b, err := store.ReadFile(p.job().Files(), name, 1<<30)
	require.NoError(t, err)
	return b
}

func calibrateOn(t *testing.T, p *Project, data ...string) {
	t.Helper()
	_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "trt_int8", Data: DataOptions{Paths: data}, Threads: 1})
	require.NoError(t, err)
}

// A plan that somebody else wrote while a command worked on what it had read is not overwritten.
func TestPlanOfSomebodyElseIsKept(t *testing.T) {
	stores(t, func(t *testing.T, p *Project) {
		calibrateOn(t, p, "m")
		search := forcedSearch(t, p)
		before := get(t, p, "m.plan.json")
		other := bytes.Replace(before, []byte(`"seed": 0`), []byte(`"seed": 7`), 1)
		require.NotEqual(t, before, other)
		for name, work := range map[string]func(*Project) error{
			"verify": func(p *Project) error { _, _, err := p.Verify(context.Background(), VerifyOptions{}); return err },
			"dispatch": func(p *Project) error {
				_, _, err := p.Dispatch(context.Background(), search)
				return err
			},
		} {
			put(t, p.job().Files(), "m.plan.json", before)
			mine := *p
			mine.Events = &listener{at: func(string, int) { put(t, p.job().Files(), "m.plan.json", other) }}
			err := work(&mine)
			require.ErrorAs(t, err, new(*ChangedError), name)
			require.ErrorContains(t, err, "m.plan.json was changed by somebody else", name)
			require.Equal(t, string(other), string(get(t, p, "m.plan.json")), name)
			_, err = store.ReadFile(p.job().Files(), "m.plan.json.bak", 1<<20)
			require.True(t, store.Missing(err), name)
		}

		// An export is of what was read; its verification does not get into another plan.
		put(t, p.job().Files(), "m.plan.json", before)
		mine := *p
		mine.Events = &listener{at: func(string, int) { put(t, p.job().Files(), "m.plan.json", other) }}
		_, warnings, err := mine.Export(context.Background(), ExportOptions{Platform: "trt_int8", Out: "o.onnx"})
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(warnings), "the verification could not be written into the plan: plan: "+
			"m.plan.json was changed by somebody else")
		require.Equal(t, string(other), string(get(t, p, "m.plan.json")))
	})
}

// A file that is exchanged between the last look at it and the renaming is not overwritten either.
func TestStageExpects(t *testing.T) {
	stores(t, func(t *testing.T, p *Project) {
		put(t, p.job().Files(), "x", []byte("mine"))
		stage := p.job().Files().Stage()
		defer stage.Discard()
		stage.Expect("x", store.Sum([]byte("mine")))
		require.NoError(t, stage.Add("x", store.BytesOf([]byte("next"))))
		require.NoError(t, stage.Add("y", store.BytesOf([]byte("beside"))))
		put(t, p.job().Files(), "x", []byte("theirs"))
		require.ErrorAs(t, stage.Commit(), new(*ChangedError))
		require.Equal(t, "theirs", string(get(t, p, "x")))
		_, err := store.ReadFile(p.job().Files(), "y", 1)
		require.True(t, store.Missing(err))
	})
}

// interrupted calibrates on data until so many samples are observed.
func interrupted(t *testing.T, p *Project, after int, data ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	mine := *p
	mine.Events = &listener{at: func(_ string, done int) {
		if done >= after {
			cancel()
		}
	}}
	_, _, err := mine.Calibrate(ctx, CalibrateOptions{Platform: "trt_int8", Data: DataOptions{Paths: data}, Threads: 1})
	require.ErrorIs(t, err, context.Canceled)
}

// The statistics of an interrupted run serve the same calibration, and nothing else.
func TestInterruptedStatisticsAreNoStatistics(t *testing.T) {
	stores(t, func(t *testing.T, p *Project) {
		calibrateOn(t, p, "m")
		stats, plan := get(t, p, "m.stats"), get(t, p, "m.plan.json")
		another := *p
		another.Plan = "n.plan.json"
		interrupted(t, &another, 2, "m")
		_, of, err := planning.ReadStats(another.job(), "n.stats", nil)
		require.NoError(t, err)
		require.Equal(t, 4, of)

		_, _, err = another.Calibrate(context.Background(), CalibrateOptions{Platform: "onnxruntime"})
		require.ErrorContains(t, err, "n.stats holds the statistics of an interrupted calibration, of ")
		_, _, err = another.Calibrate(context.Background(), CalibrateOptions{Platform: "onnxruntime", Merge: []string{"m.stats", "n.stats"}})
		require.ErrorContains(t, err, "interrupted calibration")
		_, err = calib.Read(bytes.NewReader(get(t, p, "n.stats")), int64(len(get(t, p, "n.stats"))))
		require.Error(t, err, "for other readers they are no statistics")

		calibrateOn(t, &another, "m")
		require.True(t, bytes.Equal(stats, get(t, p, "n.stats")))
		require.Equal(t, string(plan), string(get(t, p, "n.plan.json")))
	})
}

// Scales are not made from the statistics of other data than the plan's.
func TestStatisticsOfOtherData(t *testing.T) {
	stores(t, func(t *testing.T, p *Project) {
		for i := range 4 {
			var b bytes.Buffer
			require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(900+i), 1, 3, 8, 8)))
			put(t, p.job().Files(), "other/0"+string(rune('0'+i))+".npy", b.Bytes())
		}
		ctx := context.Background()
		calibrateOn(t, p, "m")
		plan, stats := get(t, p, "m.plan.json"), get(t, p, "m.stats")
		dispatch := func() error {
			_, _, err := p.Dispatch(ctx, DispatchOptions{Selectors: []string{"conv1"}, Threads: 1})
			return err
		}
		// Calibrated on other data and interrupted: what was taken lies beside the plan's own.
		interrupted(t, p, 2, "other")
		require.Equal(t, string(stats), string(get(t, p, "m.stats")))
		require.Equal(t, string(plan), string(get(t, p, "m.plan.json")))

		// Calibrated on other data, and the first plan put back.
		calibrateOn(t, p, "other")
		put(t, p.job().Files(), "m.plan.json", plan)
		err := dispatch()
		require.ErrorContains(t, err, "m.stats holds the statistics of other data than those that m.plan.json was made from")
		require.ErrorContains(t, err, "qwb calibrate m.onnx --platform trt_int8 -o m.plan.json")
		require.Equal(t, string(plan), string(get(t, p, "m.plan.json")))
		_, warnings, err := p.Analyze(ctx, AnalyzeOptions{Config: analysis.Config{Statistical: true}})
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(warnings), "the report has no thresholds: m.stats holds the statistics of other data")

		// What the error says helps.
		_, _, err = p.Calibrate(ctx, CalibrateOptions{Platform: "trt_int8"})
		require.NoError(t, err)
		require.NoError(t, dispatch())
	})
}

// A plan is never run without the tuned values that it names, nor with others.
func TestTunedValuesMustBeThePlans(t *testing.T) {
	stores(t, func(t *testing.T, p *Project) {
		calibrateOn(t, p, "m")
		plan := get(t, p, "m.plan.json")
		name := overlay.FileName("m.plan.json", store.Sum([]byte("x")))
		tuned := strings.NewReplacer(`"decisions": [`, `"decisions": [{"by":"tune","method":"bias","overlay":"sha256:`+store.Sum([]byte("x"))+
			`"},`, `"steps": [2]`, `"steps": [3]`).Replace(string(plan))
		put(t, p.job().Files(), "m.plan.json", []byte(tuned))
		ctx := context.Background()
		refused := func(want string) {
			t.Helper()
			for name, work := range map[string]func() error{
				"eval":    func() error { _, _, err := p.Eval(ctx, EvalOptions{Mode: "fp32"}); return err },
				"analyze": func() error { _, _, err := p.Analyze(ctx, AnalyzeOptions{}); return err },
				"tune":    func() error { _, _, err := p.Tune(ctx, TuneOptions{Methods: []string{"bias"}}); return err },
				"export": func() error {
					_, _, err := p.Export(ctx, ExportOptions{Platform: "trt_int8", Out: "o.onnx", Unverified: true})
					return err
				},
			} {
				require.ErrorContains(t, work(), want, name)
			}
		}
		refused("m.plan.json: the tuned values are gone: there is no " + name)
		put(t, p.job().Files(), name, []byte("y"))
		refused("m.plan.json: the tuned values were changed: " + name + " (SHA-256")
		put(t, p.job().Files(), name, []byte("x"))
		refused(name + ": overlay: safetensors: 1 bytes are no file")

		put(t, p.job().Files(), name, []byte("y"))
		refused("qwb calibrate again, which keeps the other decisions")
		_, warnings, err := p.Calibrate(ctx, CalibrateOptions{Platform: "trt_int8"})
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(warnings), "the tuned values of m.plan.json are missing or changed")
		_, _, err = p.Eval(ctx, EvalOptions{Mode: "fp32"})
		require.NotContains(t, fmt.Sprint(err), "tuned values", "what the error says helps")
		_, _, err = p.Set(ctx, "conv1", []string{"domain=fp32"}, 1)
		require.NoError(t, err)
	})
}
