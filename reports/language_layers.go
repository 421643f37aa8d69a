package reports

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"qwb/analysis/language"
)

// LanguageLayersText writes what quantizing each matrix of a language model alone does, the worst first, and all together.
func LanguageLayersText(w io.Writer, r *language.Layers) error {
	t := &tables{w: w}
	t.begin(fmt.Sprintf("Layerwise: one matrix quantized at a time (%s, %s), worst first", r.Weights, r.Mode),
		"matrix", "KL", "NLL change", "flips", "NSR of logits", "cosine", "parameters")
	for _, m := range append([]language.MatrixDamage{r.Whole}, r.Layerwise...) {
		t.row(m.Node, measured(m.KL, m.KLError), measured(m.NLLChange, m.NLLChangeError), percent(m.FlipRate), Number(m.NSR), cosine(m.Cosine),
			count(m.Parameters))
	}
	t.end()
	t.printf("%d sequences, %d tokens, %.0f forwards each, %.2f s\n", r.Samples, r.Tokens, r.Forwards, r.Seconds)
	return t.err
}

//go:embed language.html.tmpl
var languageTemplate string

// LanguageLayersHTML writes the same as one file that needs nothing else; the result stands in it as JSON too, in the element with id
// "report".
func LanguageLayersHTML(w io.Writer, r *language.Layers) error {
	t, err := template.New("language").Funcs(template.FuncMap{
		"number": Number, "cosine": cosine, "place": func(i int) int { return i + 1 }, "exact": exact, "count": count, "percent": percent,
		"measured": measured, "style": style, "script": script,
	}).Parse(languageTemplate)
	if err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return t.Execute(w, languagePage{Layers: r, JSON: template.JS(data)})
}

// languagePage is what the template sees.
type languagePage struct {
	*language.Layers
	JSON template.JS
}

// Share is the width of a bar in percent: KL over that of the worst matrix.
func (p languagePage) Share(kl float64) float64 {
	if worst := p.Layerwise[0].KL; worst > 0 {
		return 100 * min(max(kl/worst, 0), 1)
	}
	return 0
}
