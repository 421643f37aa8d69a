package qwb

import (
	"context"
	"fmt"

	"qwb/export"
)

// readBack reads what was written of a plan, compares every number with the plan, and refuses it where one differs. Without verification that
// is a warning.
func (j *job) readBack(ctx context.Context, f *export.Format, in *export.Input, out *export.Output, r *ExportResult, unverified bool) (err error) {
	if r.ReadBack, err = f.Equal(ctx, in, out); err == nil {
		return nil
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case unverified:
		j.warn("%v", err)
		return nil
	}
	return CheckError{fmt.Errorf("%w; nothing was written (--unverified writes it)", err)}
}
