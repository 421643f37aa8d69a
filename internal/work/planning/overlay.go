package planning

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/file"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// MaxOverlay is how large the file of tuned values may be.
const MaxOverlay = 1 << 31

// lostTuned is the error of a plan whose file of tuned values is gone or another one. What the plan says stands all the same.
type lostTuned struct{ error }

func (e lostTuned) Unwrap() error { return e.error }

// Lost reports whether an error is that of a plan without its tuned values.
func Lost(err error) bool {
	var l lostTuned
	return errors.As(err, &l)
}

// Mapped gives the bytes of a file until end is called, with what else becomes of values in it: where g has its constants in files the
// file is mapped, and a value gets into a file of the graph's, so that neither takes memory.
func Mapped(j *open.Job, name string, limit int64, g *graph.Graph) (b []byte, keep func(*tensor.Tensor) *tensor.Tensor, end func(),
	err error) {
	if path, ok := j.Files().Path(name); ok && g.Store != nil {
		if m, err := file.OpenMapping(path); err == nil {
			end = func() { _ = m.Release() } // nothing was written to it
			if int64(len(m.Bytes)) <= limit {
				keep = func(t *tensor.Tensor) *tensor.Tensor {
					defer m.Forget(m.Bytes)
					return g.Stored(t)
				}
				return m.Bytes, keep, end, nil
			}
			end()
		}
	}
	b, err = store.ReadFile(j.Files(), name, limit)
	return b, g.Stored, func() {}, err
}

// ReadOverlay reads the file that a plan names, which must be the one that it was written with, for a graph.
func ReadOverlay(j *open.Job, planFile string, f *plan.File, g *graph.Graph) (*overlay.Overlay, error) {
	name := plan.Resolve(planFile, f.Path)
	b, keep, end, err := Mapped(j, name, MaxOverlay, g)
	defer end()
	switch {
	case err != nil && store.Missing(err):
		return nil, lostTuned{fmt.Errorf("%s: the tuned values are gone: there is no %s: restore the file, run qwb plan undo, "+
			"or qwb calibrate again, which keeps the other decisions", planFile, name)}
	case err != nil:
		return nil, fmt.Errorf("tuned values: %w", err)
	}
	if have := overlay.Hash(b); have != f.SHA256 {
		return nil, lostTuned{fmt.Errorf("%s: the tuned values were changed: %s (SHA-256 %.12s..., the plan says %.12s...); restore the file, "+
			"run qwb plan undo, or qwb calibrate again, which keeps the other decisions", planFile, name, have, f.SHA256)}
	}
	o, err := overlay.ParseKept(b, keep)
	if err != nil {
		return nil, &fault.FileError{File: name, Err: err}
	}
	return o, nil
}

// warnStale says in one line what of the tuned values is not applied: after a decision about many operators that is much.
func warnStale(j *open.Job, list []overlay.Stale) {
	switch len(list) {
	case 0:
	case 1:
		j.Warn("tuned values do not fit any more at %s and are not used there; run qwb tune again", list[0])
	default:
		j.Warn("tuned values do not fit any more at %d places (first: %s) and are not used there; run qwb tune again", len(list), list[0])
	}
}

// TunedGraph is a clone of the reference with the tuned values that fit a set; nil is for configuring.
func (p *Planned) TunedGraph(set *tqc.Set) (*graph.Graph, []overlay.Stale) {
	if p.Overlay == nil {
		return p.Reference, nil
	}
	return p.Overlay.Apply(p.Reference, set)
}

// Fitting is what was tuned and is applied, nil where nothing was tuned: what tuning goes on from. What does not fit any more, or is of a
// node that is float now, is not part of it.
func (p *Planned) Fitting() *overlay.Overlay {
	if p.Overlay == nil {
		return nil
	}
	o := &overlay.Overlay{}
	if p.broken == nil {
		o.Steps = p.Overlay.Steps
	}
	for _, e := range p.Overlay.Entries {
		if id, ok := p.Reference.LookupNode(e.Node); ok && p.Set.Domains[id] != tqc.DomainInt {
			continue
		}
		if !slices.ContainsFunc(p.Stale, func(s overlay.Stale) bool { return s.At == e.At() }) {
			o.Entries = append(o.Entries, e)
		}
	}
	return o
}

