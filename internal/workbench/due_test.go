package workbench_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/internal/longtest"
	"qwb/internal/workbench"
)

// stopped is a bench with a plan whose next job waits where it begins to work, until let is called.
func stopped(t *testing.T) (p *page, let func()) {
	hold, held := make(chan bool), make(chan bool)
	var waits atomic.Bool
	p = plannedWith(t, workbench.Options{Pause: func() {
		if waits.CompareAndSwap(true, false) {
			held <- true
			<-hold
		}
	}})
	waits.Store(true)
	p.call("start", `{"kind": "analyze"}`, nil)
	<-held
	return p, func() { hold <- true }
}

// end waits for the end of a job.
func (p *page) end(r *result) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.try("result", fmt.Sprintf(`{"job": %q}`, r.Job.ID), r) == nil }, longtest.Hang,
		time.Millisecond)
}

const keepConvs = `{"kind": "dispatch", "options": {"fp32": ["type:Conv"]}%s}`

// A job does what it was started for, or nothing: it may have waited while another tab opened another file.
func TestAJobIsAboutThePlanThatItWasStartedOn(t *testing.T) {
	p, let := stopped(t)
	was, _ := p.store.Read("glyphs.plan.json")
	for _, name := range []string{"glyphs.onnx", "glyphs.plan.json", "glyphs.stats"} {
		text, _ := p.store.Read(name)
		p.store.Write("b/"+name, text)
	}
	var open, keep, look result
	p.call("start", `{"kind": "open", "options": {"file": "b/glyphs.plan.json"}}`, &open)
	p.call("start", fmt.Sprintf(keepConvs, `, "after": "`+open.Job.ID+`"`), &keep)
	p.call("start", `{"kind": "analyze", "options": {"graphwise": true}}`, &look)
	let()
	p.end(&open)
	assert.Equal(t, workbench.Done, open.Job.State)
	for _, r := range []*result{&keep, &look} {
		p.end(r)
		assert.Equal(t, workbench.Failed, r.Job.State, r.Job.Command)
		assert.Equal(t, qwb.KindChanged, r.Job.Error.Kind)
	}
	for _, name := range []string{"glyphs.plan.json", "b/glyphs.plan.json"} {
		now, _ := p.store.Read(name)
		assert.Equal(t, string(was), string(now), name)
	}
}

// What was decided on a plan is not done to the one that took its place meanwhile.
func TestAJobThatWritesIsStaleWhereThePlanWasChangedMeanwhile(t *testing.T) {
	p, let := stopped(t)
	var keep result
	p.call("start", fmt.Sprintf(keepConvs, ""), &keep)
	p.call("set", `{"select": "type:Gemm", "properties": ["domain=fp32"]}`, nil)
	now, _ := p.store.Read("glyphs.plan.json")
	let()
	p.end(&keep)
	assert.Equal(t, qwb.KindChanged, keep.Job.Error.Kind)
	after, _ := p.store.Read("glyphs.plan.json")
	assert.Equal(t, string(now), string(after))
}

// Jobs that write follow each other where the page knew of the one in front, and where that came to its end.
func TestJobsThatWriteFollowThoseThatThePageKnew(t *testing.T) {
	p, let := stopped(t)
	var first, again, second, third result
	p.call("start", fmt.Sprintf(keepConvs, ""), &first)
	p.call("start", fmt.Sprintf(keepConvs, ""), &again)
	assert.Equal(t, first.Job.ID, again.Job.ID, "the same job twice")
	assert.True(t, first.Job.Changes)
	other := `{"kind": "dispatch", "options": {"reset": true}%s}`
	err := p.try("start", fmt.Sprintf(other, ""), nil)
	assert.ErrorContains(t, err, "dispatch, job "+first.Job.ID)
	p.call("start", fmt.Sprintf(other, `, "after": "`+first.Job.ID+`"`), &second)
	p.call("start", `{"kind": "verify", "after": "`+second.Job.ID+`"}`, &third)
	p.call("cancel", fmt.Sprintf(`{"job": %q}`, second.Job.ID), nil)
	let()
	p.end(&third)
	p.end(&first)
	assert.Equal(t, workbench.Done, first.Job.State)
	assert.Contains(t, third.Job.Error.Message, "did not come to its end")
	p.revision = p.Revision()
	p.call("start", fmt.Sprintf(other, ""), &second)
	p.call("start", `{"kind": "verify", "after": "`+second.Job.ID+`"}`, &third)
	p.end(&third)
	assert.Equal(t, workbench.Done, third.Job.State)
}

