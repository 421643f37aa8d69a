package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/calib/data/npy"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// dump is a folder of recorded tensors: K.npy with K counting from 0, and names.json, which gives the name of each K.
type dump struct {
	dir  string
	file map[string]string // by tensor
}

// openDump reads the names of a folder.
func openDump(dir string) (*dump, error) {
	b, err := os.ReadFile(filepath.Join(dir, "names.json"))
	if err != nil {
		return nil, err
	}
	var names map[string]string
	if err := json.Unmarshal(b, &names); err != nil {
		return nil, fmt.Errorf("%s: not an object of file numbers and tensor names: %w", filepath.Join(dir, "names.json"), err)
	}
	d := &dump{dir, make(map[string]string, len(names))}
	for k, name := range names {
		if n, err := strconv.Atoi(k); err != nil || n < 0 || strconv.Itoa(n) != k {
			return nil, fmt.Errorf("%s: %q is not the number of a file", filepath.Join(dir, "names.json"), k)
		}
		if d.file[name] != "" {
			return nil, fmt.Errorf("%s: tensor %q stands in two files", filepath.Join(dir, "names.json"), name)
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
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing, which names.json says is %q", path, name)
	}
	if err != nil {
		return nil, err
	}
	t, err := npy.Read(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// verifyAgainst holds recorded tensors against the plan, and tries all profiles.
func (e *env) verifyAgainst(ctx context.Context, p *planned, profile qmath.Profile, o verifyOptions) (*analysis.Verification, error) {
	d, err := openDump(o.against)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	own, err := p.program(profile)
	if err != nil {
		return nil, err
	}
	cfg := verify.AgainstConfig{Set: p.set, Program: own, Backend: defaultBackend(), Threads: o.threads}
	var refused []analysis.ProfileFit
	for _, other := range qmath.Profiles() {
		if other.Name == profile.Name {
			continue
		}
		lowered, err := lower.Compile(p.Graph, p.set, p.target, other)
		if err != nil {
			refused = append(refused, analysis.ProfileFit{Profile: other.Name, Why: oneLine(err)})
			continue
		}
		cfg.Others = append(cfg.Others, lowered)
	}
	tick, finish := e.progress("verify", len(own.Steps)*(1+len(cfg.Others)))
	defer finish()
	cfg.Progress = tick
	start := time.Now()
	v, err := verify.Against(ctx, d, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.against, err)
	}
	v.Fits = append(v.Fits, refused...)
	v.Seconds = time.Since(start).Seconds()
	return v, nil
}
