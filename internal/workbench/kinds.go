package workbench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"qwb"
	"qwb/analysis"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// jobKind is a kind of job.
type jobKind struct {
	Name, Doc string
	Changes   bool // it may write a plan, or open another
	New       func() work
	Opens     bool // it only opens: what is open matters nothing to it
}

// work is what a job does: its options, whose names in JSON are the flags of the command that does the same, with _ for -.
type work interface {
	// line is that command. It refuses options that make no sense.
	line(b *Bench) (string, error)
	run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error)
}

var kinds = []jobKind{
	{"open", "open a model, with its plan if it has one, or a plan", true, func() work { return &openJob{} }, true},
	{"trial", "run the float model with each preprocessing and label offset", false, func() work { return &trialJob{} }, false},
	{"calibrate", "run the model on data and choose all scales", true, func() work { return &calibrateJob{} }, false},
	{"analyze", "measure the error, as a whole and by operator", false, func() work { return &analyzeJob{} }, false},
	{"dispatch", "keep operators in float: those named, or as few as a budget needs", true, func() work { return &dispatchJob{} }, false},
	{"sweep", "calibrate with many options and keep the best plan", true, func() work { return &sweepJob{} }, false},
	{"tune", "repair accuracy: biases, rounding of weights, scales, ranges of channels", true, func() work { return &tuneJob{} }, false},
	{"eval", "measure accuracy on data with labels", false, func() work { return &evalJob{} }, false},
	{"compare", "run plans and models on the same samples", false, func() work { return &compareJob{} }, false},
	{"verify", "run the plan on integers and check every one", true, func() work { return &verifyJob{} }, false},
	{"export", "write the quantized model", true, func() work { return &exportJob{} }, false},
	{"flips", "list the samples whose prediction changed", false, func() work { return &flipsJob{} }, false},
	{"sample-layers", "the error of one sample by operator", false, func() work { return &sampleLayersJob{} }, false},
	{"language-rank", "rank the matrices of a language model by what quantizing each alone does", false, func() work { return &languageRank{} }, false},
	{"language-eval", "score the lines of a text with a language model", false, func() work { return &languageEval{} }, false},
	{"language-generate", "continue a text in float and quantized", false, func() work { return &languageGenerate{} }, false},
	{"import", "make a plan of a model that is quantized already", true, func() work { return &importJob{} }, false},
}

// dataOptions are the flags about samples.
type dataOptions struct {
	Data        []string `json:"data"`
	Preprocess  string   `json:"preprocess"`
	Samples     int      `json:"samples"`
	Seed        uint64   `json:"seed"`
	Labels      string   `json:"labels"`
	LabelOffset int      `json:"label_offset"`
	Metric      string   `json:"metric"` // several with commas between
}

func (d *dataOptions) of(b *Bench) qwb.DataOptions {
	var metrics []string
	if d.Metric != "" {
		metrics = strings.Split(d.Metric, ",")
	}
	return qwb.DataOptions{Paths: d.Data, Preprocess: d.Preprocess, Samples: d.Samples, Seed: d.Seed, Labels: d.Labels, LabelOffset: d.LabelOffset,
		Metric: qwb.MetricOptions{Names: metrics}, Threads: b.o.Threads, Memory: b.o.Memory}
}

// remember makes data with labels those that plans are evaluated with unless a page says otherwise.
func (d *dataOptions) remember(b *Bench) {
	if len(d.Data) == 0 || d.Labels == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = *d
	b.data.Samples, b.data.Seed = 0, 0
}

// flagsOf writes the options that are not what they are by default as flags; fields marked `flag:"-"` are arguments.
func flagsOf(options any) []string { return flagsOfStruct(reflect.Indirect(reflect.ValueOf(options))) }

func flagsOfStruct(v reflect.Value) (words []string) {
	for i := range v.NumField() {
		f, x := v.Type().Field(i), v.Field(i)
		if f.Anonymous {
			words = append(words, flagsOfStruct(reflect.Indirect(x))...)
			continue
		}
		name := "--" + strings.ReplaceAll(f.Tag.Get("json"), "_", "-")
		if x.IsZero() || f.Tag.Get("flag") == "-" {
			continue
		}
		switch x = reflect.Indirect(x); x.Kind() {
		case reflect.Bool:
			words = append(words, name)
		case reflect.Slice:
			for k := range x.Len() {
				words = append(words, name, fmt.Sprint(x.Index(k)))
			}
		case reflect.Float64:
			words = append(words, name, strconv.FormatFloat(x.Float(), 'g', -1, 64))
		default:
			words = append(words, name, fmt.Sprint(x))
		}
	}
	return words
}

