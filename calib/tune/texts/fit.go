// Package texts fits the quantized weights of a language model to texts: the scales of groups by the importance of their inputs, and the
// codes one matrix after the other by GPTQ, layer by layer, with what was quantized before in front.
//
// Unstable: it may change without notice.
package texts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"qwb/calib/tune/round"
	"qwb/export/language/weights"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
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
	// Engine runs Model with float weights and activations; its matrices are replaced on the way. It may be layered, as Float may be.
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
	Float   *decode.Engine
	Threads int // never changes a result
	// Held is how many bytes of what matrices read stay in memory, and as many again for Float; 0: 8 MiB. The rest lies in files of the
	// system.
	Held     int
	Progress func(done int)
	// Unseen, if not nil, is told the matrices of experts that no token of the texts was given to: they get the scales with the least squared
	// error and the nearest codes.
	Unseen func(parts []checkpoint.Part)
	// Keep, if not nil, is called with each matrix as soon as it is done, and what all have lost so far. Kept and Lost are what an earlier
	// run on the same texts has given to Keep: their matrices are not fitted again.
	Keep func(t *checkpoint.Tensor, losses []Loss) error
	Kept []*checkpoint.Tensor
	Lost []Loss
}

// Loss is the squared error of what a matrix gives, as a part of the square of what it gives, over all texts.
type Loss struct {
	Part  string  `json:"part"`
	Plain float64 `json:"nearest"` // with the scale of the largest weight of a group, and the nearest codes
	Fit   float64 `json:"fitted"`
}

// Fit returns the matrices as they are to be stored, for Model.With, and what they lose, in the order of computation. The embedding of a
// model that has a classifier too gets the scales with the least squared error. What they take beside small ones lies in files of the
// system, until the model is closed. Memory is that of the matrices of a layer, its moments, and Dim numbers for each token.
//
// The moments are exact sums over the rows of all texts (observers.Gram), so the result does not depend on threads or the order of texts.
func Fit(ctx context.Context, c Config) (done map[checkpoint.Part]*checkpoint.Tensor, losses []Loss, err error) {
	return fit(ctx, c, 0, c.Held)
}

