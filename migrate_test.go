package qwb

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// version1 is a project with a plan that the last version to write version 1 of the file made (85b439b), of the network in
// testdata/version1: calibrate --observer auto and dispatch --fp32 type:Gemm (auto), dispatch --auto --max-nsr 4e-5 (search), and
// calibrate --observer minmax --per-tensor with a scale that was edited (edited).
func version1(t *testing.T, name string, stats bool) *Project {
	t.Helper()
	store := new(Memory)
	for file, as := range map[string]string{"m.onnx": "m.onnx", name + ".plan.json": name + ".plan.json", "m.stats": name + ".stats"} {
		b, err := os.ReadFile(filepath.Join("testdata", "version1", file))
		require.NoError(t, err)
		if file != "m.stats" || stats {
			store.Write(as, b)
		}
	}
	return &Project{Model: "m.onnx", Plan: name + ".plan.json", Store: store}
}

// A plan of version 1 is brought over with the numbers it has: options, reasons, choices and what was edited become decisions.
func TestVersion1IsBroughtOver(t *testing.T) {
	ctx := context.Background()
	for name, want := range map[string][]string{
		"auto":   {"calibrate: observer=auto per_tensor=false", "target: dispatcher=conservative border_cost=26", "user: gemm domain=fp32"},
		"search": {"calibrate: observer=auto per_tensor=false", "search: nsr 4e-05: "},
		"edited": {"calibrate: observer=minmax per_tensor=true", "target: dispatcher=conservative border_cost=64",
			"user: conv1:in0 scale=0.0625 zero_point=0"},
	} {
		p := version1(t, name, true)
		before := planIn(t, p)
		require.NotNil(t, before.Options)
		log, _, err := p.Log(ctx)
		require.NoError(t, err, name)
		require.Equal(t, 1, log.Version)
		text := ""
		for _, l := range log.Decisions {
			text += l.Text() + "\n"
		}
		for _, line := range want {
			require.Contains(t, text, line, name)
		}
		require.Equal(t, before, planIn(t, p), "looking changes nothing")
		show, _, err := p.Show()
		require.NoError(t, err)
		require.Equal(t, 1, show.Version)

		// Undoing the first change leads to what was brought over: the numbers of the file.
		_, _, err = p.Set(ctx, "conv2", []string{"domain=fp32"}, 1)
		require.NoError(t, err, name)
		require.Nil(t, planIn(t, p).Options)
		_, _, err = p.Undo(ctx, 1)
		require.NoError(t, err, name)
		after := planIn(t, p)
		for i := range after.Nodes {
			a, b := &before.Nodes[i], &after.Nodes[i]
			require.Equal(t, a.Domain, b.Domain, a.Name)
			for k := range a.Slots {
				require.Equal(t, []any{a.Slots[k].State, a.Slots[k].Scale, a.Slots[k].ZeroPoint, a.Slots[k].Root},
					[]any{b.Slots[k].State, b.Slots[k].Scale, b.Slots[k].ZeroPoint, b.Slots[k].Root},
					"%s: %s:%s", name, a.Name, a.Slots[k].At)
			}
		}
		derivesAgain(t, p)
	}
}

// Without its statistics a plan of version 1 is read and cannot be changed; nor can one that no decisions give.
func TestVersion1ThatCannotBeBroughtOver(t *testing.T) {
	ctx := context.Background()
	p := version1(t, "auto", false)
	before := string(get(t, p, p.Plan))
	_, _, err := p.Show()
	require.NoError(t, err)
	_, _, err = p.Set(ctx, "conv1", []string{"observer=kl"}, 1)
	require.ErrorContains(t, err, "auto.plan.json cannot be changed without its statistics")
	require.Equal(t, before, string(get(t, p, p.Plan)))

	p = version1(t, "auto", true)
	f := planIn(t, p)
	for i := range f.Nodes[0].Slots {
		if s := &f.Nodes[0].Slots[i]; s.At == "in2" {
			s.Scale[0] *= 2 // a bias has no scale of its own
		}
	}
	b, err := f.Encode()
	require.NoError(t, err)
	put(t, p.job().Files(), p.Plan, b)
	_, _, err = p.Set(ctx, "conv1", []string{"observer=kl"}, 1)
	require.ErrorContains(t, err, "is a plan of version 1 and cannot be converted: no decision can express its values at conv1:in2")
	require.Equal(t, string(b), string(get(t, p, p.Plan)))
}
