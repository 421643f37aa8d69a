package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"qwb/analysis"
	"qwb/export"
	"qwb/internal/kind"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
)

// FileOptions are the arguments of doctor for a file that was exported, by qwb or by another tool.
type FileOptions struct {
	File     string
	Platform string // that the file is for; it has to be given
	Format   string // of the catalog; empty: that of the platform
	// EngineVersion is that of the engine whose faults are looked for; empty: the newest that is known.
	EngineVersion string
}

// FileResult is what doctor found in a file.
type FileResult struct {
	File     string           `json:"file"`
	Platform string           `json:"platform"`
	Format   string           `json:"format"`
	Rules    []string         `json:"rules"` // by name, of the format
	Findings []export.Finding `json:"findings"`
	// EngineFaults are what the engine is known to compute wrongly of the file, though the file is right.
	EngineFaults []analysis.EngineFault `json:"engine_faults,omitempty"`
}

func File(ctx context.Context, j *open.Job, o FileOptions) (*FileResult, error) {
	t, err := j.KnownTarget(o.Platform)
	if err != nil {
		if !open.IsTargetFile(o.Platform) && errors.As(err, new(fault.UsageError)) {
			err = fault.Usagef("%w; a target of your own is given as a file: ./mynpu.yaml", err)
		}
		return nil, err
	}
	f, err := export.ForPlatform(j.Catalog.Formats, t.Name, o.Format)
	if err != nil {
		return nil, fault.UsageError{Err: err}
	}
	if f.Doctor == nil {
		return nil, fault.Usagef("format %s has no doctor", f.Name)
	}
	in := &export.DoctorInput{FS: folder{j.Files(), path.Dir(filepath.ToSlash(o.File))}, Name: path.Base(filepath.ToSlash(o.File)), Target: t}
	if f.Ext == "" {
		in.FS, in.Name = folder{j.Files(), o.File}, "."
	}
	in.Path, _ = j.Files().Path(o.File)
	if k, ok := kinds[f.Ext]; ok {
		if err := j.Check(o.File, k.String()+", which format "+f.Name+" of --platform "+t.Name+" is", k); err != nil {
			return nil, fmt.Errorf("doctor: %w", err)
		}
	}
	broken := func(err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			if _, serr := fs.Stat(in.FS, in.Name); serr == nil {
				err = fmt.Errorf("%w: format %s of --platform %s is this file as well, beside the model", err, f.Name, t.Name)
			}
		}
		return &fault.FileError{Stage: "doctor", File: o.File, Err: err}
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
				return nil, fault.UsageError{Err: err}
			}
		}
		whole, rules = w.Suits(t), slices.Concat(f.Rules, export.WholeRules)
	}
	r := &FileResult{File: o.File, Platform: t.Name, Format: f.Name, Findings: []export.Finding{}}
	for _, rule := range rules {
		r.Rules = append(r.Rules, rule.Name)
	}
	found, err := f.Diagnose(ctx, in)
	if err != nil {
		return nil, broken(err)
	}
	r.Findings = append(append(r.Findings, whole...), found...)
	if r.EngineFaults, err = engineFaults(j, t, f, o, r.Findings); err != nil {
		return nil, err
	}
	if n := everywhere(r.EngineFaults); n > 0 && len(r.Findings) == 0 {
		return r, fault.Checkf("%s: the file is right, and the engine is known to be wrong: %s (format %s)", o.File,
			plain.Count(n, "fault"), f.Name)
	}
	if len(r.Findings) > 0 {
		return r, fault.Checkf("%s breaks rules of %s (format %s): %s", o.File, t.Name, f.Name,
			plain.Count(len(r.Findings), "finding"))
	}
	return r, nil
}

// kinds are what files of a format are by how their names end.
var kinds = map[string]kind.Kind{".onnx": kind.ONNX, ".tflite": kind.TFLite, ".param": kind.PNNX}

// folder is a folder of a store as a file system.
type folder struct {
	store store.Store
	name  string
}

func (f folder) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return f.store.Open(path.Join(filepath.ToSlash(f.name), name))
}
