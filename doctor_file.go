package qwb

import (
	"context"
	"io/fs"
	"path"
	"path/filepath"

	"qwb/export"
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
	r := &DoctorFileResult{File: o.File, Platform: t.Name, Format: f.Name, Findings: []export.Finding{}}
	for _, rule := range f.Rules {
		r.Rules = append(r.Rules, rule.Name)
	}
	found, err := f.Diagnose(ctx, in)
	if err != nil {
		return nil, &FileError{Stage: "doctor", File: o.File, Err: err}
	}
	if r.Findings = append(r.Findings, found...); len(found) > 0 {
		return r, Checkf("%s: the reader of %s would not take it as it is meant: %d findings", o.File, f.Name, len(found))
	}
	return r, nil
}

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
