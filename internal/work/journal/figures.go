package journal

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"

	"qwb/internal/work/open"
	"qwb/quantizer/plan"
	"qwb/reports"
)

// Object is the JSON of figures.
func Object(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil { // a number that is none
		return json.RawMessage("{}")
	}
	return b
}

// maxNamed is how many paths of data an outcome names.
const maxNamed = 3

// On puts in front of figures which data they are of, where that is not the plan's own.
func On[R any](j *open.Job, o open.DataOptions, figures func(*R) json.RawMessage) func(*R) json.RawMessage {
	return func(r *R) json.RawMessage {
		b := figures(r)
		if len(o.Paths) == 0 {
			return b
		}
		var names []string
		for _, path := range o.Paths[:min(len(o.Paths), maxNamed)] {
			names = append(names, plan.Relative(j.Plan, path))
		}
		if len(o.Paths) > maxNamed {
			names = append(names, "...")
		}
		data := bytes.TrimSuffix(Object(map[string][]string{"data": names}), []byte("}"))
		if rest := bytes.TrimPrefix(b, []byte("{")); len(rest) > 1 {
			return slices.Concat(data, []byte(","), rest)
		}
		return append(data, '}')
	}
}

// mostPoints is how many points of a search an outcome keeps.
const mostPoints = 12

// WithSearch adds to figures what pages draw of a search. Names of operators are left out: an outcome is a line.
func WithSearch[R any](figures func(*R) json.RawMessage, search func(*R) *reports.Search) func(*R) json.RawMessage {
	return func(r *R) json.RawMessage {
		b := figures(r)
		s := search(r)
		if s == nil || len(b) < 3 {
			return b
		}
		brief := *s
		brief.Points = slices.Clone(s.Points[:min(len(s.Points), mostPoints)])
		for i := range brief.Points {
			brief.Points[i].FP32, brief.Points[i].Command = nil, ""
			if math.IsNaN(brief.Points[i].Metric) || math.IsInf(brief.Points[i].Metric, 0) {
				return b
			}
		}
		return json.RawMessage(string(b[:len(b)-1]) + `,"search":` + string(Object(&brief)) + "}")
	}
}
