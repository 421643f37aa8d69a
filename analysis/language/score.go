package language

import "qwb/kernels/elementary"

// Result is how well a language model predicts texts. A sequence is a text with the id that begins it in front; each of its other
// ids is scored, which makes Tokens of them.
//
// The negative log-likelihood (NLL) of an id is -ln p(id | those before it), in nats. Means are over tokens; their errors are standard
// errors over sequences (see ratio), nil where there is one sequence only.
type Result struct {
	Mode      string `json:"mode"`    // fp32, sim (quantized weights, float activations) or int8 (both quantized)
	Weights   string `json:"weights"` // in words
	Sequences int    `json:"sequences"`
	Cut       int    `json:"cut"` // sequences that are longer than the context of the model, and were cut to it
	Tokens    int    `json:"tokens"`

	MeanNLL         float64  `json:"mean_nll"`
	MeanNLLError    *float64 `json:"mean_nll_error"`
	Perplexity      float64  `json:"perplexity"`       // e^MeanNLL
	PerplexityError *float64 `json:"perplexity_error"` // Perplexity * MeanNLLError

	*Change
	// Cache is the type of the model's cache of keys and values where it is not float32, CacheChange what it alone does: the change from the
	// same model with a cache of float32, which FloatMeanNLL is of. Change holds both errors.
	Cache       string  `json:"kv_cache,omitempty"` // the caller's to fill
	CacheChange *Change `json:"kv_cache_change,omitempty"`

	PerToken []TokenScore `json:"per_token,omitempty"` // of the first tokens, as many as were asked for
	Judged   []Judged     `json:"judged,omitempty"`    // how searched scales were chosen; the caller's to fill
	Seconds  float64      `json:"seconds"`             // the caller's to fill
}

// Change is how far a model is from the float one on the same tokens.
type Change struct {
	FloatMeanNLL    float64  `json:"float_mean_nll"`
	FloatPerplexity float64  `json:"float_perplexity"`
	NLLChange       float64  `json:"nll_change"` // MeanNLL - FloatMeanNLL
	NLLChangeError  *float64 `json:"nll_change_error"`
	// KL is the mean over tokens of the Kullback-Leibler divergence sum(p * ln(p/q)) of the distribution q of the next token from
	// the float model's p, in nats. It is 0 where they are the same and never negative, but for rounding.
	KL      float64  `json:"kl"`
	KLError *float64 `json:"kl_error"`
	// Flips counts the tokens where the most likely next one is another than the float model's; the first of several counts.
	Flips         int      `json:"flips"`
	FlipRate      float64  `json:"flip_rate"` // Flips / Tokens
	FlipRateError *float64 `json:"flip_rate_error"`
	// Top is the mean share of the float model's 5 most likely tokens that are among the 5 of the model.
	Top      float64  `json:"top5_agreement"`
	TopError *float64 `json:"top5_agreement_error"`
}

// TokenScore is one token: how well it is predicted from those before it, in nats.
type TokenScore struct {
	Sequence string  `json:"sequence"` // where it comes from
	Position int     `json:"position"` // in the sequence; that of the id which begins it is 0
	Before   int     `json:"-"`        // the id before it
	ID       int     `json:"id"`
	Text     string  `json:"text"` // the caller's to fill
	NLL      float64 `json:"nll"`
	FloatNLL float64 `json:"float_nll"`
	Change   float64 `json:"nll_change"` // NLL - FloatNLL
	KL       float64 `json:"kl"`
	Flip     bool    `json:"flip"` // another token than the float model's is the most likely one here
}

// Score is one sequence. NLL, FloatNLL and KL are sums over its tokens.
type Score struct {
	Name   string
	Tokens int
	NLL    float64
	// Against the float model; 0 where there is none.
	FloatNLL, KL float64
	Flips        int
	Top          float64 // the sum of Change.Top
}

func (s *Score) add(r rowScore) {
	s.NLL += r.nll
	s.FloatNLL += r.floatNLL
	s.KL += r.kl
	s.Top += r.top
	if r.flip {
		s.Flips++
	}
}

// tally puts the scores of sequences together, one after the other.
type tally struct {
	against                 bool
	tokens, flips           int
	nll, float, change      ratio
	kl, flipped, top        ratio
	sequences, cutSequences int
}

func (t *tally) add(s Score, cut bool) {
	t.sequences++
	t.tokens += s.Tokens
	t.flips += s.Flips
	t.nll.add(s.NLL, s.Tokens)
	t.float.add(s.FloatNLL, s.Tokens)
	t.change.add(s.NLL-s.FloatNLL, s.Tokens)
	t.kl.add(s.KL, s.Tokens)
	t.flipped.add(float64(s.Flips), s.Tokens)
	t.top.add(s.Top, s.Tokens)
	if cut {
		t.cutSequences++
	}
}

func (t *tally) result() *Result {
	r := &Result{Sequences: t.sequences, Cut: t.cutSequences, Tokens: t.tokens, MeanNLL: t.nll.mean(), MeanNLLError: t.nll.err()}
	r.Perplexity = elementary.Exp(r.MeanNLL)
	if r.MeanNLLError != nil {
		e := r.Perplexity * *r.MeanNLLError
		r.PerplexityError = &e
	}
	if t.against {
		r.Change = t.changed()
	}
	return r
}

func (t *tally) changed() *Change {
	return &Change{
		FloatMeanNLL: t.float.mean(), FloatPerplexity: elementary.Exp(t.float.mean()), NLLChange: t.change.mean(), NLLChangeError: t.change.err(),
		KL: t.kl.mean(), KLError: t.kl.err(), Flips: t.flips, FlipRate: t.flipped.mean(), FlipRateError: t.flipped.err(),
		Top: t.top.mean(), TopError: t.top.err(),
	}
}
