package planning

import (
	"bytes"
	"fmt"
	"strings"

	"qwb/calib"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/quantizer/decision"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
)

const (
	// maxStats is how large a file of statistics may be.
	maxStats = 1 << 31
)

// tunedDecision is the last decision in force that names tuned values, nil where nothing is tuned.
func tunedDecision(p *plan.Plan) *decision.Decision {
	in := decision.InForce(p.Decisions)
	for i := len(in) - 1; i >= 0; i-- {
		if strings.HasPrefix(p.Decisions[i].Overlay, "sha256:") && in[i] {
			return &p.Decisions[i]
		}
	}
	return nil
}

// SteppedFile is the file with what was observed of the tensors that the steps of a plan's tuned values changed; nil where there are none.
func SteppedFile(planFile string, p *plan.Plan) *plan.File {
	d := tunedDecision(p)
	if d == nil || d.Statistics == "" {
		return nil
	}
	hash := strings.TrimPrefix(d.Statistics, "sha256:")
	return &plan.File{Path: plan.Relative(planFile, overlay.StatisticsName(planFile, hash)), SHA256: hash}
}

// Stepped is statistics for the reference of a plan: base with those of changed tensors, which are returned too, nil where there are none.
func Stepped(j *open.Job, planFile string, p *plan.Plan, base *calib.Stats) (all, changed *calib.Stats, err error) {
	f := SteppedFile(planFile, p)
	if f == nil || base == nil {
		return base, nil, nil
	}
	name := plan.Resolve(planFile, f.Path)
	fail := func(what string, err error) error {
		return lostTuned{fmt.Errorf("%s: the statistics of the tensors that tuning changed %s: %s (%w); bring them back, run qwb plan undo, "+
			"or qwb calibrate again, which keeps the other decisions", planFile, what, name, err)}
	}
	b, err := store.ReadFile(j.Files(), name, maxStats)
	if err != nil {
		return nil, nil, fail("are gone", err)
	}
	if have := overlay.Hash(b); have != f.SHA256 {
		return nil, nil, fail("were changed", fmt.Errorf("SHA-256 %.12s, the plan says %.12s", have, f.SHA256))
	}
	if changed, err = calib.Read(bytes.NewReader(b), int64(len(b))); err != nil {
		return nil, nil, fail("cannot be read", err)
	}
	if all, err = base.With(changed); err != nil {
		return nil, nil, fail("do not belong to the others", err)
	}
	return all, changed, nil
}

// StageStats writes statistics of changed tensors beside a plan and returns what names them in a decision. See stageHashed.
func StageStats(j *open.Job, planFile string, s *calib.Stats) (name string, stage func(store.Stage) error, err error) {
	if s == nil {
		return "", nil, nil
	}
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		return "", nil, err
	}
	hash := overlay.Hash(b.Bytes())
	name = overlay.StatisticsName(planFile, hash)
	if stage, err = stageHashed(j, name, hash, "statistics", store.BytesOf(b.Bytes()), maxStats); err != nil {
		return "", nil, err
	}
	return "sha256:" + hash, stage, nil
}

// steppedFiles lists, sorted, the files with statistics of changed tensors that lie beside a plan, whether it names them or not.
func steppedFiles(s store.Store, planFile string) ([]string, error) {
	return filesBeside(s, planFile, overlay.StatisticsBelong)
}
