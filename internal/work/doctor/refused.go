package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// mostSuspects is how many samples are tried by themselves that may break the model, mostRun how many of the others together.
const mostSuspects, mostRun = 4, 256

// refused runs samples as calibrate does, and says what it refuses them for: those that may break the model one by one, so that each has
// its finding, and the others until one is refused: an index beyond a table, or a logarithm of a number below zero, does not show in the
// samples.
func (d *doctor) refused(ctx context.Context, names []string) error {
	g := d.g
	if d.plan == nil {
		if m, err := d.OpenNormal(d.m.Path); err == nil {
			defer m.Close()
			g = m.Graph
		}
	}
	var stats *calib.Stats
	var cover *calib.Coverage
	run := func(samples exec.Iterator) (err error) {
		cover = calib.NewCoverage(g)
		stats, err = calib.Run(ctx, g, samples, calib.Config{MinMaxOnly: true, Threads: d.o.Threads, Coverage: cover})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			d.add(data.Finding{Rule: "refused", Level: data.Fault, Node: "data", Value: 1, Text: err.Error(), Fix: mended(err)})
		}
		return nil
	}
	tried := map[string]bool{}
	for i := 0; i < d.set.Len() && len(tried) < mostSuspects; i++ {
		if name := d.set.Name(i); !slices.Contains(names, name) || tried[name] {
			continue
		}
		s, err := d.set.Sample(i)
		if err != nil {
			return err
		}
		tried[s.Name] = true
		if err := run(&exec.InMemory{Samples: []*exec.Sample{s}}); err != nil {
			return err
		}
	}
	rest := &others{Iterator: d.set.Iterator(), but: names}
	if err := run(rest); err != nil {
		return err
	}
	if rest.n == mostRun && d.set.Len() > mostRun+len(names) {
		d.Note("doctor: the model was run on %d of %d samples", mostRun+len(tried), d.set.Len())
	}
	if stats != nil {
		d.add(cover.Findings(stats)...)
	}
	return d.infinite(ctx, g, stats, rest.n, names)
}

// mended says what to do about a sample that calibrate refuses: where an operator makes NaN of numbers, it may be the network.
func mended(err error) string {
	const sample = "mend or remove this sample: calibrate refuses it"
	var at *graph.NodeError
	if !errors.As(err, &at) || !strings.Contains(err.Error(), "are NaN") || strings.Contains(err.Error(), "behind it:") {
		return sample
	}
	why, cure := calib.CureOf(at.Op)
	return fmt.Sprintf("%s; if other samples do the same, it is the network (%s): %s", sample, why, cure)
}

// infinite says which operator makes infinite numbers that something behind it hides; stats are those of n samples without some names.
func (d *doctor) infinite(ctx context.Context, g *graph.Graph, stats *calib.Stats, n int, names []string) error {
	if stats == nil {
		return nil
	}
	i := stats.MadeInfinite(g)
	if i == nil {
		return nil
	}
	s, err := exec.New(g, exec.Options{Threads: d.o.Threads})
	if err != nil {
		return err
	}
	in, met := 0, false
	hooks := &exec.Hooks{Wants: func(v graph.ValueID) bool { return v == i.Value },
		Output: func(_ *graph.Node, _ int, t *tensor.Tensor) error {
			met = slices.ContainsFunc(t.F32(), func(x float32) bool { return math.IsInf(float64(x), 0) })
			return nil
		}}
	runner, list := s.NewRunner(), &others{Iterator: d.set.Iterator(), but: names}
	for {
		one, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		met = false
		if err == nil {
			_, err = runner.Run(ctx, one.Feeds, hooks)
		}
		if err != nil {
			return err
		}
		if met {
			in++
		}
	}
	d.add(data.Finding{Rule: "infinite", Level: data.Hint, Node: g.Node(i.Node).Name, Value: float64(i.Negative + i.Positive),
		Text: fmt.Sprintf("%s, in %d of %d samples; what reads it may hide that; on integers codes stop at the range's end", i.Text(g), in, n),
		Fix:  i.Cure})
	return nil
}

// others are the first mostRun samples of a set that are not among some.
type others struct {
	exec.Iterator
	but []string
	n   int
}

func (o *others) Next(ctx context.Context) (*exec.Sample, error) {
	for o.n < mostRun {
		s, err := o.Iterator.Next(ctx)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(o.but, s.Name) {
			o.n++
			return s, nil
		}
	}
	return nil, io.EOF
}
