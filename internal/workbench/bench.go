// Package workbench is what a page works on: a project behind methods that are called by name, with JSON in and plain data out, jobs that
// run one at a time, and events about both. It knows neither HTTP nor files of the system but by the project's store, so that a server and
// a page without one share it: it builds for js/wasm.
//
// Everything that is decided goes through the methods of a qwb.Project, as by the command line, and each result says the command that does
// the same. A plan may be changed by others meanwhile, another tab or a command: what changes it names the revision that it was decided on.
//
// Unstable: it may change without notice.
package workbench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"sync"

	"qwb"
	"qwb/graph"
	"qwb/internal/options"
	"qwb/internal/plain"
	"qwb/internal/strictjson"
	"qwb/quantizer/plan"
)

// Options are what a bench works with.
type Options struct {
	// Project names model and plan, either or both empty where they are still to be opened, and has the store and the catalog. Its Events
	// hear of nothing.
	Project qwb.Project
	// Roots are the folders of the store in which a page may look for files; none: the whole store.
	Roots []string
	// Data and Labels are what plans are evaluated with until a page names others.
	Data   []string
	Labels string
	// Threads never change a result, 0: one for each core. Memory is for activations and samples read ahead, 0: as commands have it.
	Threads int
	Memory  int64
	// Demo says that the project is the demo's.
	Demo bool
	// Pause is called while a job works, often: where one thread does everything, the moment to let others. May be nil.
	Pause func()
}

// Bench is a project that a page works on. Its methods may be called from several goroutines.
type Bench struct {
	o        Options
	changing sync.Mutex // held while the plan changes
	viewing  sync.Mutex // held while a view is made
	opening  sync.Mutex // held while a plan is loaded

	previewing chan struct{} // has room for one that tries a decision

	mu      sync.Mutex
	options map[string][]options.Shown // of each kind of job
	at      qwb.Project                // model and plan that are open
	data    dataOptions                // what plans were evaluated with last
	classes *Classes                   // nil without names
	opened  *opened                    // the plan as it was read last
	reports analyses
	shown   shown
	// exported are the hashes of what this bench has exported: it may be replaced.
	exported map[string]bool

	hub  hub
	jobs queue
}

// New returns a bench. It has to be closed.
func New(o Options) *Bench {
	b := &Bench{o: o, at: o.Project, data: dataOptions{Data: o.Data, Labels: o.Labels}, previewing: make(chan struct{}, 1)}
	b.at.Model, b.at.Plan = fileWord(o.Project.Model), fileWord(o.Project.Plan)
	if b.at.Events = nil; b.at.Model == "" && b.at.Plan != "" {
		b.at.Model, _ = b.modelOf(b.at.Plan) // a plan that cannot be read says so when it is looked at
	}
	b.options = map[string][]options.Shown{}
	for i := range kinds {
		b.options[kinds[i].Name] = kinds[i].table(b, kinds[i].New()).Shown()
	}
	b.jobs.open(b)
	return b
}

// Close stops what runs, and waits for it.
func (b *Bench) Close() {
	b.jobs.close()
	b.opening.Lock() // what is being loaded is closed too
	defer b.opening.Unlock()
	b.forget()
}

// Method is something that a page can ask for.
type Method struct {
	Name, Doc string
	// Changes: it needs the revision that the page has seen.
	Changes bool
	Call
}

// Call is what a method does, with the types of what it takes and what it returns. Result nil: any JSON.
type Call struct {
	Do             func(b *Bench, ctx context.Context, params json.RawMessage) (any, error)
	Params, Result reflect.Type
}

// StaleError says that the plan is not the one that was looked at. Nothing was done.
type StaleError struct{ Revision string } // of the plan as it is

func (e *StaleError) Error() string {
	return "the plan has changed since it was shown, in another tab or by a command; nothing was done: look at it again"
}

