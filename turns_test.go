package qwb

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/calib/data/npy"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/quantizer/sim"
)

// Few samples are judged in turns, each with ranges that have not seen it: the error before is that of two plans made of one half each, on
// the other half, and larger than that of the plan on the samples that made its ranges.
func TestTurnsJudgeRangesToo(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	put := func(folder string, i int, s *exec.Sample) {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, s.Feeds["x"]))
		p.Store.(*Memory).Write(fmt.Sprintf("%s/%02d.npy", folder, i), b.Bytes())
	}
	for i := range 24 {
		put("all", i, &exec.Sample{Feeds: map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(700+i), 1, 3, 8, 8)}})
	}
	// losses are those of a plan of one folder on samples
	losses := func(folder string, held func(*planning.Change) []*exec.Sample) (l analysis.Losses) {
		_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "trt_int8", Data: DataOptions{Paths: []string{folder}}, Fresh: true, Threads: 1})
		require.NoError(t, err)
		c, err := planning.NewChange(ctx, p.job(), 1)
		require.NoError(t, err)
		defer c.Close()
		list := held(c)
		ev, err := analysis.NewEvaluator(ctx, c.Planned.Reference, func() exec.Iterator { return &exec.InMemory{Samples: list} }, 1, 0)
		require.NoError(t, err)
		q, err := sim.New(c.Planned.Graph, c.Planned.Set, sim.Options{})
		require.NoError(t, err)
		l, err = ev.Losses(ctx, q)
		require.NoError(t, err)
		return l
	}
	var halves [2][]*exec.Sample
	seen := losses("all", func(c *planning.Change) []*exec.Sample {
		set, _, err := c.OpenData(c.Planned.Reference, c.Planned.Data(DataOptions{Threads: 1}))
		require.NoError(t, err)
		list, err := samples.First(ctx, set.Iterator(), set.Len())
		require.NoError(t, err)
		halves[0], halves[1] = samples.Halved(list)
		return list
	})
	r, _, err := p.Tune(ctx, TuneOptions{Methods: []string{"bias"}, Threads: 1})
	require.NoError(t, err)
	require.True(t, r.Crossed)
	var unseen analysis.Losses
	for i, half := range halves {
		for k, s := range half {
			put(fmt.Sprint("half", i), k, s)
		}
		unseen = append(unseen, losses(fmt.Sprint("half", i), func(*planning.Change) []*exec.Sample { return halves[1-i] })...)
	}
	require.InEpsilon(t, unseen.Estimate().Mean, r.Before.NSR, 1e-6)
	require.Greater(t, r.Before.NSR, 1.1*seen.Estimate().Mean, "samples that ranges have seen are not clipped")
}
