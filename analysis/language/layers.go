package language

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"qwb/analysis"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
)

// Layers is what quantizing each matrix of a language model alone does to it, the worst first.
type Layers struct {
	Model     string         `json:"model"`
	Mode      string         `json:"mode"`               // sim (quantized weights, float activations) or int8 (both)
	Weights   string         `json:"weights"`            // in words
	Cache     string         `json:"kv_cache,omitempty"` // the type of keys and values where it is not float32; the caller's to fill
	Samples   int            `json:"samples"`            // sequences
	Tokens    int            `json:"tokens"`
	Cut       int            `json:"cut"` // sequences of which only the beginning was run
	Layerwise []MatrixDamage `json:"layerwise"`
	Whole     MatrixDamage   `json:"whole"`    // all of them quantized
	Seconds   float64        `json:"seconds"`  // the caller's to fill
	Forwards  float64        `json:"forwards"` // layers that were run per sequence, as whole forwards
	PeakRSS   int64          `json:"peak_rss_bytes"`
}

// MatrixDamage is what quantizing one matrix alone changes, or rounding the keys or the values of one layer in the cache. Means are over
// tokens, and their errors over sequences, as in Change.
type MatrixDamage struct {
	Node  string `json:"node"`  // "query of layer 3"
	Op    string `json:"op"`    // "query"
	Layer int    `json:"layer"` // from 0; -1 outside of the layers

	analysis.Error // of the logits, mean over sequences

	// Local is the squared error of what the matrix gives, from inputs of the float model, over the squares of that, sums over all tokens;
	// of keys and values it is that of what attention hands on, of an embedding that of its rows. Clip, Round and Activation are the
	// projections on it of three steps: weights beyond the codes of their group become the ends of these, weights become codes, inputs
	// become codes. Clip + Round + Activation = Local. nil of what is not known in codes.
	Local      *float64 `json:"local,omitempty"`
	Clip       *float64 `json:"clip,omitempty"`
	Round      *float64 `json:"round,omitempty"`
	Activation *float64 `json:"activation,omitempty"`

	KL             float64  `json:"kl"`
	KLError        *float64 `json:"kl_error"`
	NLLChange      float64  `json:"nll_change"`
	NLLChangeError *float64 `json:"nll_change_error"`
	Flips          int      `json:"flips"`
	FlipRate       float64  `json:"flip_rate"`
	Top            float64  `json:"top5_agreement"`
	Parameters     int64    `json:"parameters"` // 0 of keys and values
}

// LayersConfig says how RankMatrices works.
type LayersConfig struct {
	Model     *decode.Engine    // in float
	Parts     []checkpoint.Part // the matrices
	Source    *checkpoint.Model // what Model was made of
	Quantized *checkpoint.Model // Source with the matrices quantized
	Weights   decode.Weights    // how these are multiplied
	Cache     decode.CacheType  // of keys and values, to be rounded one layer at a time, too
	Alone     bool              // only what each does to the logits: neither local errors nor all together: Whole means nothing
	Tight     bool              // computes exponentials of the float model's logits again for each matrix, which takes less memory
	Rows      int               // tokens that run at once, but for longer texts; 0 for as many as pay; never changes a result
	Threads   int               // that score, at least one; never changes a result
	// Progress is told after each run to the logits; may be nil.
	Progress func(runs int)
}

// RankMatrices quantizes one matrix of a language model after the other and compares the logits with those of the float model, token by
// token; then all of them together. What is in front of a matrix runs once for all of a layer: each run begins in front of the part of the
// layer that the matrix is in, and gives what one from the first token gives, bit for bit. Of one batch of texts it holds the logits twice
// with exponentials of one of them, what a matrix makes of them up to four times, and their residual stream; a text is not cut, so that its
// length bounds them. The ranking is by KL.
func RankMatrices(ctx context.Context, texts Passages, cfg LayersConfig) (*Layers, error) {
	if len(cfg.Parts) == 0 {
		return nil, errors.New("analyze: there is no matrix to quantize")
	}
	if cfg.Rows == 0 {
		cfg.Rows = batchRows(3 * cfg.Model.Vocab) // of the float model exponentials are kept, too
	}
	r := newLayersRun(texts, cfg)
	result, batches := &Layers{}, 0
	for ; ; batches++ {
		batch, err := r.gather(ctx)
		if err != nil {
			return nil, err
		}
		if len(batch) == 0 {
			break
		}
		if err := r.run(ctx, batch); err != nil {
			return nil, fmt.Errorf("analyze: %s to %s: %w", batch[0].Name, batch[len(batch)-1].Name, err)
		}
		for _, p := range batch {
			result.Samples, result.Tokens = result.Samples+1, result.Tokens+len(p.IDs)-1
			if p.Cut {
				result.Cut++
			}
		}
	}
	if result.Samples == 0 {
		return nil, errors.New("analyze: there is no text")
	}
	result.Forwards = float64(r.halves) / float64(2*cfg.Model.Layers*batches)
	parameters := int64(0)
	for i, of := range r.forms {
		d := r.damage[i].result()
		d.Node, d.Op, d.Layer, d.Parameters = of.node, of.op, of.layer, of.parameters
		result.Layerwise = append(result.Layerwise, d)
		parameters += d.Parameters
	}
	arrange.Stable(result.Layerwise, func(a, b MatrixDamage) int { return cmp.Compare(b.KL, a.KL) })
	result.Whole = r.damage[len(r.forms)].result()
	result.Whole.Node, result.Whole.Op, result.Whole.Layer, result.Whole.Parameters = "all", "all", -1, parameters
	return result, nil
}

