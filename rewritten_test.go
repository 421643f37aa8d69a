package qwb

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/calib"
	"qwb/calib/tune"
	"qwb/export/all"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/internal/work/planning"
	worktune "qwb/internal/work/tune"
	"qwb/quantizer/overlay"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/target"
)

// placeClipped is place with the first activation clipped at 2.
func placeClipped(t *testing.T, store *Memory) *Project {
	t.Helper()
	place(t, store, "m", 3)
	text := strings.Replace(network, "r1 = Relu(c1)", "const lo: f32[] = [0]; const hi: f32[] = [2]\nr1 = Clip(c1, lo, hi)", 1)
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, text)}).Write(&b))
	store.Write("m.onnx", b.Bytes())
	return &Project{Model: "m.onnx", Plan: "m" + PlanSuffix, Store: store,
		Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
}

// step multiplies the channels of conv1 by factors from 1/2 to 2.
func step() rewrite.Step {
	s := rewrite.Step{Kind: "scale", At: "conv1", Vectors: map[string][]float32{"scale": make([]float32, 16)}}
	for i := range s.Vectors["scale"] {
		s.Vectors["scale"][i] = 0.5 + float32(i)*0.1
	}
	return s
}

// rewriteBy tunes a plan by a step, which is kept by force, and corrects biases after it.
func rewriteBy(t *testing.T, p *Project, s rewrite.Step) {
	t.Helper()
	ctx := context.Background()
	c, err := planning.NewChange(ctx, p.job(), 1)
	require.NoError(t, err)
	defer c.Close()
	tn, err := worktune.Tuning(ctx, c, TuneOptions{Force: true, AllowFP32: true, Threads: 2})
	require.NoError(t, err)
	method := &tune.Method{Name: "by-hand", Run: func(ctx context.Context, b *tune.Bench) (*tune.Report, error) {
		next, err := b.Rewrite(ctx, b, append(b.Steps[:len(b.Steps):len(b.Steps)], s))
		if err != nil {
			return nil, err
		}
		b.Reference, b.Steps, b.Graph, b.Set, b.Frozen, b.Simulate, b.Sums = next.Reference, next.Steps, next.Graph, next.Set, next.Frozen,
			next.Simulate, next.Sums
		return &tune.Report{Layers: []tune.Layer{{Node: s.At, Kept: true}}}, nil
	}}
	r := &TuneResult{}
	r.Methods, err = tn.Bench.Tune(ctx, method, &tune.Bias)
	require.NoError(t, err)
	found, err := tn.Settle(ctx, 1)
	require.NoError(t, err)
	require.Less(t, found.Steps.NSR, 1e-10)
	_, err = tn.Write(found, r, TuneOptions{Methods: []string{"by-hand", "bias"}})
	require.NoError(t, err)
}

func calibrated3(t *testing.T, p *Project) {
	t.Helper()
	_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "onnxruntime",
		Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
}

func files(t *testing.T, store *Memory, match func(plan, name string) bool) (list []string) {
	t.Helper()
	entries, err := fs.ReadDir(store, ".")
	require.NoError(t, err)
	for _, e := range entries {
		if match("m.plan.json", e.Name()) {
			list = append(list, e.Name())
		}
	}
	return list
}

func content(t *testing.T, store *Memory, name string) []byte {
	t.Helper()
	b, err := fs.ReadFile(store, name)
	require.NoError(t, err)
	return b
}