// Whoever drops a file and clicks Open as well does nothing wrong.
func TestAFileIsOpenedWhateverWasOpenBefore(t *testing.T) {
	p := planned(t)
	p.revision = "of before"
	p.job("open", `{"file": "glyphs.onnx"}`, nil)
}

// A job that panics has failed; the bench goes on.
func TestAJobThatPanicsHasFailed(t *testing.T) {
	var panics atomic.Bool
	p := plannedWith(t, workbench.Options{Pause: func() {
		if panics.CompareAndSwap(true, false) {
			panic("boom")
		}
	}})
	panics.Store(true)
	var r result
	p.call("start", `{"kind": "analyze"}`, &r)
	p.end(&r)
	require.Equal(t, workbench.Failed, r.Job.State)
	require.Contains(t, r.Job.Error.Message, "bug in qwb: boom")
	p.call("start", `{"kind": "analyze", "options": {"graphwise": true}}`, &r)
	p.end(&r)
	require.Equal(t, workbench.Done, r.Job.State, r.Job.Error)
}

// A file that was there before is not replaced, whether its name was typed or is the one that an export has by itself, but for what was
// exported before, by this bench or another one.
func TestAnExportReplacesNothingButAnExport(t *testing.T) {
	p := planned(t)
	export := `{"kind": "export", "options": {"unverified": true, "output": %q}}`
	refused := func(name, output string) {
		p.store.Write(name, []byte("measured"))
		var r result
		p.call("start", fmt.Sprintf(export, output), &r)
		p.end(&r)
		require.Equal(t, workbench.Failed, r.Job.State, name)
		assert.Equal(t, qwb.KindUsage, r.Job.Error.Kind, "%s: %v", name, r.Job.Error)
		now, _ := p.store.Read(name)
		assert.Equal(t, "measured", string(now))
	}
	for _, name := range []string{"note.onnx", "labels.tsv", "data/00000.npy"} {
		refused(name, name)
	}
	const own = "glyphs.trt_int8.onnx"
	for _, name := range []string{"out.onnx", ""} {
		for range 2 {
			p.job("export", fmt.Sprintf(`{"unverified": true, "output": %q}`, name), nil)
		}
	}
	p.Bench = workbench.New(workbench.Options{Project: qwb.Project{Plan: "glyphs.plan.json", Store: p.store, Catalog: qwb.Standard("test")}})
	t.Cleanup(p.Close)
	p.revision = p.Revision()
	p.job("export", `{"unverified": true}`, nil)
	refused(own, "")
}

// The command of a job is one that runs: of a file that begins like a flag, of a plan, which inspect does not take, and not of counts below
// 0.
func TestCommandsOfJobsCanBeRun(t *testing.T) {
	p := planned(t)
	for _, end := range []string{".onnx", ".plan.json", ".stats"} {
		text, _ := p.store.Read("glyphs" + end)
		if p.store.Write("-a"+end, text); end == ".plan.json" {
			p.store.Write("-a"+end, bytes.ReplaceAll(text, []byte("glyphs.onnx"), []byte("-a.onnx")))
		}
	}
	assert.Equal(t, "qwb inspect ./-a.onnx", p.job("open", `{"file": "-a.plan.json"}`, nil).Command)
	assert.Equal(t, "qwb analyze ./-a.plan.json --samples 2 --graphwise", p.job("analyze", `{"samples": 2, "graphwise": true}`, nil).Command)
	var c workbench.Changed
	p.call("set", `{"select": "type:Conv", "properties": ["domain=fp32"]}`, &c)
	assert.Equal(t, "qwb set ./-a.plan.json type:Conv domain=fp32", c.Command)
	assert.Equal(t, "qwb inspect glyphs.onnx", p.job("open", `{"file": "glyphs.plan.json"}`, nil).Command)
	for _, o := range []string{`{"kind": "analyze", "options": {"samples": -5}}`, `{"kind": "compare", "options": {"runs": ["a", "b"], ` +
		`"layers": -1}}`} {
		assert.Equal(t, qwb.KindUsage, qwb.Describe(p.try("start", o, nil)).Kind, o)
	}
	assert.Equal(t, qwb.KindUsage, qwb.Describe(p.try("thumbnails", `{"data": ["data"], "samples": -5}`, nil)).Kind)
	assert.NoError(t, p.try("start", `{"kind": "eval", "options": {"data": ["data"], "labels": "labels.tsv", "label_offset": -1}}`, nil))
}
