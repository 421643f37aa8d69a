package tune

import (
	"fmt"
	"time"

	"qwb/analysis"
	"qwb/graph"
)

// Work bounds what tuning does and counts it, in forwards: one sample through the whole graph. An operator alone counts as its share of the
// graph's multiplications, so that the count is a function of the graph, the samples and the methods, not of the machine.
type Work struct {
	// Limit is how many forwards may be spent, 0 for no end. What was begun is finished; what stays as it was for want of work is reported.
	Limit float64
	// Time, where there is no Limit, is turned into one by the time that the first forwards take, read off Clock.
	Time  time.Duration
	Clock func() func() time.Duration // starts a stopwatch
	Spent float64

	each time.Duration // what a forward takes, where a clock has said; for people alone
}

// over reports whether everything is spent.
func (w *Work) over() bool { return w != nil && w.Limit > 0 && w.Spent >= w.Limit }

// measure turns the time into a limit: n forwards took so long.
func (w *Work) measure(n int, took time.Duration) {
	w.each = took / time.Duration(n)
	if w.Limit == 0 && w.Time > 0 && took > 0 {
		w.Limit = max(1, float64(int64(float64(n)*w.Time.Seconds()/took.Seconds())))
	}
}

// unaffordable says why a method is not begun: it takes so much that what is left would not reach for a tenth, or auto would learn from so
// few samples that they take turns: that took most of auto's time, and of 9 plans of ResNet-8 with weights of 4 bits one gained by it, 6 %.
// "" where it is begun; then people are told what is to come.
func (b *Bench) unaffordable(m *Method) (string, error) {
	if m.above > 0 && b.turns != nil && !b.Force {
		return fmt.Sprintf("not tried: %d samples are few to learn from: give at least %d (--method %s learns from fewer)", len(b.Held),
			analysis.CrossedBelow, m.Name), nil
	}
	if m.Cost == nil {
		return "", nil
	}
	cost, err := m.Cost(b)
	if err != nil || cost == 0 {
		return "", err
	}
	if b.turns != nil {
		cost *= float64(len(b.turns) + 1)
	}
	w, took := b.Work, ""
	if w.each > 0 {
		took = fmt.Sprintf(", %s", (time.Duration(cost) * w.each).Round(time.Second))
	}
	if left := w.Limit - w.Spent; w.Limit > 0 && left < cost/10 {
		return fmt.Sprintf("not tried: it takes about %.3g forward passes%s; %.3g are left of the budget", cost, took, left), nil
	}
	b.say("%s takes about %.3g forward passes%s", m.Name, cost, took)
	return "", nil
}

// Spend counts work of a proposer beside the trials of what it proposes: multiplications with an addition each.
func (b *Bench) Spend(macs float64) {
	if b.Work != nil {
		b.Work.Spent += macs / b.macs()
	}
}

func (b *Bench) forwards(n float64) {
	if b.Work != nil {
		b.Work.Spent += n
	}
}

// macs are the multiplications of a forward, at least 1; where dimensions are open they count as 1.
func (b *Bench) macs() float64 {
	sum := 1.0
	for _, id := range b.Reference.Nodes() {
		n, _ := b.Reference.MACsAtLeast(id)
		sum += float64(n)
	}
	return sum
}

// share is the part of a forward that an operator is.
func (b *Bench) share(id graph.NodeID) float64 {
	n, _ := b.Reference.MACsAtLeast(id)
	return float64(n) / b.macs()
}
