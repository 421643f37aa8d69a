package texts

import (
	"qwb/calib/tune/round"
	"qwb/export/language/weights"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/kernels/qmath"
)

// blocks is a matrix to be rounded in blocks that have a form. Minima of groups are added to the weights, so that what is rounded is a
// scale times a code.
type blocks struct {
	round.Problem
	of     *checkpoint.Tensor
	kind   checkpoint.Type
	form   *qmath.BlockForm
	values []float32
	list   []qmath.Block // row by row
	before []float64     // what the format's own quantizer makes of the weights
}

// newBlocks chooses the factors of every block: those with the least squared error, each weight counting as the energy of its input.
func newBlocks(t *checkpoint.Tensor, e weights.Encoding, importance []float64, threads int) *blocks {
	f := e.Type.Form()
	m := &blocks{of: t, kind: e.Type, form: f, values: t.All(), list: make([]qmath.Block, t.Len()/f.Elements)}
	m.W, m.before, m.K, m.Threads = make([]float64, t.Len()), make([]float64, t.Len()), t.Cols, threads
	groups := t.Cols / f.Group
	m.Grids = round.Grids{List: make([]qmath.Grid, t.Rows*groups), Row: make([]int, t.Rows), Column: make([]int, t.Cols)}
	if f.Table != nil {
		m.Grids.Form = f
	}
	for i := range m.Grids.Column {
		m.Grids.Column[i] = i / f.Group
	}
	exec.Parallel(threads).Run(t.Rows, func(r int) {
		m.Grids.Row[r] = r * groups
		for at := 0; at < m.K; at += f.Elements {
			m.block(r*m.K+at, importance[at:][:f.Elements])
		}
	})
	return m
}

// block makes the block that begins at an element, and the grids of its groups.
func (m *blocks) block(from int, importance []float64) {
	f := m.form
	b, x := &m.list[from/f.Elements], m.values[from:][:f.Elements]
	var y [256]float32
	f.Quantize(b, x)
	f.Dequantize(y[:], b)
	for i, v := range y[:f.Elements] {
		m.before[from+i] = float64(v)
	}
	f.Search(b, x, importance)
	for g := range f.Groups() {
		scale, least := b.Factors(g)
		grid := qmath.Grid{Scale: scale, QMin: int32(-f.Zero), QMax: int32(f.Levels - 1 - f.Zero), Rounding: qmath.HalfEven}
		if f.Table == nil && scale < 0 { // grids have scales above 0: their codes are negated
			grid.Scale, grid.QMin, grid.QMax = -scale, -grid.QMax, -grid.QMin
		}
		if scale == 0 { // all codes stand for the same, as nearly all those of this grid do
			grid.Scale = 0x1p-100
		}
		m.Grids.List[from/f.Group+g] = grid
		for i := g * f.Group; i < (g+1)*f.Group; i++ {
			m.W[from+i] = float64(x[i]) + float64(least)
		}
	}
}

// scale changes what the scales of groups are stored by: the one number of a block, else the integers of groups.
func (m *blocks) scale(scales []float64) {
	f := m.form
	for i := range m.Grids.List {
		b, g := &m.list[i/f.Groups()], i%f.Groups()
		old, _ := b.Factors(g)
		if old == 0 {
			continue
		}
		want := float32(scales[i])
		if f.Table == nil && old < 0 { // its grid is negated
			want = -want
		}
		was := *b
		if f.Hi == 1 {
			b.D = qmath.FP16.Round(want)
		} else {
			b.Scales[g] = int8(min(max(qmath.HalfEven.Round(float64(want/b.D)), float64(f.Lo)), float64(f.Hi)))
		}
		now, _ := b.Factors(g)
		if now-now != 0 || !(now*old > 0) {
			*b, now = was, old
		}
		if m.Grids.List[i].Scale = now; f.Table == nil {
			m.Grids.List[i].Scale = qmath.Abs32(now)
		}
	}
}

// take puts codes into the blocks, and returns what they stand for.
func (m *blocks) take(codes []int32) []float64 {
	f, out := m.form, make([]float64, len(m.values))
	var y [256]float32
	for at := range m.list {
		b := &m.list[at]
		for k := range f.Elements {
			q := codes[at*f.Elements+k]
			switch scale, _ := b.Factors(k / f.Group); {
			case scale == 0:
				continue
			case f.Table == nil && scale < 0:
				q = -q
			}
			b.Codes[k] = uint8(int(q) + f.Zero)
		}
		f.Dequantize(y[:], b)
		for k, v := range y[:f.Elements] {
			out[at*f.Elements+k] = float64(v)
		}
	}
	return out
}

func (m *blocks) problem() *round.Problem { return &m.Problem }

func (m *blocks) weights() []float32 { return m.values }

func (m *blocks) plain() []float64 { return m.before }

func (m *blocks) tensor() *checkpoint.Tensor {
	var data []byte
	for i := range m.list {
		data = m.kind.AppendBlock(data, &m.list[i])
	}
	t := m.of
	return checkpoint.NewTensor(t.Part, t.Name, t.Rows, t.Cols, m.kind, data, nil, 0)
}
