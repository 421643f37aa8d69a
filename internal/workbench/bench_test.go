package workbench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/calib/data/npy"
	"qwb/graph/tensor"
	"qwb/internal/demo"
	"qwb/internal/workbench"
)

const pictures = 48

// shots are the files of a small project: the demo's model, and pictures with labels.
var shots = sync.OnceValue(func() map[string][]byte {
	files := map[string][]byte{"glyphs.onnx": demo.Model}
	camera := demo.NewCamera()
	labels := "file\tindex\n"
	for i := range pictures {
		img, class := camera.Shot(demo.Calibration, 1, i)
		var b bytes.Buffer
		if err := npy.Write(&b, tensor.FromF32(img, 1, 1, demo.Size, demo.Size)); err != nil {
			panic(err)
		}
		files[fmt.Sprintf("data/%05d.npy", i)] = b.Bytes()
		labels += fmt.Sprintf("%05d.npy\t%d\n", i, class)
	}
	files["labels.tsv"] = []byte(labels)
	return files
})

// page is a bench with a page's view of it.
type page struct {
	t *testing.T
	*workbench.Bench
	store    *qwb.Memory
	revision string
}

// opened is a bench on a fresh store, with the demo's model open.
func opened(t *testing.T) *page { return openedWith(t, workbench.Options{}) }

func openedWith(t *testing.T, o workbench.Options) *page {
	store := &qwb.Memory{}
	for name, content := range shots() {
		store.Write(name, content)
	}
	o.Project, o.Threads = qwb.Project{Store: store, Catalog: qwb.Standard("test")}, 2
	b := workbench.New(o)
	t.Cleanup(b.Close)
	p := &page{t, b, store, b.Revision()}
	p.job("open", `{"file": "glyphs.onnx"}`, nil)
	return p
}

var calibrated = sync.OnceValue(func() map[string][]byte { return map[string][]byte{} })

// planned is opened with a plan.
func planned(t *testing.T) *page { return plannedWith(t, workbench.Options{}) }

func plannedWith(t *testing.T, o workbench.Options) *page {
	p := openedWith(t, o)
	for name, content := range calibrated() {
		p.store.Write(name, content)
	}
	if p.revision = p.Revision(); len(calibrated()) > 0 {
		p.job("open", `{"file": "glyphs.plan.json"}`, nil)
		return p
	}
	p.job("calibrate", `{"platform": "trt_int8", "data": ["data"]}`, nil)
	for _, name := range []string{"glyphs.plan.json", "glyphs.stats"} {
		calibrated()[name], _ = p.store.Read(name)
	}
	return p
}

// call calls a method that has to work.
func (p *page) call(method, params string, into any) {
	p.t.Helper()
	require.NoError(p.t, p.try(method, params, into))
}

func (p *page) try(method, params string, into any) error {
	p.t.Helper()
	r, err := p.Call(context.Background(), method, json.RawMessage(params), p.revision)
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	require.NoError(p.t, err)
	var known struct {
		Revision string `json:"revision"`
	}
	require.NoError(p.t, json.Unmarshal(text, &known))
	if known.Revision != "" {
		p.revision = known.Revision
	}
	if into != nil {
		require.NoError(p.t, json.Unmarshal(text, into))
	}
	return nil
}

type result struct {
	Job    workbench.Job   `json:"job"`
	Result json.RawMessage `json:"result"`
}

// run runs a job to its end.
func (p *page) run(kind, options string) (r result) {
	p.t.Helper()
	p.call("start", fmt.Sprintf(`{"kind": %q, "options": %s}`, kind, options), &r)
	require.Eventually(p.t, func() bool { return p.try("result", fmt.Sprintf(`{"job": %q}`, r.Job.ID), &r) == nil }, time.Minute,
		time.Millisecond)
	p.revision = p.Revision()
	return r
}

// job runs a job that has to work.
func (p *page) job(kind, options string, into any) workbench.Job {
	p.t.Helper()
	r := p.run(kind, options)
	require.Nil(p.t, r.Job.Error)
	require.Equal(p.t, workbench.Done, r.Job.State)
	if into != nil {
		require.NoError(p.t, json.Unmarshal(r.Result, into))
	}
	return r.Job
}

// state is what tests look at of workbench.State.
type state struct {
	Model, Plan, Platform, Revision                                  string
	Exists                                                           bool
	Samples, Undo, Redo                                              int
	Calibration                                                      []string
	Targets, Observers, Formats, Methods, Presets, Properties, Roots []any
}

