// Package texts fits the quantized weights of a language model to texts: the scales of groups by the importance of their inputs, and the
// codes one matrix after the other by GPTQ, layer by layer, with what was quantized before in front.
//
// Unstable: it may change without notice.
package texts

import (
	"context"
	"fmt"

	"qwb/calib/tune/round"
	"qwb/export/language/weights"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/qmath"
	"qwb/observers"
)

// tiedDamping is what the moments of the classifier are damped by where it is the embedding too, whose rows are read as they are: their
// error counts in all directions, as much as the mean of what the classifier reads.
const tiedDamping = 1

// Config says what is fitted.
type Config struct {
	Model *checkpoint.Model
	// Engine runs Model with float weights and activations; its matrices are replaced on the way.
	Engine *decode.Engine
	// Encoding is how a matrix is to be stored: Groups or blocks. Floats stay as they are.
	Encoding func(t *checkpoint.Tensor) weights.Encoding
	// Bits of the codes of Groups: 8 or 4.
	Bits  int
	Texts [][]int // each begins with the token that begins a text
	// Round rounds codes by GPTQ; otherwise to the nearest.
	Round    bool
	Threads  int // never changes a result
	Progress func(done int)
	// Unseen, if not nil, is told the matrices of experts that no token of the texts was given to: they get the scales with the least squared
	// error and the nearest codes.
	Unseen func(parts []checkpoint.Part)
}

// Loss is the squared error of what a matrix gives, as a part of the square of what it gives, over all texts.
type Loss struct {
	Part  string  `json:"part"`
	Plain float64 `json:"nearest"` // with the scale of the largest weight of a group, and the nearest codes
	Fit   float64 `json:"fitted"`
}

// Fit returns the matrices as they are to be stored, for Model.With, and what they lose, in the order of computation. The embedding of a
// model that has a classifier too gets the scales with the least squared error.
//
// The moments are exact sums over the rows of all texts (observers.Gram), so the result does not depend on threads or the order of texts.
func Fit(ctx context.Context, c Config) (map[checkpoint.Part]*checkpoint.Tensor, []Loss, error) {
	f := fitter{Config: c, ctx: ctx, done: map[checkpoint.Part]*checkpoint.Tensor{}}
	embedding := c.Model.Tensor(checkpoint.Embedding, -1)
	if c.Model.Tied {
		if err := c.Engine.Walk(ctx, c.Texts, decode.Walker{Inputs: f.inputs, Ready: func(parts []checkpoint.Part) error {
			if parts[0].Role == checkpoint.Classifier {
				return f.matrices([]checkpoint.Part{embedding.Part})
			}
			f.rows = f.rows[:0]
			return nil
		}}); err != nil {
			return nil, nil, err
		}
	} else if err := f.matrix(embedding, nil); err != nil {
		return nil, nil, err
	}
	err := c.Engine.Walk(ctx, c.Texts, decode.Walker{Inputs: f.inputs, Ready: func(parts []checkpoint.Part) error {
		if parts[0].Role == checkpoint.Classifier && c.Model.Tied {
			return nil
		}
		return f.matrices(parts)
	}})
	return f.done, f.losses, err
}

type fitter struct {
	Config
	ctx    context.Context
	rows   []float32 // what the matrices at hand read
	done   map[checkpoint.Part]*checkpoint.Tensor
	losses []Loss
}

func (f *fitter) inputs(_ []checkpoint.Part, x []float32, _ int) error {
	f.rows = append(f.rows, x...)
	return nil
}

// matrices fits matrices that have read f.rows.
func (f *fitter) matrices(parts []checkpoint.Part) error {
	first := f.Model.Of(parts[0])
	var h []float64
	if len(f.rows) > 0 {
		var err error
		if h, err = f.moments(first.Cols); err != nil {
			return fmt.Errorf("%s: %w", first.Part, err)
		}
	} else if f.Unseen != nil {
		f.Unseen(parts)
	}
	f.rows = f.rows[:0]
	for _, p := range parts {
		if err := f.matrix(f.Model.Of(p), h); err != nil {
			return err
		}
	}
	return nil
}

// moments is the sum of x xT over f.rows.
func (f *fitter) moments(k int) ([]float64, error) {
	largest := float32(0)
	for _, v := range f.rows {
		if v-v != 0 {
			return nil, round.ErrMoments
		}
		largest = max(largest, qmath.Abs32(v))
	}
	g, err := observers.NewGram(1, k, qmath.FixedFor(largest, observers.GramWithin, observers.GramLimit), qmath.Fixed{})
	if err != nil {
		return nil, err
	}
	rows := observers.GramRows{Codes: make([]int16, len(f.rows)), Base: make([]int32, len(f.rows)/k), Offset: make([]int32, k)}
	rows.Limited, rows.Finite = g.X.Codes(rows.Codes, f.rows)
	for i := range rows.Base {
		rows.Base[i] = int32(i * k)
	}
	for i := range rows.Offset {
		rows.Offset[i] = int32(i)
	}
	a := g.Add(kernels.Select(cpu.Detect()), exec.Parallel(f.Threads))
	a.Rows(&rows, nil)
	a.Close()
	return g.H(0), nil
}

// matrix fits one matrix under the moments of its inputs, nil where they are not known, and puts it in its place in the engine.
func (f *fitter) matrix(t *checkpoint.Tensor, h []float64) error {
	e := f.Encoding(t)
	if !e.Quantized() || !t.Floats() || f.done[t.Part] != nil {
		return nil
	}
	if err := t.Finite(); err != nil {
		return err
	}
	m := newTarget(t, e, diagonal(h, t.Cols), f.Bits, f.Threads)
	p := m.problem()
	codes := p.Nearest()
	if h != nil && f.Round {
		damp := round.Damping
		if f.Model.Tied && t.Role == checkpoint.Embedding {
			damp = tiedDamping
		}
		factor, err := round.NewFactor(h, t.Cols, damp, round.Falling, f.Threads)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Part, err)
		}
		codes, _ = factor.Round(p)
	}
	got := m.take(codes)
	if p.H = h; h != nil {
		f.losses = append(f.losses, Loss{Part: t.Part.String(), Plain: loss(m, m.plain()), Fit: loss(m, got)})
	}
	f.done[t.Part] = m.tensor()
	if f.Progress != nil {
		f.Progress(len(f.done))
	}
	_, err := f.Engine.Replace(f.ctx, f.Model.With(f.done), t.Part, decode.Weights{Float: true})
	return err
}
