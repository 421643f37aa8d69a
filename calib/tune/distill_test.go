package tune

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
)

// The outputs on samples that nothing was learnt of come nearer to the float network's, and scales are learnt.
func TestDistill(t *testing.T) {
	b, _ := benchOf(t, fewBitTarget(), 24, 24)
	b.BlockSteps, b.Threads = 60, 2
	reports, err := b.Tune(context.Background(), &Distill)
	require.NoError(t, err)
	r := reports[0]
	require.True(t, r.Confirmed, "%s %v", r.Note, r.Layers)
	require.Less(t, r.After.NSR, 0.9*r.Before.NSR)
	require.NotEmpty(t, b.Chosen)
}

// twoHeads has a normalization that keeps its scale and bias, class scores behind a Softmax, and a second output of other units.
const twoHeads = `
opset 17
input x: f32[1,8,12]
const w: f32[12,12] = normal(seed=1,std=0.3)
const s: f32[12] = uniform(seed=2,low=0.5,high=2.0)
const b: f32[12] = normal(seed=3,std=0.1)
const v: f32[12,16] = normal(seed=4,std=0.3)
const u: f32[12,3] = normal(seed=5,std=300)
const axis: i64[1] = [1]
m = MatMul(x, w) "m"
n = LayerNormalization(m, s, b) "norm"
r = Relu(n)
h = ReduceMean(r) {axes=[1], keepdims=0}
c = MatMul(h, v) "classes"
p = Softmax(c)
o = MatMul(h, u) "boxes"
output p, o
`

func twoHeaded(t *testing.T, platform *target.Target, fit, held int) *Bench {
	t.Helper()
	var list []*exec.Sample
	for i := range 20 + fit + held {
		list = append(list, &exec.Sample{Feeds: map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(i), 1, 8, 12)}})
	}
	b, _ := benchWith(t, twoHeads, platform, list[:20], list[20:20+fit], list[20+fit:])
	return b
}

// Of several outputs the errors together get less, by squared error and by the divergence of probabilities, and normalizations are learnt.
func TestDistillOfSeveralOutputs(t *testing.T) {
	few := fewBitTarget()
	few.BorderCost, few.Activation.QMax = 0, 255 // the network is small; errors of weights
	for _, loss := range []string{"", ClassLoss} {
		b := twoHeaded(t, few, 64, 48)
		b.BlockSteps, b.Loss = 100, loss
		k, err := b.whole()
		require.NoError(t, err)
		require.Len(t, k.exits, 2)
		require.Equal(t, loss != "", k.scores[0] != nil)
		reports, err := b.Tune(context.Background(), &Distill)
		require.NoError(t, err)
		r := reports[0]
		require.True(t, r.Confirmed, "%s %v", r.Note, r.Layers)
		before, after := b.Start.Means(), b.End.Means()
		require.Less(t, after[0]+after[1], 0.9*(before[0]+before[1]))
		id, ok := b.Graph.LookupNode("norm")
		require.True(t, ok)
		for _, v := range b.Graph.Node(id).Inputs[1:] {
			require.NotEqual(t, b.Reference.Const(v), b.Graph.Const(v))
		}
	}
}

