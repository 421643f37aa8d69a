package workbench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"qwb"
	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/calib/tune"
	"qwb/export"
	"qwb/internal/options"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// Methods are all that a page can ask for.
var Methods = []Method{
	{"state", "what is open and what there is to choose from", false, with((*Bench).state)},
	{"view", "all that the page shows of the plan as it stands", false, with((*Bench).view)},
	{"node", "what holds for an operator, why, and its weights by channel", false, with((*Bench).node)},
	{"tensor", "a tensor at an operator: counts, grid, thresholds", false, with((*Bench).tensor)},
	{"whatif", "what another range, observer or scheme makes of a tensor", false, with((*Bench).whatIf)},
	{"estimate", "what a decision is expected to do", false, with((*Bench).estimate)},
	{"schemes", "the schemes that the target has for operators", false, with((*Bench).schemes)},
	{"files", "what lies in the folders that a page may look into", false, with((*Bench).files)},
	{"thumbnails", "samples as the network sees them", false, with((*Bench).thumbnails)},
	{"classes", "take the names of classes from a file", false, with((*Bench).useClasses)},
	{"matrices", "how the file of a language model stores its matrices", false, with((*Bench).matrices)},
	{"log", "the decisions of the plan", false, with((*Bench).log)},
	{"recipe", "the decisions as a recipe", false, with((*Bench).recipe)},
	{"runs", "the plans of the model with what was measured of them", false, with((*Bench).runs)},
	{"diff", "what differs between two plans", false, with((*Bench).diff)},
	{"structures", "which operators two plans or models share", false, with((*Bench).structures)},
	{"tensor-pair", "one tensor in two plans, over one axis", false, with((*Bench).tensorPair)},
	{"set", "decide properties of operators or tensors", true, with((*Bench).set)},
	{"unset", "take decisions back", true, with((*Bench).unset)},
	{"undo", "take back what was decided last", true, with((*Bench).undo)},
	{"redo", "decide again what was taken back", true, with((*Bench).redo)},
	{"sample-layers", "the error of one sample by operator", false, Call{(*Bench).sampleLayers, nil, reflect.TypeFor[*SampleLayers]()}},
	{"feature", "a tensor inside the network on one sample", false, Call{(*Bench).feature, nil, reflect.TypeFor[*qwb.FeatureMap]()}},
	{"start", "start a job", true, with((*Bench).start)},
	{"jobs", "list the jobs", false, with((*Bench).listJobs)},
	{"cancel", "stop a job", false, with((*Bench).cancelJob)},
	{"result", "what came of a job", false, with((*Bench).jobResult)},
}

// named is something that can be chosen.
type named struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
}

// targetInfo is a target, listed with those of its group.
type targetInfo struct {
	named
	Group string `json:"group"`
}

// formatInfo is a format that plans can be exported in.
type formatInfo struct {
	named
	Ext       string          `json:"ext"`
	Platforms []string        `json:"platforms"` // empty: all
	Language  bool            `json:"language"`  // of checkpoints, not of plans
	Options   []export.Option `json:"options"`
}

// State is what is open and what there is to choose from.
type State struct {
	Revision string `json:"revision"`
	Of       string `json:"of"` // what the plan is, as a Job has it
	Model    string `json:"model"`
	Plan     string `json:"plan"`
	Exists   bool   `json:"exists"`   // the plan does
	Language bool   `json:"language"` // the model is a language model's checkpoint
	Platform string `json:"platform"`
	Samples  int    `json:"samples"` // that the plan was calibrated on
	// Verification is the last one of the plan, which may have changed since; null: there is none.
	Verification *plan.Verification `json:"verification"`
	Data         dataOptions        `json:"data"` // that plans are evaluated with
	Calibration  []string           `json:"calibration"`
	Outside      []string           `json:"outside"` // model and samples of the plan that lie where a page may not look
	// OutsideCommand is the command that lets a page read them; empty without any.
	OutsideCommand string       `json:"outside_command"`
	Classes        *Classes     `json:"classes"` // null without names
	Roots          []string     `json:"roots"`
	Targets        []targetInfo `json:"targets"`
	Observers      []named      `json:"observers"`
	Formats        []formatInfo `json:"formats"`
	Format         string       `json:"format"` // that the target of the plan is usually written in; empty: it is not known
	Methods        []named      `json:"methods"`
	Metrics        []named      `json:"metrics"`
	Profiles       []named      `json:"profiles"` // of integer arithmetic
	Dispatchers    []named      `json:"dispatchers"`
	Presets        []string     `json:"presets"` // of preprocessing
	Recipes        []named      `json:"recipes"`
	Properties     []named      `json:"properties"` // that set takes
	// Options are those of each kind of job, some of them with a field for forms.
	Options map[string][]options.Shown `json:"options"`
	Job     *Job                       `json:"job"`  // that runs
	Undo    int                        `json:"undo"` // how many steps can be undone
	Redo    int                        `json:"redo"`
	Version string                     `json:"version"`
	Memory  int64                      `json:"memory"` // that runs may take, 0: as commands have it
	Demo    bool                       `json:"demo"`
}

