package main

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

// dumpVectors writes the test vectors of the first sample below dir, computed by the reference.
func (e *env) dumpVectors(ctx context.Context, p *planned, profile qmath.Profile, dir string, o dataOptions) error {
	lowered, err := p.program(profile)
	if err != nil {
		return err
	}
	run, err := program.New(lowered, program.Reference, o.threads)
	if err != nil {
		return err
	}
	set, err := e.verifyData(p, o)
	if err != nil {
		return err
	}
	sample, err := set.Sample(0)
	if err != nil {
		return err
	}
	create := func(name string) (io.WriteCloser, error) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		return os.Create(path)
	}
	if err := vectors.Write(ctx, run, sample.Feeds, vectors.Files{Create: create, Array: npy.Write}); err != nil {
		return err
	}
	e.note("vectors of %d steps in %s", len(lowered.Steps), dir)
	return nil
}
