package qwb

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"qwb/quantizer/plan"
)

// readPlan reads a plan and returns the SHA-256 of its file.
func (j *job) readPlan(name string) (*plan.Plan, string, error) {
	b, err := readFile(j.store(), name, plan.MaxBytes)
	if err != nil {
		return nil, "", fmt.Errorf("plan: %w", err)
	}
	p, err := plan.Parse(name, b)
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
	b, err := p.Encode()
	if err != nil {
		return "", err
	}
	if path, ok := j.store().Path(name); ok { // no folders are made for a plan
		if _, err := fs.Stat(j.store(), filepath.Dir(path)); err != nil {
			return "", fmt.Errorf("plan: %s: %w", name, err)
		}
	}
	old, err := readFile(j.store(), name, plan.MaxBytes)
	exists := err == nil
	if err != nil && !missing(err) {
		return "", fmt.Errorf("plan: %w", err)
	}
	stage := j.store().Stage()
	defer stage.Discard()
	if read != "" {
		if !exists || sumOf(old) != read {
			return "", fmt.Errorf("plan: %w", &ChangedError{name})
		}
		stage.Expect(name, read)
	}
	same := exists && bytes.Equal(old, b)
	if same && more == nil {
		return sumOf(b), nil
	}
	adding := func() error {
		if exists && !same {
			if err := stage.Add(name+".bak", bytesOf(old)); err != nil {
				return err
			}
		}
		if !same {
			if err := stage.Add(name, bytesOf(b)); err != nil {
				return err
			}
		}
		if more != nil {
			return more(stage)
		}
		return nil
	}
	if err = adding(); err == nil {
		err = stage.Commit()
	}
	if err != nil {
		return "", fmt.Errorf("plan: %w", err)
	}
	return sumOf(b), nil
}

// bytesOf writes bytes.
func bytesOf(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}
