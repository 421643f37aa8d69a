package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"qwb/analysis/task"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/grad"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
)

// Sensitivity estimates what an operator quantized alone (a row as LayerError has it) makes of the graph outputs.
type Sensitivity struct {
	Node string `json:"node"`
	Op   string `json:"op"`
	NSR         // estimated: of all outputs together, of class scores without their mean

	losses []float64 // by sample
	blocks Blocks
}

// Loss is the estimate with its error bar over the samples.
func (s *Sensitivity) Loss() Estimate { return s.blocks.Estimate(s.losses) }

// Layer is the row as a search takes it that was ranked by layerwise analysis: the estimate stands for the loss of each of so many parts.
func (s *Sensitivity) Layer(g *graph.Graph, parts int) LayerError {
	l := LayerError{Node: s.Node, Op: s.Op, Error: Error{NSR: s.NSR.NSR}, Spread: s.Spread, losses: s.losses, blocks: s.blocks,
		parts: slices.Repeat([]float64{s.NSR.NSR}, parts)}
	if id, ok := g.LookupNode(s.Node); ok {
		l.MACs, _ = g.MACsAtLeast(id)
	}
	return l
}

// Sensitivities estimates the rows of layerwise analysis for several quantizations of g, from one backward pass for each sample: for each
// operator the sum over the channels of its output of (sum over the channel's elements of dL/dy * (quantized y - float y))^2, where all
// that the operator rounds is rounded and what it reads is float. Rows are by quantization, in graph order; one whose output is not float32
// is left out.
//
// What is estimated is the NSR at the outputs. To first order the error there is J e, J being the Jacobian of the outputs, each divided by
// the root of its energy, and e the error at the operator. The squared error itself has no gradient in float, where it is 0. So L is the
// outputs, so divided, times random signs: the mean of (dL/dy)(dL/dy)' over the signs is J'J (Hutchinson 1990), the Gauss-Newton
// matrix of the NSR. Errors of different channels are taken to be uncorrelated; those within one are not: rounding weights moves all of a
// channel. Signs are drawn from the place of the sample; of class scores their mean is taken off, as a Softmax does not see it.
//
// Of cfg Threads, Memory, Parts, Deal and Progress are used; of Parts only which outputs there are. In a part of a run samples are those of
// the part, and the error is shard.ErrDone. An operator without a rule for its gradient, between what is quantized and an output, is an
// error that names it; so are an empty data set and values that are not finite.
func Sensitivities(ctx context.Context, g *graph.Graph, list []*sim.Simulator, samples exec.Iterator, cfg Config) ([][]Sensitivity, error) {
	s := &sensitivities{graphs: map[string]*gradientGraph{}}
	judge := NewJudge(g, cfg.Parts...)
	s.judge = judge
	session, err := exec.New(judge.g, exec.Options{Context: ctx})
	if err != nil {
		return nil, err
	}
	order, err := judge.g.Order()
	if err != nil {
		return nil, err
	}
	cfg.Layerwise = true
	for _, q := range list {
		a := &analyzer{cfg: cfg, sim: q, given: g, g: judge.g, session: session, order: order, work: newWork(judge.g), judge: judge}
		if a.groups, err = groupsOf(judge.g, q); err != nil {
			return nil, err
		}
		s.list = append(s.list, a)
	}
	return s.run(ctx, samples)
}

// sensitivities is what workers share.
type sensitivities struct {
	judge *Judge
	list  []*analyzer // by quantization
	keep  []bool
	wrt   []graph.ValueID

	mu     sync.Mutex
	graphs map[string]*gradientGraph // by the shapes of the inputs
}

// gradientGraph computes gradients for samples of one shape.
type gradientGraph struct {
	session *exec.Session
	seeds   []seed
	of      map[graph.ValueID][]graph.ValueID // by what is the gradient: of an Add's operands it is that of the sum
}

// ofSample is what is estimated of one sample, by quantization and row.
type ofSample struct {
	place placeOf
	rows  [][]float64
}