func (b *Bench) state(context.Context, struct{}) (*State, error) {
	p := b.project()
	s := &State{Revision: b.Revision(), Model: p.Model, Plan: p.Plan, Roots: b.roots(), Presets: append([]string{"none"}, plan.Presets()...),
		Job:     b.jobs.running(),
		Version: p.Catalog.Version, Memory: b.o.Memory, Demo: b.o.Demo, Options: b.options, Language: p.Model != "" && b.language(p.Model)}
	s.Classes = b.classNames()
	b.mu.Lock()
	s.Data = b.data
	b.mu.Unlock()
	if read, err := b.readPlan(p.Plan); err == nil {
		s.Exists, s.Platform, s.Samples, s.Undo, s.Redo = true, read.Platform, read.Samples, max(len(read.Steps)-1, 0), len(read.Redo)
		s.Of, _ = read.Hash() // a plan that has none is of no job
		s.Calibration, s.Verification = dataOf(p.Plan, read), read.Verification
		s.Outside = b.outside(p.Model, read, s.Calibration)
		s.OutsideCommand = b.letting(p.Plan, s.Outside)
		if f, err := export.ForPlatform(p.Catalog.Formats, read.Platform, ""); err == nil {
			s.Format = f.Name
		}
	}
	for _, t := range p.Catalog.ListTargets() {
		if !t.Foreign {
			s.Targets = append(s.Targets, targetInfo{named{t.Name, t.Doc}, t.Group})
		}
	}
	for _, m := range slices.Concat(observers.All, p.Catalog.Observers) {
		s.Observers = append(s.Observers, named{string(m.Name), m.Doc})
	}
	s.Observers = append(s.Observers, named{string(tqc.ObserverAuto), "the one with the least error at the operators that read the tensor"})
	for i := range p.Catalog.Formats {
		f := &p.Catalog.Formats[i]
		s.Formats = append(s.Formats, formatInfo{named{f.Name, f.Doc}, f.Ext, f.Targets, f.From == export.Checkpoint, f.AllOptions()})
	}
	for _, m := range tune.Methods {
		s.Methods = append(s.Methods, named{m.Name, m.Doc})
	}
	for _, m := range task.Metrics {
		s.Metrics = append(s.Metrics, named{m.Name, m.Doc})
	}
	for _, a := range qmath.Profiles() {
		s.Profiles = append(s.Profiles, named{a.Name, a.Doc.Exact})
	}
	for _, d := range dispatch.Strategies {
		s.Dispatchers = append(s.Dispatchers, named{d.Name, d.Doc})
	}
	for _, r := range decision.Presets {
		s.Recipes = append(s.Recipes, named{"preset:" + r.Name, r.Doc})
	}
	for _, r := range decision.All() {
		s.Properties = append(s.Properties, named{r.Name, r.Doc})
	}
	return s, nil
}

