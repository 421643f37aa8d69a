package reports

import (
	"encoding/json"
	"io"

	"qwb/analysis"
)

// nodeData is the file of Google's Model Explorer that paints nodes of a graph: "node data" of one graph. Results are by the name of a
// tensor that a node computes. A value up to a threshold has its colour; thresholds rise.
type nodeData struct {
	Name       string              `json:"name"`
	Results    map[string]nodeCell `json:"results"`
	Thresholds []nodeLimit         `json:"thresholds,omitempty"`
}

type nodeCell struct {
	Value any    `json:"value"` // a number, or a word that has a color of its own
	Color string `json:"bgColor,omitempty"`
}

type nodeLimit struct {
	Value float64 `json:"value"`
	Color string  `json:"bgColor"`
}

// colors are from what nobody sees to what ruins a network, as figures of analyze are read (docs/metrics.md).
var colors = []nodeLimit{{1e-4, "rgb(232, 245, 233)"}, {1e-3, "rgb(200, 230, 201)"}, {1e-2, "rgb(255, 249, 196)"},
	{1e-1, "rgb(255, 204, 128)"}}

const worst = "rgb(239, 154, 154)"

// NodeData writes the accumulated error of every operator, its noise to signal ratio, as Model Explorer shows it on the float model or on
// what was exported from it. Numbers that are none are left out.
func NodeData(w io.Writer, r *analysis.Report) error {
	d := nodeData{Name: "qwb: noise to signal, " + r.Platform, Results: map[string]nodeCell{}, Thresholds: append([]nodeLimit{}, colors...)}
	most := 1.0
	for _, g := range r.Graphwise {
		if v := g.NSR; v >= 0 && v <= 1e300 {
			d.Results[g.Tensor] = nodeCell{Value: v}
			most = max(most, v)
		}
	}
	d.Thresholds = append(d.Thresholds, nodeLimit{most, worst})
	return d.write(w)
}

// placed are the colors of where operators run.
var placed = map[analysis.Where]string{analysis.WhereInteger: "rgb(200, 230, 201)", analysis.WhereFloat: "rgb(255, 249, 196)",
	analysis.WhereHost: "rgb(255, 204, 128)", analysis.WhereShape: "rgb(224, 224, 224)", analysis.WhereUnsupported: worst,
	analysis.WhereUnknown: "rgb(206, 147, 216)"}

// SupportData writes where every operator runs on a target as node data of Model Explorer, with the reason.
func SupportData(w io.Writer, s *analysis.Support) error {
	d := nodeData{Name: "qwb: where operators run, " + s.Platform, Results: map[string]nodeCell{}}
	for _, n := range s.Nodes {
		d.Results[n.Tensor] = nodeCell{string(n.Where) + " (" + n.Rule + ")", placed[n.Where]}
	}
	return d.write(w)
}

func (d *nodeData) write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(d)
}
