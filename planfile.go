package qwb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"unicode/utf8"

	"qwb/quantizer/plan"
)

// readPlan reads a plan and returns the SHA-256 of its file.
func (j *job) readPlan(name string) (*plan.Plan, string, error) {
	b, err := readFile(j.store(), name, plan.MaxBytes)
	if err != nil {
		return nil, "", fmt.Errorf("plan: %w", err)
	}
	p, err := plan.Parse(name, b)
	if err == nil && name == j.Plan {
		j.seen = p
	}
	return p, sumOf(b), err
}

// rewritePlan writes what became of a plan. A file that is not the one that was read is an error.
func (j *job) rewritePlan(p *Planned, now *plan.Plan) error {
	sum, err := j.writePlan(p.File, now, p.sum, nil)
	if err == nil {
		p.sum = sum
	}
	return err
}

// writePlan writes a plan and returns the SHA-256 of its file. read is that of the file that was read, empty where it does not matter what
// lies there. The file before is kept as NAME.bak; one with the same content stays as it is. What more adds gets its name together with
// the plan, or not at all.
func (j *job) writePlan(name string, p *plan.Plan, read string, more func(Stage) error) (string, error) {
	b, err := j.encodePlan(name, p)
	if err != nil {
		return "", err
	}
	for {
		err := j.stagePlan(name, b, read, more)
		if changed := (*ChangedError)(nil); read == "" && errors.As(err, &changed) {
			continue // somebody else was faster; what lies there now is looked at again
		}
		if err != nil {
			return "", fmt.Errorf("plan: %w", err)
		}
		if name == j.Plan {
			j.seen = p
		}
		return sumOf(b), nil
	}
}

// encodePlan is what is written to the file of a plan, where it can be.
func (j *job) encodePlan(name string, p *plan.Plan) ([]byte, error) {
	if edited, err := p.Edited(); err != nil || edited {
		return nil, errors.Join(err, fmt.Errorf("plan: the numbers in %s were edited", name))
	}
	if path, ok := j.store().Path(name); ok { // no folders are made for a plan
		if _, err := fs.Stat(j.store(), filepath.Dir(path)); err != nil {
			return nil, &FileError{Stage: "plan", File: name, Err: err}
		}
	}
	return p.Encode()
}

// stagePlan is one attempt of writePlan.
func (j *job) stagePlan(name string, b []byte, read string, more func(Stage) error) error {
	stage := j.store().Stage()
	defer stage.Discard()
	same, err := j.addPlan(stage, name, b, read)
	if err == nil && more != nil {
		same, err = false, more(stage)
	}
	if err != nil || same {
		return err
	}
	return stage.Commit()
}

// addPlan adds a plan to what is to get its name together, and as NAME.bak the one that is there. same: it is there already.
func (j *job) addPlan(stage Stage, name string, b []byte, read string) (same bool, err error) {
	old, err := readFile(j.store(), name, plan.MaxBytes)
	exists := err == nil
	if err != nil && !missing(err) {
		return false, err
	}
	if read != "" && (!exists || sumOf(old) != read) {
		return false, &ChangedError{name}
	}
	sum := "" // of two that calibrate a model for the first time, one comes later and keeps the plan of the other
	if exists {
		sum = sumOf(old)
	}
	stage.Expect(name, sum)
	if exists && bytes.Equal(old, b) {
		return true, nil
	}
	if exists {
		if err := stage.Add(name+".bak", bytesOf(old)); err != nil {
			return false, err
		}
	}
	return false, stage.Add(name, bytesOf(b))
}

// bytesOf writes bytes.
func bytesOf(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// nameable refuses files that the plan could not name: it is JSON, whose text is UTF-8.
func (j *job) nameable(files ...string) error {
	for _, f := range files {
		if f != "" && (!utf8.ValidString(f) || !utf8.ValidString(plan.Relative(j.Plan, f))) {
			return fmt.Errorf("%q is not UTF-8: a plan, which is JSON, cannot name this file; give it another name", f)
		}
	}
	return nil
}
