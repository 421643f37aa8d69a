package qwb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/calib/data/npy"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// dump is a folder of recorded tensors: K.npy with K counting from 0, and names.json, which gives the name of each K.
type dump struct {
	store fs.FS
	dir   string
	file  map[string]string // by tensor
}

// openDump reads the names of a folder.
func (j *job) openDump(dir string) (*dump, error) {
	b, err := fs.ReadFile(j.store(), filepath.Join(dir, "names.json"))
	if err != nil {
		return nil, err
	}
	var names map[string]string
	if err := json.Unmarshal(b, &names); err != nil {
		return nil, fmt.Errorf("%s: not an object of file numbers and tensor names: %w", filepath.Join(dir, "names.json"), err)
	}
	d := &dump{j.store(), dir, make(map[string]string, len(names))}
	for k, name := range names {
		if n, err := strconv.Atoi(k); err != nil || n < 0 || strconv.Itoa(n) != k {
			return nil, fmt.Errorf("%s: %q is not the number of a file", filepath.Join(dir, "names.json"), k)
		}
		if d.file[name] != "" {
			return nil, fmt.Errorf("%s: tensor %q is listed for two files", filepath.Join(dir, "names.json"), name)
		}
		d.file[name] = k + ".npy"
	}
	return d, nil
}

// Tensor implements verify.Recording.
func (d *dump) Tensor(name string) (*tensor.Tensor, error) {
	file := d.file[name]
	if file == "" {
		return nil, nil
	}
	path := filepath.Join(d.dir, file)
	b, err := fs.ReadFile(d.store, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing; names.json lists it as tensor %q", path, name)
	}
	if err != nil {
		return nil, err
	}
	t, err := npy.Read(bytes.NewReader(b))
	if err != nil {
		return nil, &FileError{File: path, Err: err}
	}
	return t, nil
}

// verifyAgainst holds recorded tensors against the plan, and tries all profiles.
func (j *job) verifyAgainst(ctx context.Context, p *Planned, profile qmath.Profile, o VerifyOptions) (*analysis.Verification, error) {
	d, err := j.openDump(o.Against)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	own, err := p.Partial(profile)
	if err != nil {
		return nil, err
	}
	backend, err := j.Catalog.backend("")
	if err != nil {
		return nil, err
	}
	cfg := verify.AgainstConfig{Set: p.Set, Program: own, Backend: backend, Threads: o.Threads}
	var refused []analysis.ProfileFit
	for _, other := range qmath.Profiles() {
		if other.Name == profile.Name {
			continue
		}
		lowered, err := lower.CompilePartial(p.Graph, p.Set, p.Target, other)
		if err != nil {
			refused = append(refused, analysis.ProfileFit{Profile: other.Name, Why: oneLine(err)})
			continue
		}
		cfg.Others = append(cfg.Others, lowered)
	}
	tick, finish := j.progress("verify", len(own.Steps)*(1+len(cfg.Others)))
	defer finish()
	cfg.Progress = tick
	elapsed := j.stopwatch()
	v, err := verify.Against(ctx, d, cfg)
	if err != nil {
		return nil, &FileError{File: o.Against, Err: err}
	}
	v.Fits = append(v.Fits, refused...)
	v.Seconds = elapsed()
	return v, nil
}
