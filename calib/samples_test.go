package calib

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/observers"
	"qwb/quantizer/plan"
)

// The extents sample by sample are those of each sample's own tensors: threads, batches, and what Relu and Clip take from the tensor before
// them, make no difference.
func TestExtentsOfSamples(t *testing.T) {
	g := graphtest.Parse(t, summedNet)
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	want := map[string]*observers.SampleExtents{}
	for _, s := range summedSamples(7, 9, 11).list {
		values, err := session.NewRunner().RunAll(context.Background(), s.Feeds, nil, nil)
		require.NoError(t, err)
		values[g.Inputs[0]] = s.Feeds["x"]
		for v, x := range values {
			if x == nil || x.DType != tensor.Float32 {
				continue
			}
			extent := observers.NoExtent
			for _, f := range x.F32() {
				extent = extent.Union(observers.Extent{Min: f, Max: f})
			}
			name := g.Value(graph.ValueID(v)).Name
			if want[name] == nil {
				want[name] = new(observers.SampleExtents)
			}
			want[name].Add(extent)
		}
	}
	for _, cfg := range []Config{{}, {Threads: 3}, {Threads: 2, Batch: 3}, {MinMaxOnly: true}} {
		stats, err := Run(context.Background(), g, summedSamples(7, 9, 11), cfg)
		require.NoError(t, err)
		for _, name := range stats.Names() {
			require.Equal(t, want[name], stats.Tensor(name).State.Samples(), "%s %+v", name, cfg)
		}
		var file bytes.Buffer
		require.NoError(t, stats.Write(&file))
		back, err := Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
		require.NoError(t, err)
		require.Equal(t, want["c1"], back.Tensor("c1").State.Samples())
	}
}

// Sections that are added change no plan: what identifies the ranges is the same without them. Statistics that lack them make those that
// they are merged with lack them.
func TestSectionsOfSamples(t *testing.T) {
	g := graphtest.Parse(t, summedNet)
	data := summedSamples(6, 9, 11)
	for i, s := range data.list {
		s.Label = i%3 - 1 // -1: none
	}
	stats, err := Run(context.Background(), g, data, Config{})
	require.NoError(t, err)
	require.Equal(t, &plan.Classes{Labelled: 4, Seen: 2, Of: 9, Least: 2, Most: 2}, stats.Classes(9))
	hash, err := stats.RangesHash()
	require.NoError(t, err)

	var file bytes.Buffer
	require.NoError(t, stats.write(&file, nil))
	old, err := Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.NoError(t, err)
	require.Nil(t, old.Classes(9))
	require.Nil(t, old.Tensor("c1").State.Samples())
	same, err := old.RangesHash()
	require.NoError(t, err)
	require.Equal(t, hash, same)

	both, _, err := Merge(stats, stats)
	require.NoError(t, err)
	require.Equal(t, &plan.Classes{Labelled: 8, Seen: 2, Least: 4, Most: 4}, both.Classes(0))
	require.EqualValues(t, 12, both.Tensor("c1").State.Samples().Count)
	less, _, err := Merge(stats, old)
	require.NoError(t, err)
	require.Nil(t, less.Tensor("c1").State.Samples())

	more := summedSamples(8, 9, 11)
	resumed, err := Run(context.Background(), g, more, Config{Resume: stats})
	require.NoError(t, err)
	require.EqualValues(t, 8, resumed.Tensor("c1").State.Samples().Count)
	resumed, err = Run(context.Background(), g, more, Config{Resume: old})
	require.NoError(t, err)
	require.Nil(t, resumed.Tensor("c1").State.Samples())
	require.EqualValues(t, 6, stats.Tensor("c1").State.Samples().Count, "it is not changed")
}
