// Package texts fits the quantized weights of a language model to texts: the scales of groups by the importance of their inputs, and the
// codes one matrix after the other by GPTQ, layer by layer, with what was quantized before in front.
//
// Unstable: it may change without notice.
package texts

import (
	"context"
	"errors"
	"fmt"
	"iter"

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

// followed is the part of the shift of GPTAQ that is taken: the whole fits what is peculiar to the texts, too. On lines of stories15M that
// nothing was fitted to, int4 in groups of 32, a half has a divergence of 0.052, the quarter that its authors advise 0.059.
const followed = 0.5

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
	Round bool
	// Float, if not nil, is another engine of Model, with float weights, which stay: codes are rounded by GPTAQ (round.Factor.Shift), so that
	// outputs meet those of the float model, whose inputs differ from those behind quantized matrices. It needs Round.
	Float    *decode.Engine
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
	} else if err := f.matrix(embedding, nil, nil); err != nil {
		return nil, nil, err
	}
	defer f.follow()()
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
	rows   []float32                       // what the matrices at hand read
	float  func() ([]float32, error, bool) // what they read in the float model; nil: it is not asked for
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
	var h, cross []float64
	var float []float32
	if f.float != nil {
		var err error
		if float, err, _ = f.float(); err != nil {
			return fmt.Errorf("%s in float: %w", first.Part, err)
		}
		if first.Role.OfExpert() { // the router may have given it other tokens
			float = nil
		}
	}
	if len(f.rows) > 0 {
		var err error
		if h, cross, err = moments(f.rows, float, first.Cols, f.Threads); err != nil {
			return fmt.Errorf("%s: %w", first.Part, err)
		}
	} else if f.Unseen != nil {
		f.Unseen(parts)
	}
	f.rows = f.rows[:0]
	for _, p := range parts {
		if err := f.matrix(f.Model.Of(p), h, cross); err != nil {
			return err
		}
	}
	return nil
}

// follow walks through the float model beside the one that is quantized, as far as f.float is asked. It returns what ends that.
func (f *fitter) follow() (stop func()) {
	if f.Float == nil {
		return func() {}
	}
	next, stop := iter.Pull2(func(yield func([]float32, error) bool) {
		var rows []float32
		err := f.Float.Walk(f.ctx, f.Texts, decode.Walker{
			Inputs: func(_ []checkpoint.Part, x []float32, _ int) error {
				rows = append(rows, x...)
				return nil
			},
			Ready: func([]checkpoint.Part) error {
				if !yield(rows, nil) {
					return errStopped
				}
				rows = rows[:0]
				return nil
			}})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	})
	f.float = next
	return stop
}

var errStopped = errors.New("stopped")

// moments is the sum of x xT over rows of k numbers, and of (y - x) xT where there are rows y of the float model.
func moments(rows, float []float32, k, threads int) (h, cross []float64, err error) {
	x, point, err := fixedRows(rows, k)
	if err != nil {
		return nil, nil, err
	}
	var y *observers.GramRows
	var other qmath.Fixed
	if len(float) > 0 {
		if y, other, err = fixedRows(float, k); err != nil {
			return nil, nil, err
		}
	}
	g, err := observers.NewGram(1, k, point, other)
	if err != nil {
		return nil, nil, err
	}
	a := g.Add(kernels.Select(cpu.Detect()), exec.Parallel(threads))
	a.Rows(x, y)
	a.Close()
	return g.H(0), g.Cross(0), nil
}

// fixedRows are rows of k numbers in the fixed point that holds them.
func fixedRows(x []float32, k int) (*observers.GramRows, qmath.Fixed, error) {
	largest := float32(0)
	for _, v := range x {
		if v-v != 0 {
			return nil, qmath.Fixed{}, round.ErrMoments
		}
		largest = max(largest, qmath.Abs32(v))
	}
	p := qmath.FixedFor(largest, observers.GramWithin, observers.GramLimit)
	rows := &observers.GramRows{Codes: make([]int16, len(x)), Base: make([]int32, len(x)/k), Offset: make([]int32, k)}
	rows.Limited, rows.Finite = p.Codes(rows.Codes, x)
	for i := range rows.Base {
		rows.Base[i] = int32(i * k)
	}
	for i := range rows.Offset {
		rows.Offset[i] = int32(i)
	}
	return rows, p, nil
}

// matrix fits one matrix under the moments of its inputs, nil where they are not known, and puts it in its place in the engine.
func (f *fitter) matrix(t *checkpoint.Tensor, h, cross []float64) error {
	e := f.Encoding(t)
	if !e.Quantized() || !t.Floats() || f.done[t.Part] != nil {
		return nil
	}
	if err := t.Finite(); err != nil {
		return err
	}
	m := newTarget(t, e, diagonal(h, t.Cols), f.Bits, f.Threads)
	p := m.problem()
	p.H = h
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
		if cross != nil {
			shift, err := factor.Shift(wide(m.weights()), cross, f.Threads)
			if err != nil {
				return fmt.Errorf("%s: %w", t.Part, err)
			}
			for i, d := range shift {
				p.W[i] += float64(followed * d)
			}
		}
		codes = rescaled(m, factor)
	}
	got := m.take(codes)
	if h != nil {
		f.losses = append(f.losses, Loss{Part: t.Part.String(), Plain: loss(m, m.plain()), Fit: loss(m, got)})
	}
	f.done[t.Part] = m.tensor()
	if f.Progress != nil {
		f.Progress(len(f.done))
	}
	_, err := f.Engine.Replace(f.ctx, f.Model.With(f.done), t.Part, decode.Weights{Float: true})
	return err
}

// rescaled rounds the codes of a matrix, and fits scales to codes and codes to scales in turn, row by row as long as that lowers its form.
func rescaled(m target, factor *round.Factor) []int32 {
	p := m.problem()
	codes, loss := factor.Round(p)
	best := scalesOf(p)
	for range round.Rescaled {
		m.scale(p.Scales(codes, factor.Damp))
		again, less := factor.Round(p)
		better, tried := 0, scalesOf(p)
		for r, n := range p.Grids.Row {
			if less[r] < loss[r] {
				copy(codes[r*p.K:][:p.K], again[r*p.K:][:p.K])
				copy(best[n:][:len(best)/len(loss)], tried[n:])
				loss[r] = less[r]
				better++
			}
		}
		if m.scale(best); better == 0 {
			break
		}
	}
	return codes
}

func scalesOf(p *round.Problem) []float64 {
	out := make([]float64, len(p.Grids.List))
	for i, g := range p.Grids.List {
		out[i] = float64(g.Scale)
	}
	return out
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
