package workbench

import (
	"context"
	"encoding/json"
	"strings"

	"qwb"
	"qwb/internal/options"
	"qwb/quantizer/tqc"
)

// dataOptions are options about samples as pages read and write them.
type dataOptions struct {
	Data        []string `json:"data"`
	Preprocess  string   `json:"preprocess"`
	Samples     int      `json:"samples"`
	Seed        uint64   `json:"seed"`
	Labels      string   `json:"labels"`
	LabelOffset int      `json:"label_offset"`
	Metric      string   `json:"metric"` // several with commas between
	Alphabet    string   `json:"alphabet"`
}

func (d *dataOptions) options() qwb.DataOptions {
	o := qwb.DataOptions{Paths: d.Data, Preprocess: d.Preprocess, Samples: d.Samples, Seed: d.Seed,
		Labels: d.Labels, LabelOffset: d.LabelOffset}
	o.Metric.Alphabet = d.Alphabet
	if d.Metric != "" {
		o.Metric.Names = strings.Split(d.Metric, ",")
	}
	return o
}

func written(o *qwb.DataOptions) dataOptions {
	return dataOptions{o.Paths, o.Preprocess, o.Samples, o.Seed, o.Labels, o.LabelOffset, strings.Join(o.Metric.Names, ","), o.Metric.Alphabet}
}

// remember makes data with labels those that plans are evaluated with unless a page says otherwise.
func (b *Bench) remember(o *qwb.DataOptions) {
	if len(o.Paths) == 0 || o.Labels == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = written(o)
	b.data.Samples, b.data.Seed = 0, 0
}

// evaluation completes options about data: those that plans are evaluated with, where none are named.
func (b *Bench) evaluation(o *qwb.DataOptions) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(o.Paths) == 0 && len(b.data.Data) > 0 {
		samples, seed := o.Samples, o.Seed
		*o = b.data.options()
		if samples > 0 {
			o.Samples, o.Seed = samples, seed
		}
	}
}

// threeRuns are samples run in float, simulated and on integers: the numbers of eval in its three modes; no command lists what each gives.
type threeRuns struct{ options.Eval }

func (o *threeRuns) Table(c *qwb.Catalog) options.Table { return o.Eval.Table(c).Without("batch") }

func (o *threeRuns) line(b *Bench, t options.Table) (string, error) {
	b.evaluation(&o.Data)
	o.Mode = qwb.ModeInt8
	return b.planLine("eval", nil, t)
}

type flipsJob struct {
	threeRuns
	all bool
}

func (o *flipsJob) Table(c *qwb.Catalog) options.Table {
	return append(o.threeRuns.Table(c), argument("all", &o.all))
}

func (o *flipsJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*Flips, []tqc.Warning, error) {
	b.bounded(&o.Data, &o.Threads, nil)
	b.remember(&o.Data)
	r, w, err := p.Flips(ctx, qwb.FlipsOptions{Data: o.Data, Profile: o.Profile, All: o.all, Threads: o.Threads})
	if r == nil {
		return nil, w, err
	}
	return &Flips{r, b.dataFor(p, &o.Data)}, w, err
}

// dataFor are options as other methods take them to find the same samples; those of the plan are named.
func (b *Bench) dataFor(p *qwb.Project, o *qwb.DataOptions) dataOptions {
	d := written(o)
	if d.Data == nil {
		d.Data = []string{}
		if read, err := b.readPlan(p.Plan); err == nil {
			d.Data = dataOf(p.Plan, read)
		}
	}
	return d
}

// Flips are changed predictions, and which samples they are of: Data is what other methods take to find the same ones.
type Flips struct {
	*qwb.FlipsResult
	Data dataOptions `json:"data"`
}

type sampleLayersJob struct {
	data   qwb.DataOptions
	sample string
}

// The data may be those of Flips, of which analyze takes a part.
func (o *sampleLayersJob) Table(*qwb.Catalog) options.Table {
	t := append(options.Data(&o.data), argument("sample", &o.sample))
	for _, row := range options.Metric(&o.data, "output", true).Job() {
		row.Bare = true
		t = append(t, row)
	}
	return t
}

func (o *sampleLayersJob) line(b *Bench, t options.Table) (string, error) {
	b.evaluation(&o.data)
	return "", nil // no command looks at one sample
}

func (o *sampleLayersJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*SampleLayers, []tqc.Warning, error) {
	hash, err := b.planState(p.Plan)
	if err != nil {
		return nil, nil, err
	}
	b.bounded(&o.data, new(int), nil)
	r, w, err := p.SampleLayers(ctx, o.data, o.sample)
	if err != nil {
		return nil, w, err
	}
	all, stale := b.analysis(p.Plan, hash, nil)
	s := &SampleLayers{Sample: o.sample, Layers: make([]SampleLayer, len(r.Graphwise)), Stale: stale}
	at := map[string]*SampleLayer{}
	for i := range r.Graphwise {
		g := &r.Graphwise[i]
		s.Layers[i] = SampleLayer{Node: g.Node, Op: g.Op, NSR: g.NSR}
		at[g.Node] = &s.Layers[i]
	}
	for i := range r.Layerwise {
		if l := &r.Layerwise[i]; at[l.Node] != nil {
			nsr := l.Judged().NSR
			at[l.Node].Alone = &nsr
		}
	}
	if o := r.Judged(); o != nil {
		s.NSR = o.Judged().NSR
	}
	if all != nil {
		for i := range all.Graphwise {
			if l := at[all.Graphwise[i].Node]; l != nil {
				l.Mean = &all.Graphwise[i].NSR
			}
		}
	}
	return s, w, nil
}

// SampleLayers are the errors of one sample.
type SampleLayers struct {
	Sample string        `json:"sample"`
	NSR    float64       `json:"nsr"`    // of the outputs, as the verdict has it
	Layers []SampleLayer `json:"layers"` // in graph order
	Stale  bool          `json:"stale"`  // the means are of other decisions
}

// SampleLayer is the error of one sample up to an operator, of the operator alone at the outputs, and the mean of the first over the
// samples of the last analysis.
type SampleLayer struct {
	Node  string   `json:"node"`
	Op    string   `json:"op"`
	NSR   float64  `json:"nsr"`
	Alone *float64 `json:"alone"`
	Mean  *float64 `json:"mean"`
}

// sampleLayers runs the job and waits for it.
func (b *Bench) sampleLayers(ctx context.Context, params json.RawMessage) (any, error) {
	return b.waited(ctx, "sample-layers", params)
}

// waited runs a job and waits for it.
func (b *Bench) waited(ctx context.Context, kind string, params json.RawMessage) (any, error) {
	j, err := b.begin(kind, params, "")
	if err != nil {
		return nil, err
	}
	return b.jobs.wait(ctx, j.ID)
}