// Call calls a method by its name. revision is that of the plan which the page has seen; where a method changes the plan, another one is a
// StaleError.
func (b *Bench) Call(ctx context.Context, method string, params json.RawMessage, revision string) (any, error) {
	for i := range Methods {
		m := &Methods[i]
		if m.Name != method {
			continue
		}
		if m.Changes {
			b.changing.Lock()
			defer b.changing.Unlock()
			if now := b.Revision(); now != revision && !(m.Name == "start" && opens(params)) {
				return nil, &StaleError{now}
			}
			if j := b.jobs.running(); j != nil && m.Name != "start" && changes(j.Kind) {
				return nil, qwb.Usagef("%s is running and may write the plan itself: wait for it, or cancel it", j.Kind)
			}
		}
		return m.Do(b, ctx, params)
	}
	return nil, qwb.Usagef("there is no method %q", method)
}

// Ahead draws the first view in a goroutine of its own, so that it is there when it is asked for. What is wrong is said then: a file that
// is cut off meanwhile, and a bug, are answers of the one who asks.
func (b *Bench) Ahead(ctx context.Context) (done <-chan struct{}) {
	end := make(chan struct{})
	go func() {
		defer close(end)
		_ = graph.Try(func() error {
			_, err := b.Call(ctx, "view", []byte(`{"brief":true}`), "")
			return err
		})
	}()
	return end
}

// Revision identifies the plan as it lies in the store, or the model where there is no plan: empty where nothing is open.
func (b *Bench) Revision() string {
	p := b.project()
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", p.Model, p.Plan)
	if text, err := b.read(p.Plan, plan.MaxBytes); err == nil {
		h.Write(text)
	} else if p.Model == "" {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// project is a copy of the project for one call: its events are heard by nobody.
func (b *Bench) project() *qwb.Project {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.at
	return &p
}

func (b *Bench) store() qwb.Store {
	if s := b.o.Project.Store; s != nil {
		return s
	}
	return qwb.OS{}
}

// read reads a file of at most limit bytes.
func (b *Bench) read(name string, limit int64) ([]byte, error) {
	if name == "" {
		return nil, fs.ErrNotExist
	}
	info, err := fs.Stat(b.store(), name)
	if err == nil && info.Size() > limit {
		err = fmt.Errorf("%s: %d bytes are more than %d", name, info.Size(), limit)
	}
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(b.store(), name)
}

// readPlan parses the plan without what it is of.
func (b *Bench) readPlan(name string) (*plan.Plan, error) {
	text, err := b.read(name, plan.MaxBytes)
	if err != nil {
		return nil, err
	}
	return plan.Parse(name, text)
}

// with makes a method of a function with parameters of its own: unknown names and wrong types are the caller's fault.
func with[P, R any](do func(b *Bench, ctx context.Context, p P) (R, error)) Call {
	return Call{func(b *Bench, ctx context.Context, raw json.RawMessage) (any, error) {
		var p P
		if err := decode("parameters", raw, &p); err != nil {
			return nil, err
		}
		return do(b, ctx, p)
	}, reflect.TypeFor[P](), reflect.TypeFor[R]()}
}

// decode reads parameters; none are those of an empty object.
func decode(what string, raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := strictjson.Decode(what, raw, into); err != nil {
		return qwb.UsageError{Err: err}
	}
	if flag := below0(reflect.ValueOf(into).Elem()); flag != "" {
		return qwb.Usagef("%s: must be 0 or more", flag)
	}
	return nil
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

// fileWord is the name of a file that commands do not take for a flag.
func fileWord(name string) string {
	if strings.HasPrefix(name, "-") {
		return "./" + name
	}
	return name
}

// command is a command line of qwb.
func command(words ...string) string { return "qwb " + plain.Shell(words...) }

// needPlan is the file of the plan, which has to be there.
func (b *Bench) needPlan() (string, error) {
	if p := b.project(); p.Plan != "" {
		if _, err := fs.Stat(b.store(), p.Plan); err == nil {
			return p.Plan, nil
		}
	}
	return "", qwb.Usagef("there is no plan yet: open a model and calibrate it")
}

// isPlan reports whether a name is that of a plan.
func isPlan(name string) bool { return strings.HasSuffix(name, qwb.PlanSuffix) }
