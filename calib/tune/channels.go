package tune

import (
	"context"
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// channelStats is what the fitting samples show of a value in float, by channel: the smallest and the largest element, and the means of
// elements and of their squares.
type channelStats struct {
	lo, hi        []float32
	mean, squares []float64
}

// width is the range of channel c with zero in it.
func (s *channelStats) width(c int) float64 {
	return float64(max(s.hi[c], 0)) - float64(min(s.lo[c], 0))
}

func newChannelStats(n int) channelStats {
	s := channelStats{make([]float32, n), make([]float32, n), make([]float64, n), make([]float64, n)}
	for c := range n {
		s.lo[c], s.hi[c] = float32(math.Inf(1)), float32(math.Inf(-1))
	}
	return s
}

// observeChannels runs the reference on the fitting samples and looks at values, each with its channels along an axis. Values that do not
// have one size along it are left out. Sums are added in the order of the samples.
func (b *Bench) observeChannels(ctx context.Context, axes map[graph.ValueID]int) (map[graph.ValueID]*channelStats, error) {
	session, err := exec.New(b.Reference, exec.Options{})
	if err != nil {
		return nil, err
	}
	type part struct {
		channelStats
		count int
	}
	seen := make([]map[graph.ValueID]*part, len(b.Fit))
	errs := make([]error, len(b.Fit))
	next, done := make(chan int), make(chan struct{})
	for range max(b.Threads, 1) {
		go func() {
			r := session.NewRunner()
			for i := range next {
				parts := map[graph.ValueID]*part{}
				_, errs[i] = r.Run(ctx, b.Fit[i].Feeds, &exec.Hooks{
					Wants: func(v graph.ValueID) bool { _, ok := axes[v]; return ok },
					Output: func(n *graph.Node, k int, t *tensor.Tensor) error {
						axis, ok := axes[n.Outputs[k]]
						if !ok || t.DType != tensor.Float32 || axis >= len(t.Shape) {
							return nil
						}
						t = t.ToRowMajor()
						outer, n1, inner := t.Blocks(axis)
						p := &part{newChannelStats(n1), outer * inner}
						x := t.F32()
						for o := range outer {
							for c := range n1 {
								lo, hi, sum, squares := p.lo[c], p.hi[c], 0.0, 0.0
								for _, v := range x[(o*n1+c)*inner:][:inner] {
									lo, hi = min(lo, v), max(hi, v)
									sum += float64(v)
									squares += float64(float64(v) * float64(v))
								}
								p.lo[c], p.hi[c] = lo, hi
								p.mean[c] += sum
								p.squares[c] += squares
							}
						}
						parts[n.Outputs[k]] = p
						return nil
					}})
				seen[i] = parts
			}
			done <- struct{}{}
		}()
	}
	for i := range b.Fit {
		next <- i
	}
	close(next)
	for range max(b.Threads, 1) {
		<-done
	}
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("sample %s: %w", b.Fit[i].Name, err)
		}
	}
	b.forwards(float64(len(b.Fit)))
	out := map[graph.ValueID]*channelStats{}
	for v := range axes {
		var all *part
		for _, parts := range seen {
			p := parts[v]
			if all == nil && p != nil {
				all = &part{channelStats: newChannelStats(len(p.lo))}
			}
			if p == nil || len(p.lo) != len(all.lo) {
				all = nil
				break
			}
			for c := range p.lo {
				all.lo[c], all.hi[c] = min(all.lo[c], p.lo[c]), max(all.hi[c], p.hi[c])
				all.mean[c] += p.mean[c]
				all.squares[c] += p.squares[c]
			}
			all.count += p.count
		}
		if all == nil || all.count == 0 {
			continue
		}
		for c := range all.squares {
			all.mean[c] /= float64(all.count)
			all.squares[c] /= float64(all.count)
		}
		out[v] = &all.channelStats
	}
	return out, nil
}
