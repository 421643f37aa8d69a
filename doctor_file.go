package qwb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"qwb/export"
	"qwb/internal/kind"
	"qwb/internal/plain"
)

// DoctorFileOptions are the arguments of doctor for a file that was exported, by qwb or by another tool.
type DoctorFileOptions struct {
	File     string
	Platform string // that the file is for; it has to be given
	Format   string // of the catalog; empty: that of the platform
}

// DoctorFileResult is what doctor found in a file.
type DoctorFileResult struct {
	File     string           `json:"file"`
	Platform string           `json:"platform"`
	Format   string           `json:"format"`
	Rules    []string         `json:"rules"` // by name, of the format
	Findings []export.Finding `json:"findings"`
}

func (j *job) doctorFile(ctx context.Context, o DoctorFileOptions) (*DoctorFileResult, error) {
	t, err := j.KnownTarget(o.Platform)
	if err != nil {
		if !isTargetFile(o.Platform) && errors.As(err, new(UsageError)) {
			err = Usagef("%w; a target of your own is given as a file: ./mynpu.yaml", err)
		}
		return nil, err
	}
	f, err := export.ForPlatform(j.Catalog.Formats, t.Name, o.Format)
	if err != nil {
		return nil, UsageError{err}
	}
	if f.Doctor == nil {
		return nil, Usagef("format %s has no doctor", f.Name)
	}
	in := &export.DoctorInput{FS: folder{j.store(), path.Dir(filepath.ToSlash(o.File))}, Name: path.Base(filepath.ToSlash(o.File)), Target: t}
	if f.Ext == "" {
		in.FS, in.Name = folder{j.store(), o.File}, "."
	}
	in.Path, _ = j.store().Path(o.File)
	if k, ok := kinds[f.Ext]; ok {
		if err := j.check(o.File, k.String()+", which format "+f.Name+" of --platform "+t.Name+" is", k); err != nil {
			return nil, fmt.Errorf("doctor: %w", err)
		}
	}
	broken := func(err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			if _, serr := fs.Stat(in.FS, in.Name); serr == nil {
				err = fmt.Errorf("%w: format %s of --platform %s is this file as well, beside the model", err, f.Name, t.Name)
			}
		}
		return &FileError{Stage: "doctor", File: o.File, Err: err}
	}
	var whole []export.Finding
	rules := f.Rules
	if f.Look != nil {
		w, err := f.Look(ctx, in)
		if err != nil {
			return nil, broken(err)
		}
		if w.Format != "" && o.Format == "" {
			if f, err = export.ForPlatform(j.Catalog.Formats, t.Name, w.Format); err != nil {
				return nil, UsageError{err}
			}
		}
		whole, rules = w.Suits(t), slices.Concat(f.Rules, export.WholeRules)
	}
	r := &DoctorFileResult{File: o.File, Platform: t.Name, Format: f.Name, Findings: []export.Finding{}}
	for _, rule := range rules {
		r.Rules = append(r.Rules, rule.Name)
	}
	found, err := f.Diagnose(ctx, in)
	if err != nil {
		return nil, broken(err)
	}
	if r.Findings = append(append(r.Findings, whole...), found...); len(r.Findings) > 0 {
		return r, Checkf("%s: %s would not take it as it is meant (format %s): %s", o.File, t.Name, f.Name, plain.Count(len(r.Findings), "finding"))
	}
	return r, nil
}

// kinds are what files of a format are by how their names end.
var kinds = map[string]kind.Kind{".onnx": kind.ONNX, ".tflite": kind.TFLite, ".param": kind.PNNX}

// folder is a folder of a store as a file system.
type folder struct {
	store Store
	name  string
}

func (f folder) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return f.store.Open(path.Join(filepath.ToSlash(f.name), name))
}
