package analysis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
)

// Config says what to analyse. The zero value asks for nothing; set at least one kind.
type Config struct {
	Graphwise, Layerwise, Statistical bool
	Split                             bool  // layerwise: split the local error into weight and activation
	Threads                           int   // samples analysed at a time, 0 for one; results do not depend on it
	Memory                            int64 // bytes of float activations kept, over all threads; 0 for 2 GiB
	// Thresholds returns the ranges that the calibration methods choose for a value; nil leaves them out.
	Thresholds func(v graph.ValueID) []Threshold
	// Progress is called after each sample with the number done; it may be nil.
	Progress func(done int)
}

const defaultMemory = 2 << 30

// Analyze measures the quantization q of g. It runs every sample once through the float graph and keeps its activations; the quantized graph (graphwise) and each
// operator alone (layerwise) are then run from those. The report's Seconds, Model, Plan and Platform are the caller's to fill.
//
// Layerwise restarts at the operator and stops where the perturbed values equal the kept ones bit for bit; its numbers are those
// of running the whole graph once per operator. It fails on an empty data set.
func Analyze(ctx context.Context, g *graph.Graph, q *sim.Simulator, samples exec.Iterator, cfg Config) (*Report, error) {
	session, err := exec.New(g, exec.Options{})
	if err != nil {
		return nil, err
	}
	a := &analyzer{cfg: cfg, sim: q, g: g, session: session, work: newWork(g)}
	if err := a.prepare(); err != nil {
		return nil, err
	}
	results, err := a.each(ctx, samples)
	if err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, errors.New("analyze: the data set is empty")
	}
	return a.report(results)
}

type analyzer struct {
	cfg     Config
	sim     *sim.Simulator
	g       *graph.Graph
	session *exec.Session
	order   []graph.NodeID
	groups  []group
	work    work

	mu     sync.Mutex // guards what workers share below
	states map[graph.ValueID]*tensorState
}

// sampleResult is what one sample contributes.
type sampleResult struct {
	outputs  []outputError
	graph    []Error // per group
	layers   []layerResult
	moments  map[graph.ValueID]moments
	forwards float64
}

func (a *analyzer) prepare() (err error) {
	if a.order, err = a.g.Order(); err != nil {
		return err
	}
	a.groups = groupsOf(a.g, a.order, a.sim)
	a.states = map[graph.ValueID]*tensorState{}
	return nil
}

// each analyses the samples, a.cfg.Threads at a time, and returns their results in the order of the data set.
func (a *analyzer) each(ctx context.Context, samples exec.Iterator) ([]*sampleResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type job struct {
		index  int
		sample *exec.Sample
	}
	jobs := make(chan job)
	var results []*sampleResult
	var wg sync.WaitGroup
	workers := max(a.cfg.Threads, 1)
	budget := a.cfg.Memory
	if budget == 0 {
		budget = defaultMemory
	}
	done := 0
	for range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			w := a.newWorker(budget / int64(workers))
			for j := range jobs {
				r, err := w.sample(ctx, j.sample)
				if err != nil {
					cancel(fmt.Errorf("analyze: sample %s: %w", j.sample.Name, err))
					continue
				}
				a.mu.Lock()
				for len(results) <= j.index {
					results = append(results, nil)
				}
				results[j.index] = r
				done++
				if a.cfg.Progress != nil {
					a.cfg.Progress(done)
				}
				a.mu.Unlock()
			}
			a.mu.Lock()
			w.mergeStates(a.states)
			a.mu.Unlock()
		}()
	}
	var err error
	for i := 0; ctx.Err() == nil; i++ {
		var s *exec.Sample
		if s, err = samples.Next(ctx); err != nil {
			break
		}
		select {
		case jobs <- job{i, s}:
		case <-ctx.Done():
		}
	}
	close(jobs)
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return results, nil
}

// worker analyses one sample at a time with memory of its own.
type worker struct {
	*analyzer
	runner  *exec.Runner
	memory  int64
	keep    func(graph.ValueID) bool
	full    *exec.Hooks
	scratch sim.Scratch // shared by the hooks of one operator after the other
	states  map[graph.ValueID]*tensorState
}

func (a *analyzer) newWorker(memory int64) *worker {
	return &worker{analyzer: a, runner: a.session.NewRunner(), memory: memory, full: a.sim.Hooks(nil),
		states: map[graph.ValueID]*tensorState{}}
}

func (w *worker) sample(ctx context.Context, s *exec.Sample) (*sampleResult, error) {
	res := &sampleResult{moments: map[graph.ValueID]moments{}}
	if w.keep == nil {
		if err := w.chooseKept(ctx, s); err != nil {
			return nil, err
		}
	}
	var hooks *exec.Hooks
	if w.cfg.Statistical {
		hooks = w.observe(res)
	}
	kept, err := w.runner.RunAll(ctx, s.Feeds, hooks, w.keep)
	if err != nil {
		return nil, err
	}
	res.forwards++
	if err := w.graphwise(ctx, s, kept, res); err != nil {
		return nil, err
	}
	if w.cfg.Layerwise {
		err = w.layerwise(ctx, kept, res)
	}
	return res, err
}

// chooseKept decides which activations to keep under the memory cap: what the comparisons need in any case, then the others in
// graph order as long as there is room. Without layerwise analysis only the former are kept.
func (w *worker) chooseKept(ctx context.Context, s *exec.Sample) error {
	need := map[graph.ValueID]bool{}
	for _, v := range w.g.Outputs {
		need[v] = true
	}
	for _, grp := range w.groups {
		need[grp.output] = true
	}
	keep := func(v graph.ValueID) bool { return need[v] }
	w.keep = keep
	if !w.cfg.Layerwise {
		return nil
	}
	sizes := make([]int64, w.g.NumValues())
	for name, t := range s.Feeds {
		if v, ok := w.g.Lookup(name); ok {
			sizes[v] = int64(t.DType.Bytes(t.Len()))
		}
	}
	_, err := w.runner.Run(ctx, s.Feeds, &exec.Hooks{Output: func(n *graph.Node, i int, t *tensor.Tensor) error {
		sizes[n.Outputs[i]] = int64(t.DType.Bytes(t.Len()))
		return nil
	}})
	if err != nil {
		return err
	}
	room := w.memory
	for v, size := range sizes {
		if need[graph.ValueID(v)] {
			room -= size
		}
	}
	all := true
	add := func(v graph.ValueID) {
		if v == graph.NoValue || need[v] || w.g.Const(v) != nil {
			return
		}
		if room -= sizes[v]; room < 0 {
			all = false
			room += sizes[v]
			return
		}
		need[v] = true
	}
	for _, v := range w.g.Inputs {
		need[v] = true // nothing can be recomputed without them
	}
	for _, id := range w.order {
		for _, v := range w.g.Node(id).Outputs {
			add(v)
		}
	}
	if all {
		w.keep = func(graph.ValueID) bool { return true }
	}
	return nil
}
