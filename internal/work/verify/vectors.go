package verify

import (
	"context"

	"qwb/calib/data/npy"
	"qwb/export"
	"qwb/export/vectors"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/kernels/qmath"
	"qwb/quantizer/program"
)

// dumpVectors writes the test vectors of the first sample, computed by the reference: of the whole program below o.dump, of its
// repeated patterns below o.patterns. What is not asked for is an empty name.
func dumpVectors(ctx context.Context, j *open.Job, p *planning.Planned, profile qmath.Profile, o Options) error {
	lowered, err := p.Program(profile)
	if err != nil {
		return err
	}
	run, err := program.New(lowered, program.Reference, o.Data.Threads)
	if err != nil {
		return err
	}
	set, _, err := Data(j, p, o.Data)
	if err != nil {
		return err
	}
	sample, err := set.Sample(0)
	if err != nil {
		return err
	}
	if o.Dump != "" {
		if err := writeFolder(j, o.Dump, func(f vectors.Files) error { return vectors.Write(ctx, run, sample.Feeds, f) }); err != nil {
			return err
		}
		j.Note("vectors of %d steps in %s", len(lowered.Steps), o.Dump)
	}
	if o.Patterns != "" {
		var found *vectors.Patterns
		err := writeFolder(j, o.Patterns, func(f vectors.Files) (err error) {
			found, err = vectors.WritePatterns(ctx, run, sample.Feeds, f)
			return err
		})
		if err != nil {
			return err
		}
		j.Note("%d patterns of %d steps in %s", len(found.Patterns), found.Steps, o.Patterns)
		for _, f := range found.Patterns {
			j.Note("  %s in %d places", f.Folder, f.Places)
		}
	}
	return nil
}

// writeFolder writes files below a folder, all or none.
func writeFolder(j *open.Job, dir string, write func(vectors.Files) error) error {
	out := j.Output(&export.Format{}, dir)
	defer out.Discard()
	if err := write(vectors.Files{Array: npy.Write, Create: out.Create}); err != nil {
		return err
	}
	_, err := out.Commit()
	return err
}