// FrozenNodes lists the nodes of a graph whose weights keep the scales of tuned values.
func FrozenNodes(g *graph.Graph, o *overlay.Overlay) map[graph.NodeID]bool {
	list := map[graph.NodeID]bool{}
	for _, e := range o.Entries {
		if id, ok := g.LookupNode(e.Node); ok && len(e.Scale) > 0 {
			list[id] = true
		}
	}
	return list
}

// Fresh refuses a plan of which something that was tuned does not fit any more.
func (p *Planned) Fresh(stage string) error {
	if len(p.Stale) == 0 {
		return nil
	}
	return fault.Checkf("%s: %d tuned values do not fit the plan any more (%s): run qwb tune again", stage, len(p.Stale), p.Stale[0])
}

// Simulator makes the simulation of the plan for an executor that runs the reference.
func (p *Planned) Simulator() (*sim.Simulator, error) {
	q, err := p.SimulatorOf(p.Graph, p.Set, nil)
	if err == nil && p.watch != nil {
		p.watch(p, q)
	}
	return q, err
}

// SimulatorOf simulates a graph with the reference's nodes for an executor that runs the reference. shared may be nil.
func (p *Planned) SimulatorOf(g *graph.Graph, set *tqc.Set, shared *sim.Constants) (*sim.Simulator, error) {
	return sim.New(g, set, sim.Options{Constants: shared, Runs: p.Reference})
}

// OverlayFiles lists, sorted, the files of tuned values that lie beside a plan, whether it names them or not.
func OverlayFiles(s store.Store, planFile string) ([]string, error) {
	return filesBeside(s, planFile, overlay.Belongs)
}

// filesBeside lists, sorted, the files beside a plan of which belongs says, given the names of both, that they are its own.
func filesBeside(s store.Store, planFile string, belongs func(planFile, name string) bool) ([]string, error) {
	folder := filepath.Dir(planFile)
	entries, err := fs.ReadDir(s, folder)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		if e.Type().IsRegular() && belongs(filepath.Base(planFile), e.Name()) {
			list = append(list, filepath.Join(folder, e.Name()))
		}
	}
	return list, nil
}

// stageHashed writes to a file named by its hash. A file that is there already has the same content, and stage is nil, or it is an error:
// what another plan may name is never overwritten. what is its content, for the error.
func stageHashed(j *open.Job, name, hash, what string, write func(io.Writer) error, limit int64) (stage func(store.Stage) error,
	err error) {
	old, err := j.Files().Open(name)
	if err == nil {
		defer old.Close()
		h := sha256.New()
		if _, err = io.Copy(h, io.LimitReader(old, limit+1)); err == nil && hex.EncodeToString(h.Sum(nil)) == hash {
			return nil, nil
		}
	}
	if err == nil || !store.Missing(err) {
		return nil, fmt.Errorf("%s holds other %s, whose hash begins alike; remove it if no plan needs it", name, what)
	}
	return func(s store.Stage) error { return s.Add(name, write) }, nil
}

// StageOverlay writes tuned values beside a plan and says how the plan names them. See stageHashed.
func StageOverlay(j *open.Job, planFile string, o *overlay.Overlay) (*plan.File, func(store.Stage) error, error) {
	h := sha256.New()
	if err := o.Write(h); err != nil {
		return nil, nil, err
	}
	hash := hex.EncodeToString(h.Sum(nil))
	name := overlay.FileName(planFile, hash)
	file := &plan.File{Path: plan.Relative(planFile, name), SHA256: hash}
	stage, err := stageHashed(j, name, hash, "tuned values", o.Write, MaxOverlay)
	if err != nil {
		return nil, nil, err
	}
	return file, stage, nil
}