// A rewritten plan verifies, exports, is changed, undone and done again as any other.
func TestRewrittenPlan(t *testing.T) {
	for _, place := range []func(*testing.T, *Memory) *Project{
		func(t *testing.T, s *Memory) *Project { return place(t, s, "m", 3) },
		placeClipped,
	} {
		ctx, store := context.Background(), new(Memory)
		p := place(t, store)
		calibrated3(t, p)
		before, stats := content(t, store, p.Plan), content(t, store, "m.stats")
		rewriteBy(t, p, step())
		derivesAgain(t, p)
		after := content(t, store, p.Plan)
		require.Len(t, files(t, store, overlay.Belongs), 1)
		observed := files(t, store, overlay.StatisticsBelong)
		require.Len(t, observed, 1)
		require.Equal(t, stats, content(t, store, "m.stats"))
		some, err := calib.Read(bytes.NewReader(content(t, store, observed[0])), int64(len(content(t, store, observed[0]))))
		require.NoError(t, err)
		require.NotContains(t, some.Names(), "x")
		require.NotContains(t, some.Names(), "y")
		require.Contains(t, some.Names(), "c1")

		planned, _, err := p.OpenPlan()
		require.NoError(t, err)
		require.Empty(t, planned.Stale)
		id, _ := planned.Reference.LookupNode("conv1")
		first, _ := planned.Loaded.LookupNode("conv1")
		w, was := planned.Reference.Const(planned.Reference.Node(id).Input(1)).F32(),
			planned.Loaded.Const(planned.Loaded.Node(first).Input(1)).F32()
		require.InEpsilon(t, 0.5, w[0]/was[0], 1e-6)
		require.InEpsilon(t, 2, w[len(w)-1]/was[len(was)-1], 1e-6)
		require.NoError(t, planned.Close())

		v, _, err := p.Verify(ctx, VerifyOptions{Data: DataOptions{Samples: 2}})
		require.NoError(t, err)
		require.Zero(t, v.IntegersDifferent)
		require.Positive(t, v.IntegersCompared)
		for _, o := range []ExportOptions{{Platform: "onnxruntime", Out: "q.onnx"}, {Format: "c", Out: "q.c"}} {
			_, _, err = p.Export(ctx, o)
			require.NoError(t, err)
		}
		exported := content(t, store, "q.onnx")
		_, _, err = p.Analyze(ctx, AnalyzeOptions{Config: analysis.Config{Layerwise: true, Statistical: true}})
		require.NoError(t, err)
		_, _, err = p.Log(ctx)
		require.NoError(t, err)
		x, _, err := p.Explain(ctx, "conv1")
		require.NoError(t, err)
		require.Equal(t, []string{"step 1: scale at conv1, scale of 16 channels from 0.5 to 2"}, x.Steps)

		// Decisions after it, and taken back.
		_, _, err = p.Set(ctx, "conv2:out0", []string{"observer=mse"}, 1)
		require.NoError(t, err)
		derivesAgain(t, p)
		_, _, err = p.Verify(ctx, VerifyOptions{Data: DataOptions{Samples: 1}})
		require.NoError(t, err)
		_, _, err = p.Undo(ctx, 1)
		require.NoError(t, err)

		_, _, err = p.Undo(ctx, 1)
		require.NoError(t, err)
		undone, _, err := p.job().ReadPlan(p.Plan)
		require.NoError(t, err)
		store.Write("old.json", before)
		old, _, err := p.job().ReadPlan("old.json")
		require.NoError(t, err)
		require.Equal(t, old.Nodes, undone.Nodes)
		require.Equal(t, old.Warnings, undone.Warnings)
		_, _, err = p.Redo(ctx, 1)
		require.NoError(t, err)
		again, _, err := p.job().ReadPlan(p.Plan)
		require.NoError(t, err)
		again.Redo, again.Verification = nil, nil
		encoded, err := again.Encode()
		require.NoError(t, err)
		require.Equal(t, string(after), string(encoded))
		_, _, err = p.Export(ctx, ExportOptions{Platform: "onnxruntime", Out: "q2.onnx"})
		require.NoError(t, err)
		require.Equal(t, exported, content(t, store, "q2.onnx"))

		// Calibrating again with nothing new keeps it; tuning goes on from it without observing anything.
		_, _, err = p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Threads: 1})
		require.NoError(t, err)
		derivesAgain(t, p)
		r, _, err := p.Tune(ctx, TuneOptions{Methods: []string{"bias"}, Force: true, Threads: 1})
		require.NoError(t, err)
		require.Equal(t, 1, r.Steps)
		require.Equal(t, observed, files(t, store, overlay.StatisticsBelong))
	}
}

