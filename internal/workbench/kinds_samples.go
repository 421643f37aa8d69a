package workbench

import (
	"context"

	"qwb"
	"qwb/quantizer/tqc"
)

// evaluation completes options about data: those that plans are evaluated with, where none are named.
func (d *dataOptions) evaluation(b *Bench) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(d.Data) == 0 && len(b.data.Data) > 0 {
		samples, seed := d.Samples, d.Seed
		*d = b.data
		if samples > 0 {
			d.Samples, d.Seed = samples, seed
		}
	}
}

type flipsJob struct {
	dataOptions
	Profile string `json:"profile"`
	All     bool   `json:"all" flag:"-"`
}

// The numbers of eval in all three modes; no command lists the samples in one run.
func (o *flipsJob) line(b *Bench) (string, error) {
	o.evaluation(b)
	line := struct {
		Mode string `json:"mode"`
		*flipsJob
	}{qwb.ModeInt8, o}
	return b.planLine("eval", &line)
}

func (o *flipsJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	o.remember(b)
	r, w, err := p.Flips(ctx, qwb.FlipsOptions{Data: o.of(b), Profile: o.Profile, All: o.All, Threads: b.o.Threads})
	if err != nil {
		return result(r), w, err
	}
	f := Flips{r, o.dataOptions}
	if f.Data.Data == nil { // those of the plan
		f.Data.Data = []string{}
		if read, err := b.readPlan(p.Plan); err == nil {
			f.Data.Data = dataOf(p.Plan, read)
		}
	}
	return &f, w, nil
}

// Flips are changed predictions, and which samples they are of: Data is what other methods take to find the same ones.
type Flips struct {
	*qwb.FlipsResult
	Data dataOptions `json:"data"`
}

type sampleLayersJob struct {
	dataOptions
	Sample string `json:"sample" flag:"-"`
}

func (o *sampleLayersJob) line(b *Bench) (string, error) {
	o.evaluation(b)
	return b.planLine("analyze", o)
}

func (o *sampleLayersJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	hash, err := b.planState(p.Plan)
	if err != nil {
		return nil, nil, err
	}
	r, w, err := p.SampleLayers(ctx, o.of(b), o.Sample)
	if err != nil {
		return nil, w, err
	}
	all, stale := b.analysis(p.Plan, hash, nil)
	s := &SampleLayers{Sample: o.Sample, Layers: make([]SampleLayer, len(r.Graphwise)), Stale: stale}
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

// SampleLayer is the error of one sample up to an operator, of the operator alone at the outputs, and the mean of the first over the samples of the
// last analysis.
type SampleLayer struct {
	Node  string   `json:"node"`
	Op    string   `json:"op"`
	NSR   float64  `json:"nsr"`
	Alone *float64 `json:"alone"`
	Mean  *float64 `json:"mean"`
}

// sampleLayers runs the job and waits for it.
func (b *Bench) sampleLayers(ctx context.Context, o sampleLayersJob) (any, error) {
	line, err := o.line(b)
	if err != nil {
		return nil, err
	}
	for i := range kinds {
		if kinds[i].Name == "sample-layers" {
			j, err := b.jobs.start(&kinds[i], &o, line, "")
			if err != nil {
				return nil, err
			}
			return b.jobs.wait(ctx, j.ID)
		}
	}
	return nil, nil
}

// languageOptions are the flags about language models.
type languageOptions struct {
	Tokenizer string `json:"tokenizer"`
	Mode      string `json:"mode"`
	GroupSize int    `json:"group_size"`
	Bits      int    `json:"bits"`
	Method    string `json:"method"`
	Judge     string `json:"judge"`
}

func (o *languageOptions) of(b *Bench) qwb.LanguageOptions {
	return qwb.LanguageOptions{Tokenizer: o.Tokenizer, Mode: o.Mode, Group: o.GroupSize, Bits: o.Bits, Method: o.Method, Judge: o.Judge, Threads: b.o.Threads}
}

// languageLine is a command about the checkpoint that is open.
func (b *Bench) languageLine(name string, o *languageOptions, options any) (string, error) {
	model := b.project().Model
	if model == "" {
		return "", qwb.Usagef("no model is open")
	}
	l := o.of(b)
	if err := l.Check(); err != nil {
		return "", err
	}
	return command(append([]string{name, model}, flagsOf(options)...)...), nil
}

// textOptions are the flags about texts.
type textOptions struct {
	languageOptions
	Text    string `json:"text"`
	Samples int    `json:"samples"`
	Seed    uint64 `json:"seed"`
	Against string `json:"against"`
}

func (o *textOptions) of(b *Bench) qwb.TextOptions {
	return qwb.TextOptions{LanguageOptions: o.languageOptions.of(b), Text: o.Text, Samples: o.Samples, Seed: o.Seed, Against: o.Against}
}

func (o *textOptions) needText() error {
	if o.Text == "" {
		return qwb.Usagef("a text is needed: a file with one sequence per line")
	}
	return nil
}

type languageRank struct{ textOptions }

func (o *languageRank) line(b *Bench) (string, error) {
	if l := o.languageOptions.of(b); !l.Quantizes() {
		return "", qwb.Usagef("say how to quantize: bits, group_size or method")
	}
	line, err := b.languageLine("analyze", &o.languageOptions, o)
	if err == nil {
		err = o.needText()
	}
	return line + " --layerwise", err
}

func (o *languageRank) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	r, w, err := p.AnalyzeText(ctx, o.of(b))
	return result(r), w, err
}

