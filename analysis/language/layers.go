package language

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"qwb/analysis"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/graph/tensor"
)

// Layers is what quantizing each matrix of a language model alone does to it, the worst first.
type Layers struct {
	Model     string         `json:"model"`
	Mode      string         `json:"mode"`    // sim (quantized weights, float activations) or int8 (both)
	Weights   string         `json:"weights"` // in words
	Samples   int            `json:"samples"` // sequences
	Tokens    int            `json:"tokens"`
	Cut       int            `json:"cut"` // sequences of which only the beginning was run
	Layerwise []MatrixDamage `json:"layerwise"`
	Whole     MatrixDamage   `json:"whole"`    // all of them quantized
	Seconds   float64        `json:"seconds"`  // the caller's to fill
	Forwards  float64        `json:"forwards"` // whole forwards per sequence
	PeakRSS   int64          `json:"peak_rss_bytes"`
}

// MatrixDamage is what quantizing one matrix alone changes. Means are over tokens, and their errors over sequences, as in
// Change.
type MatrixDamage struct {
	Node  string `json:"node"`  // "query of layer 3"
	Op    string `json:"op"`    // "query"
	Layer int    `json:"layer"` // from 0; -1 outside of the layers

	analysis.Error // of the logits, mean over sequences

	KL             float64  `json:"kl"`
	KLError        *float64 `json:"kl_error"`
	NLLChange      float64  `json:"nll_change"`
	NLLChangeError *float64 `json:"nll_change_error"`
	Flips          int      `json:"flips"`
	FlipRate       float64  `json:"flip_rate"`
	Parameters     int64    `json:"parameters"`
}

// LayersConfig says how RankMatrices works.
type LayersConfig struct {
	Model *decode.Engine    // in float
	Parts []checkpoint.Part // the matrices
	// Quantize replaces a matrix of Model by its quantized form until restore is called.
	Quantize func(ctx context.Context, p checkpoint.Part) (restore func(), err error)
	Rows     int                // tokens that run at once, but for longer texts; 0 for as many as pay; never changes a result
	Threads  int                // that score, at least one; never changes a result
	Progress func(forwards int) // is told after each forward pass of a batch; may be nil
}

// RankMatrices quantizes one matrix of a language model after the other and compares the logits with those of the float model, token by
// token; then all of them together. It holds the logits of one batch of texts twice; a text is not cut, so that its length bounds them.
// The ranking is by KL.
func RankMatrices(ctx context.Context, texts Passages, cfg LayersConfig) (*Layers, error) {
	if len(cfg.Parts) == 0 {
		return nil, errors.New("analyze: there is no matrix to quantize")
	}
	if cfg.Rows == 0 {
		cfg.Rows = batchRows(cfg.Model.Vocab)
	}
	r := &layersRun{cfg: cfg, texts: texts, scorer: rowScorer{par: exec.Parallel(max(cfg.Threads, 1))},
		damage: make([]damage, len(cfg.Parts)+1)}
	result := &Layers{Forwards: float64(len(cfg.Parts) + 2)}
	for {
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
	for i, p := range cfg.Parts {
		d := r.damage[i].result()
		rows, cols := cfg.Model.Shape(p.Role)
		d.Node, d.Op, d.Layer, d.Parameters = p.String(), p.Role.String(), p.Layer, int64(rows)*int64(cols)
		result.Layerwise = append(result.Layerwise, d)
		result.Whole.Parameters += d.Parameters
	}
	slices.SortStableFunc(result.Layerwise, func(a, b MatrixDamage) int { return cmp.Compare(b.KL, a.KL) })
	parameters := result.Whole.Parameters
	result.Whole = r.damage[len(cfg.Parts)].result()
	result.Whole.Node, result.Whole.Op, result.Whole.Layer, result.Whole.Parameters = "all", "all", -1, parameters
	return result, nil
}

// damage collects what one form of the model changes.
type damage struct {
	logits analysis.Error // the sum over sequences
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
	return MatrixDamage{Error: mean, KL: c.KL, KLError: c.KLError, NLLChange: c.NLLChange, NLLChangeError: c.NLLChangeError, Flips: c.Flips,
		FlipRate: c.FlipRate}
}

// layersRun is the state between batches.
type layersRun struct {
	cfg    LayersConfig
	texts  Passages
	ahead  *Passage // was read and did not fit into the last batch
	ended  bool
	scorer rowScorer
	damage []damage // of each part, then of all together
	caches []*decode.Cache
	float  []float32
	passes int
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
	logits, err := r.forward(ctx, batch)
	if err != nil {
		return err
	}
	r.float = append(r.float[:0], logits...)
	for i, p := range r.cfg.Parts {
		if err := r.quantized(ctx, batch, &r.damage[i], p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return r.quantized(ctx, batch, &r.damage[len(r.cfg.Parts)], r.cfg.Parts...)
}

// quantized runs a batch with some matrices quantized and adds the damage.
func (r *layersRun) quantized(ctx context.Context, batch []*Passage, d *damage, parts ...checkpoint.Part) error {
	for _, p := range parts {
		restore, err := r.cfg.Quantize(ctx, p)
		if err != nil {
			return err
		}
		defer restore()
	}
	logits, err := r.forward(ctx, batch)
	if err != nil {
		return err
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
func (r *layersRun) forward(ctx context.Context, batch []*Passage) ([]float32, error) {
	sequences := make([]decode.Sequence, len(batch))
	for i, p := range batch {
		if i == len(r.caches) {
			r.caches = append(r.caches, r.cfg.Model.NewCache())
		}
		r.caches[i].Clear()
		sequences[i] = decode.Sequence{Cache: r.caches[i], Tokens: p.IDs[:len(p.IDs)-1], Want: len(p.IDs) - 1}
	}
	logits, err := r.cfg.Model.Forward(ctx, sequences)
	if r.passes++; err == nil && r.cfg.Progress != nil {
		r.cfg.Progress(r.passes)
	}
	return logits, err
}