// What was observed of a rewritten graph is what calibrating that graph observes.
func TestRewrittenStatistics(t *testing.T) {
	store := new(Memory)
	p := place(t, store, "m", 3)
	calibrated3(t, p)
	rewriteBy(t, p, step())
	planned, _, err := p.OpenPlan()
	require.NoError(t, err)
	c, err := planning.NewChange(context.Background(), p.job(), 1)
	require.NoError(t, err)
	defer c.Close()
	d := c.Derivation
	for _, name := range []string{"c1", "r1", "a", "cat"} {
		require.NotEqual(t, d.Base.Tensor(name), d.Stats.Tensor(name), name)
	}
	require.Same(t, d.Base.Tensor("x"), d.Stats.Tensor("x"))
	require.Same(t, d.Base.Tensor("y"), d.Stats.Tensor("y"))

	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: planned.Reference}).Write(&b))
	other := new(Memory)
	place(t, other, "m", 3)
	other.Write("m.onnx", b.Bytes())
	q := &Project{Model: "m.onnx", Plan: "m" + PlanSuffix, Store: other, Catalog: p.Catalog}
	calibrated3(t, q)
	theirs, _, err := planning.ReadStats(q.job(), "m.stats", nil)
	require.NoError(t, err)
	for _, name := range []string{"c1", "r1", "c2", "a", "r2", "p", "cat", "f"} {
		a, b := theirs.Tensor(name), d.Stats.Tensor(name)
		x, err := a.State.MarshalBinary()
		require.NoError(t, err)
		y, err := b.State.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, x, y, name)
		require.Equal(t, a.Halves, b.Halves, name)
	}
}

// Files that are gone or changed are an error with the way out; calibrating again leaves out what was tuned.
func TestRewrittenFilesAreLost(t *testing.T) {
	ctx, store := context.Background(), new(Memory)
	p := place(t, store, "m", 3)
	calibrated3(t, p)
	rewriteBy(t, p, step())
	was := content(t, store, p.Plan)
	name := files(t, store, overlay.StatisticsBelong)[0]
	good := content(t, store, name)
	store.Write(name, append(bytes.Clone(good), 0))
	_, _, err := p.Set(ctx, "conv2", []string{"domain=fp32"}, 1)
	require.ErrorContains(t, err, "the statistics of the tensors that tuning changed were changed")
	require.Equal(t, was, content(t, store, p.Plan))
	_, warnings, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Threads: 1})
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(warnings), "not used; run qwb tune again")
	planned, _, err := p.OpenPlan()
	require.NoError(t, err)
	require.Nil(t, planned.Overlay)
}

// Without the data that a plan was made from nothing can be observed again: an error, and the plan stays as it is.
func TestRewriteWithoutData(t *testing.T) {
	ctx, store := context.Background(), new(Memory)
	p := place(t, store, "m", 3)
	calibrated3(t, p)
	was := content(t, store, p.Plan)
	for i := range 4 { // the samples move, and others lie where they were
		store.Write(fmt.Sprintf("n/%02d.npy", i), content(t, store, fmt.Sprintf("m/%02d.npy", i)))
		store.Write(fmt.Sprintf("m/%02d.npy", i), content(t, store, fmt.Sprintf("n/%02d.npy", 0)))
	}
	c, err := planning.NewChange(ctx, p.job(), 1)
	require.NoError(t, err)
	tn, err := worktune.Tuning(ctx, c, TuneOptions{Force: true, Threads: 1, Data: DataOptions{Paths: []string{"n"}}})
	require.NoError(t, err)
	_, err = tn.Bench.Rewrite(ctx, tn.Bench, []rewrite.Step{step()})
	require.ErrorContains(t, err, "the plan's data are not those that it was made from")
	require.Equal(t, was, content(t, store, p.Plan))
}

