package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/shard"
	"qwb/observers"
	"qwb/quantizer/sim"
)

// Config says what to analyse. The zero value asks for nothing; set at least one kind.
type Config struct {
	Graphwise, Layerwise, Statistical bool
	// layerwise: split the local error into weight and activation, and measure what tensors that it reads make of it
	Split   bool
	Outputs bool // error of the whole quantized graph at the graph outputs; Graphwise includes it
	Threads int  // samples analysed at a time, 0 for one; results do not depend on it
	// Memory is how many bytes of float activations layerwise analysis keeps to restart from, over all threads; 0 for 2 GiB. What
	// is not kept is computed again, which costs time and changes no number. The graph outputs are kept in any case, and with
	// Graphwise those of the operators analysed. Beside what is kept there are the weights, four times (as they are and
	// quantized, each also as packed for the kernels), and each thread needs what two runs need.
	Memory int64
	// Parts are what outputs are judged by beside the whole, as NewJudge takes them.
	Parts []Slice
	// Thresholds returns the ranges that the calibration methods choose for a value; nil leaves them out.
	Thresholds func(v graph.ValueID) []Threshold
	// Progress is called after each sample with the number done; it may be nil.
	Progress func(done int)
	// Stage names the run in errors and among the units of a part; empty: analyze.
	Stage string
	// Deal is, of a part of a run, which samples it has, and Own gives them. The samples of Analyze are all in any case, of which a part runs
	// the first one too: what a row makes of its error is found on it.
	Deal shard.Deal
	Own  func() exec.Iterator
}

const defaultMemory = 2 << 30

// Analyze measures the quantization q of g. It runs every sample once through the float graph; the quantized graph (graphwise)
// is compared with that, and each operator alone (layerwise) is run from its activations. The report's Seconds, Model, Plan
// and Platform are the caller's to fill.
//
// Layerwise restarts at the operator and stops where the perturbed values equal the kept ones bit for bit; its numbers are those
// of running the whole graph once per operator. It fails on an empty data set and on outputs that are not finite.
func Analyze(ctx context.Context, g *graph.Graph, q *sim.Simulator, samples exec.Iterator, cfg Config) (*Report, error) {
	judge, given := NewJudge(g, cfg.Parts...), g
	if g = judge.g; cfg.Layerwise {
		g = judge.Watched(g)
	}
	session, err := exec.New(g, exec.Options{Context: ctx})
	if err != nil {
		return nil, err
	}
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	cfg.Stage = cmp.Or(cfg.Stage, "analyze")
	a := &analyzer{cfg: cfg, sim: q, given: given, g: g, session: session, order: order, work: newWork(g), judge: judge}
	if a.groups, err = groupsOf(g, q); err != nil {
		return nil, err
	}
	a.cut(max(1, cfg.Deal.Ranges))
	keep := a.required()
	s, err := samples.Next(ctx)
	if err == nil {
		samples = &first{Iterator: samples, sample: s}
		if err = a.fit(ctx, s); err == nil && cfg.Layerwise {
			a.extra++
			if err = a.fill(ctx, keep, s); err != nil {
				err = fmt.Errorf("sample %s: %w", s.Name, err)
			}
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", a.cfg.Stage, err)
	}
	results, err := a.collect(ctx, samples, keep)
	if err != nil {
		return nil, err
	}
	r, err := a.report(results)
	if err == nil && r.Layerwise != nil && r.Outputs != nil {
		if r.Together, err = a.together(ctx, r, results); errors.As(err, new(*exec.MemoryError)) {
			err = nil // the rest stands without it
		}
	}
	return r, err
}

// fit refuses, before anything runs, what does not fit into memory, and lets as many samples run at a time as do. Where all memory is
// bound, what is kept gets a quarter of what there is.
func (a *analyzer) fit(ctx context.Context, s *exec.Sample) error {
	memory, w := cmp.Or(a.cfg.Memory, defaultMemory), exec.Work{Threads: a.cfg.Threads}
	if a.cfg.Layerwise { // the first samples are run again for what follows from the rows
		w.Outputs = 2
	}
	threads, room, err := exec.Fit(ctx, a.g, s.Feeds, w, memory)
	if err == nil && exec.MemoryOf(ctx) > 0 {
		a.cfg.Memory = max(1, min(memory, room/4))
		threads = min(threads, max(1, int(int64(threads)*3/4)))
	}
	a.cfg.Threads = threads
	return err
}

// collect analyses the samples: the first one, which says what each row makes of its error (see findGains), then the others.
func (a *analyzer) collect(ctx context.Context, samples exec.Iterator, keep []bool) ([]*sampleResult, error) {
	a.states = map[graph.ValueID]*tensorState{}
	if !a.cfg.Layerwise {
		return a.pass(ctx, a.own(samples), keep, 0, a.add)
	}
	for len(a.probed) < 2 {
		s, err := samples.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.cfg.Stage, err)
		}
		a.probed = append(a.probed, s)
	}
	own, err := a.ownBehindFirst(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.cfg.Stage, err)
	}
	results, err := a.begin(ctx, keep)
	if err != nil || len(a.probed) < 2 {
		return results, cmp.Or(err, a.cfg.Deal.Done())
	}
	a.findGains(results[0])
	if own == nil {
		own = &first{Iterator: samples, sample: a.probed[1]}
	}
	more, err := a.pass(ctx, own, keep, 1, a.add)
	return append(results, more...), err
}

