package language

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"qwb/analysis/assign"
	"qwb/analysis/language"
	"qwb/calib/tune/texts"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
)

// mixTokens is on how many tokens the damage of each matrix is measured: the whole model runs once for each matrix.
const mixTokens = 1 << 11

// probe is the type that damages are measured with: one of 4 bits, so that they stand out, whose blocks are as short as any.
const probe = checkpoint.IQ4NL

// Mixing says what Mix chooses from.
type Mixing struct {
	Text    string            // file, one sequence per line
	Bits    float64           // of the file's tensors per weight, at most
	Types   []checkpoint.Type // that matrices may have
	Threads int
}

// Mix chooses a type for each float matrix, so that the tensors take no more than so many bits per weight and the Kullback-Leibler
// divergence from the float model that is expected is least. It is expected to be the sum over the matrices, and of each in proportion to
// the error of its output that its type makes (Malinovskii et al., "Pushing the Limits of LLM Quantization via the Linearity Theorem",
// 2024): the factor is measured, with the one matrix quantized.
func Mix(ctx context.Context, j *open.Job, l *open.Language, o Mixing) (map[checkpoint.Part]checkpoint.Type, error) {
	imatrix, ids, engine, err := importanceOn(ctx, j, l, o.Text, o.Threads)
	if err != nil {
		return nil, err
	}
	m := &mix{Mixing: o, model: l.Model, lost: map[checkpoint.Type]map[checkpoint.Part]float64{}}
	probed, err := m.errors(ctx, j, imatrix)
	if err != nil {
		return nil, &fault.FileError{File: l.Path, Err: err}
	}
	if len(probed) == 0 {
		return nil, fault.Usagef("--bpw: %s has no matrix of floats with rows of whole blocks of %s", l.Path, probe)
	}
	if err := m.damage(ctx, j, engine, probed, ids); err != nil {
		return nil, err
	}
	return m.choose(ctx, j)
}

type mix struct {
	Mixing
	model  *checkpoint.Model
	lost   map[checkpoint.Type]map[checkpoint.Part]float64
	parts  []checkpoint.Part           // that can be quantized, in the order of the model
	factor map[checkpoint.Part]float64 // divergence for an error of 1
}

// errors measures what each type makes of each matrix, and returns the matrices as the probe has them.
func (m *mix) errors(ctx context.Context, j *open.Job, imatrix *checkpoint.Importance) (map[checkpoint.Part]*checkpoint.Tensor, error) {
	tick, finish := j.Progress("types tried", len(m.Types))
	defer finish()
	var probed map[checkpoint.Part]*checkpoint.Tensor
	for i, t := range m.Types {
		lost, tensors, err := texts.RelativeErrors(ctx, m.model, imatrix, t, max(m.Threads, 1))
		if err != nil {
			return nil, err
		}
		if m.lost[t] = lost; t == probe {
			probed = tensors
		}
		tick(i + 1)
	}
	return probed, nil
}

// damage measures what each matrix alone does.
func (m *mix) damage(ctx context.Context, j *open.Job, e *decode.Engine, probed map[checkpoint.Part]*checkpoint.Tensor, ids [][]int) error {
	quantized := m.model.With(probed)
	cfg := language.LayersConfig{Model: e, Threads: m.Threads, Quantize: func(ctx context.Context, p checkpoint.Part) (func(), error) {
		return e.Replace(ctx, quantized, p, decode.Weights{Float: true})
	}}
	for _, t := range matricesOf(m.model) {
		if probed[t.Part] != nil {
			cfg.Parts = append(cfg.Parts, t.Part)
		}
	}
	m.parts = cfg.Parts
	tick, finish := j.Progress("forwards", 0)
	defer finish()
	cfg.Progress = tick
	n, tokens := 0, 0
	r, err := language.RankMatrices(ctx, func(context.Context) (*language.Passage, error) {
		for n < len(ids) && len(ids[n]) < 2 {
			n++
		}
		if n == len(ids) || tokens >= mixTokens {
			return nil, io.EOF
		}
		n, tokens = n+1, tokens+len(ids[n])
		return &language.Passage{Name: fmt.Sprintf("text %d", n), IDs: ids[n-1]}, nil
	}, cfg)
	if err != nil {
		return &fault.FileError{File: m.Text, Err: err}
	}
	m.factor = map[checkpoint.Part]float64{}
	for _, p := range m.parts {
		i := slices.IndexFunc(r.Layerwise, func(d language.MatrixDamage) bool { return d.Node == p.String() })
		if lost := m.lost[probe][p]; lost > 0 {
			m.factor[p] = max(r.Layerwise[i].KL, 0) / lost
		}
	}
	return nil
}

// choose takes the types with the least divergence that fit.
func (m *mix) choose(ctx context.Context, j *open.Job) (map[checkpoint.Part]checkpoint.Type, error) {
	weights, fixed := 0, 0.0
	for _, t := range m.model.Tensors() {
		if weights += t.Len(); t.Role.Float() {
			fixed += float64(checkpoint.F32.Bytes(t.Len()))
		} else if !slices.Contains(m.parts, t.Part) {
			fixed += float64(checkpoint.F16.Bytes(t.Len()))
		}
	}
	units := make([]assign.Unit, len(m.parts))
	types := make([][]checkpoint.Type, len(m.parts))
	least := fixed
	for i, p := range m.parts {
		units[i].Name = p.String()
		t := m.model.Of(p)
		add := func(kind checkpoint.Type, lost float64) {
			types[i] = append(types[i], kind)
			units[i].Options = append(units[i].Options, assign.Option{Name: kind.String(), Error: m.factor[p] * lost,
				Cost: float64(kind.Bytes(t.Len()))})
		}
		add(checkpoint.F16, 0)
		for _, kind := range m.Types {
			if lost, ok := m.lost[kind][p]; ok {
				add(kind, lost)
			}
		}
		least += slices.MinFunc(units[i].Options, func(a, b assign.Option) int { return cmp.Compare(a.Cost, b.Cost) }).Cost
	}
	perWeight := func(bytes float64) float64 { return 8 * bytes / float64(weights) }
	s, err := assign.MinError(ctx, units, m.Bits*float64(weights)/8-fixed)
	if errors.Is(err, assign.ErrBound) {
		return nil, fault.Usagef("--bpw %g: %.3f is the least that the types and rows of this model allow", m.Bits, perWeight(least)+0.0005)
	}
	if err != nil {
		return nil, err
	}
	out := map[checkpoint.Part]checkpoint.Type{}
	counts := map[checkpoint.Type]int{}
	for i, c := range s.Choice {
		out[m.parts[i]] = types[i][c]
		counts[types[i][c]]++
		j.Detail("%s: %s, expected divergence %.2g", m.parts[i], types[i][c], units[i].Options[c].Error)
	}
	var words []string
	for _, kind := range append([]checkpoint.Type{checkpoint.F16}, m.Types...) {
		if n := counts[kind]; n > 0 {
			words = append(words, fmt.Sprintf("%d of %s", n, kind))
		}
	}
	j.Note("%.3f bits per weight: %s; expected divergence from the float model %.3g", perWeight(s.Cost+fixed), strings.Join(words, ", "),
		s.Error)
	return out, nil
}