func TestStateSaysWhatThereIsToChooseFrom(t *testing.T) {
	p := opened(t)
	var s state
	p.call("state", ``, &s)
	assert.Equal(t, "glyphs.onnx", s.Model)
	assert.False(t, s.Exists)
	assert.NotEmpty(t, s.Revision)
	for _, list := range []int{len(s.Targets), len(s.Observers), len(s.Formats), len(s.Methods), len(s.Presets), len(s.Properties)} {
		assert.Greater(t, list, 3)
	}
	p = planned(t)
	p.call("state", `{}`, &s)
	assert.True(t, s.Exists)
	assert.Equal(t, "trt_int8", s.Platform)
	assert.Equal(t, pictures, s.Samples)
	assert.Equal(t, []string{"data"}, s.Calibration)
	assert.Zero(t, s.Undo)
}

func TestAChangeIsADecisionThatCanBeUndone(t *testing.T) {
	p := planned(t)
	was, _ := p.store.Read("glyphs.plan.json")
	var c workbench.Changed
	p.call("set", `{"select": "type:Conv", "properties": ["domain=fp32"]}`, &c)
	assert.Equal(t, "qwb set glyphs.plan.json type:Conv domain=fp32", c.Command)
	assert.NotEmpty(t, c.Changed)
	var log struct{ Decisions []struct{ Text string } }
	p.call("log", ``, &log)
	assert.Equal(t, "user: type:Conv domain=fp32", log.Decisions[len(log.Decisions)-1].Text)
	p.call("undo", ``, &c)
	assert.Equal(t, "qwb plan undo glyphs.plan.json", c.Command)
	p.call("redo", ``, &c)
	p.call("unset", `{"what": "type:Conv"}`, &c)
	p.call("undo", ``, &c)
	p.call("undo", ``, &c)
	var s state
	p.call("state", ``, &s)
	assert.Equal(t, 2, s.Redo)
	var diff qwb.DiffResult
	p.store.Write("was.plan.json", was)
	p.call("diff", `{"a": "was.plan.json", "b": "glyphs.plan.json"}`, &diff)
	assert.Empty(t, diff.OnlyA)
	assert.Empty(t, diff.OnlyB)
}

func TestTwoTabsDoNotLoseEachOthersDecisions(t *testing.T) {
	p := planned(t)
	other := &page{t, p.Bench, p.store, p.revision}
	p.call("set", `{"select": "type:Conv", "properties": ["domain=fp32"]}`, nil)
	now, _ := p.store.Read("glyphs.plan.json")
	err := other.try("set", `{"select": "type:Gemm", "properties": ["domain=fp32"]}`, nil)
	var stale *workbench.StaleError
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, p.revision, stale.Revision)
	after, _ := p.store.Read("glyphs.plan.json")
	assert.Equal(t, string(now), string(after))
	other.revision = stale.Revision
	require.NoError(t, other.try("undo", ``, nil))
}

func TestWrongRequestsAreSaidToBeWrong(t *testing.T) {
	p := planned(t)
	for _, c := range [][2]string{
		{"nothing", `{}`}, {"set", `{"selector": "x"}`}, {"set", `{"properties": ["domain=fp32"]}`}, {"set", `{"select": null}`},
		{"set", `{"select": "*", "properties": ["domain=fp31"]}`},
		{"start", `{"kind": "nothing"}`}, {"start", `{"kind": "analyze", "options": {"layers": true}}`}, {"start", `{"kind": "dispatch"}`},
		{"start", `{"kind": "dispatch", "options": {"auto": true}}`}, {"result", `{"job": "77"}`}, {"cancel", `{}`}, {"unset", `{"what": "#x"}`},
	} {
		err := p.try(c[0], c[1], nil)
		assert.Equal(t, qwb.KindUsage, qwb.Describe(err).Kind, "%s %s: %v", c[0], c[1], err)
	}
	assert.Error(t, p.try("set", `{"nodes": ["no such operator"], "properties": ["domain=fp32"]}`, nil))
}

