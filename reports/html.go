package reports

import (
	"fmt"
	"io"

	"qwb/analysis"
)

// HTML writes the report as one file that needs nothing else: styles, script and pictures are inside. The full report stands
// in it as JSON too, in the element with id "report". Names are escaped.
func HTML(w io.Writer, r *analysis.Report) error {
	p := newPage(r.Model+": quantization report", r.Model)
	p.put(`<p class="soft">Quantization report · platform <b>%s</b>`, r.Platform)
	if r.Plan != "" {
		p.put(" · plan %s", r.Plan)
	}
	p.put(" · %d samples</p>\n", r.Samples)
	p.tiles(r)
	for _, m := range r.Warnings {
		p.put(`<p class="warn">`)
		if m.Node != "" {
			p.put("<b>%s</b>: ", m.Node)
		}
		p.put("%s</p>\n", m.Text)
	}
	rows := map[string]string{} // ids of the rows of settings, by operator
	for i := range r.Settings {
		rows[r.Settings[i].Node] = settingID(i)
	}
	p.advice(r.Advice, rows)
	if curve := errorCurve(r); curve != "" {
		p.section("Error in graph order", `Noise-to-signal ratio, logarithmic.<span class="swatch" style="background:var(--red)"></span>accumulated up to each operator in the quantized graph
<span class="swatch" style="background:var(--bar)"></span>at the graph output with this operator alone quantized. Point at a mark for its name.`)
		p.put("%s\n", curve)
	}
	p.explained(r.Explained)
	p.layers(r.Layerwise, rows)
	p.settings(r.Settings)
	p.accumulated(r.Graphwise)
	p.statistics(r)
	return p.end(w, "report", r)
}

func (p *page) tiles(r *analysis.Report) {
	p.put(`<div class="tiles">` + "\n")
	for _, o := range r.Outputs {
		p.tile("NSR at "+shorten(o.Output, 28), Number(o.NSR), "cosine "+cosine(o.Cosine))
	}
	if len(r.Layerwise) > 0 {
		worst := WorstFirst(r.Layerwise)[0]
		p.tile("most sensitive operator", shorten(worst.Node, 26), worst.Op+", NSR "+Number(worst.NSR))
		p.tile("operators analysed", fmt.Sprint(len(r.Layerwise)), "one at a time")
	}
	if r.Forwards != 0 {
		p.tile("cost", Number(r.Forwards), "whole forwards per sample")
	}
	p.put("</div>\n")
}

func (p *page) advice(list []analysis.Advice, rows map[string]string) {
	if len(list) == 0 {
		return
	}
	p.section("Advice", `What is wrong and what helps, the most helpful first. <b>Predicted</b> is the NSR of the outputs with the cure in the simulation, on a few calibration samples; <b>measured</b>, where it was tried, is what the
command does on samples held out.`)
	p.put(`<ol class="advice">` + "\n")
	for i := range list {
		a := &list[i]
		p.put("<li><b>%s</b>", a.Cause)
		for k, node := range a.Nodes {
			p.put("%s%s", []string{" in ", ", "}[min(k, 1)], linked(node, node, rows))
		}
		p.put(": %s.", a.Evidence)
		if a.Command != "" {
			p.put("<pre>%s</pre>", a.Command)
		}
		if e := effect(a); e != "" {
			p.put("<p>%s</p>", e)
		}
		if len(a.Others) > 0 {
			p.put("<details><summary>other commands that help</summary>")
			for _, c := range a.Others {
				p.put("<pre>%s</pre>", c)
			}
			p.put("</details>")
		}
		p.put("</li>\n")
	}
	p.put("</ol>\n")
}

// linked is a text that leads to the settings of an operator, where the page has them.
func linked(text, node string, rows map[string]string) markup {
	if id := rows[node]; id != "" {
		return fill(`<a href="#%s">%s</a>`, id, text)
	}
	return fill("%s", text)
}

func (p *page) explained(e *analysis.Explanation) {
	if e == nil {
		return
	}
	p.section("What the loss is made of", fill("The integer program under profile %s against float. ", e.Profile)+
		`Each part is the error of the float network with this one change. Of the weights' part, <b>shift</b> is
what one number per output channel takes away (a corrected bias), <b>noise</b> what it leaves. <b>Rest</b> is what the changes do together.`)
	parts := []string{"NSR", "weights", "shift", "noise", "clip", "round", "bias", "tables", "profile", "rest"}
	loss := func(l *analysis.Loss) []any {
		return []any{figure(l.NSR), figure(l.Weights), optional(l.WeightsShift), optional(l.WeightsNoise), figure(l.Clip), figure(l.Round), figure(l.Bias),
			figure(l.Tables), figure(l.Profile), figure(l.Rest)}
	}
	p.table("sortable", append([]string{"<output"}, parts...)...)
	for i := range e.Outputs {
		p.row(append([]any{name(shorten(e.Outputs[i].Output, 40))}, loss(&e.Outputs[i].Loss)...)...)
	}
	p.endTable()
	p.put("<p class=\"soft\">The same for every step from float inputs, at its own output. Here the parts sum to the NSR; a negative one makes up for others.</p>\n")
	p.table("sortable", append([]string{"<node", "op"}, parts...)...)
	for i := range e.Layers {
		l := &e.Layers[i]
		p.row(append([]any{shortName(l.Node, 40), l.Op}, loss(&l.Loss)...)...)
	}
	p.endTable()
}

