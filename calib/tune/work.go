package tune

import (
	"time"

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
}

// over reports whether everything is spent.
func (w *Work) over() bool { return w != nil && w.Limit > 0 && w.Spent >= w.Limit }

// measure turns the time into a limit: n forwards took so long.
func (w *Work) measure(n int, took time.Duration) {
	if w.Limit == 0 && w.Time > 0 && took > 0 {
		w.Limit = max(1, float64(int64(float64(n)*w.Time.Seconds()/took.Seconds())))
	}
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