// Steps that do not keep the function are refused, whatever kind says that they do.
func TestStepsAreChecked(t *testing.T) {
	ctx, store := context.Background(), new(Memory)
	p := place(t, store, "m", 3)
	calibrated3(t, p)
	c, err := planning.NewChange(ctx, p.job(), 1)
	require.NoError(t, err)
	tn, err := worktune.Tuning(ctx, c, TuneOptions{Force: true, Threads: 1})
	require.NoError(t, err)
	kinds := rewrite.Kinds
	t.Cleanup(func() { rewrite.Kinds = kinds })
	rewrite.Kinds = append(kinds[:len(kinds):len(kinds)], &rewrite.Kind{Name: "wrong", Apply: func(g *graph.Graph, s *rewrite.Step) error {
		id, _ := g.LookupNode(s.At)
		w := g.Const(g.Node(id).Inputs[1]).Clone()
		w.F32()[0] *= 1.5
		g.SetConst(g.Node(id).Inputs[1], w)
		return nil
	}})
	_, err = tn.Bench.Rewrite(ctx, tn.Bench, []rewrite.Step{{Kind: "wrong", At: "conv1"}})
	require.ErrorContains(t, err, "the float outputs are not the model's any more")
	_, err = tn.Bench.Rewrite(ctx, tn.Bench, []rewrite.Step{{Kind: "scale", At: "relu1"}})
	var broken *rewrite.Broken
	require.ErrorAs(t, err, &broken)
}

// A step that does not fit any more is stale: the plan is read, and undone, but neither verified nor exported.
func TestBrokenSteps(t *testing.T) {
	ctx, store := context.Background(), new(Memory)
	p := place(t, store, "m", 3)
	calibrated3(t, p)
	kinds := rewrite.Kinds
	t.Cleanup(func() { rewrite.Kinds = kinds })
	rewrite.Kinds = append(kinds[:len(kinds):len(kinds)], &rewrite.Kind{Name: "later", Apply: func(*graph.Graph, *rewrite.Step) error {
		return nil
	}})
	rewriteBy(t, p, rewrite.Step{Kind: "later", At: "conv1"})
	planned, _, err := p.OpenPlan()
	require.NoError(t, err)
	require.Empty(t, planned.Stale)

	rewrite.Kinds = kinds
	planned, warnings, err := p.OpenPlan()
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(warnings), "this program knows no such kind of step")
	require.Equal(t, "conv1", planned.Stale[0].At)
	for _, run := range []func() error{
		func() error { _, _, err := p.Verify(ctx, VerifyOptions{Data: DataOptions{Samples: 1}}); return err },
		func() error {
			_, _, err := p.Export(ctx, ExportOptions{Platform: "onnxruntime", Out: "q.onnx"})
			return err
		},
	} {
		var failed CheckError
		require.ErrorAs(t, run(), &failed)
	}
	_, _, err = p.Undo(ctx, 1)
	require.NoError(t, err)
	_, _, err = p.Verify(ctx, VerifyOptions{Data: DataOptions{Samples: 1}})
	require.NoError(t, err)
}

// Where a target computes nothing in float, no step may bring an operator that only float has: the bounds behind a Clip.
func TestRewriteWithoutFloat(t *testing.T) {
	ctx, store := context.Background(), new(Memory)
	p := placeClipped(t, store)
	calibrated3(t, p)
	c, err := planning.NewChange(ctx, p.job(), 1)
	require.NoError(t, err)
	tn, err := worktune.Tuning(ctx, c, TuneOptions{Force: true, AllowFP32: true, Threads: 1})
	require.NoError(t, err)
	_, err = tn.Bench.Rewrite(ctx, tn.Bench, []rewrite.Step{step()})
	require.NoError(t, err)
	absent := *c.Planned.Target
	absent.Float = target.FloatAbsent
	c.Planned.Target = &absent
	_, err = tn.Bench.Rewrite(ctx, tn.Bench, []rewrite.Step{step()})
	require.ErrorContains(t, err, `node "relu1/min" (Min`)
	require.ErrorContains(t, err, "computes nothing in float")
}