// The divergence and its gradient are those of the definition, p log(p/q) and q - p.
func TestTheLossOfClasses(t *testing.T) {
	few := fewBitTarget()
	few.BorderCost = 0
	b := twoHeaded(t, few, 4, 2)
	b.Loss, b.shared = ClassLoss, new(sim.Constants)
	k, err := b.whole()
	require.NoError(t, err)
	p, err := b.passage([]*block{k})
	require.NoError(t, err)
	require.NoError(t, p.run(context.Background(), k, p.list, true))
	l, err := p.lesson(k)
	require.NoError(t, err)
	got, energy, err := l.measure(context.Background(), l.session.NewRunner(), l.feeds(), p.list[:4])
	require.NoError(t, err)
	want, squares := 0.0, 0.0
	probabilities := func(x []float32) (p []float64) {
		sum := 0.0
		for _, v := range x {
			p = append(p, math.Exp(float64(v)))
			sum += p[len(p)-1]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	for _, s := range p.list[:4] {
		q, f := probabilities(s.yq[0].F32()), probabilities(s.yf[0].F32())
		for i := range f {
			want += f[i] * math.Log(f[i]/q[i])
		}
		m, err := momentOf(s.yq[1], s.yf[1], 0)
		require.NoError(t, err)
		squares += m.errors
	}
	require.InEpsilon(t, want, got[0], 0.02)
	require.InEpsilon(t, 4, energy[0], 1e-4, "rows")
	require.InEpsilon(t, squares, got[1], 0.02)
}

// Killed within the steps and taken up again, it ends in the same bytes.
func TestInterruptedDistillEndsInTheSameBytes(t *testing.T) {
	interruptedDistill(t, Adam, 1, 12, 20)
	interruptedDistill(t, SignSGD, 7)
}

func interruptedDistill(t *testing.T, optimizer string, steps ...int) {
	start := func() (*Bench, map[string]bool) {
		b, added := benchOf(t, fewBitTarget(), 20, 8)
		b.BlockSteps, b.Force, b.Optimizer = 20, true, optimizer
		return b, added
	}
	finish := func(resume *Saved) string {
		b, added := start()
		b.Resume = resume
		reports, err := b.Tune(context.Background(), &Distill)
		require.NoError(t, err)
		return learntBytes(t, b, reports, added)
	}
	want := finish(nil)
	for _, step := range steps {
		b, _ := start()
		ctx, cancel := context.WithCancel(context.Background())
		var place *Saved
		b.Save = func(_ bool, state func() *Saved) error {
			if s := state(); ctx.Err() == nil && s.Lesson != nil {
				if place = file(t, s); s.Lesson.Step == step {
					cancel()
				}
			}
			return nil
		}
		_, err := b.Tune(ctx, &Distill)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, want, finish(place), "%s, stopped after %d", optimizer, step)
	}
}

// No more is learnt than the budget has left.
func TestDistillKeepsToTheBudget(t *testing.T) {
	for _, limit := range []float64{0, 2000} {
		b, _ := benchOf(t, fewBitTarget(), 20, 8)
		b.BlockSteps, b.Force, b.Work = 60, true, &Work{Limit: limit}
		_, err := b.Tune(context.Background(), &Distill)
		require.NoError(t, err)
		if limit == 0 {
			require.Greater(t, b.Work.Spent, 2500.0)
		} else {
			require.InDelta(t, limit, b.Work.Spent, 100)
		}
	}
}

// Signed SGD moves every number by its rate, whatever the size of the gradient; it learns too.
func TestSignedSGD(t *testing.T) {
	m := newMover(SignSGD, 3)
	m.begin(1)
	require.Equal(t, []float64{1, -1, 0}, []float64{m.move(0, 1e-9), m.move(1, -7), m.move(2, 0)})
	for _, method := range []*Method{&Block, &Distill} {
		b, _ := benchOf(t, fewBitTarget(), 24, 24)
		b.BlockSteps, b.Threads, b.Optimizer = 40, 2, SignSGD
		reports, err := b.Tune(context.Background(), method)
		require.NoError(t, err)
		require.True(t, reports[0].Confirmed, "%s: %s", method.Name, reports[0].Note)
	}
}

// What a method takes is said before it begins, and it does not begin where less than a tenth of that is left.
func TestWhatLearningTakesIsSaidBefore(t *testing.T) {
	for _, m := range []*Method{&Block, &Distill} {
		for _, limit := range []float64{0, 60} {
			b, _ := benchOf(t, fewBitTarget(), 20, 8)
			said := ""
			b.BlockSteps, b.Force, b.Work, b.Say = 4, true, &Work{Limit: limit}, func(text string) { said += text }
			cost, err := m.Cost(b)
			require.NoError(t, err)
			reports, err := b.Tune(context.Background(), m)
			require.NoError(t, err)
			if limit == 0 {
				require.InDelta(t, cost, b.Work.Spent, 0.3*cost) // beside it the samples are taken through, and judged
				require.Contains(t, said, m.Name+" takes about")
			} else {
				require.Contains(t, reports[0].Note, "not tried: it takes about")
				require.Empty(t, said)
			}
		}
	}
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