func TestJobsTellHowFarTheyAreAndCanBeCancelled(t *testing.T) {
	p := opened(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	events := p.Events(ctx)
	var a, b result
	p.call("start", `{"kind": "calibrate", "options": {"platform": "trt_int8", "data": ["data"]}}`, &a)
	p.call("start", `{"kind": "analyze"}`, &b)
	assert.Equal(t, "qwb calibrate glyphs.onnx --platform trt_int8 --data data -o glyphs.plan.json", a.Job.Command)
	p.call("cancel", fmt.Sprintf(`{"job": %q}`, b.Job.ID), &b)
	assert.Equal(t, workbench.Cancelled, b.Job.State)
	seen := map[string]bool{}
	for e := range events {
		if e.Type == "plan" {
			break
		}
		if e.Job != nil {
			seen[e.Job.ID+" "+e.Job.State] = true
		}
	}
	assert.True(t, seen[a.Job.ID+" running"] || seen[a.Job.ID+" done"])
	assert.True(t, seen[a.Job.ID+" done"])
	assert.True(t, seen[b.Job.ID+" cancelled"])
	late := p.Events(ctx) // nothing runs: nothing to hear
	select {
	case e := <-late:
		t.Fatalf("%+v", e)
	case <-time.After(10 * time.Millisecond):
	}
}

func TestAJobThatRunsIsCancelled(t *testing.T) {
	p := planned(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var a result
	p.call("start", `{"kind": "analyze"}`, &a)
	for e := range p.Events(ctx) {
		if e.Job != nil && e.Job.State == workbench.Running && e.Job.Done > 0 {
			break
		}
	}
	p.call("cancel", fmt.Sprintf(`{"job": %q}`, a.Job.ID), nil)
	require.Eventually(t, func() bool { return p.try("result", fmt.Sprintf(`{"job": %q}`, a.Job.ID), &a) == nil }, time.Minute,
		time.Millisecond)
	assert.Equal(t, workbench.Cancelled, a.Job.State)
	assert.Equal(t, qwb.KindCanceled, a.Job.Error.Kind)
}

// A job that hears nothing, as one that waits for a disk of another machine, keeps no other waiting once it is stopped.
func TestAJobThatHearsNothingIsLeftAlone(t *testing.T) {
	before := workbench.SetPatience(20 * time.Millisecond)
	hold, held := make(chan bool), make(chan bool)
	t.Cleanup(func() { workbench.SetPatience(before) })
	var waits atomic.Bool
	p := plannedWith(t, workbench.Options{Pause: func() {
		if waits.CompareAndSwap(true, false) {
			held <- true
			<-hold
		}
	}})
	defer close(hold)
	var stuck, next result
	waits.Store(true)
	p.call("start", `{"kind": "analyze"}`, &stuck)
	<-held
	p.call("cancel", fmt.Sprintf(`{"job": %q}`, stuck.Job.ID), nil)
	require.Eventually(t, func() bool { return p.try("result", fmt.Sprintf(`{"job": %q}`, stuck.Job.ID), &stuck) == nil }, time.Minute,
		time.Millisecond)
	assert.Equal(t, workbench.Cancelled, stuck.Job.State)
	assert.Contains(t, stuck.Job.Error.Message, "was left alone")
	p.call("start", `{"kind": "analyze", "options": {"samples": 2}}`, &next)
	require.Eventually(t, func() bool { return p.try("result", fmt.Sprintf(`{"job": %q}`, next.Job.ID), &next) == nil }, time.Minute,
		time.Millisecond)
	assert.Equal(t, workbench.Done, next.Job.State)
}

func TestClosingStopsWhatRuns(t *testing.T) {
	p := planned(t)
	p.call("start", `{"kind": "analyze"}`, nil)
	p.Close()
	assert.Error(t, errors.Join(p.try("result", `{"job": "none"}`, nil)))
}

// What a job is about to write nobody changes meanwhile: hours of tuning would be lost.
func TestNothingIsDecidedWhileAJobWritesThePlan(t *testing.T) {
	hold, held := make(chan bool), make(chan bool)
	var waits atomic.Bool
	p := plannedWith(t, workbench.Options{Pause: func() {
		if waits.CompareAndSwap(true, false) {
			held <- true
			<-hold
		}
	}})
	set := `{"select": "type:Conv", "properties": ["domain=fp32"]}`
	for kind, refused := range map[string]bool{"verify": true, "analyze": false} {
		waits.Store(true)
		var r result
		p.call("start", fmt.Sprintf(`{"kind": %q}`, kind), &r)
		<-held
		err := p.try("set", set, nil)
		assert.Equal(t, refused, err != nil, "%s: %v", kind, err)
		hold <- true
		require.Eventually(t, func() bool { return p.try("result", fmt.Sprintf(`{"job": %q}`, r.Job.ID), &r) == nil }, time.Minute,
			time.Millisecond)
		assert.Equal(t, workbench.Done, r.Job.State, kind)
		p.revision = p.Revision()
	}
	require.NoError(t, p.try("undo", ``, nil))
}
