package reports

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"io"

	"qwb/analysis"
)

//go:embed report.html.tmpl
var reportTemplate string

// The style and the sorting of tables that all pages share.
var (
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string
)

// HTML writes the report as one file that needs nothing else: styles, script and pictures are inside. The full report stands
// in it as JSON too, in the element with id "report". Names are escaped.
func HTML(w io.Writer, r *analysis.Report) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"number": Number, "cosine": cosine, "place": func(i int) int { return i + 1 }, "exact": exact, "count": count, "percent": percent, "shorten": shorten,
		"curve": errorCurve, "histogram": histogram, "ranges": channelRanges,
		"settingID": settingID, "places": places, "scales": scales, "zeroPoints": zeroPoints, "shortenEnd": shortenEnd, "style": style, "script": script, "effect": func(a analysis.Advice) string { return effect(&a) },
	}).Parse(reportTemplate)
	if err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	p := page{Report: r, JSON: template.JS(data), layers: r.Layerwise, settings: map[string]string{}}
	for i := range r.Settings {
		p.settings[r.Settings[i].Node] = settingID(i)
	}
	return t.Execute(w, p)
}

func style() template.CSS { return template.CSS(pageStyle) }
func script() template.JS { return template.JS(pageScript) }

// page is what the template sees: the report and what has to be looked up in it.
type page struct {
	*analysis.Report
	JSON     template.JS
	layers   []analysis.LayerError
	settings map[string]string // id of the row of settings, by operator
}

// SettingOf is the id of the row with an operator's settings, empty if there is none.
func (p page) SettingOf(node string) string { return p.settings[node] }

// LargestNSR scales the bars of the layer table.
func (p page) LargestNSR() float64 {
	largest := 0.0
	for _, l := range p.layers {
		largest = max(largest, l.NSR)
	}
	return largest
}

// Share returns 100*x/of limited to [0, 100] for the width of a bar.
func (p page) Share(x, of float64) float64 {
	if !(of > 0) {
		return 0
	}
	return 100 * min(max(x/of, 0), 1)
}

// Worst lists the layers with the largest error first.
func (p page) Worst() []analysis.LayerError { return WorstFirst(p.layers) }

// TotalMACs is the work of all layers.
func (p page) TotalMACs() float64 {
	var sum int64
	for _, l := range p.layers {
		sum += l.MACs
	}
	return float64(sum)
}

// Float converts for arithmetic in the template.
func (p page) Float(n int64) float64 { return float64(n) }