// below0 names the first count of options that is less than 0, as a flag; labels may be moved either way.
func below0(v reflect.Value) string {
	for i := range v.NumField() {
		f, x := v.Type().Field(i), reflect.Indirect(v.Field(i))
		switch name := f.Tag.Get("json"); {
		case f.Anonymous:
			if name := below0(x); name != "" {
				return name
			}
		case x.CanInt() && x.Int() < 0 && name != "label_offset":
			return fmt.Sprintf("--%s %d", strings.ReplaceAll(name, "_", "-"), x.Int())
		}
	}
	return ""
}

// planLine is a command about the plan that is open, or that a job in front is to write.
func (b *Bench) planLine(name string, options any) (string, error) {
	file := b.project().Plan
	if file == "" {
		return "", qwb.Usagef("nothing is open")
	}
	return command(append([]string{name, file}, flagsOf(options)...)...), nil
}

// planBeside is where the plan of a model is to lie.
func planBeside(model string) string {
	return path.Join(path.Dir(filepath.ToSlash(model)), qwb.BaseName(model)+qwb.PlanSuffix)
}

// opens makes another model and plan the project.
func (b *Bench) opens(model, planFile string) {
	b.mu.Lock()
	b.at.Model, b.at.Plan, b.at.Stats = fileWord(model), fileWord(planFile), ""
	b.mu.Unlock()
	b.forget()
}

// calibrateJob are options of calibrate.
type calibrateJob struct {
	Model    string `json:"model" flag:"-"` // empty: the one that is open
	Platform string `json:"platform"`
	dataOptions
	Observer    string   `json:"observer"`
	ReduceRange bool     `json:"reduce_range"`
	PerTensor   bool     `json:"per_tensor"`
	Dispatcher  string   `json:"dispatcher"`
	BorderCost  *float64 `json:"border_cost"`
	Recipe      []string `json:"recipe"`
	Fresh       bool     `json:"fresh"`
	Batch       int      `json:"batch"`
}

func (o *calibrateJob) files(b *Bench) (model, planFile string, err error) {
	p := b.project()
	if o.Model == "" || o.Model == p.Model {
		if p.Model == "" {
			return "", "", qwb.Usagef("no model is open")
		}
		return p.Model, p.Plan, nil
	}
	return fileWord(o.Model), planBeside(o.Model), nil
}

func (o *calibrateJob) line(b *Bench) (string, error) {
	model, planFile, err := o.files(b)
	return command(append(append([]string{"calibrate", model}, flagsOf(o)...), "-o", planFile)...), err
}

func (o *calibrateJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	model, planFile, err := o.files(b)
	if err != nil {
		return nil, nil, err
	}
	if model != p.Model {
		p.Model, p.Plan, p.Stats = model, planFile, ""
	}
	r, w, err := p.Calibrate(ctx, qwb.CalibrateOptions{Platform: o.Platform, Data: o.of(b), Observer: tqc.Observer(o.Observer), ReduceRange: o.ReduceRange, PerTensor: o.PerTensor,
		Dispatcher: o.Dispatcher, BorderCost: o.BorderCost, Recipes: o.Recipe, Fresh: o.Fresh, Threads: b.o.Threads, Batch: o.Batch, Memory: b.o.Memory})
	if err == nil {
		b.opens(model, planFile)
	}
	return result(r), w, err
}

// result is a result that may be missing, as JSON has it.
func result[R any](r *R) any {
	if r == nil {
		return nil
	}
	return r
}

type analyzeJob struct {
	dataOptions
	Graphwise   bool `json:"graphwise"`
	Layerwise   bool `json:"layerwise"`
	Statistical bool `json:"statistical"`
	Split       bool `json:"split"`
	Explain     bool `json:"explain"`
	Peers       bool `json:"peers"`
	Try         bool `json:"try"`
}

// whole asks for what analyze does where nothing is asked for, and which of weights and activations it comes from.
func (o *analyzeJob) whole() {
	if !o.Graphwise && !o.Layerwise && !o.Statistical && !o.Explain {
		o.Graphwise, o.Layerwise, o.Statistical, o.Split = true, true, true, true
	}
}

