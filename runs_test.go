package qwb

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// commandsOf lists what the log has below each decision, by its number.
func commandsOf(t *testing.T, p *Project) (*LogResult, map[int]string) {
	t.Helper()
	r, _, err := p.Log(context.Background())
	require.NoError(t, err)
	list := map[int]string{}
	for i := range r.Decisions {
		var words []string
		for _, o := range r.Decisions[i].Runs {
			words = append(words, o.Command)
		}
		if len(words) > 0 {
			list[i+1] = strings.Join(words, " ")
		}
	}
	return r, list
}

// Every command's outcome stands beside the decision that it was about; undo and redo lead back to it.
func TestLogHasOutcomes(t *testing.T) {
	ctx := context.Background()
	stores(t, func(t *testing.T, p *Project) {
		p.Catalog = place(t, new(Memory), "x", 1).Catalog
		calibrateOn(t, p, "m")
		analyze := func() {
			o := AnalyzeOptions{}
			o.Graphwise, o.Layerwise, o.Threads = true, true, 1
			_, _, err := p.Analyze(ctx, o)
			require.NoError(t, err)
		}
		analyze()
		analyze()
		_, list := commandsOf(t, p)
		require.Equal(t, map[int]string{2: "analyze"}, list, "the same outcome twice is one")
		calibrateOn(t, p, "m")
		_, list = commandsOf(t, p)
		require.Equal(t, map[int]string{2: "analyze calibrate"}, list, "calibrate alone begins no history, and adds to one")
		r, _, err := p.Set(ctx, "conv1", []string{"domain=fp32"}, 1)
		require.NoError(t, err)
		require.Empty(t, r.Runs)
		analyze()
		_, _, err = p.Verify(ctx, VerifyOptions{})
		require.NoError(t, err)
		log, list := commandsOf(t, p)
		require.Equal(t, map[int]string{2: "analyze calibrate", 3: "analyze verify"}, list)
		runs := log.Decisions[2].Runs
		var figures map[string]any
		require.NoError(t, json.Unmarshal(runs[0].Figures, &figures))
		require.Greater(t, figures["nsr"], 0.0)
		require.Contains(t, runs[1].String(), "verdict equal")
		before := log.Decisions[1].Runs[0].Figures
		require.NotEqual(t, string(before), string(runs[0].Figures))

		r, _, err = p.Undo(ctx, 1)
		require.NoError(t, err)
		require.Len(t, r.Runs, 2)
		require.Equal(t, string(before), string(r.Runs[0].Figures))
		log, list = commandsOf(t, p)
		require.Equal(t, map[int]string{2: "analyze calibrate"}, list)
		require.Len(t, log.Undone, 1)
		require.Len(t, log.Undone[0].Runs, 2)
		r, _, err = p.Redo(ctx, 1)
		require.NoError(t, err)
		require.Len(t, r.Runs, 2)

		_, _, err = p.Undo(ctx, 1)
		require.NoError(t, err)
		_, _, err = p.Set(ctx, "conv2", []string{"domain=fp32"}, 1)
		require.NoError(t, err)
		log, _ = commandsOf(t, p)
		require.Equal(t, 2, log.Elsewhere)
		require.NotContains(t, string(get(t, p, RunsPath(p.Plan))), "\n\n")
		if _, ok := p.job().Files().Path("m"); ok {
			gc, _, err := p.GC()
			require.NoError(t, err)
			require.Equal(t, log.Elsewhere, gc.RunsRemoved)
			require.Equal(t, 2, gc.RunsKept)
			log, list = commandsOf(t, p)
			require.Zero(t, log.Elsewhere)
			require.Equal(t, map[int]string{2: "analyze calibrate"}, list)
		}
	})
}

// The history never is in the way: a folder that cannot be written, a file that is damaged or a folder, an outcome that is too long.
func TestOutcomesAreNoHindrance(t *testing.T) {
	ctx := context.Background()
	p := placeFiles(t, 4)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"data"}}, Threads: 1})
	require.NoError(t, err)
	plain := string(read(t, "m.plan.json"))
	o := AnalyzeOptions{}
	o.Outputs, o.Threads = true, 1
	name := RunsPath(p.Plan)
	for what, make := range map[string]func(){
		"folder":  func() { require.NoError(t, os.Mkdir(name, 0o755)) },
		"damaged": func() { require.NoError(t, os.WriteFile(name, []byte("{\n\x00\xff\n[]\n{\"state\":3}\nhalf"), 0o644)) },
		"huge":    func() { require.NoError(t, os.WriteFile(name, make([]byte, 3<<20), 0o644)) },
		"readonly": func() {
			require.NoError(t, os.WriteFile(name, nil, 0o444))
			require.NoError(t, os.Chmod(".", 0o555))
		},
	} {
		require.NoError(t, os.RemoveAll(name))
		make()
		_, _, err = p.Analyze(ctx, o)
		require.NoError(t, err, what)
		_, _, err = p.Log(ctx)
		require.NoError(t, err, what)
		require.NoError(t, os.Chmod(".", 0o755))
		require.Equal(t, plain, string(read(t, "m.plan.json")))
		if what == "damaged" {
			_, list := commandsOf(t, p)
			require.Equal(t, map[int]string{2: "analyze"}, list, "a line behind half a line is a line")
		}
	}
}
