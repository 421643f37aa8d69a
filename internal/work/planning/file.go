package planning

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"unicode/utf8"

	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/quantizer/plan"
)

// RewritePlan writes what became of a plan. A file that is not the one that was read is an error.
func RewritePlan(j *open.Job, p *Planned, now *plan.Plan) error {
	sum, err := WritePlan(j, p.File, now, p.Sum, nil)
	if err == nil {
		p.Sum = sum
	}
	return err
}

// WritePlan writes a plan and returns the SHA-256 of its file. read is that of the file that was read, empty where it does not matter what
// lies there. The file before is kept as NAME.bak; one with the same content stays as it is. What more adds gets its name together with
// the plan, or not at all.
func WritePlan(j *open.Job, name string, p *plan.Plan, read string, more func(store.Stage) error) (string, error) {
	b, err := EncodePlan(j, name, p)
	if err != nil {
		return "", err
	}
	for {
		err := stagePlan(j, name, b, read, more)
		if changed := (*fault.ChangedError)(nil); read == "" && errors.As(err, &changed) {
			continue // somebody else was faster; what lies there now is looked at again
		}
		if err != nil {
			return "", fmt.Errorf("plan: %w", err)
		}
		if name == j.Plan {
			j.Seen = p
		}
		return store.Sum(b), nil
	}
}

// EncodePlan is what is written to the file of a plan, where it can be.
func EncodePlan(j *open.Job, name string, p *plan.Plan) ([]byte, error) {
	if edited, err := p.Edited(); err != nil || edited {
		return nil, errors.Join(err, fmt.Errorf("plan: the numbers in %s were edited", name))
	}
	if path, ok := j.Files().Path(name); ok { // no folders are made for a plan
		if _, err := fs.Stat(j.Files(), filepath.Dir(path)); err != nil {
			return nil, &fault.FileError{Stage: "plan", File: name, Err: err}
		}
	}
	return p.Encode()
}

// stagePlan is one attempt of WritePlan.
func stagePlan(j *open.Job, name string, b []byte, read string, more func(store.Stage) error) error {
	stage := j.Files().Stage()
	defer stage.Discard()
	same, err := AddPlan(j, stage, name, b, read)
	if err == nil && more != nil {
		same, err = false, more(stage)
	}
	if err != nil || same {
		return err
	}
	return stage.Commit()
}

// AddPlan adds a plan to what is to get its name together, and as NAME.bak the one that is there. same: it is there already.
func AddPlan(j *open.Job, stage store.Stage, name string, b []byte, read string) (same bool, err error) {
	old, err := store.ReadFile(j.Files(), name, plan.MaxBytes)
	exists := err == nil
	if err != nil && !store.Missing(err) {
		return false, err
	}
	if read != "" && (!exists || store.Sum(old) != read) {
		return false, &fault.ChangedError{Name: name}
	}
	sum := "" // of two that calibrate a model for the first time, one comes later and keeps the plan of the other
	if exists {
		sum = store.Sum(old)
	}
	stage.Expect(name, sum)
	if exists && bytes.Equal(old, b) {
		return true, nil
	}
	if exists {
		if err := stage.Add(name+".bak", store.BytesOf(old)); err != nil {
			return false, err
		}
	}
	return false, stage.Add(name, store.BytesOf(b))
}

// Nameable refuses files that the plan could not name: it is JSON, whose text is UTF-8.
func Nameable(j *open.Job, files ...string) error {
	for _, f := range files {
		if f != "" && (!utf8.ValidString(f) || !utf8.ValidString(plan.Relative(j.Plan, f))) {
			return fmt.Errorf("%q is not UTF-8: a plan, which is JSON, cannot name this file; give it another name", f)
		}
	}
	return nil
}