// ownBehindFirst are the samples of a part of a run behind the first of all; nil in a run without parts. Where the first one is of the
// part, it is taken from there: the steps of a sequence follow each other in one iterator.
func (a *analyzer) ownBehindFirst(ctx context.Context) (exec.Iterator, error) {
	d := &a.cfg.Deal
	if !d.IsPart() {
		return nil, nil
	}
	own := a.cfg.Own()
	if len(d.Places) == 0 || d.Places[0] != 0 {
		return own, nil
	}
	s, err := own.Next(ctx)
	if err == nil {
		a.probed[0], d.Places = s, d.Places[1:]
	}
	return own, err
}

// own are the samples of a part of a run, in place of all.
func (a *analyzer) own(samples exec.Iterator) exec.Iterator {
	if a.cfg.Deal.IsPart() {
		return a.cfg.Own()
	}
	return samples
}

// begin analyses the first sample. Every part of a run does, and the one that has it keeps what it gave.
func (a *analyzer) begin(ctx context.Context, keep []bool) (results []*sampleResult, err error) {
	deal := a.cfg.Deal
	mine := deal.IsPart() && deal.Mine(0)
	do := func() ([]*sampleResult, error) {
		a.cfg.Deal = shard.Deal{}
		defer func() { a.cfg.Deal = deal }()
		return a.pass(ctx, &exec.InMemory{Samples: a.probed[:min(1, len(a.probed))]}, keep, 0, nil)
	}
	if deal.IsPart() && !mine {
		results, err = do()
		a.states = map[graph.ValueID]*tensorState{}
	} else {
		results, err = shard.Unit(deal.Run, a.cfg.Stage+", sample 0", mine, do)
	}
	if err == nil {
		a.add(0, &results[0])
	}
	return results, err
}

// pass analyses samples, of which so many were before, and hands what each gave to then.
func (a *analyzer) pass(ctx context.Context, samples exec.Iterator, keep []bool, before int,
	then func(int, **sampleResult)) ([]*sampleResult, error) {
	var workers []*worker
	c := collector[*sampleResult]{stage: a.cfg.Stage, threads: a.cfg.Threads, from: before, then: then, join: a.join, deal: a.cfg.Deal,
		worker: func() func(context.Context, int, *exec.Sample) (*sampleResult, error) {
			w := a.newWorker(keep)
			workers = append(workers, w)
			return w.sample
		}}
	if progress := a.cfg.Progress; progress != nil {
		c.progress = func(n int) { progress(before + n) }
	}
	results, err := c.run(ctx, samples)
	if err == nil || errors.Is(err, shard.ErrDone) {
		for _, w := range workers {
			w.mergeStates(a.states)
		}
		err = cmp.Or(a.shareStates(), err)
	}
	return results, err
}

// add adds the sums of a sample to those of all.
func (a *analyzer) add(index int, s **sampleResult) {
	for _, x := range []struct {
		to   *tally
		sums *[]sum
	}{{&a.tally, &(*s).sums}, {&a.floats, &(*s).floats}} {
		if *x.sums != nil {
			x.to.add(index, *x.sums)
			*x.sums = nil
		}
	}
}

// shareStates keeps what a part of a run saw of tensors; in a merge it adds what all of them did.
func (a *analyzer) shareStates() error {
	r := a.cfg.Deal.Run
	if r == nil || !a.cfg.Statistical {
		return nil
	}
	type seen struct {
		Value graph.ValueID
		State []byte
	}
	var list []seen
	for _, v := range slices.Sorted(maps.Keys(a.states)) {
		b, err := a.states[v].MarshalBinary()
		if err != nil {
			return err
		}
		list = append(list, seen{v, b})
	}
	all, err := shard.All(r, "tensors", list)
	if err != nil || r.IsPart() {
		return err
	}
	for _, x := range all {
		st := observers.New()
		if err := st.UnmarshalBinary(x.State); err != nil {
			return err
		}
		if was := a.states[x.Value]; was != nil {
			was.Merge(st)
		} else {
			a.states[x.Value] = &tensorState{st}
		}
	}
	return nil
}

