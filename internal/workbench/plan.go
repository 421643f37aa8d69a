package workbench

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"qwb"
	"qwb/analysis"
	"qwb/analysis/tensors"
	"qwb/internal/kind"
)

// opened is a plan with its model, kept open between calls.
type opened struct {
	*qwb.Planned
	tensors  *tensors.Plan
	revision string
	hash     string       // of inputs, decisions and numbers
	used     sync.RWMutex // held for reading while it is in use
}

// openedOf is a plan of a project, as it is now.
func openedOf(p *qwb.Project, r *qwb.Planned) *opened {
	return &opened{Planned: r, tensors: p.Tensors(r)}
}

// open returns the plan as it lies in the store, and what says that it is used no more.
func (b *Bench) open() (o *opened, end func(), err error) {
	if _, err := b.needPlan(); err != nil {
		return nil, nil, err
	}
	b.opening.Lock() // one loads, and those who need the same wait for it; b.mu is free meanwhile
	defer b.opening.Unlock()
	revision := b.Revision()
	if o := b.use(revision); o != nil {
		return o, o.used.RUnlock, nil
	}
	if o, err = b.load(revision); err != nil {
		return nil, nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
	b.opened = o
	o.used.RLock()
	return o, o.used.RUnlock, nil
}

// use begins to use what is kept open, if it is of this revision.
func (b *Bench) use(revision string) *opened {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened == nil || b.opened.revision != revision {
		return nil
	}
	b.opened.used.RLock()
	return b.opened
}

// load opens the plan, which takes as long as its model is large.
func (b *Bench) load(revision string) (*opened, error) {
	p := b.project()
	r, _, err := p.OpenPlan()
	if err != nil {
		return nil, err
	}
	hash, err := r.Plan.Hash()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	o := openedOf(p, r)
	o.revision, o.hash = revision, hash
	return o, nil
}

// drop closes the plan that is kept open, when nobody uses it any more; b.mu is held.
func (b *Bench) drop() {
	if o := b.opened; o != nil {
		b.opened = nil
		go func() {
			o.used.Lock()
			_ = o.Close() // nothing was written
		}()
	}
}

// forget closes what is kept open.
func (b *Bench) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
	b.reports = analyses{}
}

// language reports whether a file is the checkpoint of a language model.
func (b *Bench) language(name string) bool {
	path, ok := b.store().Path(name)
	return ok && kind.Of(path) == kind.Checkpoint
}

// analyses are the newest analyses of plans, by the hash of the plan.
type analyses struct {
	list []analysed
	seen string // stamp of the file beside the plan
}

// analysed is what an analysis found about a plan.
type analysed struct {
	plan   string // hash of inputs, decisions and numbers
	report *analysis.Report
}

// keptAnalyses is how many are kept in memory.
const keptAnalyses = 8

func (b *Bench) planState(planFile string) (string, error) {
	p, err := b.readPlan(planFile)
	if err != nil {
		return "", err
	}
	return p.Hash()
}

// keepAnalysis keeps what an analysis found about a plan. Parts that it was not asked for stay what an earlier one of the same plan and
// samples found.
func (b *Bench) keepAnalysis(planFile string, r *analysis.Report) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.look(planFile)
	list := &b.reports.list
	if i := slices.IndexFunc(*list, func(a analysed) bool { return a.plan == r.PlanSHA256 }); i >= 0 {
		r = r.With((*list)[i].report)
		*list = slices.Delete(*list, i, i+1)
	}
	*list = append(*list, analysed{r.PlanSHA256, r})
	if len(*list) > keptAnalyses { // the oldest goes, one of operators last
		i := max(slices.IndexFunc(*list, func(a analysed) bool { return a.report.Layerwise == nil }), 0)
		*list = slices.Delete(*list, i, i+1)
	}
	p := b.at
	p.Plan = planFile
	err := p.KeepAnalysis(r)
	b.reports.seen = b.stamp(qwb.AnalysisPath(planFile))
	return err
}

// analysis is the one of a plan with this hash that will do, or else the newest one of any, which is stale then; nil where there is none.
// use may be nil.
func (b *Bench) analysis(planFile, hash string, use func(*analysis.Report) bool) (r *analysis.Report, stale bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.look(planFile)
	for _, a := range slices.Backward(b.reports.list) {
		if use != nil && !use(a.report) {
			continue
		}
		if a.plan == hash {
			return a.report, false
		}
		if r == nil {
			r = a.report
		}
	}
	return r, r != nil
}

// look reads the analysis that lies beside the plan, where it is another one than before: a command may have made it. b.mu is held. One
// that cannot be read is none.
func (b *Bench) look(planFile string) {
	now := b.stamp(qwb.AnalysisPath(planFile))
	if now == b.reports.seen {
		return
	}
	b.reports.seen = now
	p := b.at
	p.Plan = planFile
	if hash, r, err := p.KeptAnalysis(); err == nil {
		b.reports.list = slices.DeleteFunc(b.reports.list, func(a analysed) bool { return a.plan == hash })
		b.reports.list = append(b.reports.list, analysed{hash, r})
	}
}

// stamp changes when a file is written anew; it is empty where there is none.
func (b *Bench) stamp(name string) string {
	info, err := fs.Stat(b.store(), name)
	if err != nil {
		return ""
	}
	return fmt.Sprint(name, info.Size(), info.ModTime().UnixNano())
}