// damage collects what one form of the model changes.
type damage struct {
	logits analysis.Error // the sum over sequences
	local  local
	tally
}

func (d *damage) addError(e analysis.Error) {
	d.logits.NSR += e.NSR
	d.logits.MSE += e.MSE
	d.logits.Cosine += e.Cosine
}

func (d *damage) result() MatrixDamage {
	c, n := d.changed(), float64(d.sequences)
	mean := analysis.Error{NSR: d.logits.NSR / n, MSE: d.logits.MSE / n, Cosine: d.logits.Cosine / n}
	m := MatrixDamage{Error: mean, KL: c.KL, KLError: c.KLError, NLLChange: c.NLLChange, NLLChangeError: c.NLLChangeError, Flips: c.Flips,
		FlipRate: c.FlipRate, Top: c.Top}
	d.local.result(&m)
	return m
}

// changedForm is one thing that is quantized alone.
type changedForm struct {
	node, op   string
	layer      int
	parameters int64
}

// layersRun is the state between batches.
type layersRun struct {
	cfg    LayersConfig
	texts  Passages
	ahead  *Passage // was read and did not fit into the last batch
	ended  bool
	scorer rowScorer
	forms  []changedForm // the parts, then keys and values of each layer
	of     map[checkpoint.Part]int
	damage []damage // of each form, then of all together
	caches []*decode.Cache
	float  []float32
	runs   int
	halves int // of layers that were run
	local  localRun
}

func newLayersRun(texts Passages, cfg LayersConfig) *layersRun {
	r := &layersRun{cfg: cfg, texts: texts, scorer: rowScorer{par: exec.Parallel(max(cfg.Threads, 1))}, of: map[checkpoint.Part]int{}}
	for i, p := range cfg.Parts {
		rows, cols := cfg.Model.Shape(p.Role)
		r.forms = append(r.forms, changedForm{p.String(), p.Role.String(), p.Layer, int64(rows) * int64(cols)})
		r.of[p] = i
	}
	for l := 0; cfg.Cache != decode.CacheF32 && l < cfg.Model.Layers; l++ {
		for _, op := range cached {
			r.forms = append(r.forms, changedForm{fmt.Sprintf("%s of layer %d", op, l), op, l, 0})
		}
	}
	r.damage = make([]damage, len(r.forms)+1)
	return r
}

// cached are the two parts of a cache.
var cached = [...]string{"keys", "values"}

// rounding is one of the parts of the cache of a layer that is rounded alone.
func (r *layersRun) rounding(layer, part int) *decode.Rounding {
	return &decode.Rounding{Type: r.cfg.Cache, Layer: layer, Keys: part == 0, Values: part == 1}
}

// gather reads the texts of the next batch: one, and more as long as they fit.
func (r *layersRun) gather(ctx context.Context) (batch []*Passage, err error) {
	for n := 0; ; {
		if r.ahead == nil && !r.ended {
			r.ahead, err = r.texts(ctx)
			if errors.Is(err, io.EOF) {
				r.ahead, r.ended = nil, true
			} else if err != nil {
				return nil, err
			}
		}
		if r.ahead == nil || len(batch) > 0 && n+len(r.ahead.IDs) > r.cfg.Rows {
			return batch, nil
		}
		if len(r.ahead.IDs) < 2 {
			return nil, fmt.Errorf("analyze: %s: %d tokens, there is nothing to score", r.ahead.Name, len(r.ahead.IDs))
		}
		n += len(r.ahead.IDs)
		batch, r.ahead = append(batch, r.ahead), nil
	}
}