func (o *analyzeJob) line(b *Bench) (string, error) {
	o.whole()
	return b.planLine("analyze", o)
}

func (o *analyzeJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	r, w, err := p.Analyze(ctx, qwb.AnalyzeOptions{Data: o.of(b), Explain: o.Explain, Peers: o.Peers, Try: o.Try, Config: analysis.Config{
		Graphwise: o.Graphwise, Layerwise: o.Layerwise, Statistical: o.Statistical, Split: o.Split,
		Outputs: o.Graphwise || o.Layerwise || o.Explain, Threads: b.o.Threads, Memory: b.o.Memory}})
	if err == nil {
		if err := b.keepAnalysis(p.Plan, r); err != nil { // nothing is lost without it
			p.Events.Note(fmt.Sprintf("the analysis could not be kept beside the plan: %v", err))
		}
	}
	return result(r), w, err
}

type dispatchJob struct {
	FP32  []string `json:"fp32"`
	Reset bool     `json:"reset"`
	Auto  bool     `json:"auto"`
	dataOptions
	MaxNSR    *float64 `json:"max_nsr"`
	MinCosine *float64 `json:"min_cosine"`
	MaxDrop   *float64 `json:"max_drop"`
	Force     bool     `json:"force"`
	Formats   string   `json:"formats"`
	Minimize  string   `json:"minimize"`
	Device    string   `json:"device"`
	MaxMACs   string   `json:"max_macs"`
	MaxBytes  string   `json:"max_bytes"`
	MaxTime   string   `json:"max_time"`
}

func (o *dispatchJob) options(b *Bench) (qwb.DispatchOptions, error) {
	d := qwb.DispatchOptions{Selectors: o.FP32, Reset: o.Reset, Force: o.Force, DeviceFile: o.Device, Data: o.of(b), Threads: b.o.Threads, Memory: b.o.Memory}
	if o.Formats != "" {
		d.Formats = strings.Split(o.Formats, ",")
	}
	d.Costing.What = o.Minimize
	limits := 0
	for _, x := range []struct {
		name string
		at   *float64
	}{{"nsr", o.MaxNSR}, {"cosine", o.MinCosine}, {"drop", o.MaxDrop}} {
		if x.at != nil {
			d.Budget, limits = &qwb.Budget{Name: x.name, At: *x.at}, limits+1
		}
	}
	for _, x := range []struct{ name, text string }{{"macs", o.MaxMACs}, {"bytes", o.MaxBytes}, {"time", o.MaxTime}} {
		if x.text == "" {
			continue
		}
		most, err := qwb.ParseCostLimit(x.text, x.name == "time")
		if err != nil {
			return d, qwb.Usagef("max_%s %s: %w", x.name, x.text, err)
		}
		d.MaxCost, d.Costing.What, limits = most, x.name, limits+1
	}
	switch {
	case limits > 1:
		return d, qwb.Usagef("one budget at a time, on the error or on the cost")
	case o.Auto != (limits == 1):
		return d, qwb.Usagef("a search needs a budget, and a budget a search: auto and one of max_nsr, min_cosine, max_drop, max_macs, max_bytes, max_time")
	case !o.Auto && len(o.FP32) == 0 && !o.Reset:
		return d, qwb.Usagef("nothing to do: fp32 with operators, reset, or auto with a budget")
	}
	return d, nil
}

func (o *dispatchJob) line(b *Bench) (string, error) {
	if _, err := o.options(b); err != nil {
		return "", err
	}
	return b.planLine("dispatch", o)
}

func (o *dispatchJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	d, err := o.options(b)
	if err != nil {
		return nil, nil, err
	}
	o.remember(b)
	r, w, err := p.Dispatch(ctx, d)
	return result(r), w, err
}

type sweepJob struct {
	dataOptions
	Platforms   []string `json:"platforms"`
	Observers   []string `json:"observers"`
	Granularity []string `json:"granularity"`
	Dispatchers []string `json:"dispatchers"`
	Formats     []string `json:"formats"`
	Peers       bool     `json:"peers"`
	Device      string   `json:"device"`
	Fresh       bool     `json:"fresh"`
	Force       bool     `json:"force"`
	Batch       int      `json:"batch"`
}

func (o *sweepJob) line(b *Bench) (string, error) {
	p := b.project()
	if p.Model == "" {
		return "", qwb.Usagef("no model is open")
	}
	return command(append(append([]string{"sweep", p.Model}, flagsOf(o)...), "-o", p.Plan)...), nil
}

