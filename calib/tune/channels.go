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

// channelsOf looks at one tensor: mean and squares are sums over count elements of each channel, image by image in the order of places,
// whatever the layout.
func channelsOf(t *tensor.Tensor, axis int) (s channelStats, count int) {
	if t.Layout == tensor.ChannelsLast && axis == 1 {
		s = newChannelStats(t.Shape[1])
		for x, image := t.F32(), t.Len()/max(t.Shape[0], 1); len(x) > 0; x = x[image:] {
			s.addPlaces(x[:image])
		}
		return s, t.Len() / max(t.Shape[1], 1)
	}
	t = t.ToRowMajor()
	outer, channels, inner := t.Blocks(axis)
	s = newChannelStats(channels)
	x := t.F32()
	for o := range outer {
		for c := range channels {
			lo, hi, sum, squares := s.lo[c], s.hi[c], 0.0, 0.0
			for _, v := range x[(o*channels+c)*inner:][:inner] {
				lo, hi = min(lo, v), max(hi, v)
				sum += float64(v)
				squares += float64(float64(v) * float64(v))
			}
			s.lo[c], s.hi[c] = lo, hi
			s.mean[c] += sum
			s.squares[c] += squares
		}
	}
	return s, outer * inner
}

// addPlaces adds an image whose channels lie side by side.
func (s *channelStats) addPlaces(x []float32) {
	n := len(s.mean)
	if !rows().NewMeter().ChannelMinMax(x, s.lo, s.hi) { // it passes over NaN, which is to be seen
		for i, v := range x {
			c := i % n
			s.lo[c], s.hi[c] = min(s.lo[c], v), max(s.hi[c], v)
		}
	}
	mean, squares := make([]float64, n), make([]float64, n)
	for ; len(x) > 0; x = x[n:] {
		mean, squares := mean[:n], squares[:n]
		for c, v := range x[:n] {
			mean[c] += float64(v)
			squares[c] += float64(float64(v) * float64(v))
		}
	}
	for c := range n {
		s.mean[c] += mean[c]
		s.squares[c] += squares[c]
	}
}

// observeChannels runs the reference on the fitting samples and looks at values, each with its channels along an axis. Values that do not
// have one size along it are left out. Sums are added in the order of the samples.
func (b *Bench) observeChannels(ctx context.Context, axes map[graph.ValueID]int) (map[graph.ValueID]*channelStats, error) {
	session, err := exec.New(b.Reference, exec.Options{Context: ctx})
	if err != nil {
		return nil, err
	}
	type part struct {
		channelStats
		count int
	}
	seen := make([]map[graph.ValueID]*part, len(b.Fit))
	err = each(ctx, session, b.Threads, len(b.Fit), func(r *exec.Runner, i int) error {
		parts := map[graph.ValueID]*part{}
		seen[i] = parts
		_, err := r.Run(ctx, b.Fit[i].Feeds, &exec.Hooks{
			Wants: func(v graph.ValueID) bool { _, ok := axes[v]; return ok },
			Output: func(n *graph.Node, k int, t *tensor.Tensor) error {
				axis, ok := axes[n.Outputs[k]]
				if !ok || !b.own(n) || t.DType != tensor.Float32 || axis < 0 || axis >= len(t.Shape) {
					return nil
				}
				p := &part{}
				p.channelStats, p.count = channelsOf(t, axis)
				parts[n.Outputs[k]] = p
				return nil
			}})
		if err != nil {
			return fmt.Errorf("sample %s: %w", b.Fit[i].Name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
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
