package qwb

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"qwb/calib/data/npy"
	"qwb/export/vectors"
	"qwb/kernels/qmath"
	"qwb/quantizer/program"
)

// dumpVectors writes the test vectors of the first sample, computed by the reference: of the whole program below o.dump, of its
// repeated patterns below o.patterns. What is not asked for is an empty name.
func (j *job) dumpVectors(ctx context.Context, p *Planned, profile qmath.Profile, o VerifyOptions) error {
	lowered, err := p.Program(profile)
	if err != nil {
		return err
	}
	run, err := program.New(lowered, program.Reference, o.Data.Threads)
	if err != nil {
		return err
	}
	set, err := j.verifyData(p, o.Data)
	if err != nil {
		return err
	}
	sample, err := set.Sample(0)
	if err != nil {
		return err
	}
	if o.Dump != "" {
		if err := vectors.Write(ctx, run, sample.Feeds, vectorFiles(o.Dump)); err != nil {
			return err
		}
		j.note("vectors of %d steps in %s", len(lowered.Steps), o.Dump)
	}
	if o.Patterns != "" {
		found, err := vectors.WritePatterns(ctx, run, sample.Feeds, vectorFiles(o.Patterns))
		if err != nil {
			return err
		}
		j.note("%d patterns of %d steps in %s", len(found.Patterns), found.Steps, o.Patterns)
		for _, f := range found.Patterns {
			j.note("  %s in %d places", f.Folder, f.Places)
		}
	}
	return nil
}

// vectorFiles makes files below a folder.
func vectorFiles(dir string) vectors.Files {
	return vectors.Files{Array: npy.Write, Create: func(name string) (io.WriteCloser, error) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		return os.Create(path)
	}}
}