// view has the last analysis of the plan, or one of other decisions where there is no better one. A brief one is there sooner.
func (b *Bench) view(ctx context.Context, p struct {
	Brief bool `json:"brief"`
}) (*reports.View, error) {
	file, err := b.needPlan()
	if err != nil {
		return b.modelView(ctx), nil
	}
	hash, err := b.planState(file)
	if err != nil {
		return nil, err
	}
	b.viewing.Lock() // whoever asks while it is made waits for it
	defer b.viewing.Unlock()
	r, stale := b.analysis(file, hash, nil)
	b.mu.Lock()
	was := b.shown
	b.mu.Unlock()
	revision := b.Revision() + b.runsSum()
	if was.view != nil && was.revision == revision && was.report == r && (p.Brief || !was.brief) {
		return was.view, nil
	}
	draw := (*qwb.Project).View
	if p.Brief {
		draw = (*qwb.Project).BriefView
	}
	v, _, err := draw(b.project(), ctx, r, stale)
	if err == nil {
		b.mu.Lock()
		b.shown = shown{revision, r, v, p.Brief}
		b.mu.Unlock()
	}
	return v, err
}

// modelView is all that there is to show of a model without a plan; nil where nothing is open, and where its network cannot be drawn:
// opening it says why.
func (b *Bench) modelView(ctx context.Context) *reports.View {
	p := b.project()
	if p.Model == "" || b.language(p.Model) {
		return nil
	}
	b.viewing.Lock()
	defer b.viewing.Unlock()
	b.mu.Lock()
	was := b.shown
	b.mu.Unlock()
	of := "model " + p.Model
	if was.revision == of {
		return was.view
	}
	v, _, err := p.ModelView(ctx)
	if err != nil {
		return nil
	}
	b.mu.Lock()
	b.shown = shown{revision: of, view: v}
	b.mu.Unlock()
	return v
}

// shown is the last view, and what it is of.
type shown struct {
	revision string
	report   *analysis.Report
	view     *reports.View
	brief    bool
}