func (s *sensitivities) run(ctx context.Context, samples exec.Iterator) ([][]Sensitivity, error) {
	all := s.list[0]
	s.keep = make([]bool, all.g.NumValues())
	for _, a := range s.list {
		for i := range a.groups {
			if v := a.groups[i].output; !slices.Contains(s.wrt, v) && all.g.Const(v) == nil {
				s.wrt = append(s.wrt, v)
			}
		}
	}
	one, err := samples.Next(ctx)
	if err == nil {
		samples = &first{Iterator: samples, sample: one}
		if err = s.fit(ctx, one); err == nil {
			err = all.fill(ctx, s.keep, one)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("sensitivity: %w", err)
	}
	c := collector[ofSample]{stage: "sensitivity", threads: all.cfg.Threads, progress: all.cfg.Progress, deal: all.cfg.Deal,
		worker: func() func(context.Context, int, *exec.Sample) (ofSample, error) {
			w := s.newWorker()
			return func(ctx context.Context, i int, x *exec.Sample) (r ofSample, err error) {
				r.place = placeIn(x)
				r.rows, err = w.sample(ctx, i, x)
				return r, err
			}
		}}
	results, err := c.run(ctx, samples)
	if err != nil {
		return nil, err
	}
	return s.rows(results), nil
}

// fit refuses what does not fit into memory, and lets as many samples run at a time as do.
func (s *sensitivities) fit(ctx context.Context, one *exec.Sample) error {
	d, err := s.gradients(ctx, one)
	if err != nil {
		return err
	}
	feeds := maps.Clone(one.Feeds)
	for _, x := range d.seeds {
		feeds[x.name] = tensor.New(tensor.Float32, x.shape...)
	}
	all := s.list[0]
	memory := cmp.Or(all.cfg.Memory, defaultMemory)
	threads, room, err := exec.Fit(ctx, d.session.Graph(), feeds, exec.Work{Threads: all.cfg.Threads}, memory)
	if err == nil && exec.MemoryOf(ctx) > 0 {
		all.cfg.Memory = max(1, min(memory, room/4))
		threads = min(threads, max(1, int(int64(threads)*3/4)))
	}
	all.cfg.Threads = threads
	return err
}

// seed is an input of a gradient graph: the gradient of L with respect to an output that is judged, or to the class scores behind it.
type seed struct {
	value  graph.ValueID // of the gradient graph
	name   string
	output int
	shape  []int
}

// gradients is the graph for the shapes of a sample.
func (s *sensitivities) gradients(ctx context.Context, one *exec.Sample) (*gradientGraph, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.judge.g.Clone()
	key := ""
	for _, v := range g.Inputs {
		if t := one.Feeds[g.Value(v).Name]; t != nil {
			key += fmt.Sprint(t.Shape)
			g.Value(v).Shape = graph.Static(t.Shape...)
		}
	}
	if d := s.graphs[key]; d != nil {
		return d, nil
	}
	if errs := graph.InferShapes(g); len(errs) > 0 {
		return nil, errs[0]
	}
	d := &gradientGraph{of: map[graph.ValueID][]graph.ValueID{}}
	seeds := map[graph.ValueID]graph.ValueID{}
	for k, v := range g.Outputs {
		if l := s.judge.logits[k]; l.node != graph.NoNode {
			v = l.value
		}
		shape, ok := g.Value(v).Shape.Ints()
		if _, twice := seeds[v]; !ok || twice || g.Value(v).DType != tensor.Float32 || g.Const(v) != nil {
			continue
		}
		name := g.FreshName("seed")
		x, err := g.AddValue(graph.Value{Name: name, DType: tensor.Float32, Shape: g.Value(v).Shape})
		if err != nil {
			return nil, err
		}
		g.Inputs, seeds[v] = append(g.Inputs, x), x
		d.seeds = append(d.seeds, seed{x, name, k, shape})
	}
	if len(seeds) == 0 {
		return nil, errors.New("no output is a float32 tensor of known shape: there is nothing to differentiate")
	}
	list, err := grad.Add(g, seeds, s.wrt)
	if err != nil {
		return nil, err
	}
	for i, v := range list {
		if v != graph.NoValue {
			d.of[v] = append(d.of[v], s.wrt[i])
		}
	}
	if errs := graph.InferShapes(g); len(errs) > 0 {
		return nil, errs[0]
	}
	d.session, err = exec.New(g, exec.Options{Context: ctx})
	clear(s.graphs) // of the shapes before
	s.graphs[key] = d
	return d, err
}

// feeds are those of a sample and the seeds; f is its float run.
func (d *gradientGraph) feeds(j *Judge, index int, one *exec.Sample, f *Verdict) (map[string]*tensor.Tensor, error) {
	feeds := maps.Clone(one.Feeds)
	for _, x := range d.seeds {
		random := randomSigns(index, x.output)
		t, l := f.outputs[x.output].ToRowMajor(), j.logits[x.output]
		outer, n, inner := 1, t.Len(), 1
		if l.node != graph.NoNode {
			t = f.scores[x.output]
			var ok bool
			if outer, n, inner, ok = l.blocks(t); !ok {
				return nil, fmt.Errorf("no axis %d in %s", l.axis, t.Type())
			}
		}
		to := tensor.New(tensor.Float32, x.shape...)
		if to.Len() != t.Len() {
			return nil, fmt.Errorf("%q has the shape %v, not %v", j.g.Value(j.g.Outputs[x.output]).Name, t.Shape, x.shape)
		}
		energy := 0.0
		for o := range outer {
			for i := range inner {
				energy += signs(random, to.F32(), t.F32(), o*n*inner+i, n, inner, l.node != graph.NoNode)
			}
		}
		scale := 1 / math.Sqrt(energy+nsrFloor)
		for i := range to.F32() {
			to.F32()[i] *= float32(scale)
		}
		feeds[x.name] = to
	}
	return feeds, nil
}

// randomSigns are those of a sample's output.
func randomSigns(index, output int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(index), uint64(output)))
}