// fit is Fit with about so many weights at once, 0: strip, and so many bytes of rows in memory.
func fit(ctx context.Context, c Config, strip, held int) (done map[checkpoint.Part]*checkpoint.Tensor, losses []Loss, err error) {
	f := fitter{Config: c, ctx: ctx, done: map[checkpoint.Part]*checkpoint.Tensor{}, losses: c.Lost, strip: strip, rows: inputs{most: held}}
	defer func() { err = errors.Join(err, f.rows.clear()) }()
	for _, t := range c.Kept {
		f.done[t.Part] = t
	}
	embedding := c.Model.Tensor(checkpoint.Embedding, -1)
	switch {
	case f.had([]checkpoint.Part{embedding.Part}):
		if f.done[embedding.Part] != nil {
			err = f.replace(embedding.Part)
		}
	case c.Model.Tied:
		last := func(parts []checkpoint.Part) bool { return parts[0].Role == checkpoint.Classifier }
		err = c.Engine.Walk(ctx, c.Texts, decode.Walker{Inputs: f.rows.add, Skip: func(parts []checkpoint.Part) bool { return !last(parts) },
			Ready: func(parts []checkpoint.Part) error {
				if last(parts) {
					return f.matrices(parts)
				}
				return nil
			}})
	default:
		err = f.matrix(embedding, nil, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.follow()()
	err = c.Engine.Walk(ctx, c.Texts, decode.Walker{Inputs: f.rows.add, Shown: f.rows.read, Skip: f.had,
		Ready: func(parts []checkpoint.Part) error {
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
	rows   inputs                        // what the matrices at hand read
	float  func() (*inputs, error, bool) // what they read in the float model; nil: it is not asked for
	done   map[checkpoint.Part]*checkpoint.Tensor
	losses []Loss
	strip  int // weights of a matrix at once; 0: strip
}

// had reports whether matrices were all kept by an earlier run.
func (f *fitter) had(parts []checkpoint.Part) bool {
	return !slices.ContainsFunc(parts, func(p checkpoint.Part) bool {
		t := f.Model.Of(p)
		return f.done[t.Part] == nil && f.Encoding(t).Quantized() && t.Floats()
	})
}

// keep keeps a matrix that is done, and puts it in its place in the engine.
func (f *fitter) keep(t *checkpoint.Tensor) error {
	f.done[t.Part] = f.Model.Spill(t)
	if f.Keep != nil {
		if err := f.Keep(t, f.losses); err != nil {
			return err
		}
	}
	if f.Progress != nil {
		f.Progress(len(f.done))
	}
	return f.replace(t.Part)
}

// replace puts a matrix that is done in its place in the engine.
func (f *fitter) replace(p checkpoint.Part) error {
	_, err := f.Engine.Replace(f.ctx, f.Model.With(f.done), p, decode.Weights{Unpacked: true})
	return err
}

// matrices fits matrices that have read f.rows.
func (f *fitter) matrices(parts []checkpoint.Part) error {
	first := f.Model.Of(parts[0])
	var h, cross []float64
	var float *inputs
	var err error
	if f.float != nil {
		if float, err, _ = f.float(); err != nil {
			return fmt.Errorf("%s in float: %w", first.Part, err)
		}
		if first.Role.OfExpert() { // the router may have given it other tokens
			float = nil
		}
	}
	switch {
	case f.had(parts):
		for _, p := range parts {
			if f.done[p] != nil {
				if err := f.replace(p); err != nil {
					return err
				}
			}
		}
		return nil
	case f.rows.count(parts) > 0:
		if h, cross, err = f.rows.moments(0, len(f.rows.pieces), float, first.Cols, f.Threads); err != nil {
			return fmt.Errorf("%s: %w", first.Part, err)
		}
	case f.Unseen != nil:
		f.Unseen(parts)
	}
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
	next, stop := iter.Pull2(func(yield func(*inputs, error) bool) {
		rows := inputs{most: f.rows.most}
		defer rows.clear()
		err := f.Float.Walk(f.ctx, f.Texts, decode.Walker{
			Skip: f.had, Inputs: rows.add, Shown: rows.read,
			Ready: func([]checkpoint.Part) error {
				if !yield(&rows, nil) {
					return errStopped
				}
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

// strip is about how many weights of a matrix are fitted in one piece: whole rows, which are independent, and not fewer than stripRows,
// which share passes over the moments. atOnce pieces are fitted side by side.
const (
	strip     = 1 << 18
	stripRows = 128
	atOnce    = 2
)

// matrix fits one matrix under the moments of its inputs, nil where they are not known, and puts it in its place in the engine.
func (f *fitter) matrix(t *checkpoint.Tensor, h, cross []float64) error {
	e := f.Encoding(t)
	if !e.Quantized() || !t.Floats() || f.done[t.Part] != nil {
		return nil
	}
	if err := f.Model.Finite(t); err != nil {
		return err
	}
	var factor *round.Factor
	if h != nil && f.Round {
		damp := round.Damping
		if f.Model.Tied && t.Role == checkpoint.Embedding {
			damp = tiedDamping
		}
		var err error
		if factor, err = round.NewFactor(h, t.Cols, damp, round.Falling, f.Threads); err != nil {
			return fmt.Errorf("%s: %w", t.Part, err)
		}
	}
	lost := make([]squares, t.Rows)
	at := cmp.Or(f.strip, max(strip, stripRows*t.Cols))
	done, err := stripped(f.Model, t, at, f.Threads, func(first int, rows *checkpoint.Tensor, threads int) (target, error) {
		return f.some(lost[first:][:rows.Rows], rows, e, h, cross, factor, threads)
	})
	if err != nil {
		return err
	}
	if h != nil {
		f.losses = append(f.losses, lossOf(t.Part, lost))
	}
	return f.keep(done)
}

// inStrips calls do for rows of a matrix of floats, from the given one on: about so many weights at a time, several times at once.
func inStrips(m *checkpoint.Model, t *checkpoint.Tensor, strip, threads int, do func(first int, rows *checkpoint.Tensor, threads int)) {
	n := max(1, strip/t.Cols)
	exec.Parallel(min(threads, atOnce)).Run((t.Rows+n-1)/n, func(i int) {
		rows := t.Strip(i*n, min(n, t.Rows-i*n))
		do(i*n, rows, (threads+atOnce-1)/atOnce)
		m.Forget(rows)
	})
}

// stripped puts together what do makes of rows of a matrix of floats.
func stripped(m *checkpoint.Model, t *checkpoint.Tensor, strip, threads int,
	do func(first int, rows *checkpoint.Tensor, threads int) (target, error)) (*checkpoint.Tensor, error) {
	list, errs := make([]*checkpoint.Tensor, t.Rows), make([]error, t.Rows) // by the first row of a strip
	var failed atomic.Bool
	inStrips(m, t, strip, threads, func(first int, rows *checkpoint.Tensor, threads int) {
		if failed.Load() {
			return
		}
		x, err := do(first, rows, threads)
		if err != nil {
			errs[first] = fmt.Errorf("%s: %w", t.Part, err)
			failed.Store(true)
			return
		}
		list[first] = x.tensor()
	})
	if failed.Load() {
		return nil, errors.Join(errs...)
	}
	return checkpoint.Stack(slices.DeleteFunc(list, func(x *checkpoint.Tensor) bool { return x == nil })), nil
}

// some fits rows of a matrix, and writes what they lose to lost where moments are known.
func (f *fitter) some(lost []squares, t *checkpoint.Tensor, e weights.Encoding, h, cross []float64, factor *round.Factor,
	threads int) (target, error) {
	m := newTarget(t, e, diagonal(h, t.Cols), f.Bits, threads)
	p := m.problem()
	p.H = h
	switch {
	case factor == nil:
		got := m.take(p.Nearest())
		if h != nil {
			lose(lost, m, p.Squares(), errorsOf(m, got))
		}
	case cross == nil:
		codes, loss := rescaled(m, factor)
		factor.Undamped(loss, p, m.take(codes))
		lose(lost, m, p.Squares(), loss)
	default:
		whole := p.Squares()
		shift, err := factor.Shift(wide(m.weights()), cross, threads)
		if err != nil {
			return nil, err
		}
		for i, d := range shift {
			p.W[i] += float64(followed * d)
		}
		codes, _ := rescaled(m, factor)
		lose(lost, m, whole, errorsOf(m, m.take(codes)))
	}
	return m, nil
}

// rescaled rounds the codes of a matrix, and fits scales to codes and codes to scales in turn, row by row as long as that lowers its form,
// which it returns.
func rescaled(m target, factor *round.Factor) ([]int32, []float64) {
	p := m.problem()
	codes, loss := factor.Round(p)
	best := scalesOf(p)
	rows := make([]int, len(loss)) // that were made better last
	for r := range rows {
		rows[r] = r
	}
	some, now := p, codes
	for range round.Rescaled {
		m.scale(some.Scales(now, factor.Damp))
		again, less := factor.Round(some)
		tried := scalesOf(p)
		var better, at []int
		for i, r := range rows {
			if n := p.Grids.Row[r]; less[i] < loss[r] {
				copy(codes[r*p.K:][:p.K], again[i*p.K:][:p.K])
				copy(best[n:][:len(best)/len(loss)], tried[n:])
				loss[r] = less[i]
				better, at = append(better, r), append(at, i)
			}
		}
		if m.scale(best); len(better) == 0 {
			break
		}
		some, rows = some.Of(at), better
		now = make([]int32, 0, len(rows)*p.K)
		for _, i := range at {
			now = append(now, again[i*p.K:][:p.K]...)
		}
	}
	return codes, loss
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
