package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"qwb"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/bench"
)

// inMemory is a data set whose samples are decoded already.
type inMemory struct {
	samples []*exec.Sample
	next    int
}

func (m *inMemory) Len() int { return len(m.samples) }

func (m *inMemory) Next(ctx context.Context) (*exec.Sample, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.next == len(m.samples) {
		return nil, io.EOF
	}
	m.next++
	return m.samples[m.next-1], nil
}

// pass is one way over samples.
type pass struct {
	name string
	run  func(ctx context.Context, samples []*exec.Sample) error
	// ready: everything that is done once was done before, so that one run tells the time per sample.
	ready bool
}

// measurePasses times passes in turn, and works beside. The result has for each pass the seconds that a sample adds: a pass
// that is not ready is run over the first half of the samples and over all of them, and it is the difference that counts. What is
// done once, making the model ready and packing weights, is so left out. The last works of the result are those beside.
func measurePasses(ctx context.Context, o bench.Options, samples []*exec.Sample, passes []pass,
	beside ...bench.Work) (bench.Series, error) {
	n := len(samples) / 2
	if n == 0 {
		return nil, fmt.Errorf("%d samples are too few: time per sample is the difference of two runs", len(samples))
	}
	var works []bench.Work
	for _, p := range passes {
		works = append(works, func(ctx context.Context) error { return p.run(ctx, samples) })
		if !p.ready {
			works = append(works, func(ctx context.Context) error { return p.run(ctx, samples[:n]) })
		}
	}
	s, err := bench.Measure(ctx, o, append(works, beside...)...)
	if err != nil {
		return nil, err
	}
	return s.Map(func(seconds []float64) []float64 {
		var out []float64
		for _, p := range passes {
			if p.ready {
				out, seconds = append(out, seconds[0]/float64(len(samples))), seconds[1:]
			} else {
				out, seconds = append(out, (seconds[0]-seconds[1])/float64(len(samples)-n)), seconds[2:]
			}
		}
		return append(out, seconds...)
	}), nil
}

// openSamples loads a model, or a plan and its model, and the samples to run it on. The caller closes t.
func (e *Host) openSamples(ctx context.Context, file string, d qwb.DataOptions, threads int) (t *timed, set *data.Set,
	samples []*exec.Sample, err error) {
	if t, err = e.openTimed(file, d, 1, threads); err != nil {
		return nil, nil, nil, err
	}
	if set, err = e.benchData(t, d, d.Samples); err == nil {
		samples, err = readSamples(ctx, set, set.Len())
	}
	if err != nil {
		t.Close()
		return nil, nil, nil, err
	}
	return t, set, samples, nil
}

// readSamples reads samples from the beginning of a data set, as many as given.
func readSamples(ctx context.Context, set *data.Set, n int) (samples []*exec.Sample, err error) {
	it := &firstOf{set.Iterator(), n}
	for {
		s, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return samples, nil
		}
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
}

// firstOf ends a data set after so many samples.
type firstOf struct {
	exec.Iterator
	left int
}

func (f *firstOf) Len() int { return f.left }

func (f *firstOf) Next(ctx context.Context) (*exec.Sample, error) {
	if f.left == 0 {
		return nil, io.EOF
	}
	f.left--
	return f.Iterator.Next(ctx)
}

// forwardPass runs g in float on every sample, as many at a time as there are threads: what a pass over the data costs without
// looking at any tensor.
func forwardPass(g *graph.Graph, threads int) (pass, error) {
	session, err := exec.New(g, exec.Options{Threads: 1})
	if err != nil {
		return pass{}, err
	}
	runners := make([]*exec.Runner, threads)
	for i := range runners {
		runners[i] = session.NewRunner()
	}
	return pass{name: "forward", ready: true, run: func(ctx context.Context, samples []*exec.Sample) error {
		var next atomic.Int64
		var wg sync.WaitGroup
		failures := make([]error, threads)
		for t, r := range runners {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(samples) && failures[t] == nil; i = int(next.Add(1)) - 1 {
					_, failures[t] = r.Run(ctx, samples[i].Feeds, nil)
				}
			})
		}
		wg.Wait()
		return errors.Join(failures...)
	}}, nil
}