func (p *page) layers(list []analysis.LayerError, rows map[string]string) {
	if len(list) == 0 {
		return
	}
	p.section("Layers", `Each operator is quantized alone, with the activation fused to it; the rest stays float. <b>NSR</b>, MSE and cosine are measured at the graph
outputs, <b>local</b> at the operator's own output; local splits into <span class="swatch" style="background:var(--red)"></span>clipping and
<span class="swatch" style="background:var(--bar)"></span>rounding. <b>Rank</b> is the range of places that the operator may have by NSR on other samples: where ranges
overlap, these samples cannot tell which is worse. Click a heading to sort; a name leads to the operator's settings.`)
	columns := []string{"#", "rank", "<node", "op", "NSR", "MSE", "cosine", "local", "clip", "round"}
	if list[0].Weight != nil {
		columns = append(columns, "weight", "activation")
	}
	p.table("sortable", append(columns, "MACs")...)
	largest := 0.0
	for i := range list {
		largest = max(largest, list[i].NSR)
	}
	for i := range list {
		l := &list[i]
		cells := []any{i + 1, cell(l.Ranks[0], places(l.Ranks)),
			fill(`<td class="name" title="%s">%s</td>`, l.Node, linked(shorten(l.Node, 40), l.Node, rows)), l.Op,
			metered(l.NSR, Number(l.NSR), bar("", width(l.NSR, largest))), figure(l.MSE), cell(exact(l.Cosine), cosine(l.Cosine)),
			metered(l.Local, Number(l.Local), bar("clip", width(l.Clip, l.Local)), bar("round", width(l.Round, l.Local))), figure(l.Clip), figure(l.Round)}
		if l.Weight != nil {
			cells = append(cells, figure(*l.Weight), figure(*l.Activation))
		}
		p.row(append(cells, cell(l.MACs, count(l.MACs)))...)
	}
	p.endTable()
	p.section("Weight range per output channel", "Channels of very different width in one layer are why per-channel scales are needed there.")
	p.put(`<div class="cards">`)
	for i := range list {
		l := &list[i]
		if ranges := channelRanges(l); ranges != "" {
			p.put(`<div class="card"><h3 title="%s">%s <span class="soft">%s</span></h3>%s</div>`, l.Node, shorten(l.Node, 60), l.Op, ranges)
		}
	}
	p.put("</div>\n")
}

func (p *page) settings(list []analysis.NodeSetting) {
	if len(list) == 0 {
		return
	}
	p.section("Settings", `Where every operator runs, who decided that and why, and how its tensors become integers: value = scale × (integer − zero point). Of several
scales the smallest and the largest are shown. A tensor with a <b>shared</b> scale takes that of the input or output named there.`)
	p.table("settings", "<at", "<tensor", "<state", "<scheme", "scale", "zero point", "<range from")
	for i := range list {
		n := &list[i]
		p.put(`<tr class="node" id="%s"><td class="name" colspan="7"><b title="%s">%s</b> <span class="soft">%s</span> · %s · <span title="%s">%s</span>`,
			settingID(i), n.Node, shorten(n.Node, 60), n.Op, string(n.Domain), n.Why, shortenEnd(n.Why, 90))
		if n.Fused != "" {
			p.put(` · <span title="%s">computed with %s</span>`, n.Fused, shorten(n.Fused, 40))
		}
		p.put("</td></tr>\n")
		for _, s := range n.Slots {
			from := name(s.Method)
			if s.Root != "" {
				from = fill(`<td class="name" title="%s">shared: %s</td>`, s.Root, shorten(s.Root, 32))
			}
			p.row(name(s.At), shortName(s.Tensor, 32), name(s.State), name(s.Scheme), scales(s), zeroPoints(s), from)
		}
	}
	p.endTable()
}

func (p *page) accumulated(list []analysis.GraphwisePoint) {
	if len(list) == 0 {
		return
	}
	p.put("<h2>Accumulated error</h2>\n")
	p.table("sortable", "#", "<node", "op", "<tensor", "NSR", "MSE", "cosine")
	for i := range list {
		g := &list[i]
		p.row(i+1, shortName(g.Node, 40), g.Op, shortName(g.Tensor, 40), figure(g.NSR), figure(g.MSE), cell(exact(g.Cosine), cosine(g.Cosine)))
	}
	p.endTable()
}

func (p *page) statistics(r *analysis.Report) {
	if len(r.Statistical) == 0 {
		return
	}
	p.section("Tensors", fill(`Counts are drawn on a logarithmic scale; dashed lines are the ranges that the calibration methods choose, the solid one is in use. The
counts are those of the %d samples of this analysis, the ranges come from all calibration samples, so they may reach further.`, r.Samples))
	p.table("sortable", "<tensor", "kind", "min", "max", "mean", "std", "skewness", "kurtosis", "zeros", "dead channels")
	for i := range r.Statistical {
		s := &r.Statistical[i]
		dead := "–"
		if s.Channels > 0 {
			dead = fmt.Sprintf("%d of %d", len(s.Dead), s.Channels)
		}
		p.row(shortName(s.Tensor, 40), s.Kind, figure(s.Min), figure(s.Max), figure(s.Mean), figure(s.Std), figure(s.Skewness), figure(s.Kurtosis),
			cell(exact(s.Zeros), percent(s.Zeros)), cell(len(s.Dead), dead))
	}
	p.endTable()
	p.put(`<div class="cards">` + "\n")
	for i := range r.Statistical {
		s := &r.Statistical[i]
		picture := histogram(s)
		if picture == "" {
			continue
		}
		p.put(`<div class="card"><h3 title="%s">%s</h3>%s<ul class="key">`, s.Tensor, shorten(s.Tensor, 60), picture)
		for k, t := range s.Thresholds {
			used := ""
			if t.Used {
				used = " used"
			}
			p.put(`<li class="m%d%s">%s [%s, %s]</li>`, k, used, t.Method, Number(t.Lo), Number(t.Hi))
		}
		p.put("</ul></div>\n")
	}
	p.put("</div>\n")
}
