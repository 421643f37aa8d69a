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
	"qwb/export/language/weights"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
)

// mixTokens is on how many tokens the damage of each matrix is measured, behind those that weights are fitted to, or the last of them where
// the text ends: the whole model runs once for each matrix.
const mixTokens = 1 << 11

// mixLogits is how many logits of a text damages are measured on at most: they take 16 bytes each.
const mixLogits = 1 << 23

// mixRows is at how many tokens a text is cut for that.
func mixRows(m *checkpoint.Model) int { return max(mixLogits/m.Vocab, 2) }

// probe is the type that damages are measured with: one of 4 bits, so that they stand out, whose blocks are as short as any.
const probe = checkpoint.IQ4NL

// Mixing says what Mix chooses from.
type Mixing struct {
	Text    string            // file, one sequence per line
	Tokens  int               // of it that weights are fitted to; 0: FitTokens
	Bits    float64           // of the file's tensors per weight, at most
	Types   []checkpoint.Type // that matrices may have
	Way     weights.Way       // how they are quantized then
	Threads int
}

// Mix chooses a type for each float matrix, so that the tensors take no more than so many bits per weight and the Kullback-Leibler
// divergence from the float model that is expected is least. It is expected to be the sum over the matrices, and of each in proportion to
// the error of its output that its type makes (Malinovskii et al., "Pushing the Limits of LLM Quantization via the Linearity Theorem",
// 2024): the factor is measured, with the one matrix quantized. Where codes are rounded by second moments, that is how: what this gains
// differs from matrix to matrix, and is least for an embedding that is the classifier too.
func Mix(ctx context.Context, j *open.Job, l *open.Language, o Mixing) (map[checkpoint.Part]checkpoint.Type, error) {
	judged, err := textsOf(j, l, o.Text, cmp.Or(o.Tokens, FitTokens)+mixTokens)
	if err == nil {
		err = fits(ctx, l.Model, o.Way, judged, true)
	}
	if err != nil {
		return nil, err
	}
	imatrix, ids, err := importanceOn(ctx, j, l, o.Text, o.Tokens, o.Threads)
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
	if o.Way.Round {
		if probed, err = m.round(ctx, j, l, ids); err != nil {
			return nil, &fault.FileError{File: l.Path, Err: err}
		}
	}
	if err := m.damage(ctx, j, l, probed, judged); err != nil {
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
		lost, tensors, err := texts.RelativeErrors(ctx, m.model, imatrix, t, t == probe, max(m.Threads, 1))
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

// round returns the matrices as the probe has them when their codes are rounded by second moments.
func (m *mix) round(ctx context.Context, j *open.Job, l *open.Language, ids [][]int) (map[checkpoint.Part]*checkpoint.Tensor, error) {
	engine, err := l.Engine(ctx, layered(m.Threads), nil)
	if err != nil {
		return nil, err
	}
	tick, finish := j.Progress("matrices tried", 0)
	defer finish()
	tensors, _, err := texts.Fit(ctx, texts.Config{Model: l.Model, Engine: engine, Bits: 8, Texts: ids, Round: true, Progress: tick,
		Threads: max(m.Threads, 1), Encoding: func(t *checkpoint.Tensor) weights.Encoding {
			if _, ok := m.lost[probe][t.Part]; ok {
				return weights.Encoding{Type: probe}
			}
			return weights.Float
		}})
	return tensors, err
}

// damage measures what each matrix alone does, on the last of the texts.
func (m *mix) damage(ctx context.Context, j *open.Job, l *open.Language, probed map[checkpoint.Part]*checkpoint.Tensor, ids [][]int) error {
	way := layered(m.Threads) // whole where there is room, which is faster
	most := cmp.Or(exec.MemoryOf(ctx), exec.AvailableMemory())
	way.Layered = most > 0 && 4*l.Parameters() > most/8
	e, err := l.Engine(ctx, way, nil)
	if err != nil {
		return err
	}
	quantized := m.model.With(probed)
	cfg := language.LayersConfig{Model: e, Threads: m.Threads, Source: m.model, Quantized: quantized, Weights: decode.Weights{Float: true},
		Alone: true, Tight: way.Layered}
	for _, t := range matricesOf(m.model) {
		if probed[t.Part] != nil {
			cfg.Parts = append(cfg.Parts, t.Part)
		}
	}
	m.parts = cfg.Parts
	tick, finish := j.Progress("runs", 0)
	defer finish()
	cfg.Progress = tick
	n := len(ids)
	cut := mixRows(m.model)
	for tokens := 0; n > 0 && tokens < mixTokens; n-- {
		tokens += min(len(ids[n-1]), cut)
	}
	r, err := language.RankMatrices(ctx, func(context.Context) (*language.Passage, error) {
		for n < len(ids) && len(ids[n]) < 2 {
			n++
		}
		if n == len(ids) {
			return nil, io.EOF
		}
		n++
		return &language.Passage{Name: fmt.Sprintf("text %d", n), IDs: ids[n-1][:min(len(ids[n-1]), cut)]}, nil
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
	total, fixed := 0, 0.0
	for _, t := range m.model.Tensors() {
		if total += t.Len(); t.Role.Float() {
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
	perWeight := func(bytes float64) float64 { return 8 * bytes / float64(total) }
	s, err := assign.MinError(ctx, units, m.Bits*float64(total)/8-fixed)
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
	alike := ""
	if kind, error := m.alike(units, m.Bits*float64(total)/8-fixed); kind != "" {
		alike = fmt.Sprintf(" (with all as %s %.3g)", kind, error)
	}
	j.Note("%.3f bits per weight: %s; expected divergence from the float model %.3g%s", perWeight(s.Cost+fixed), strings.Join(words, ", "),
		s.Error, alike)
	return out, nil
}

// alike is the best type that all matrices may have at no more than a cost, and its divergence; "" where there is none.
func (m *mix) alike(units []assign.Unit, most float64) (best string, least float64) {
	for _, kind := range m.Types {
		cost, error, all := 0.0, 0.0, true
		for _, u := range units {
			i := slices.IndexFunc(u.Options, func(o assign.Option) bool { return o.Name == kind.String() })
			if all = all && i >= 0; all {
				cost, error = cost+u.Options[i].Cost, error+u.Options[i].Error
			}
		}
		if all && cost <= most && (best == "" || error < least) {
			best, least = kind.String(), error
		}
	}
	return best, least
}