// signs writes a random sign for each of n elements from a place on, step apart, 0 for those that are not finite, and returns the sum of
// their squares. Of class scores those count that a Softmax sees, without their mean.
func signs(random *rand.Rand, to, f []float32, from, n, step int, classes bool) (energy float64) {
	least := math.Inf(-1)
	if classes {
		top := math.Inf(-1)
		for c := range n {
			top = max(top, float64(f[from+c*step]))
		}
		least = top - unseen
	}
	var mean, drawn, count float64
	for c := range n {
		at := from + c*step
		if x := float64(f[at]); x >= least && !math.IsInf(x, 0) && x == x {
			to[at] = float32(1 - 2*int(random.Uint64()>>63))
			mean, drawn, count = mean+x, drawn+float64(to[at]), count+1
		}
	}
	if !classes {
		mean, drawn = 0, 0
	}
	for c := range n {
		if at := from + c*step; to[at] != 0 {
			x := float64(f[at]) - mean/count
			energy += float64(x * x)
			to[at] -= float32(drawn / count)
		}
	}
	return energy
}

// sensitivityWorker estimates one sample at a time.
type sensitivityWorker struct {
	*sensitivities
	workers []*worker // by quantization; they share what is kept of the float run
	at      *gradientGraph
	runner  *exec.Runner // of it
}

func (s *sensitivities) newWorker() *sensitivityWorker {
	w := &sensitivityWorker{sensitivities: s}
	for _, a := range s.list {
		w.workers = append(w.workers, a.newWorker(s.keep))
	}
	for _, more := range w.workers[1:] {
		more.kept, more.runner = w.workers[0].kept, w.workers[0].runner
	}
	return w
}