func (o *sweepJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	s := qwb.SweepOptions{Data: o.of(b), Platforms: o.Platforms, Granularities: o.Granularity, Dispatchers: o.Dispatchers, Formats: o.Formats, Peers: o.Peers, Device: o.Device,
		Fresh: o.Fresh, Force: o.Force, Threads: b.o.Threads, Batch: o.Batch, Memory: b.o.Memory}
	for _, name := range o.Observers {
		s.Observers = append(s.Observers, tqc.Observer(name))
	}
	o.remember(b)
	r, w, err := p.Sweep(ctx, s)
	return result(r), w, err
}

type tuneJob struct {
	Method []string `json:"method"`
	dataOptions
	Budget    string `json:"budget"`
	Profile   string `json:"profile"`
	Force     bool   `json:"force"`
	AllowFP32 bool   `json:"allow_fp32"`
}

func (o *tuneJob) line(b *Bench) (string, error) { return b.planLine("tune", o) }

func (o *tuneJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	r, w, err := p.Tune(ctx, qwb.TuneOptions{Methods: o.Method, Data: o.of(b), Budget: o.Budget, Profile: o.Profile, Force: o.Force, AllowFP32: o.AllowFP32,
		Threads: b.o.Threads, Memory: b.o.Memory})
	return result(r), w, err
}

type evalJob struct {
	Mode string `json:"mode"`
	dataOptions
	Profile string `json:"profile"`
	Batch   int    `json:"batch"`
}

func (o *evalJob) line(b *Bench) (string, error) {
	o.Mode = strings.TrimSpace(o.Mode)
	if o.Mode == "" {
		o.Mode = qwb.ModeSim
	}
	if !slices.Contains([]string{qwb.ModeFloat, qwb.ModeSim, qwb.ModeInt8}, o.Mode) {
		return "", qwb.Usagef("unknown mode %q: one of %s, %s, %s", o.Mode, qwb.ModeFloat, qwb.ModeSim, qwb.ModeInt8)
	}
	return b.planLine("eval", o)
}

func (o *evalJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	o.remember(b)
	r, w, err := p.Eval(ctx, qwb.EvalOptions{Mode: o.Mode, Profile: o.Profile, Data: o.of(b), Threads: b.o.Threads, Batch: o.Batch})
	return result(r), w, err
}

type compareJob struct {
	Runs []string `json:"runs" flag:"-"`
	dataOptions
	Float   string `json:"float"`
	Mode    string `json:"mode"`
	Profile string `json:"profile"`
	Layers  *int   `json:"layers"`
}

func (o *compareJob) line(*Bench) (string, error) {
	if len(o.Runs) < 2 {
		return "", qwb.Usagef("compare takes two or more runs: plans, models or recorded outputs")
	}
	words := []string{"compare"}
	for _, name := range o.Runs {
		words = append(words, fileWord(name))
	}
	return command(append(words, flagsOf(o)...)...), nil
}

func (o *compareJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	p.Plan = ""
	if isPlan(o.Runs[0]) {
		p.Plan = o.Runs[0]
	}
	layers := qwb.CompareLayers
	if o.Layers != nil {
		layers = *o.Layers
	}
	o.remember(b)
	r, w, err := p.Compare(ctx, qwb.CompareOptions{Runs: o.Runs, Float: o.Float, Mode: o.Mode, Profile: o.Profile, Data: o.of(b), Layers: layers, Threads: b.o.Threads})
	return result(r), w, err
}

type verifyJob struct {
	dataOptions
	Profile string   `json:"profile"`
	Against []string `json:"against"`
}

func (o *verifyJob) line(b *Bench) (string, error) { return b.planLine("verify", o) }

func (o *verifyJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	r, w, err := p.Verify(ctx, qwb.VerifyOptions{Profile: o.Profile, Against: o.Against, Data: o.of(b), Threads: b.o.Threads})
	if err == nil && !r.Holds() {
		err = qwb.Checkf("verify: %s", qwb.Divergence(r))
	}
	return result(r), w, err
}

type exportJob struct {
	Platform   string            `json:"platform"`
	Format     string            `json:"format"`
	Output     string            `json:"output"` // empty: beside the plan
	Unverified bool              `json:"unverified"`
	Options    map[string]string `json:"options" flag:"-"` // of the format
}

