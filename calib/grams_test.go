package calib

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/graphtest"
	"qwb/observers"
)

// gramsOf returns the moments of summedNet over samples, in one pass.
func gramsOf(t *testing.T, samples exec.Iterator, threads int) ([]*GramOp, GramSamples) {
	g := graphtest.Parse(t, summedNet)
	require.Empty(t, graph.InferShapes(g))
	stats, err := Run(context.Background(), g, summedSamples(20, 9, 11), Config{})
	require.NoError(t, err)
	passes, left, err := GramPasses(g, stats, 1<<30, threads, func(string) bool { return false })
	require.NoError(t, err)
	require.Empty(t, left)
	require.Len(t, passes, 1)
	done, err := RunGrams(context.Background(), g, passes[0], samples, GramSamples{}, nil, threads, nil)
	require.NoError(t, err)
	return passes[0], done
}

// The means of moments are those of the exact sums, to within the fixed point; held-out samples are in no sum.
func TestGramsAgreeWithSums(t *testing.T) {
	data := summedSamples(20, 9, 11)
	ops, done := gramsOf(t, data, 3)
	require.Equal(t, 20, done.Seen)
	require.NotEmpty(t, done.Summed)
	require.Less(t, len(done.Summed), 20)
	g := graphtest.Parse(t, summedNet)
	sums := naiveSums(t, g, data)
	require.Len(t, ops, len(readers))
	for i, op := range ops {
		require.Equal(t, readers[i], op.Node)
		want := sums[op.Node]
		require.Equal(t, want.Count, op.Gram.Count[0])
		for group := range op.Gram.Groups {
			for k, v := range op.Gram.Mean(group) {
				tap, c := k%want.Taps, group*op.Gram.K/want.Taps+k/want.Taps
				require.InDelta(t, want.Mean(tap, c), v, op.Gram.X.Step/2, "%s, element %d", op.Node, k)
			}
		}
	}
}

// Damage anywhere in a file is found, when it is opened or when the operator is read.
func TestGramFileDamage(t *testing.T) {
	ops, done := gramsOf(t, summedSamples(8, 9, 11), 1)
	ops = ops[:2]
	var b bytes.Buffer
	h := &GramHead{Model: "m", Preprocess: "p", Ranges: "r", Shard: 1, Shards: 1, Total: 8, Seen: 8, Summed: done.Summed, Operators: len(ops)}
	require.NoError(t, WriteGrams(&b, h, func(put func(string, *observers.Gram) error) error {
		for _, op := range ops {
			if err := put(op.Node, op.Gram); err != nil {
				return err
			}
		}
		return nil
	}))
	readAll := func(b []byte) error {
		f, err := OpenGrams(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return err
		}
		for _, n := range f.Nodes {
			if _, err := f.Gram(n); err != nil {
				return err
			}
		}
		return nil
	}
	require.NoError(t, readAll(b.Bytes()))
	f, err := OpenGrams(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	require.Equal(t, []string{"c1", "c2"}, f.Nodes)
	none, err := f.Gram("nobody")
	require.NoError(t, err)
	require.Nil(t, none)
	for i := 0; i < b.Len(); i += 1 + b.Len()/499 {
		bad := bytes.Clone(b.Bytes())
		bad[i] ^= 4
		require.Error(t, readAll(bad), "byte %d", i)
		require.Error(t, readAll(b.Bytes()[:i]), "cut to %d", i)
	}
	require.Error(t, readAll(append(bytes.Clone(b.Bytes()), 0)))
}