// sample is what is estimated of one sample, by quantization and row; NaN where there is no gradient.
func (w *sensitivityWorker) sample(ctx context.Context, index int, one *exec.Sample) ([][]float64, error) {
	all := w.workers[0]
	all.kept.begin(one.Feeds)
	var float Verdict
	hooks := w.judge.Watch(looking(&exec.Hooks{}, all.kept.wants, all.kept.see), &float)
	out, err := all.runner.Run(ctx, one.Feeds, hooks)
	if err != nil {
		return nil, err
	}
	float.Outputs(out)
	w.judge.Hide(&float, one)
	d, err := w.gradients(ctx, one)
	if err != nil {
		return nil, err
	}
	if d != w.at {
		w.at, w.runner = d, d.session.NewRunner()
	}
	feeds, err := d.feeds(w.judge, index, one, &float)
	if err != nil {
		return nil, err
	}
	found := make([][]float64, len(w.workers))
	for k, one := range w.workers {
		found[k] = make([]float64, len(one.groups))
	}
	for _, x := range d.seeds {
		if err := w.meet(ctx, d.of[x.value], feeds[x.name], found); err != nil {
			return nil, err
		}
	}
	_, err = w.runner.Run(ctx, feeds, &exec.Hooks{
		Wants: func(v graph.ValueID) bool { return d.of[v] != nil },
		Output: func(n *graph.Node, i int, t *tensor.Tensor) error {
			return w.meet(ctx, d.of[n.Outputs[i]], t.ToRowMajor(), found)
		}})
	return found, err
}

// meet is what follows of the gradient with respect to values for the rows whose outputs they are.
func (w *sensitivityWorker) meet(ctx context.Context, values []graph.ValueID, gradient *tensor.Tensor, found [][]float64) error {
	for k, one := range w.workers {
		for i := range one.groups {
			g := &one.groups[i]
			if !slices.Contains(values, g.output) {
				continue
			}
			q, f, err := one.moved(ctx, i)
			if err == nil {
				found[k][i], err = projected(gradient, q, f, channelsAt(one.g, g.output))
			}
			if err != nil {
				return one.g.ErrorAt("sensitivity", g.node, err)
			}
		}
	}
	return nil
}

// moved is the output of row i alone, quantized and float.
func (w *worker) moved(ctx context.Context, i int) (q, f *tensor.Tensor, err error) {
	res := &sampleResult{}
	if f, err = w.floatOf(ctx, &w.groups[i], res); err != nil {
		return nil, nil, err
	}
	q, err = w.alone(ctx, &w.groups[i], rounded, f, w.hooks(i, everything), res)
	return q, f, err
}

// projected is the sum over channels of the square of the sum of gradient * (q - f) over the elements of a channel.
func projected(gradient, q, f *tensor.Tensor, axis int) (sum float64, err error) {
	x, y, err := aligned(q.ToRowMajor(), f.ToRowMajor())
	if err != nil || q == f {
		return 0, err
	}
	outer, channels, inner := 1, 1, gradient.Len()
	if axis >= 0 && axis < len(gradient.Shape) {
		outer, channels, inner = gradient.Blocks(axis)
	}
	sums := make([]float64, channels)
	for o := range outer {
		for c := range sums {
			from := (o*channels + c) * inner
			for i, g := range gradient.F32()[from : from+inner] {
				sums[c] += float64(float64(g) * (float64(x[from+i]) - float64(y[from+i])))
			}
		}
	}
	for _, d := range sums {
		sum += float64(d * d)
	}
	if !finite(sum) {
		return 0, ErrNotFinite
	}
	return sum, nil
}

// channelsAt is the axis of the channels of a value: those of the nearest operator in front of it that adds up products, as far as
// the rank stays. Where there is none it is the second one of pictures, the last one of others.
func channelsAt(g *graph.Graph, v graph.ValueID) int {
	rank := len(g.Value(v).Shape)
	usual := rank - 1
	if rank == 4 {
		usual = 1
	}
	p := g.Producer(v)
	if p == graph.NoNode {
		return usual
	}
	n := g.Node(p)
	spec := n.Spec()
	x := n.Input(0)
	switch {
	case graph.Slides(n.Op):
		return 1
	case spec != nil && spec.Kind == graph.KindComputing:
		return rank - 1
	case x == graph.NoValue || g.Const(x) != nil || len(g.Value(x).Shape) != rank || n.Op == "Reshape":
		return usual
	case n.Op == "Transpose":
		if at := slices.Index(n.AttrInts("perm"), int64(channelsAt(g, x))); at >= 0 {
			return at
		}
		return usual
	}
	return channelsAt(g, x)
}

