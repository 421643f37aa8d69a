package qwb

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"qwb/graph/tensor"
	worktune "qwb/internal/work/tune"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
)

// Killed and run again, tune writes the plan and the tuned values of a run that nobody disturbed; what it went on from is gone then.
func TestInterruptedTuneGoesOn(t *testing.T) {
	interruptedTuning(t, "onnxruntime", "bias", 2, TuneOptions{Methods: []string{"auto"}, Threads: 2, Budget: "5000forwards"})
}

// The same of a method that learns, and what it learns is in the plan.
func TestInterruptedBlocksGoOn(t *testing.T) {
	few := target.ONNXRuntime
	few.ReducedWeight = [2]int32{}
	few.Name, few.Weight.QMin, few.Weight.QMax, few.Activation.QMin, few.Activation.QMax = "few_bits", -3, 3, 0, 15
	file := filepath.Join(t.TempDir(), "few_bits.yaml")
	require.NoError(t, os.WriteFile(file, few.YAML(), 0o644))
	interruptedTuning(t, file, "block", 1, TuneOptions{Methods: []string{"block"}, Steps: 80, Threads: 2, Force: true})
	p, err := plan.Read("m.plan.json")
	require.NoError(t, err)
	learnt := 0
	for _, d := range p.Decisions {
		if d.By == decision.ByTune && len(d.Scale) == 1 {
			learnt++
		}
	}
	require.Positive(t, learnt)
}

// interruptedTuning kills a tuning after so many operators of a method.
func interruptedTuning(t *testing.T, platform, method string, operators int, o TuneOptions) {
	ctx := context.Background()
	place := func() *Project {
		t.Chdir(t.TempDir())
		saveNetwork(t, "m.onnx")
		saveInputs(t, "data", 64)
		p := &Project{Model: "m.onnx", Plan: "m.plan.json", Catalog: Catalog{Version: "0.0.0", Now: time.Now}}
		_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: platform, Data: DataOptions{Paths: []string{"data"}}, Threads: 1})
		require.NoError(t, err)
		return p
	}
	p := place()
	r, _, err := p.Tune(ctx, o)
	require.NoError(t, err)
	require.NotEmpty(t, r.Overlay)
	if o.Budget != "" {
		require.Equal(t, 5000.0, r.Budget)
	}
	require.NoFileExists(t, "m.tuning")
	plan, values := read(t, "m.plan.json"), read(t, r.Overlay)

	p = place()
	before := read(t, "m.plan.json")
	stop, cancel := context.WithCancel(ctx)
	heard := stopsAt(method, operators, cancel)
	p.Events = heard
	_, _, err = p.Tune(stop, o)
	require.ErrorIs(t, err, context.Canceled)
	require.FileExists(t, "m.tuning")
	require.Equal(t, before, read(t, "m.plan.json"))

	p.Events = nil
	other := o
	other.Methods = []string{"bias"}
	part := read(t, "m.tuning")
	saved, _, err := worktune.DecodeTuning(part, func(t *tensor.Tensor) *tensor.Tensor { return t })
	require.NoError(t, err)
	require.Len(t, saved.Layers, operators)
	heard = &listener{}
	p.Events = heard
	o.Threads = 7
	again, _, err := p.Tune(ctx, o)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("continuing the interrupted run: %d methods and %d operators of the next are done", len(saved.Reports),
		operators), heard.notes[0])
	require.Equal(t, r.Methods, again.Methods)
	require.Equal(t, string(plan), string(read(t, "m.plan.json")))
	require.Equal(t, values, read(t, again.Overlay))
	require.NoFileExists(t, "m.tuning")

	// What is of another tuning, or damaged, is written over.
	for _, b := range [][]byte{part, part[:len(part)-3], []byte("nonsense")} {
		require.NoError(t, os.WriteFile("m.tuning", b, 0o644))
		_, _, err := p.Tune(ctx, other)
		require.NoError(t, err)
		require.NoFileExists(t, "m.tuning")
	}
}

// stopsAt calls stop when tuning has done so many operators of a method.
func stopsAt(method string, operators int, stop func()) *listener {
	l := &listener{}
	done := 0
	l.at = func(what string, _ int) {
		if n := len(l.details); strings.HasPrefix(what, "tune (") && n > 0 && strings.Contains(l.details[n-1], ": "+method+", ") {
			if done++; done == operators {
				stop()
			}
		}
	}
	return l
}

func TestBudgetsAreTimesOrWork(t *testing.T) {
	w, err := worktune.ParseBudget("10m")
	require.NoError(t, err)
	require.Equal(t, 10*time.Minute, w.Time)
	for _, text := range []string{"5000forwards", "5000 forwards"} {
		w, err = worktune.ParseBudget(text)
		require.NoError(t, err)
		require.Equal(t, 5000.0, w.Limit)
	}
	for _, text := range []string{"0forwards", "-3 forwards", "5000", "-10m", "0s", "much"} {
		_, err = worktune.ParseBudget(text)
		require.ErrorContains(t, err, "--budget "+text, text)
	}
}
