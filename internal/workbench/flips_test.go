package workbench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/analysis"
	"qwb/analysis/language"
	"qwb/internal/workbench"
)

// The counts of flips are those of eval, in each mode.
func TestFlipsAreThoseOfEval(t *testing.T) {
	p := planned(t)
	p.call("set", `{"select": "type:Conv", "properties": ["observer=percentile(0.9)"]}`, nil) // a plan that changes some
	var f qwb.FlipsResult
	job := p.job("flips", `{"data": ["data"], "labels": "labels.tsv"}`, &f)
	assert.Equal(t, "qwb eval glyphs.plan.json --mode int8 --data data --labels labels.tsv", job.Command)
	require.NotNil(t, f.Int8Flips)
	for mode, want := range map[string][2]int{"sim": {*f.SimTop1, f.SimFlips}, "int8": {*f.Int8Top1, *f.Int8Flips}} {
		var a analysis.Accuracy
		p.job("eval", fmt.Sprintf(`{"mode": %q, "data": ["data"], "labels": "labels.tsv"}`, mode), &a)
		assert.Equal(t, want[0], a.Top1, mode)
		assert.Equal(t, want[1], a.Flips, mode)
	}
	assert.Equal(t, pictures, f.Samples)
	assert.Positive(t, f.SimFlips)
	changed := 0
	for _, c := range f.Changes {
		changed += c.Count
	}
	assert.Equal(t, *f.Int8Flips, changed)
	for _, r := range f.Flips {
		assert.True(t, r.Float.Class != r.Sim.Class || r.Float.Class != r.Int8.Class)
		assert.Len(t, r.Float.Top5, 5)
		assert.GreaterOrEqual(t, r.Float.Top5[0].P, r.Float.Top5[1].P)
		assert.Equal(t, r.Float.P, r.Float.Top5[0].P)
	}
	// The data are remembered, and all samples can be listed.
	var all qwb.FlipsResult
	p.job("flips", `{"all": true}`, &all)
	assert.Len(t, all.Flips, pictures)
	assert.Equal(t, f.Int8Flips, all.Int8Flips)
	// The error of one sample is what flips says of it, and its layers are there.
	var r workbench.SampleLayers
	p.call("sample-layers", fmt.Sprintf(`{"sample": %q}`, all.Flips[3].Sample), &r)
	require.NotEmpty(t, r.Layers)
	assert.InDelta(t, all.Flips[3].NSR, r.NSR, 1e-9*r.NSR)
	assert.Equal(t, qwb.KindUsage, qwb.Describe(p.try("sample-layers", `{"sample": "none"}`, nil)).Kind)
	var shown workbench.Thumbnails
	p.call("thumbnails", fmt.Sprintf(`{"names": [%q, %q]}`, all.Flips[3].Sample, all.Flips[5].Sample), &shown)
	assert.Len(t, shown.Items, 2)
}

// What the page measures and writes is what the project's methods do: a trial, a search, tuning, verification, export, sweep, comparison,
// import.
func TestEachKindOfJobWorks(t *testing.T) {
	p := planned(t)
	asCalibrated, _ := p.store.Read("glyphs.plan.json")
	p.store.Write("other.plan.json", asCalibrated)
	var d qwb.DoctorResult
	p.job("trial", `{"data": ["data"], "labels": "labels.tsv"}`, &d)
	assert.Equal(t, pictures, d.Samples)
	var x qwb.DispatchResult
	job := p.job("dispatch", `{"fp32": ["type:Gemm"]}`, &x)
	assert.Equal(t, "qwb dispatch glyphs.plan.json --fp32 type:Gemm", job.Command)
	var u qwb.TuneResult
	job = p.job("tune", `{"method": ["bias-analytic"], "force": true}`, &u)
	assert.Equal(t, "qwb tune glyphs.plan.json --method bias-analytic --force", job.Command)
	var v analysis.Verification
	p.job("verify", `{"samples": 2}`, &v)
	assert.True(t, v.Holds())
	var e qwb.ExportResult
	p.job("export", `{"output": "out.onnx"}`, &e)
	written, ok := p.store.Read("out.onnx")
	require.True(t, ok)
	assert.NotEmpty(t, written)
	var c qwb.CompareResult
	p.job("compare", `{"runs": ["glyphs.plan.json", "other.plan.json"], "data": ["data"], "labels": "labels.tsv", "layers": 0}`, &c)
	assert.Len(t, c.Runs, 2)
	var s qwb.SweepResult
	job = p.job("sweep", `{"observers": ["minmax", "robust"], "data": ["data"], "fresh": true}`, &s)
	assert.Equal(t, "qwb sweep glyphs.onnx --data data --observers minmax --observers robust --fresh -o glyphs.plan.json", job.Command)
	assert.Len(t, s.Rows, 2)
	var i qwb.ImportResult
	p.job("import", `{"model": "out.onnx"}`, &i)
	assert.Equal(t, "out.plan.json", i.Plan)
	var now state
	p.call("state", ``, &now)
	assert.Equal(t, "out.plan.json", now.Plan)
	r := p.run("dispatch", `{"auto": true, "max_nsr": 1e-12}`)
	require.NotNil(t, r.Job.Error)
	assert.Contains(t, []qwb.ErrorKind{qwb.KindCheck, qwb.KindUsage, qwb.KindFailed}, r.Job.Error.Kind)
}

