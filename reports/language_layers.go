package reports

import (
	"fmt"
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

// LanguageLayersHTML writes the same as one file that needs nothing else; the result stands in it as JSON too, in the element with id
// "report".
func LanguageLayersHTML(w io.Writer, r *language.Layers) error {
	p := newPage(r.Model+": quantization report", r.Model)
	p.put(`<p class="soft">Quantization report of a language model · %s · mode %s · %d sequences, %d tokens</p>`+"\n", r.Weights, r.Mode, r.Samples, r.Tokens)
	p.put(`<div class="tiles">` + "\n")
	p.tile("KL divergence, all quantized", Number(r.Whole.KL), "nats per token")
	p.tile("change of NLL, all quantized", Number(r.Whole.NLLChange), "nats per token")
	p.tile("other most likely token", percent(r.Whole.FlipRate), fmt.Sprintf("of %d", r.Tokens))
	worst := &r.Layerwise[0]
	p.tile("most sensitive matrix", worst.Node, "KL "+Number(worst.KL))
	p.put("</div>\n")
	p.section("Matrices", `Each matrix is quantized alone; the rest stays float. All columns compare the logits with those of the float model, token by token. Errors
are standard errors over sequences. Click a heading to sort.`)
	p.table("sortable", "#", "<matrix", "KL", "NLL change", "flips", "NSR", "cosine", "parameters")
	for i := range r.Layerwise {
		m := &r.Layerwise[i]
		p.row(i+1, name(m.Node), metered(m.KL, measured(m.KL, m.KLError), bar("", width(m.KL, worst.KL))),
			cell(exact(m.NLLChange), measured(m.NLLChange, m.NLLChangeError)), cell(exact(m.FlipRate), percent(m.FlipRate)), figure(m.NSR),
			cell(exact(m.Cosine), cosine(m.Cosine)), cell(m.Parameters, count(m.Parameters)))
	}
	p.endTable()
	return p.end(w, "report", r)
}