// runsSum identifies the outcomes beside the plan, which are in the view too.
func (b *Bench) runsSum() string {
	text, err := b.read(qwb.RunsPath(b.project().Plan), plan.MaxBytes)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// resolve is the name of a file that a plan names.
func resolve(planFile, name string) string { return filepath.ToSlash(plan.Resolve(planFile, name)) }

// dataOf are the files that a plan was calibrated on.
func dataOf(planFile string, p *plan.Plan) []string {
	list := make([]string, len(p.Data.Paths))
	for i, name := range p.Data.Paths {
		list[i] = resolve(planFile, name)
	}
	return list
}

// modelOf is the model of a plan.
func (b *Bench) modelOf(planFile string) (string, error) {
	p, err := b.readPlan(planFile)
	if err != nil {
		return "", err
	}
	return resolve(planFile, p.Model.Path), nil
}

// outside lists what a plan is of and lies outside of the store's folders.
func (b *Bench) outside(model string, p *plan.Plan, data []string) []string {
	list := []string{model}
	if !p.Data.Synthetic {
		list = append(list, data...)
	}
	return slices.DeleteFunc(list, func(name string) bool {
		_, ok := b.store().Path(name)
		return ok || b.o.Roots == nil
	})
}

// letting is the command of a server whose pages may read these files, beside what they read here. A name with an ending is taken for a
// file: what it is can only be asked of a store that may look at it.
func (b *Bench) letting(planFile string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	words := []string{"serve", planFile}
	folder := path.Dir(filepath.ToSlash(planFile))
	for _, root := range b.roots() {
		if filepath.ToSlash(root) != folder && !slices.Contains(words, root) {
			words = append(words, "--root", root)
		}
	}
	for _, name := range names {
		if path.Ext(name) != "" {
			name = path.Dir(name)
		}
		if !slices.Contains(words, name) {
			words = append(words, "--root", name)
		}
	}
	return command(words...)
}

func (b *Bench) roots() []string {
	if len(b.o.Roots) == 0 {
		return []string{"."}
	}
	return b.o.Roots
}

// told is a decision of the log with what it is in words.
type told struct {
	qwb.Logged
	Text  string   `json:"text"`
	Story []string `json:"story,omitempty"` // what a search or tuning did, and what that is worth
}

// logged is what plan log prints with --json, in words too.
type logged struct {
	*qwb.LogResult
	Decisions []told `json:"decisions"`
}

func (b *Bench) log(ctx context.Context, _ struct{}) (*logged, error) {
	if _, err := b.needPlan(); err != nil {
		return nil, err
	}
	r, _, err := b.project().Log(ctx)
	if err != nil {
		return nil, err
	}
	l := &logged{r, make([]told, len(r.Decisions))}
	for i := range r.Decisions {
		d := &r.Decisions[i]
		l.Decisions[i] = told{*d, d.Text(), d.Story()}
	}
	return l, nil
}

type recipe struct {
	Recipe  string `json:"recipe"` // YAML
	Command string `json:"command"`
}

func (b *Bench) recipe(ctx context.Context, _ struct{}) (*recipe, error) {
	file, err := b.needPlan()
	if err != nil {
		return nil, err
	}
	r, _, err := b.project().Recipe(ctx)
	return &recipe{string(r), command("plan", "recipe", file)}, err
}

func (b *Bench) diff(ctx context.Context, p struct {
	A string `json:"a"`
	B string `json:"b"`
}) (*qwb.DiffResult, error) {
	r, _, err := b.project().Diff(ctx, qwb.DiffOptions{A: p.A, B: p.B})
	return r, err
}

// Changed is what a change of the plan comes to.
type Changed struct {
	Revision string `json:"revision"`
	Command  string `json:"command"`
	// Changed are the operators whose precision or numbers are other ones now.
	Changed   []string            `json:"changed"`
	Decisions []decision.Decision `json:"decisions"`
	Governed  []qwb.Governed      `json:"governed,omitempty"`
	Warnings  []tqc.Warning       `json:"warnings"`
}

// change changes the plan by a method of the project.
func (b *Bench) change(do func(p *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error), words ...string) (*Changed, error) {
	file, err := b.needPlan()
	if err != nil {
		return nil, err
	}
	was, err := b.readPlan(file)
	if err != nil {
		return nil, err
	}
	r, w, err := do(b.project())
	if err != nil {
		return nil, err
	}
	is, err := b.readPlan(file)
	if err != nil {
		return nil, err
	}
	if w == nil {
		w = []tqc.Warning{}
	}
	c := &Changed{b.Revision(), command(words...), plan.Changed(was, is), r.Decisions, r.Governed, w}
	b.hub.publish(Event{Type: "plan", Revision: c.Revision, Command: c.Command})
	return c, nil
}

// selection says what is to be decided about: a selector as commands take it, or operators by their names.
type selection struct {
	Select string   `json:"select"`
	Nodes  []string `json:"nodes"`
	At     string   `json:"at"` // with Nodes: in0, weight, out0; empty: the operators
}

// selector is the selection as one selector.
func (s *selection) selector() (string, error) {
	if (s.Select == "") == (len(s.Nodes) == 0) {
		return "", qwb.Usagef("say what it is about by select or by nodes")
	}
	if s.Select != "" {
		return s.Select, nil
	}
	words := make([]string, len(s.Nodes))
	for i, name := range s.Nodes {
		if words[i] = decision.Exactly(name); s.At != "" {
			words[i] += ":" + s.At
		}
	}
	return strings.Join(words, ","), nil
}

func (b *Bench) set(ctx context.Context, o struct {
	selection
	Properties []string `json:"properties"`
}) (*Changed, error) {
	sel, err := o.selector()
	if err != nil {
		return nil, err
	}
	return b.change(func(p *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error) {
		return p.Set(ctx, sel, o.Properties, b.o.Threads)
	}, append([]string{"set", b.project().Plan, sel}, o.Properties...)...)
}

func (b *Bench) unset(ctx context.Context, o struct {
	What string `json:"what"` // a selector, or #3
}) (*Changed, error) {
	return b.change(func(p *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error) {
		return p.Unset(ctx, o.What, b.o.Threads)
	}, "unset", b.project().Plan, o.What)
}

func (b *Bench) undo(ctx context.Context, _ struct{}) (*Changed, error) {
	return b.change(func(p *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error) { return p.Undo(ctx, b.o.Threads) }, "plan", "undo",
		b.project().Plan)
}

func (b *Bench) redo(ctx context.Context, _ struct{}) (*Changed, error) {
	return b.change(func(p *qwb.Project) (*qwb.DecideResult, []tqc.Warning, error) { return p.Redo(ctx, b.o.Threads) }, "plan", "redo",
		b.project().Plan)
}
