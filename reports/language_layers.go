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
		"matrix", "KL", "NLL change", "flips", "NSR of logits", "local NSR", "clip", "round", "activation", "parameters")
	for _, m := range append([]language.MatrixDamage{r.Whole}, r.Layerwise...) {
		t.row(m.Node, measured(m.KL, m.KLError), measured(m.NLLChange, m.NLLChangeError), percent(m.FlipRate), Number(m.NSR),
			optional(m.Local), optional(m.Clip), optional(m.Round), optional(m.Activation), count(m.Parameters))
	}
	t.end()
	t.printf("%d sequences, %d tokens, %.1f forwards each, %.2f s\n", r.Samples, r.Tokens, r.Forwards, r.Seconds)
	return t.err
}