// analyzer is what the workers share; they do not change it.
type analyzer struct {
	cfg     Config
	sim     *sim.Simulator
	given   *graph.Graph
	g       *graph.Graph // that and what the judge watches
	session *exec.Session
	order   []graph.NodeID
	groups  []group
	reads   []bool  // by value: restarts read it; see findRestarts
	stages  []stage // see findStages
	place   []int   // by node: where it stands in the order
	cuts    []int   // where ranges of groups begin, and the end
	work    work
	extra   float64 // forwards beside those of the samples
	states  map[graph.ValueID]*tensorState
	judge   *Judge
	tally   tally           // of the whole quantized graph
	blocks  Blocks          // of the samples
	floats  tally           // of the float graph
	gains   [][]outputError // by group: see findGains
	reach   []float64       // by group: the local error up to which gains hold
	large   []outputError   // by output: the largest error of any row
	counts  [][]bool        // by output and part: see counting
	clips   []float64       // by group: what clipping takes away up to which it need not be measured
	next    []next          // by group: see findNext
	probed  []*exec.Sample  // the first two samples
	rolling exec.Rolling    // states of the whole quantized graph
}

// sampleResult is what one sample contributes.
type sampleResult struct {
	outputs  []outputError // nil where the whole quantized graph was not run
	losses   []float64     // by output, of the whole quantized graph: what the judge says
	graph    []Error       // per group
	layers   []layerResult
	reach    []float64 // per group: how far its float output reaches
	moments  map[graph.ValueID]moments
	forwards int     // of the whole network
	work     float64 // of parts of it, see work: whole numbers, so that the order of adding them does not matter
	place    placeOf
	// sums of the whole quantized graph and of the float graph, until they are added to those of all samples; nil where there are none.
	sums, floats []sum
}

// worker analyses one sample at a time with memory of its own.
type worker struct {
	*analyzer
	runner  *exec.Runner
	kept    *keeper
	full    *exec.Hooks
	groupAt map[graph.ValueID][]int // groups by their output
	scratch sim.Scratch             // shared by the hooks of one operator after the other
	hooked  [][rounded]*exec.Hooks  // by group and view: made when they are first used
	index   int                     // of the sample
	padded  *graph.Padded           // of it
	// together runs the restarts that wait in front of a stage: another runner,
	// since shapes that change from run to run would be inferred each time.
	together *exec.Runner
	queues   []waiting // by stage
	none     []*tensor.Tensor
	reached  *tensor.Tensor              // memory for a stage's value
	known    []*tensor.Tensor            // what a restart is given of the kept values
	own      [rounded + 1]*tensor.Tensor // memory for outputs of one operator, by view; for everything the float one
	states   map[graph.ValueID]*tensorState
}

func (a *analyzer) newWorker(keep []bool) *worker {
	w := &worker{analyzer: a, runner: a.session.NewRunner(), together: a.session.NewRunner(), kept: newKeeper(a.g, keep),
		groupAt: map[graph.ValueID][]int{},
		hooked:  make([][rounded]*exec.Hooks, len(a.groups)), queues: make([]waiting, len(a.stages)),
		none: make([]*tensor.Tensor, a.g.NumValues()), states: map[graph.ValueID]*tensorState{}}
	// Graphwise looks at what operators compute, before their readers quantize it.
	w.full = a.sim.NewHooks(sim.View{Islands: true, Early: !a.cfg.Graphwise})
	for i, grp := range a.groups {
		w.groupAt[grp.output] = append(w.groupAt[grp.output], i)
	}
	return w
}

func (w *worker) sample(ctx context.Context, index int, s *exec.Sample) (*sampleResult, error) {
	res := &sampleResult{moments: map[graph.ValueID]moments{}, place: placeIn(s)}
	w.index, w.padded = index, w.judge.padding.of(w.g, s)
	hooks, r := &exec.Hooks{}, w.cfg.Deal.Range(index)
	if w.cfg.Statistical && r == 0 {
		hooks = w.observe(res)
	}
	w.kept.begin(s.Feeds)
	hooks = looking(hooks, w.kept.wants, w.kept.see)
	var float Verdict
	if (w.cfg.Graphwise || w.cfg.Outputs) && r == 0 {
		hooks = w.judge.Watch(hooks, &float)
	}
	out, err := w.runner.Run(ctx, s.Feeds, hooks)
	if err != nil {
		return nil, err
	}
	if r > 0 {
		return res, w.layerwise(ctx, res, r)
	}
	float.Outputs(out)
	w.judge.Hide(&float, s)
	res.forwards++
	if w.cfg.Graphwise || w.cfg.Outputs {
		if err := w.graphwise(ctx, s, &float, res); err != nil {
			return nil, err
		}
	}
	if w.cfg.Graphwise || w.cfg.Outputs || w.cfg.Layerwise {
		sums, err := w.judge.sums(float.outputs, float.outputs, false)
		if err != nil {
			return nil, err
		}
		w.judge.reaches(sums, &float)
		res.floats = sums
	}
	if w.cfg.Layerwise {
		if err := w.layerwise(ctx, res, r); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// outputsOf returns the float graph outputs of the current sample.
func (w *worker) outputsOf() []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(w.g.Outputs))
	for i, v := range w.g.Outputs {
		if out[i] = w.kept.values[v]; out[i] == nil {
			out[i] = w.g.Const(v)
		}
	}
	return out
}
