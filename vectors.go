package qwb

import (
	"context"

	"qwb/calib/data/npy"
	"qwb/export"
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
	set, _, err := j.verifyData(p, o.Data)
	if err != nil {
		return err
	}
	sample, err := set.Sample(0)
	if err != nil {
		return err
	}
	if o.Dump != "" {
		if err := j.writeFolder(o.Dump, func(f vectors.Files) error { return vectors.Write(ctx, run, sample.Feeds, f) }); err != nil {
			return err
		}
		j.note("vectors of %d steps in %s", len(lowered.Steps), o.Dump)
	}
	if o.Patterns != "" {
		var found *vectors.Patterns
		err := j.writeFolder(o.Patterns, func(f vectors.Files) (err error) {
			found, err = vectors.WritePatterns(ctx, run, sample.Feeds, f)
			return err
		})
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

// writeFolder writes files below a folder, all or none.
func (j *job) writeFolder(dir string, write func(vectors.Files) error) error {
	out := j.output(&export.Format{}, dir)
	defer out.Discard()
	if err := write(vectors.Files{Array: npy.Write, Create: out.Create}); err != nil {
		return err
	}
	_, err := out.Commit()
	return err
}