// rows averages the samples.
func (s *sensitivities) rows(results []ofSample) [][]Sensitivity {
	blocks := blocksIn(placesOf(results, func(r ofSample) placeOf { return r.place }))
	out := make([][]Sensitivity, len(s.list))
	for k, a := range s.list {
		for i := range a.groups {
			if a.g.Value(a.groups[i].output).DType != tensor.Float32 {
				continue
			}
			n := a.g.Node(a.groups[i].node)
			row := Sensitivity{Node: n.Name, Op: n.Op, blocks: blocks}
			for _, r := range results {
				row.losses = append(row.losses, r.rows[k][i])
			}
			row.NSR = NewNSR(row.Loss())
			out[k] = append(out[k], row)
		}
	}
	return out
}

// SensitivityTable is what Sensitivities found, with what it agrees with.
type SensitivityTable struct {
	Rows []Sensitivity `json:"rows"`
	RankAgreement
	Formats []SensitivityInFormat `json:"formats,omitempty"`
	// AllFormats compares the rows of the plan and of all formats together: what a search in several formats puts in order.
	AllFormats *RankAgreement `json:"all_formats,omitempty"`
	Seconds    float64        `json:"seconds"`
}

// SensitivityInFormat has a row for each operator that a format changes, with every operator that can in that format.
type SensitivityInFormat struct {
	Format string        `json:"format"`
	Rows   []Sensitivity `json:"rows"`
	RankAgreement
	Layerwise []LayerError `json:"-"` // of layerwise analysis, nil without
}

// RankAgreement has the rank correlations (rho, and tau-b, with ties) of estimates with the rows of layerwise analysis; nil without those,
// and of fewer than three.
type RankAgreement struct {
	Spearman *float64 `json:"spearman,omitempty"`
	Kendall  *float64 `json:"kendall,omitempty"`
}

// NamedAgreement is a rank correlation with what it is of: empty for the plan, else ", in FORMAT" and the like.
type NamedAgreement struct {
	Of string
	RankAgreement
}

// Agreements are the rank correlations that are known: of the plan, of each format, and of all of them together.
func (t *SensitivityTable) Agreements() (list []NamedAgreement) {
	all := []NamedAgreement{{"", t.RankAgreement}}
	for _, f := range t.Formats {
		all = append(all, NamedAgreement{", in " + f.Format, f.RankAgreement})
	}
	if t.AllFormats != nil {
		all = append(all, NamedAgreement{", of all formats together", *t.AllFormats})
	}
	for _, a := range all {
		if a.Spearman != nil && a.Kendall != nil {
			list = append(list, a)
		}
	}
	return list
}

// Compare adds the rank correlations with rows of layerwise analysis of the plan and of the formats, of the operators that are in both.
func (t *SensitivityTable) Compare(layers []LayerError) {
	x, y := paired(t.Rows, layers)
	t.RankAgreement = agreement(x, y)
	for i := range t.Formats {
		f := &t.Formats[i]
		more, exact := paired(f.Rows, f.Layerwise)
		f.RankAgreement = agreement(more, exact)
		x, y = append(x, more...), append(y, exact...)
	}
	if all := agreement(x, y); len(t.Formats) > 0 && all.Spearman != nil {
		t.AllFormats = &all
	}
}

// paired are estimates and what layerwise analysis measured of the same operators.
func paired(rows []Sensitivity, layers []LayerError) (x, y []float64) {
	at := map[string]float64{}
	for i := range layers {
		at[layers[i].Node] = layers[i].Judged().NSR
	}
	for i := range rows {
		if exact, ok := at[rows[i].Node]; ok {
			x, y = append(x, rows[i].NSR.NSR), append(y, exact)
		}
	}
	return x, y
}

func agreement(x, y []float64) (a RankAgreement) {
	if len(x) >= 3 {
		a.Spearman, a.Kendall = figure(task.RankCorrelation(x, y)), figure(concordance(x, y))
	}
	return a
}

// concordance is Kendall's tau-b of two lists of the same length without NaN; NaN where one is constant.
func concordance(x, y []float64) float64 {
	var agree, inX, inY float64
	for i := range x {
		for k := range i {
			a, b := cmp.Compare(x[i], x[k]), cmp.Compare(y[i], y[k])
			agree, inX, inY = agree+float64(a*b), inX+float64(a*a), inY+float64(b*b)
		}
	}
	return agree / math.Sqrt(inX*inY)
}
