package tune

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/target"
)

// The outputs on samples that nothing was learnt of come nearer to the float network's, scales are learnt, and threads change no number.
func TestDistill(t *testing.T) {
	run := func(threads int) *Bench {
		b, _ := benchOf(t, fewBitTarget(), 24, 24)
		b.BlockSteps, b.Threads = 60, threads
		reports, err := b.Tune(context.Background(), &Distill)
		require.NoError(t, err)
		r := reports[0]
		require.True(t, r.Confirmed, "%s %v", r.Note, r.Layers)
		require.Less(t, r.After.NSR, 0.9*r.Before.NSR)
		require.NotEmpty(t, b.Chosen)
		return b
	}
	one, three := run(1), run(3)
	for _, v := range one.Graph.Values() {
		require.Equal(t, one.Graph.Const(v), three.Graph.Const(v), one.Graph.Value(v).Name)
	}
	require.Equal(t, one.Chosen, three.Chosen)
}

// A step takes as many samples as there is memory for.
func TestDistillKeepsToTheMemory(t *testing.T) {
	b, _ := benchOf(t, &target.TRTInt8, 24, 24)
	k, err := b.whole()
	require.NoError(t, err)
	b.ready()
	b.Memory = 24 * runBytes(b.Graph)
	p, err := b.passage([]*block{k})
	require.NoError(t, err)
	require.NoError(t, p.run(context.Background(), k, p.list, true))
	l, err := p.lesson(k)
	require.NoError(t, err)
	require.Equal(t, lessonBatch, l.batch)
	b.Memory = 3 * runBytes(b.Graph)
	l, err = p.lesson(k)
	require.NoError(t, err)
	require.Less(t, l.batch, 4)
}