func (o *exportJob) line(b *Bench) (string, error) {
	p := b.project()
	file := p.Plan
	if file == "" || b.language(p.Model) {
		file = p.Model
	}
	words := append([]string{"export", file}, flagsOf(o)...)
	for _, name := range sortedKeys(o.Options) {
		words = append(words, "--"+name, o.Options[name])
	}
	if file == "" {
		return "", qwb.Usagef("nothing is open")
	}
	return command(words...), nil
}

// exportedBefore reports whether a file is as it was exported before: by this bench, or by the record beside the plan.
func (b *Bench) exportedBefore(name string) bool {
	f, err := b.store().Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false
	}
	sum := hex.EncodeToString(h.Sum(nil))
	runs, _ := b.read(qwb.RunsPath(b.project().Plan), plan.MaxBytes) // without a plan there is none
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.exported[sum] || bytes.Contains(runs, []byte(`"sha256":"`+sum+`"`))
}

func (o *exportJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	if b.language(p.Model) {
		p.Plan = "" // a checkpoint is exported without one
	}
	r, w, err := p.Export(ctx, qwb.ExportOptions{Platform: o.Platform, Format: o.Format, Out: o.Output, Unverified: o.Unverified, Options: o.Options, Threads: b.o.Threads,
		Replaces: b.exportedBefore})
	if err == nil {
		b.mu.Lock()
		if b.exported == nil {
			b.exported = map[string]bool{}
		}
		b.exported[r.SHA256] = true
		b.mu.Unlock()
	}
	return result(r), w, err
}

type importJob struct {
	Model    string `json:"model" flag:"-"`
	Platform string `json:"platform"`
	dataOptions
	Observer string `json:"observer"`
}

func (o *importJob) line(*Bench) (string, error) {
	if o.Model == "" {
		return "", qwb.Usagef("import takes a model")
	}
	return command(append(append([]string{"import", fileWord(o.Model)}, flagsOf(o)...), "-o", planBeside(o.Model))...), nil
}

func (o *importJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	p.Model, p.Plan, p.Stats = o.Model, planBeside(o.Model), ""
	r, w, err := p.Import(ctx, qwb.ImportOptions{Platform: o.Platform, Data: o.of(b), Observer: tqc.Observer(o.Observer), Threads: b.o.Threads, Memory: b.o.Memory})
	if err == nil {
		b.opens(r.Model, p.Plan)
	}
	return result(r), w, err
}

type trialJob struct {
	dataOptions
	Trial int `json:"trial"`
}

func (o *trialJob) line(b *Bench) (string, error) {
	p := b.project()
	if p.Model == "" || len(o.Data) == 0 {
		return "", qwb.Usagef("a trial needs a model that is open, and data")
	}
	return command(append([]string{"doctor", p.Model}, flagsOf(o)...)...), nil
}

func (o *trialJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	p.Plan = ""
	o.remember(b)
	r, w, err := p.Doctor(ctx, qwb.DoctorOptions{Data: o.of(b), Trial: o.Trial, Threads: b.o.Threads})
	return result(r), w, err
}

type openJob struct {
	File string `json:"file" flag:"-"`
}

// openedFile is what came of opening a file.
type openedFile struct {
	Model      string               `json:"model"`
	Plan       string               `json:"plan"`
	Exists     bool                 `json:"exists"` // the plan does
	Inspection *analysis.Inspection `json:"inspection"`
}

func (o *openJob) line(b *Bench) (string, error) {
	if o.File == "" {
		return "", qwb.Usagef("open takes a model or a plan")
	}
	model := o.File
	if isPlan(o.File) {
		if of, err := b.modelOf(o.File); err == nil { // the job says what is wrong
			model = of
		}
	}
	return command("inspect", fileWord(model)), nil
}

func (o *openJob) run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
	p.Model, p.Plan, p.Stats = o.File, planBeside(o.File), ""
	_, err := b.readPlan(p.Plan)
	r := &openedFile{Exists: err == nil}
	if isPlan(o.File) {
		p.Plan = o.File
		if p.Model, err = b.modelOf(o.File); err != nil {
			return nil, nil, err
		}
		r.Exists = true
	}
	r.Model, r.Plan = p.Model, p.Plan
	var w []tqc.Warning
	if r.Inspection, w, err = p.Inspect(ctx); err != nil {
		return nil, w, err
	}
	b.opens(p.Model, p.Plan)
	return r, w, nil
}
