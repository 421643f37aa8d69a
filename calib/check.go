package calib

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"qwb/graph/exec"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// Check tells how the statistics of a device compare with the processor's, on one sample that both have run.
type Check struct {
	Sample    string       `json:"sample"`
	Tensors   int          `json:"tensors"`
	Equal     int          `json:"equal"`     // whose statistics are equal, every byte of them
	Different []Difference `json:"different"` // the others, in order of name
}

// Difference says how far the statistics of a tensor are from the processor's.
type Difference struct {
	Tensor string `json:"tensor"`
	// Extremes is the larger of the differences of minimum and maximum, as a share of the largest magnitude.
	Extremes float64 `json:"extremes"`
	Moved    float64 `json:"moved"` // share of the values that are counted in other bins
}

// Worst returns the difference whose extremes, or where those are equal whose counts, differ most.
func (c *Check) Worst() Difference {
	var worst Difference
	for _, d := range c.Different {
		if d.Extremes > worst.Extremes || d.Extremes == worst.Extremes && d.Moved >= worst.Moved {
			worst = d
		}
	}
	return worst
}

// check runs a sample on the processor and on the device and compares what is seen. What fails will fail again in the run itself, and
// be reported there.
func (r *run) check(ctx context.Context, s *exec.Sample) error {
	host, err := r.probe(ctx, s, Config{MinMaxOnly: r.cfg.MinMaxOnly, Threads: r.cfg.Threads})
	if err != nil {
		return err
	}
	dev, err := r.probe(ctx, s, Config{MinMaxOnly: r.cfg.MinMaxOnly, Threads: r.cfg.Threads, Device: r.cfg.Device})
	if err != nil {
		return err
	}
	if host == nil || dev == nil {
		return nil
	}
	c := compare(host, dev)
	c.Sample = s.Name
	*r.cfg.Check = c
	if n := len(c.Different); n > 0 {
		w := c.Worst()
		r.warn(tqc.Warning{Node: w.Tensor, Value: float64(n),
			Text: fmt.Sprintf("the device's statistics of %d of %d tensors differ from the processor's "+
				"on the first sample; here, the most: %.2g of the largest magnitude in the extremes, %.2g of the values in other bins", n, c.Tensors,
				w.Extremes, w.Moved)})
	}
	return nil
}

// probe returns the statistics of one sample, nil if it failed.
func (r *run) probe(ctx context.Context, s *exec.Sample, cfg Config) (*Stats, error) {
	p, err := newRun(r.g, nil, cfg)
	if err != nil {
		return nil, err
	}
	p.threads = max(cfg.Threads, 1)
	if p.device = r.device; cfg.Device == nil {
		p.device = nil
		if p.session, err = exec.New(r.g, exec.Options{Context: ctx, Threads: p.threads}); err != nil {
			return nil, err
		}
	}
	w := p.worker()
	defer w.close()
	if w.observe(ctx, p.batch(job{0, s})) != nil {
		return nil, ctx.Err()
	}
	if err := w.finish(); err != nil {
		return nil, err
	}
	return p.stats(), nil
}

// compare compares the statistics of two runs over the same samples.
func compare(host, dev *Stats) Check {
	c := Check{Different: []Difference{}}
	names := union(host.Names(), dev.Names())
	c.Tensors = len(names)
	for _, name := range names {
		a, b := host.Tensor(name), dev.Tensor(name)
		if a == nil || b == nil {
			c.Different = append(c.Different, Difference{name, 1, 1})
			continue
		}
		// Encoding a state does not fail.
		x, _ := a.State.MarshalBinary()
		y, _ := b.State.MarshalBinary()
		if bytes.Equal(x, y) && a.Halves == b.Halves {
			c.Equal++
			continue
		}
		d := Difference{Tensor: name, Extremes: apart(a.State.Extent(), b.State.Extent())}
		if n := max(a.State.Count(), b.State.Count()); n > 0 {
			d.Moved = float64(max(a.State.Moved(b.State), b.State.Moved(a.State))) / float64(n)
		}
		c.Different = append(c.Different, d)
	}
	return c
}

// apart is the larger of the differences of two extents' ends, as a share of the largest magnitude.
func apart(a, b observers.Extent) float64 {
	if a == b {
		return 0
	}
	if a.Empty() || b.Empty() {
		return 1
	}
	largest, most := 0.0, 0.0
	for _, ends := range [][2]float32{{a.Min, b.Min}, {a.Max, b.Max}} {
		x, y := float64(ends[0]), float64(ends[1])
		largest, most = max(largest, math.Abs(x), math.Abs(y)), max(most, math.Abs(x-y))
	}
	return most / largest
}
