package export

import (
	"context"
	"fmt"

	"qwb/export"
	"qwb/graph"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/quantizer/lower"
)

// triedBytes is the size of weights up to which a plan's file is written to find out if that is refused.
const triedBytes = 256 << 20

// Refusal is what an export of a plan in its platform's usual format would be refused for, by the arithmetic or by the writer of the
// format; nil for nothing. Nothing is verified, and nothing is left behind. Large networks are not tried.
func Refusal(ctx context.Context, j *open.Job, p *planning.Planned, threads int) error {
	f, err := export.ForPlatform(j.Catalog.Formats, p.Plan.Platform, p.Target.Format)
	if err != nil || export.WeightBytes(p.Graph) > triedBytes {
		return nil
	}
	// A writer that fails in another way than by an error is a fault to be found at export.
	return graph.Try(func() error {
		o := Options{Format: f.Name, Unverified: true, Threads: threads}
		in, err := PlanInput(j, p, f, o)
		if err != nil {
			return err
		}
		profile, err := p.ProfileNamed(in.Options.Text(export.Profile.Name))
		if err != nil {
			return err
		}
		if f.From == export.Program {
			if in.Program, err = p.Program(profile); err != nil {
				return fmt.Errorf("format %s needs a plan that runs completely on integers: %w", f.Name, err)
			}
		} else if _, err := lower.CompilePartial(p.Graph, p.Set, p.Target, profile); err != nil {
			return err
		}
		if f.Check != nil {
			if err := f.Check(in); err != nil {
				return err
			}
		}
		out := f.NewOutput("refusal"+suffix(f, p.Plan.Platform), new(store.Memory).Stage())
		defer out.Discard()
		if _, err := f.Write(ctx, in, out); err != nil && ctx.Err() == nil {
			return err
		}
		return nil
	})
}