// run runs a batch in float, with each matrix quantized, and with all.
func (r *layersRun) run(ctx context.Context, batch []*Passage) error {
	logits, err := r.forward(ctx, batch, nil)
	if err != nil {
		return err
	}
	r.float = append(r.float[:0], logits...)
	if !r.cfg.Tight {
		r.scorer.fix(r.float, r.cfg.Model.Vocab)
	}
	var texts [][]int
	for _, p := range batch {
		texts = append(texts, p.IDs[:len(p.IDs)-1])
	}
	whole := func() ([]float32, error) { return r.forward(ctx, batch, nil) }
	for _, p := range r.cfg.Parts {
		if p.Role != checkpoint.Embedding {
			continue
		}
		if !r.cfg.Alone {
			r.rows(&r.damage[r.of[p]].local, p, texts)
		}
		if err := r.quantized(ctx, batch, &r.damage[r.of[p]], whole, p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	err = r.cfg.Model.Walk(ctx, texts, decode.Walker{
		Skip:   func([]checkpoint.Part) bool { return r.cfg.Alone },
		Inputs: func(parts []checkpoint.Part, x []float32, _ int) error { return r.locals(ctx, parts, x) },
		Resume: func(parts []checkpoint.Part, p *decode.Pass) error { return r.resume(ctx, batch, parts, p) },
	})
	r.halves += 4 * r.cfg.Model.Layers // Walk computes each twice
	if err != nil || r.cfg.Alone {
		return err
	}
	return r.quantized(ctx, batch, &r.damage[len(r.forms)], func() ([]float32, error) {
		return r.forward(ctx, batch, &decode.Rounding{Type: r.cfg.Cache, Layer: -1, Keys: true, Values: true})
	}, r.cfg.Parts...)
}

// resume runs a batch from where it stands with each of some matrices quantized.
func (r *layersRun) resume(ctx context.Context, batch []*Passage, parts []checkpoint.Part, p *decode.Pass) error {
	left := 2*r.cfg.Model.Layers - p.Half()
	finish := func(c *decode.Rounding) func() ([]float32, error) {
		return func() ([]float32, error) {
			r.halves += left
			return p.Finish(c)
		}
	}
	for _, part := range parts {
		i, ok := r.of[part]
		if !ok {
			continue
		}
		if err := r.quantized(ctx, batch, &r.damage[i], finish(nil), part); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	if r.cfg.Cache == decode.CacheF32 || parts[0].Role != checkpoint.Output {
		return nil
	}
	for part := range cached {
		d := &r.damage[len(r.cfg.Parts)+len(cached)*parts[0].Layer+part]
		c := r.rounding(parts[0].Layer, part)
		r.attended(&d.local, p, c)
		if err := r.quantized(ctx, batch, d, finish(c)); err != nil {
			return err
		}
	}
	return nil
}

// quantized runs a batch with some matrices quantized and adds the damage.
func (r *layersRun) quantized(ctx context.Context, batch []*Passage, d *damage, run func() ([]float32, error),
	parts ...checkpoint.Part) error {
	for _, p := range parts {
		restore, err := r.cfg.Model.Replace(ctx, r.cfg.Quantized, p, r.cfg.Weights)
		if err != nil {
			return err
		}
		defer restore()
	}
	logits, err := run()
	if err != nil {
		return err
	}
	if r.runs++; r.cfg.Progress != nil {
		r.cfg.Progress(r.runs)
	}
	var next []int
	for _, p := range batch {
		next = append(next, p.IDs[1:]...)
	}
	scores, err := r.scorer.score(logits, r.float, next)
	if err != nil {
		return err
	}
	at, vocab := 0, r.cfg.Model.Vocab
	for _, p := range batch {
		n := len(p.IDs) - 1
		s := Score{Name: p.Name, Tokens: n}
		for _, row := range scores[at : at+n] {
			s.add(row)
		}
		d.add(s, p.Cut)
		of := func(x []float32) *tensor.Tensor { return tensor.FromF32(x[at*vocab:(at+n)*vocab], n*vocab) }
		e, err := analysis.Compare(of(logits), of(r.float))
		if err != nil {
			return err
		}
		d.addError(e)
		at += n
	}
	return nil
}

// forward runs whole texts and returns the logits of all their tokens but the last.
func (r *layersRun) forward(ctx context.Context, batch []*Passage, c *decode.Rounding) ([]float32, error) {
	sequences := make([]decode.Sequence, len(batch))
	for i, p := range batch {
		if i == len(r.caches) {
			r.caches = append(r.caches, r.cfg.Model.NewOnceCache())
		}
		r.caches[i].Clear()
		if r.caches[i].Round(nil); r.cfg.Cache != decode.CacheF32 {
			r.caches[i].Round(c)
		}
		sequences[i] = decode.Sequence{Cache: r.caches[i], Tokens: p.IDs[:len(p.IDs)-1], Want: len(p.IDs) - 1}
	}
	r.halves += 2 * r.cfg.Model.Layers
	return r.cfg.Model.Forward(ctx, sequences)
}
