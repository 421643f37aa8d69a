package qwb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/quantizer/plan"
)

// What of their results commands leave in the log: keys of their JSON, see picked.
var (
	calibrateFigures = func(r *CalibrateResult) json.RawMessage {
		var gates []string
		for _, g := range r.Gates {
			gates = append(gates, g.String())
		}
		return object(struct {
			Samples int      `json:"samples"`
			Gates   []string `json:"gates,omitempty"`
		}{r.Samples, gates})
	}
	sweepFigures = withSearch(func(r *SweepResult) json.RawMessage {
		i := slices.IndexFunc(r.Rows, func(row SweepRow) bool { return row.Chosen })
		if i < 0 {
			return object(struct {
				Rows int `json:"rows"`
			}{len(r.Rows)})
		}
		return picked[SweepRow]("platform observer granularity rank nsr nsr_error top1 drop drop_error")(&r.Rows[i])
	}, (*SweepResult).Search)
	compareFigures = func(r *CompareResult) json.RawMessage {
		var lines []string
		for i := range r.Pairs[:min(3, len(r.Pairs))] {
			p := &r.Pairs[i]
			lines = append(lines, fmt.Sprintf("%s and %s: NSR by %.3g, significant: %v", p.A, p.B, p.NSRChange, p.Significant))
		}
		return object(struct {
			Samples int      `json:"samples"`
			Pairs   []string `json:"pairs"`
		}{r.Samples, lines})
	}
	analyzeFigures = func(r *analysis.Report) json.RawMessage {
		f := struct {
			Samples  int      `json:"samples"`
			Output   string   `json:"output,omitempty"`  // the worst
			Centred  bool     `json:"centred,omitempty"` // the figures are centred NSRs
			NSR      *float64 `json:"nsr,omitempty"`
			NSRError *float64 `json:"nsr_error,omitempty"`
			Worst    string   `json:"worst_layer,omitempty"` // the operator that costs most by itself, with its part
			Layer    *float64 `json:"layer_nsr,omitempty"`
		}{Samples: r.Samples}
		if o := r.Judged(); o != nil {
			x := o.Judged()
			f.Output, f.Centred, f.NSR, f.NSRError = o.Output, o.Centred != nil, &x.NSR, x.NSRError
		}
		for i := range r.Layerwise {
			if x := r.Layerwise[i].Judged().NSR; f.Layer == nil || x > *f.Layer {
				f.Worst, f.Layer = r.Layerwise[i].Node, &x
			}
		}
		return object(f)
	}
	dispatchFigures = withSearch(picked[DispatchResult]("goal.metric=metric goal.budget=budget before after held_out.value=held_out held_out.error=held_out_error held_out.upper=upper claimed refused evaluations"),
		(*DispatchResult).Search)
	tuneFigures = picked[TuneResult]("samples held_out held_out_kind before.nsr=before before.nsr_error=before_error after.nsr=after after.nsr_error=after_error change change_error confirmed overlay")
	evalFigures = func(r *analysis.Accuracy) json.RawMessage {
		b := picked[analysis.Accuracy]("mode backend profile n top1 top5 float_top1 drop drop_error flips nsr nsr_error centred.nsr=centred_nsr centred.nsr_error=centred_nsr_error")(r)
		if r.Counts != nil || len(r.Scores) == 0 || len(b) < 3 {
			return b
		}
		s := &r.Scores[0] // of what is no classifier: the first metric asked for
		more := object(struct {
			Metric    string   `json:"metric"`
			Percent   bool     `json:"percent"`
			Value     *float64 `json:"value"`
			Float     *float64 `json:"float"`
			Drop      *float64 `json:"drop"`
			DropError *float64 `json:"drop_error"`
		}{s.Name, s.Percent, s.Value, s.Float, s.Drop, s.DropError})
		return json.RawMessage(string(b[:len(b)-1]) + "," + string(more[1:]))
	}
	verifyFigures   = picked[analysis.Verification]("profile backend samples verdict tensors integers_compared integers_different ties max_difference")
	certifyFigures  = picked[CertifyResult]("file sha256 figures.samples=samples figures.drop=drop figures.drop_error=drop_error figures.flips=flips figures.nsr=nsr figures.nsr_error=nsr_error")
	gateFigures     = picked[GateReport]("a b held strict samples metric")
	comparedFigures = picked[analysis.RunFigures]("score float drop drop_error flips nsr nsr_error")
	exportFigures   = picked[ExportResult]("platform format profile sha256 verification.verdict=verified")
)

// object is the JSON of figures.
func object(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil { // a number that is none
		return json.RawMessage("{}")
	}
	return b
}

// maxNamed is how many paths of data an outcome names.
const maxNamed = 3

// on puts in front of figures which data they are of, where that is not the plan's own.
func on[R any](j *job, o DataOptions, figures func(*R) json.RawMessage) func(*R) json.RawMessage {
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
		data := bytes.TrimSuffix(object(map[string][]string{"data": names}), []byte("}"))
		if rest := bytes.TrimPrefix(b, []byte("{")); len(rest) > 1 {
			return slices.Concat(data, []byte(","), rest)
		}
		return append(data, '}')
	}
}
