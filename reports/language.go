package reports

import (
	"fmt"
	"io"

	"qwb/analysis/language"
)

// LanguageText writes how well a language model predicts texts and, where it was held against the float model, what changed.
func LanguageText(w io.Writer, r *language.Result) error {
	t := &tables{w: w}
	t.begin(fmt.Sprintf("%d sequences, %d tokens", r.Sequences, r.Tokens), "mode", "weights", "mean NLL", "perplexity")
	if c := r.Change; c != nil {
		t.row("fp32", "", measured(c.FloatMeanNLL, nil), measured(c.FloatPerplexity, nil))
	}
	weights := r.Weights
	if r.Cache != "" {
		weights += ", cache " + r.Cache
	}
	t.row(r.Mode, weights, measured(r.MeanNLL, r.MeanNLLError), measured(r.Perplexity, r.PerplexityError))
	t.end()
	if c := r.Change; c != nil {
		t.printf("change of mean NLL %s\n", measured(c.NLLChange, c.NLLChangeError))
		t.printf("KL divergence from float %s nats per token\n", measured(c.KL, c.KLError))
		t.printf("%d of %d most likely tokens differ: %s\n", c.Flips, r.Tokens, share(c.FlipRate, c.FlipRateError))
		t.printf("of the 5 most likely tokens %s stay\n", share(c.Top, c.TopError))
	}
	if c := r.CacheChange; c != nil && c != r.Change {
		t.printf("the cache of %s alone: change of mean NLL %s, KL divergence %s nats, %s of the most likely tokens\n", r.Cache,
			measured(c.NLLChange, c.NLLChangeError), measured(c.KL, c.KLError), share(c.FlipRate, c.FlipRateError))
	}
	return t.err
}

// measured formats a value with its standard error where that is known.
func measured(x float64, err *float64) string {
	if err == nil {
		return Number(x)
	}
	return WithError(x, err)
}

// share is measured for a share.
func share(x float64, err *float64) string {
	if err == nil {
		return percent(x)
	}
	return fmt.Sprintf("%.2f ± %.2f %%", 100*x, 100**err)
}
