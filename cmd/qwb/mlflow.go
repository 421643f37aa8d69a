package main

import (
	"fmt"
	"io"
	"path/filepath"

	"qwb"
	"qwb/reports"
)

// writeMLflow writes what was measured of a plan, a run for each decision that something was measured behind, to a folder as MLflow has it.
func writeMLflow(dir string, r *qwb.LogResult) error {
	x := &reports.Experiment{Name: filepath.Base(r.Plan)}
	for i := range r.Decisions {
		l := &r.Decisions[i]
		if len(l.Runs) == 0 {
			continue
		}
		run := reports.ExperimentRun{ID: reports.RunID(l.Runs[0].State), Name: fmt.Sprintf("#%d %s", l.Number, l.Text()),
			Params: [][2]string{{"plan", r.Plan}}}
		for _, before := range r.Decisions[:i+1] {
			run.Params = append(run.Params, [2]string{fmt.Sprintf("decision_%d", before.Number), before.Text()})
		}
		last := map[string]int{} // by name: where it stands
		for k := range l.Runs {
			o := &l.Runs[k]
			o.Each(func(f *qwb.OutcomeFigure) {
				v, ok := f.Number()
				if !ok {
					return
				}
				m := reports.CardFigure{Name: o.Command + "." + f.Name, Value: v, Error: f.Error}
				at, known := last[m.Name]
				if !known {
					at = len(run.Metrics)
					last[m.Name], run.Metrics = at, append(run.Metrics, m)
				}
				run.Metrics[at] = m // what was measured last
			})
		}
		x.Runs = append(x.Runs, run)
	}
	s := qwb.OS{}.Stage()
	defer s.Discard()
	err := x.MLflow(func(name string, write func(w io.Writer) error) error {
		return s.Add(filepath.Join(dir, filepath.FromSlash(name)), write)
	})
	if err != nil {
		return err
	}
	return s.Commit()
}
