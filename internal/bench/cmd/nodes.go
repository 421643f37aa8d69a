package cmd

import (
	"context"
	"fmt"
	"time"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/bench"
)

// nodesReport is what --per-node adds.
type nodesReport struct {
	Nodes []bench.Node `json:"nodes"` // slowest first
	// NodesTime is the time of a whole run in which steps are measured, NodesMode what was run.
	NodesTime bench.Timing      `json:"nodes_run"`
	NodesMode string            `json:"nodes_mode"`
	PeakGOPS  float64           `json:"peak_gops"`
	Read      []bench.Bandwidth `json:"read_bandwidth"`
}

type stepFunc = func(n *graph.Node, fused []*graph.Node, done bool)

// stepwatch measures steps.
type stepwatch struct {
	g     *graph.Graph
	now   func() time.Duration
	began time.Duration
	steps map[graph.NodeID]bench.Step
	times map[graph.NodeID][]float64
}

func (s *stepwatch) step(n *graph.Node, fused []*graph.Node, done bool) {
	switch {
	case !s.g.Alive(n.ID) || s.g.Node(n.ID) != n: // in the body of a Loop or If, which is a step itself
	case !done:
		s.began = s.now()
	default:
		s.times[n.ID] = append(s.times[n.ID], (s.now() - s.began).Seconds())
		if _, known := s.steps[n.ID]; !known {
			step := bench.Step{Node: n.ID}
			for _, f := range fused {
				step.Fused = append(step.Fused, f.ID)
			}
			s.steps[n.ID] = step
		}
	}
}

// sizes runs the model once and returns the bytes of every value of it.
func (t *timed) sizes(ctx context.Context) (map[graph.ValueID]int64, error) {
	sizes := map[graph.ValueID]int64{}
	for _, v := range t.Graph.Values() {
		sizes[v] = bench.TensorBytes(t.Graph.Const(v))
	}
	for _, v := range t.Graph.Inputs {
		if x := t.feeds[t.Graph.Value(v).Name]; x != nil {
			sizes[v] = bench.TensorBytes(x)
		}
	}
	_, err := t.session.NewRunner().Run(ctx, t.feeds, &exec.Hooks{Output: func(n *graph.Node, i int, x *tensor.Tensor) error {
		if t.Graph.Alive(n.ID) && t.Graph.Node(n.ID) == n {
			sizes[n.Outputs[i]] = bench.TensorBytes(x)
		}
		return nil
	}})
	return sizes, err
}

// watch times the steps of a mode, in turn with other works.
func (t *timed) watch(ctx context.Context, o bench.Options, mode string, beside ...bench.Work) (*stepwatch, *exec.Runner,
	bench.Series, error) {
	watch := &stepwatch{g: t.Graph, now: o.Now, steps: map[graph.NodeID]bench.Step{}, times: map[graph.NodeID][]float64{}}
	w, runner, err := t.work(mode, watch.step)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := bench.Measure(ctx, o, append([]bench.Work{w}, beside...)...)
	return watch, runner, s, err
}

// benchNodes times the steps of the first mode.
func (e *Host) benchNodes(ctx context.Context, t *timed, o modelOptions) (*nodesReport, error) {
	roof, err := measureReads(ctx, bench.Options{Clock: o.Clock, Rounds: min(o.Rounds, 5), Span: min(o.Span, 30*time.Millisecond)}, o.threads)
	if err != nil {
		return nil, err
	}
	sizes, err := t.sizes(ctx)
	if err != nil {
		return nil, err
	}
	o.Progress = nil
	peak, ops, _ := floatPeak(o.threads)
	watch, runner, s, err := t.watch(ctx, o.Options, o.modes[0], peak)
	if err != nil {
		return nil, err
	}
	roof.GOPS = ops / s.Timing(1).Seconds / 1e9
	r := &nodesReport{NodesTime: s.Timing(0), NodesMode: o.modes[0], PeakGOPS: roof.GOPS, Read: roof.Read, Nodes: []bench.Node{}}
	macs := runner.MACs()
	for _, id := range t.Graph.Nodes() {
		step, ok := watch.steps[id]
		if !ok {
			continue
		}
		n := bench.Node{Name: t.Graph.Node(id).Name, Op: t.Graph.Node(id).Op, Seconds: bench.Median(watch.times[id]), MACs: macs[id],
			Bytes: step.Bytes(t.Graph, func(v graph.ValueID) int64 { return sizes[v] })}
		for _, f := range step.Fused {
			n.Fused = append(n.Fused, t.Graph.Node(f).Op)
			n.MACs += macs[f]
		}
		n.Rate(roof)
		r.Nodes = append(r.Nodes, n)
	}
	bench.SortNodes(r.Nodes)
	return r, nil
}

func (e *Host) printNodes(r *nodesReport) error {
	fmt.Fprintf(e.Stdout, "\n%s per node: peak %.1f GOPS; read bandwidth", r.NodesMode, r.PeakGOPS)
	for _, b := range r.Read {
		fmt.Fprintf(e.Stdout, " %.1f GB/s (%s)", b.GBps, size(b.Bytes))
	}
	fmt.Fprintf(e.Stdout, "; a run with steps measured takes %s %s\n\n", duration(r.NodesTime.Seconds), quietness(r.NodesTime))
	w := table(e.Stdout)
	fmt.Fprintln(w, "time\tshare\tMACs\tGOPS\tGB/s\tbound\tof roofline\t  operator\t")
	for _, n := range r.Nodes {
		op := n.Op
		for _, f := range n.Fused {
			op += "+" + f
		}
		fmt.Fprintf(w, "%s\t%.1f %%\t%.1f M\t%.1f\t%.1f\t%s\t%.1f %%\t  %s %s\t\n", duration(n.Seconds), 100*n.Share, float64(n.MACs)/1e6,
			n.GOPS, n.GBps, n.Bound, 100*n.ShareOfRoofline, op, n.Name)
	}
	return w.Flush()
}

// size formats a power of two.
func size(bytes int) string {
	if bytes >= 1<<20 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}
