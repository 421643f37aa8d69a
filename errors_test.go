package qwb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/quantizer/decision"
)

// What goes wrong has a type that errors.As finds, and says where as data, without a word of it being read out of the text.
func TestDescribe(t *testing.T) {
	ctx := context.Background()
	p, store := own(t)
	store.Write("text.onnx", []byte("this is no model"))
	with := func(change func(*qwb.Project)) *qwb.Project {
		q := *p
		change(&q)
		return &q
	}
	for _, c := range []struct {
		name string
		do   func() error
		as   any
		want qwb.Fault
	}{
		{"no such platform", func() error {
			_, _, err := p.Calibrate(ctx, qwb.CalibrateOptions{Platform: "tpu"})
			return err
		}, new(qwb.UsageError), qwb.Fault{Kind: qwb.KindUsage}},
		{"no such model", func() error {
			_, _, err := with(func(p *qwb.Project) { p.Model = "none.onnx" }).Inspect(ctx)
			return err
		}, new(*fs.PathError), qwb.Fault{Kind: qwb.KindInput, File: "none.onnx"}},
		{"no model", func() error {
			_, _, err := with(func(p *qwb.Project) { p.Model = "text.onnx" }).Inspect(ctx)
			return err
		}, new(*qwb.FileError), qwb.Fault{Kind: qwb.KindInput, Stage: "load", File: "text.onnx"}},
		{"unknown operators", func() error {
			_, _, err := with(func(p *qwb.Project) { p.Catalog.Operators = nil }).Analyze(ctx, qwb.AnalyzeOptions{})
			return err
		}, new(*qwb.UnsupportedError), qwb.Fault{Kind: qwb.KindUnsupported, Op: "Flip", Node: "b_Flip"}},
		{"a decision that cannot be kept", func() error {
			_, _, err := p.Set(ctx, "d_Swoosh", []string{"domain=int"}, 1)
			return err
		}, new(*qwb.DecisionError), qwb.Fault{Kind: qwb.KindDecision, Stage: "dispatch", Node: "d_Swoosh", Op: "Swoosh"}},
		{"an operator that fails", func() error {
			failing := graph.Operator{OpSpec: swoosh.OpSpec, Eval: swoosh.Eval}
			failing.Infer = func(*graph.InferCtx) error { return errors.New("no") }
			q := with(func(p *qwb.Project) { p.Catalog.Operators = []*graph.Operator{&failing, flip} })
			_, _, err := q.Analyze(ctx, qwb.AnalyzeOptions{})
			return err
		}, new(*qwb.NodeError), qwb.Fault{Kind: qwb.KindInput, Stage: "execute", Node: "d_Swoosh", Op: "Swoosh"}},
		{"canceled", func() error {
			done, cancel := context.WithCancel(ctx)
			cancel()
			_, _, err := p.Analyze(done, qwb.AnalyzeOptions{})
			return err
		}, nil, qwb.Fault{Kind: qwb.KindCanceled}},
		{"a check that does not hold", func() error { return fmt.Errorf("export: %w", qwb.Checkf("it differs")) }, new(qwb.CheckError),
			qwb.Fault{Kind: qwb.KindCheck}},
		{"changed meanwhile", func() error { return fmt.Errorf("set: %w", &qwb.ChangedError{Name: "m.plan.json"}) }, new(*qwb.ChangedError),
			qwb.Fault{Kind: qwb.KindChanged, File: "m.plan.json"}},
		{"too large", func() error { return &qwb.NodeError{Stage: "execute", Node: "n", Op: "Conv", Err: &exec.MemoryError{}} },
			new(*qwb.MemoryError), qwb.Fault{Kind: qwb.KindMemory, Stage: "execute", Node: "n", Op: "Conv"}},
		{"anything else", func() error { return errors.New("two\nlines") }, nil, qwb.Fault{Kind: qwb.KindFailed, Message: "two; lines"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.do()
			require.Error(t, err)
			if c.as != nil {
				require.True(t, errors.As(err, c.as), "%T: %v", err, err)
			}
			got := qwb.Describe(err)
			require.NotContains(t, got.Message, "\n")
			if c.want.Message == "" {
				c.want.Message = got.Message
			}
			require.Equal(t, c.want, got, "%v", err)
		})
	}
	b, err := json.Marshal(qwb.Describe(&graph.FileError{Stage: "load", File: "m.onnx",
		Err: &decision.Error{Number: 1, Err: errors.New("x")}}))
	require.NoError(t, err)
	require.JSONEq(t, `{"kind":"decision","stage":"load","file":"m.onnx","message":"load: m.onnx: decision #1 (): x"}`, string(b))
}
