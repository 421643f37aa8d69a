package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"qwb/analysis"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
)

// AnalysisPath is where the last analysis of a plan lies, for the workbench to show. Nothing is lost without it.
func AnalysisPath(planFile string) string {
	return strings.TrimSuffix(planFile, store.PlanSuffix) + ".analysis.json"
}

// keptAnalysis is the file.
type keptAnalysis struct {
	Format  string           `json:"format"`
	Version int              `json:"version"`
	Plan    string           `json:"plan_sha256"` // of inputs, decisions and numbers
	Data    string           `json:"data"`        // of the report
	Report  *analysis.Report `json:"report"`
}

const (
	analysisFormat  = "qwb analysis"
	analysisVersion = 1
	maxAnalysis     = 256 << 20
)

var errNoAnalysis = errors.New("not an analysis that qwb keeps beside a plan")

// KeptAnalysis reads the last analysis that lies beside the plan, and the hash of the plan that it is of.
func KeptAnalysis(p *open.Project) (hash string, r *analysis.Report, err error) {
	name := AnalysisPath(p.Plan)
	text, err := store.ReadFile(p.Files(), name, maxAnalysis)
	if err != nil {
		return "", nil, err
	}
	var head struct{ Format string }
	if json.Unmarshal(text, &head) != nil || head.Format != analysisFormat {
		return "", nil, fmt.Errorf("%s: %w", name, errNoAnalysis)
	}
	var k keptAnalysis
	if err := json.Unmarshal(text, &k); err != nil || k.Version != analysisVersion || k.Report == nil {
		return "", nil, fmt.Errorf("%s is of another version of qwb", name)
	}
	k.Report.PlanSHA256, k.Report.Data = k.Plan, k.Data
	return k.Plan, k.Report, nil
}

// KeepAnalysis writes what an analysis found beside the plan that it is of. Parts that it was not asked for stay what an earlier one of the
// same plan and samples found. Another file of that name is left as it is, and that is an error.
func KeepAnalysis(p *open.Project, r *analysis.Report) error {
	name := AnalysisPath(p.Plan)
	was, old, err := KeptAnalysis(p)
	switch {
	case err == nil && was == r.PlanSHA256:
		r = r.With(old)
	case errors.Is(err, errNoAnalysis):
		return fmt.Errorf("%w; it is left as it is", err)
	}
	_, err = store.WriteFile(p.Files(), name, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(keptAnalysis{analysisFormat, analysisVersion, r.PlanSHA256, r.Data, r})
	})
	return err
}
