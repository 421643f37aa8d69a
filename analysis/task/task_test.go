package task_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis/task"
	"qwb/graph/tensor"
)

func row(x ...float32) []*tensor.Tensor { return []*tensor.Tensor{tensor.FromF32(x, 1, len(x))} }

func open(t *testing.T, name string, l task.Labels) (*task.Metric, task.Scorer) {
	t.Helper()
	m, err := task.Find(name)
	require.NoError(t, err)
	s, err := m.Open(l)
	require.NoError(t, err)
	return m, s
}

func TestTopK(t *testing.T) {
	tied := row(0.1, 0.4, 0.4, 0.2, 0)
	for _, c := range []struct {
		name  string
		label int
		want  float64
	}{{"top1", 1, 1}, {"top1", 2, 0}, {"top2", 2, 1}, {"top3", 0, 0}, {"top4", 0, 1}, {"top5", 4, 1}} {
		_, s := open(t, c.name, task.Labels{})
		r, err := s.Record(task.Sample{Label: c.label}, tied)
		require.NoError(t, err)
		require.InDelta(t, c.want, s.Score([]task.Record{r}), 0, "%s of class %d", c.name, c.label)
		require.Equal(t, 1, r.(task.Ranked).Class, "the lower of two equal ones")
	}
	_, s := open(t, "top1", task.Labels{})
	require.True(t, math.IsNaN(s.Score(nil)))
	for label, text := range map[int]string{-1: "label -1", 5: "label-offset"} {
		_, err := s.Record(task.Sample{Label: label}, tied)
		require.ErrorContains(t, err, text)
	}
	_, err := s.Record(task.Sample{}, row(0, float32(math.NaN())))
	require.ErrorContains(t, err, "NaN")
	_, err = s.Record(task.Sample{}, row(1))
	require.ErrorContains(t, err, "class scores")
	for _, name := range []string{"top0", "top-1", "top01", "top", "nonsense"} {
		_, err := task.Find(name)
		require.ErrorContains(t, err, "top1, top5", name)
	}
}

// TestTopOfFloat: without labels the answer of the float network is the right one.
func TestTopOfFloat(t *testing.T) {
	_, s := open(t, "top1", task.Labels{Float: true})
	r, err := s.Record(task.Sample{Label: -1, Float: row(0, 3, 1)}, row(0, 1, 3))
	require.NoError(t, err)
	require.Equal(t, task.Ranked{Label: 1, Class: 2, Rank: 1}, r)
}

// estimate is the mean and its standard error, as analysis.NewEstimate has them.
func estimate(x []float64) (mean, err float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		err += (v - mean) * (v - mean)
	}
	n := float64(len(x))
	return mean, math.Sqrt(err / (n * (n - 1)))
}

// ratio is additive with weights; the other kind of scorer is the same without saying so.
type ratio struct{ task.Scorer }

func (ratio) Terms(r task.Record) (float64, float64) { p := r.([2]float64); return p[0], p[1] }

func (s ratio) Score(records []task.Record) float64 {
	var value, weight float64
	for _, r := range records {
		v, w := s.Terms(r)
		value, weight = value+v, weight+w
	}
	return value / weight
}

type opaque struct{ task.Scorer }

func TestDifference(t *testing.T) {
	m, s := open(t, "top1", task.Labels{})
	right, wrong := task.Ranked{}, task.Ranked{Rank: 1}
	require.Equal(t, []float64{100, 0, -100, 0}, task.Difference(s, []task.Record{right, right, wrong, wrong},
		[]task.Record{wrong, right, right, wrong}, m), "of a mean, what each sample loses")
	require.Empty(t, task.Difference(s, nil, nil, m))

	// Of a quotient: the pseudo-values, by the quick way and by leaving samples out one at a time, and the error known from theory.
	draw := func(n int) (before, after []task.Record) {
		g := rand.New(rand.NewPCG(1, 2))
		for range n {
			w := 1 + float64(g.IntN(20))
			x := w * g.Float64()
			before, after = append(before, [2]float64{x, w}), append(after, [2]float64{x + 0.1*w*g.Float64(), w})
		}
		return before, after
	}
	lower := &task.Metric{Lower: true}
	before, after := draw(150)
	quick, slow := task.Difference(ratio{}, before, after, lower), task.Difference(opaque{ratio{}}, before, after, lower)
	require.InDeltaSlice(t, slow, quick, 1e-12)
	mean, se := estimate(quick)
	require.InDelta(t, ratio{}.Score(after)-ratio{}.Score(before), mean, 1e-12)
	require.Positive(t, mean, "more errors are worse")
	var delta float64 // of the ratio estimator, linearised
	total := 0.0
	for i := range before {
		total += before[i].([2]float64)[1]
	}
	for i := range before {
		b, a := before[i].([2]float64), after[i].([2]float64)
		e := (a[0] - b[0]) - mean*b[1]
		delta += e * e
	}
	require.InEpsilon(t, math.Sqrt(delta*150/149)/total, se, 0.03)

	// More samples than groups: one value for each sample, the error that of leaving out each.
	before, after = draw(3000)
	quick, slow = task.Difference(ratio{}, before, after, lower), task.Difference(opaque{ratio{}}, before, after, lower)
	require.Len(t, slow, 3000)
	mean, se = estimate(quick)
	grouped, grouping := estimate(slow)
	require.InDelta(t, mean, grouped, 1e-12)
	require.InEpsilon(t, se, grouping, 0.15, "200 groups tell the error to 5 percent")
}
