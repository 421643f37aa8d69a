package qwb_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/quantizer/tqc"
)

// own is a calibrated project of the network with operators of its own.
func own(t *testing.T) (*qwb.Project, *qwb.Memory) {
	t.Helper()
	store := new(qwb.Memory)
	network(store)
	p := &qwb.Project{Model: "net.onnx", Plan: "net.plan.json", Store: store, Catalog: acme()}
	_, _, err := p.Calibrate(context.Background(), qwb.CalibrateOptions{Platform: "acme_npu",
		Data: qwb.DataOptions{Paths: []string{"inputs"}}})
	require.NoError(t, err)
	return p, store
}

// Every stage takes operators, observers and platforms that a program brings along, and the exported model is computed by a program that
// has the operators: as the plan's simulation, with the operators as they were.
func TestOwn(t *testing.T) {
	ctx := context.Background()
	p, store := own(t)
	v, _, err := p.Verify(ctx, qwb.VerifyOptions{})
	require.NoError(t, err)
	require.NotEqual(t, "different", v.Verdict)
	_, _, err = p.Eval(ctx, qwb.EvalOptions{Mode: "fp32"})
	require.ErrorContains(t, err, "label")
	e, _, err := p.Eval(ctx, qwb.EvalOptions{Mode: "sim"})
	require.NoError(t, err)
	require.Equal(t, "float", e.Scores[0].Against)

	d, _, err := p.Set(ctx, "c_Conv:out0", []string{"observer=acme/deviations(2)"}, 1)
	require.NoError(t, err)
	require.Equal(t, tqc.Observer("acme/deviations(2)"), d.Decisions[0].Observer)

	r, _, err := p.Export(ctx, qwb.ExportOptions{Platform: "acme_npu", Format: "onnx", Out: "net.int8.onnx"})
	require.NoError(t, err)
	q := &qwb.Project{Model: r.File, Store: store, Catalog: acme()}
	m, _, err := q.OpenModel()
	require.NoError(t, err)
	defer m.Close()
	ops := map[string]int{}
	for _, id := range m.Graph.Nodes() {
		ops[m.Graph.Node(id).Op]++
	}
	require.Equal(t, 1, ops["Flip"])
	require.Equal(t, 1, ops["Swoosh"])
	require.Equal(t, int64(1), m.Graph.Opset("acme"))
	_, err = exec.New(m.Graph, exec.Options{})
	require.NoError(t, err)
}

// A program that lacks what a model or a plan names says so.
func TestNotOwn(t *testing.T) {
	ctx := context.Background()
	p, _ := own(t)
	plain := qwb.Standard("1.0")
	plain.Platforms = p.Catalog.Platforms

	without := *p
	without.Catalog = plain
	_, _, err := without.Analyze(ctx, qwb.AnalyzeOptions{})
	var missing *exec.UnsupportedError
	require.ErrorAs(t, err, &missing)
	require.Len(t, missing.Ops, 2)

	without.Catalog.Operators = p.Catalog.Operators
	_, _, err = without.Analyze(ctx, qwb.AnalyzeOptions{})
	require.NoError(t, err, "a plan is understood without the observer that found its scales")
	_, _, err = without.Set(ctx, "a_Conv", []string{"domain=fp32"}, 1)
	require.ErrorContains(t, err, `observer "acme/deviations" belongs to a program that brings it along, which this one is not`)
	_, _, err = without.Calibrate(ctx, qwb.CalibrateOptions{Platform: "onnxruntime", Observer: "acme/deviations"})
	require.ErrorContains(t, err, "unknown observer")
	require.True(t, errors.As(err, new(qwb.UsageError)))

	wrong := *swoosh
	wrong.Domain = ""
	without.Catalog.Operators = []*graph.Operator{&wrong}
	_, _, err = without.Inspect(ctx)
	require.True(t, errors.As(err, new(qwb.UsageError)), "%v", err)
}
