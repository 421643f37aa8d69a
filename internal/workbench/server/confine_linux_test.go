package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/calib/data/npy"
	"qwb/graph/tensor"
	"qwb/internal/demo"
	"qwb/internal/longtest"
	"qwb/internal/workbench"
	"qwb/internal/workbench/server"
)

// alarm hears of every file in a folder that is opened or made, by whatever name or link.
type alarm struct {
	t  *testing.T
	fd int
}

func watch(t *testing.T, dirs ...string) *alarm {
	t.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	for _, dir := range dirs {
		_, err = syscall.InotifyAddWatch(fd, dir, syscall.IN_OPEN|syscall.IN_CREATE|syscall.IN_MOVED_TO|syscall.IN_MODIFY|syscall.IN_DELETE)
		require.NoError(t, err)
	}
	return &alarm{t, fd}
}

// rings reports whether anything has happened since it was asked last.
func (a *alarm) rings() bool {
	b := make([]byte, 1<<16)
	n, err := syscall.Read(a.fd, b)
	if err != syscall.EAGAIN {
		require.NoError(a.t, err)
	}
	return n > 0
}

// project writes the demo's model and pictures with labels into a folder.
func project(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data"), 0o755))
	write := func(name string, b []byte) { require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600)) }
	write("glyphs.onnx", demo.Model)
	camera := demo.NewCamera()
	labels := "file\tindex\n"
	for i := range 4 {
		img, class := camera.Shot(demo.Calibration, 1, i)
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, tensor.FromF32(img, 1, 1, demo.Size, demo.Size)))
		write(fmt.Sprintf("data/%d.npy", i), b.Bytes())
		labels += fmt.Sprintf("%d.npy\t%d\n", i, class)
	}
	write("labels.tsv", []byte(labels))
}

// jobKinds are all kinds of jobs, and fields the parameters that could name a file.
var (
	jobKinds = []string{"open", "trial", "calibrate", "analyze", "dispatch", "sweep", "tune", "eval", "compare", "verify", "export",
		"import", "flips", "language-rank", "language-eval", "language-generate"}
	fields = []string{"file", "model", "plan", "data", "labels", "preprocess", "recipe", "device", "output", "float", "against", "runs",
		"platform", "platforms", "tokenizer", "text", "judge", "profile", "metric", "gram", "dump", "a", "b", "dir", "sample"}
)

// TestNothingOutsideIsOpened: whatever a request or a plan names, no file outside of the roots is opened, made or changed.
func TestNothingOutsideIsOpened(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	in, out := filepath.Join(top, "in"), filepath.Join(top, "out")
	project(t, in)
	project(t, out)
	ctx, catalog := context.Background(), qwb.Standard("test")
	calibrate := func(model, plan, data string) {
		p := &qwb.Project{Model: model, Plan: plan, Catalog: catalog}
		_, _, err := p.Calibrate(ctx, qwb.CalibrateOptions{Platform: "trt_int8", Data: qwb.DataOptions{Paths: []string{data}}, Threads: 1})
		require.NoError(t, err)
	}
	calibrate(filepath.Join(in, "glyphs.onnx"), filepath.Join(in, "glyphs.plan.json"), filepath.Join(in, "data"))
	calibrate(filepath.Join(out, "glyphs.onnx"), filepath.Join(out, "glyphs.plan.json"), filepath.Join(out, "data"))
	// a good plan of what lies outside
	calibrate(filepath.Join(out, "glyphs.onnx"), filepath.Join(in, "hostile.plan.json"), filepath.Join(out, "data"))
	require.NoError(t, os.Symlink("../out/glyphs.onnx", filepath.Join(in, "linked.onnx")))
	require.NoError(t, os.Symlink("../out", filepath.Join(in, "folder")))
	a := watch(t, out, filepath.Join(out, "data"))
	_, err = os.ReadFile(filepath.Join(in, "linked.onnx"))
	require.NoError(t, err)
	require.True(t, a.rings(), "it hears of links")

	roots, err := server.OpenRoots(in)
	require.NoError(t, err)
	defer roots.Close()
	ask := func(b *workbench.Bench, method, params string) (answer struct {
		Job  workbench.Job
		Jobs []workbench.Job
	}, err error) {
		r, err := b.Call(ctx, method, json.RawMessage(params), b.Revision())
		if err != nil {
			return answer, err
		}
		text, err := json.Marshal(r)
		require.NoError(t, err)
		_ = json.Unmarshal(text, &answer) // other methods answer with something else
		return answer, nil
	}
	done := 0
	run := func(b *workbench.Bench, kind, options string) *workbench.Job {
		started, err := ask(b, "start", fmt.Sprintf(`{"kind": %q, "options": %s}`, kind, options))
		if err != nil {
			return nil
		}
		var job workbench.Job
		require.Eventually(t, func() bool {
			all, err := ask(b, "jobs", "")
			require.NoError(t, err)
			i := slices.IndexFunc(all.Jobs, func(j workbench.Job) bool { return j.ID == started.Job.ID })
			require.GreaterOrEqual(t, i, 0)
			job = all.Jobs[i]
			return job.State != workbench.Running && job.State != workbench.Queued
		}, longtest.Hang, time.Millisecond)
		done++
		assert.False(t, a.rings(), "%s %s", kind, options)
		return &job
	}
	bench := func(model, plan string) *workbench.Bench {
		b := workbench.New(workbench.Options{Project: qwb.Project{Model: model, Plan: plan, Store: roots, Catalog: catalog},
			Roots: roots.Names(), Threads: 1})
		t.Cleanup(b.Close)
		return b
	}
	for _, c := range []struct{ model, plan string }{
		{filepath.Join(in, "glyphs.onnx"), filepath.Join(in, "glyphs.plan.json")},
		{"", filepath.Join(in, "hostile.plan.json")},
		{filepath.Join(in, "linked.onnx"), filepath.Join(in, "linked.plan.json")},
		{filepath.Join(out, "glyphs.onnx"), filepath.Join(out, "glyphs.plan.json")},
	} {
		b := bench(c.model, c.plan)
		for _, m := range workbench.Methods {
			if m.Name != "start" {
				_, _ = ask(b, m.Name, "") // what comes of it is another test's
				assert.False(t, a.rings(), "%s of %s", m.Name, c.plan)
			}
		}
		if strings.Contains(c.plan, "glyphs") && c.model != "" && strings.HasPrefix(c.plan, in) {
			continue // whole jobs on what lies inside need no test here
		}
		for _, kind := range jobKinds {
			if job := run(b, kind, "{}"); job != nil {
				assert.NotEqual(t, workbench.Done, job.State, "%s of %s", kind, c.plan)
			}
		}
	}
	b := bench(filepath.Join(in, "glyphs.onnx"), filepath.Join(in, "glyphs.plan.json"))
	for _, field := range fields {
		for _, path := range []string{filepath.Join(out, "glyphs.onnx"), filepath.Join(in, "..", "out", "glyphs.plan.json"),
			filepath.Join(in, "folder", "data"), filepath.Join(out, "new")} {
			for _, form := range []string{`{%q: %q}`, `{%q: [%q]}`} {
				params := fmt.Sprintf(form, field, path)
				for _, m := range workbench.Methods {
					if m.Name != "start" {
						_, _ = ask(b, m.Name, params)
						assert.False(t, a.rings(), "%s %s", m.Name, params)
					}
				}
				for _, kind := range jobKinds {
					run(b, kind, params)
				}
			}
		}
	}
	t.Logf("%d jobs", done)
	assert.Greater(t, done, 100)
	_, err = fs.Stat(os.DirFS(out), "new")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}