type languageEval struct{ textOptions }

func (o *languageEval) line(b *Bench) (string, error) {
	line, err := b.languageLine("eval", &o.languageOptions, o)
	if err == nil {
		err = o.needText()
	}
	return line, err
}

func (o *languageEval) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	t := o.of(b)
	t.Tokens = qwb.ListedTokens
	r, w, err := p.EvalText(ctx, t)
	return result(r), w, err
}

type languageGenerate struct {
	languageOptions
	Prompt      string  `json:"prompt"`
	Tokens      int     `json:"tokens"`
	Temperature float64 `json:"temperature"`
	TopK        int     `json:"top_k"`
	TopP        float64 `json:"top_p"`
	Seed        uint64  `json:"seed"`
}

func (o *languageGenerate) line(b *Bench) (string, error) {
	return b.languageLine("generate", &o.languageOptions, o)
}

// Continuation is a text that a model continued.
type Continuation struct {
	Text    string   `json:"text"`
	Tokens  []string `json:"tokens"` // all pieces of it, the prompt's included
	Rate    float64  `json:"tokens_per_second"`
	Seconds float64  `json:"seconds"`
}

// TwoTexts are the continuations of a prompt in float and quantized.
type TwoTexts struct {
	Float     Continuation `json:"float"`
	Quantized Continuation `json:"quantized"`
	Prompt    int          `json:"prompt"` // tokens of the prompt
	// Differs is the first token that is another one, -1 where there is none.
	Differs int `json:"first_difference"`
}

// pieces collects what is streamed: each write is a piece.
type pieces struct {
	list []string
	done func(int)
}

func (p *pieces) Write(b []byte) (int, error) {
	p.list = append(p.list, string(b))
	p.done(len(p.list))
	return len(b), nil
}

// generatedTokens is how many positions are run unless told otherwise: enough to see where two texts part.
const generatedTokens = 128

func (o *languageGenerate) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	if o.Tokens == 0 {
		o.Tokens = generatedTokens
	}
	var warnings []tqc.Warning
	var r TwoTexts
	one := func(what string, l qwb.LanguageOptions) (Continuation, error) {
		done, end := p.Events.Progress(what, o.Tokens)
		defer end()
		s := &pieces{done: done}
		g := qwb.GenerateOptions{LanguageOptions: l, Prompt: o.Prompt, Tokens: o.Tokens, Own: true, Stream: s}
		g.Temperature, g.TopK, g.TopP, g.Seed = o.Temperature, o.TopK, o.TopP, o.Seed
		x, w, err := p.Generate(ctx, g)
		if warnings = append(warnings, w...); err != nil {
			return Continuation{}, err
		}
		r.Prompt = x.Prompt - 1                                                     // the token that begins a text is no piece of it
		return Continuation{x.Text, s.list[:len(s.list)-1], x.Rate, x.Seconds}, nil // the last is the end of the line
	}
	var err error
	if r.Float, err = one("float", qwb.LanguageOptions{Tokenizer: o.Tokenizer, Mode: qwb.ModeFloat, Threads: b.o.Threads}); err != nil {
		return nil, warnings, err
	}
	if r.Quantized, err = one("quantized", o.languageOptions.of(b)); err != nil {
		return nil, warnings, err
	}
	r.Differs = -1
	for i := range max(len(r.Float.Tokens), len(r.Quantized.Tokens)) {
		if i >= len(r.Float.Tokens) || i >= len(r.Quantized.Tokens) || r.Float.Tokens[i] != r.Quantized.Tokens[i] {
			r.Differs = i
			break
		}
	}
	return &r, warnings, nil
}