func TestLanguageModels(t *testing.T) {
	shared := os.Getenv("QWB_TESTDATA")
	if shared == "" {
		t.Skip("QWB_TESTDATA is not set: no folder with models")
	}
	dir := t.TempDir()
	for _, name := range []string{"stories260K.bin", "tok512.bin"} {
		b, err := os.ReadFile(filepath.Join(shared, "models", "llm", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	}
	text := filepath.Join(dir, "text.txt")
	require.NoError(t, os.WriteFile(text, []byte("Once upon a time there was a little girl named Lily.\n"+
		"Tim had a red ball. He liked to play with it.\n"), 0o644))
	b := workbench.New(workbench.Options{Project: qwb.Project{Catalog: qwb.Standard("test")}, Threads: 2})
	t.Cleanup(b.Close)
	p := &page{t, b, nil, b.Revision()}
	model, tokenizer := filepath.Join(dir, "stories260K.bin"), filepath.Join(dir, "tok512.bin")
	p.job("open", fmt.Sprintf(`{"file": %q}`, model), nil)
	var s struct{ Language bool }
	p.call("state", ``, &s)
	assert.True(t, s.Language)
	how := fmt.Sprintf(`"tokenizer": %q, "bits": 4, "group_size": 64`, tokenizer)
	var l language.Layers
	job := p.job("language-rank", fmt.Sprintf(`{"text": %q, %s}`, text, how), &l)
	assert.Contains(t, job.Command, "qwb analyze "+model)
	assert.NotEmpty(t, l.Layerwise)
	var r language.Result
	p.job("language-eval", fmt.Sprintf(`{"text": %q, %s}`, text, how), &r)
	assert.Positive(t, r.Tokens)
	require.Len(t, r.PerToken, r.Tokens) // all of a short text, and they add up to the figures of the whole
	var sum language.TokenScore
	flips, said := 0, map[string]string{}
	for _, x := range r.PerToken {
		sum.NLL, sum.FloatNLL, sum.Change, sum.KL = sum.NLL+x.NLL, sum.FloatNLL+x.FloatNLL, sum.Change+x.Change, sum.KL+x.KL
		said[x.Sequence] += x.Text
		if x.Flip {
			flips++
		}
	}
	n := float64(r.Tokens)
	assert.InDelta(t, r.MeanNLL, sum.NLL/n, 1e-9)
	assert.InDelta(t, r.FloatMeanNLL, sum.FloatNLL/n, 1e-9)
	assert.InDelta(t, r.NLLChange, sum.Change/n, 1e-9)
	assert.InDelta(t, r.KL, sum.KL/n, 1e-9)
	assert.Equal(t, r.Flips, flips)
	assert.Equal(t, map[string]string{"line 1": "Once upon a time there was a little girl named Lily.",
		"line 2": "Tim had a red ball. He liked to play with it."}, said)
	var two workbench.TwoTexts
	p.job("language-generate", fmt.Sprintf(`{"prompt": "Once upon a time", "tokens": 60, %s}`, how), &two)
	assert.Equal(t, two.Float.Text, strings.Join(two.Float.Tokens, ""))
	require.GreaterOrEqual(t, two.Differs, two.Prompt) // 4 bits change a model of 260,000 parameters
	for i := range two.Differs {
		assert.Equal(t, two.Float.Tokens[i], two.Quantized.Tokens[i])
	}
	assert.NotEqual(t, two.Float.Tokens[two.Differs], two.Quantized.Tokens[two.Differs])
	assert.Equal(t, qwb.KindUsage, qwb.Describe(p.try("start", `{"kind": "language-rank", "options": {"text": "x"}}`, nil)).Kind)
}
