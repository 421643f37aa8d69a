package workbench

import (
	"context"
	"encoding/json"

	"qwb"
	"qwb/internal/options"
	"qwb/quantizer/tqc"
)

type answersJob struct{ threeRuns }

func (o *answersJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*Answers, []tqc.Warning, error) {
	b.bounded(&o.Data, &o.Threads, nil)
	b.remember(&o.Data)
	r, w, err := p.Answers(ctx, qwb.AnswersOptions{Data: o.Data, Profile: o.Profile, Threads: o.Threads})
	if r == nil {
		return nil, w, err
	}
	return &Answers{r, b.dataFor(p, &o.Data)}, w, err
}

// Answers are what the network answers, and which samples they are of: Data is what other methods take to find the same ones.
type Answers struct {
	*qwb.AnswersResult
	Data dataOptions `json:"data"`
}

type featureJob struct {
	sampleLayersJob
	node    string
	channel *int
}

func (o *featureJob) Table(c *qwb.Catalog) options.Table {
	return append(o.sampleLayersJob.Table(c), argument("node", &o.node), argument("channel", &o.channel))
}

func (o *featureJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*qwb.FeatureMap, []tqc.Warning, error) {
	f := qwb.FeatureOptions{AnswersOptions: qwb.AnswersOptions{Data: o.data}, Sample: o.sample, Node: o.node, Channel: -1}
	b.bounded(&f.Data, &f.Threads, nil)
	if o.channel != nil {
		f.Channel = *o.channel
	}
	return p.Feature(ctx, f)
}

// feature runs the job and waits for it.
func (b *Bench) feature(ctx context.Context, params json.RawMessage) (any, error) {
	return b.waited(ctx, "feature", params)
}
