package texts

import (
	"encoding/binary"
	"math"

	"qwb/calib/tune/round"
	"qwb/export/language/weights"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/kernels/qmath"
)

// matrix is a matrix to be rounded in groups. The grids of round have scales above 0: where that of a group is negative, as those of Q4_0
// may be, it and its codes are negated at the end.
type matrix struct {
	round.Problem
	of       *checkpoint.Tensor
	encoding weights.Encoding
	rule     qmath.GroupRule
	values   []float32
	affine   *qmath.AffineRule // of codes with zero points; nil: code 0 stands for 0
	negative []bool            // by group
	empty    []bool            // by group: its scale is 0
	codes    []int32
}

// target is a matrix with factors that are chosen, to be rounded.
type target interface {
	problem() *round.Problem
	weights() []float32
	// plain is what the format's own rule makes of the weights.
	plain() []float64
	// scale gives the grids of the problem other scales, as they can be stored next to those asked for. One that would change its sign stays.
	scale(scales []float64)
	// take keeps codes, and returns what they stand for.
	take(codes []int32) []float64
	// tensor is the matrix as it is stored, with the codes taken last.
	tensor() *checkpoint.Tensor
}

// newTarget chooses the factors of a matrix, each weight counting as its input does.
func newTarget(t *checkpoint.Tensor, e weights.Encoding, importance []float64, bits, threads int) target {
	if e.Type.Form() != nil {
		return newBlocks(t, e, importance, threads)
	}
	m := newMatrix(t, e, bits, threads)
	m.ranges(importance)
	return m
}

// diagonal is how much each of k inputs counts: all alike without moments.
func diagonal(h []float64, k int) []float64 {
	importance := make([]float64, k)
	for i := range importance {
		importance[i] = 1
		if h != nil {
			importance[i] = h[i*k+i]
		}
	}
	return importance
}

func (m *matrix) problem() *round.Problem { return &m.Problem }

func (m *matrix) weights() []float32 { return m.values }

func newMatrix(t *checkpoint.Tensor, e weights.Encoding, bits, threads int) *matrix {
	m := &matrix{of: t, encoding: e, values: t.All(), rule: e.Rule(bits)}
	if e.Type == checkpoint.Packed && e.Scheme.Zeros {
		rule := e.Affine()
		m.affine = &rule
	}
	groups := t.Cols / m.rule.Size
	m.W, m.K, m.Threads = make([]float64, t.Len()), t.Cols, threads
	for i, v := range m.values {
		m.W[i] = float64(v)
	}
	m.Grids = round.Grids{List: make([]qmath.Grid, t.Rows*groups), Row: make([]int, t.Rows), Column: make([]int, t.Cols)}
	for r := range m.Grids.Row {
		m.Grids.Row[r] = r * groups
	}
	for i := range m.Grids.Column {
		m.Grids.Column[i] = i / m.rule.Size
	}
	m.negative, m.empty = make([]bool, len(m.Grids.List)), make([]bool, len(m.Grids.List))
	return m
}

// ranges chooses the scale of every group: the least squared error, each weight counting as the energy of its input.
func (m *matrix) ranges(importance []float64) {
	size := m.rule.Size
	groups := m.K / size
	exec.Parallel(m.Threads).Run(m.Rows(), func(r int) {
		for g := range groups {
			at := r*groups + g
			if m.affine != nil {
				m.Grids.List[at], m.empty[at] = m.spanned(m.values[at*size:][:size], importance[g*size:][:size])
				continue
			}
			scale := m.encoding.Stored(m.rule.Weighted(m.values[at*size:][:size], importance[g*size:][:size]))
			grid := qmath.Grid{Scale: qmath.Abs32(scale), QMin: m.rule.Least(), QMax: m.rule.Max, Rounding: qmath.HalfEven}
			if m.negative[at] = scale < 0; m.negative[at] {
				grid.QMin, grid.QMax = -grid.QMax, -grid.QMin
			}
			if scale == 0 { // nothing but zeros, or too small to be stored: any grid gives code 0, and its scale is not kept
				grid.Scale, m.empty[at] = 1, true
			}
			m.Grids.List[at] = grid
		}
	})
}

// spanned is the grid of a group with a zero point.
func (m *matrix) spanned(x []float32, importance []float64) (grid qmath.Grid, empty bool) {
	scale, zero := m.affine.Weighted(x, importance)
	grid = qmath.Grid{Scale: scale, ZeroPoint: zero, QMax: m.affine.Max, Rounding: qmath.HalfEven}
	if scale == 0 {
		grid.Scale, empty = 1, true
	}
	return grid, empty
}

func (m *matrix) plain() []float64 {
	out := make([]float64, len(m.W))
	if m.affine != nil {
		for at := 0; at < len(out); at += m.rule.Size {
			x := m.values[at:][:m.rule.Size]
			scale, zero := m.affine.Factors(x)
			for i, v := range x {
				out[at+i] = float64(m.affine.Code(v, scale, zero)-zero) * float64(scale)
			}
		}
		return out
	}
	codes, scales := make([]int8, len(m.W)), make([]float32, len(m.Grids.List))
	m.rule.Quantize(codes, scales, m.values)
	for i, q := range codes {
		out[i] = float64(q) * float64(m.encoding.Stored(scales[i/m.rule.Size]))
	}
	return out
}

func (m *matrix) scale(scales []float64) {
	for g := range m.Grids.List {
		if s := m.stored(float32(scales[g])); s > 0 && s-s == 0 && !m.empty[g] {
			m.Grids.List[g].Scale = s
		}
	}
}

// stored is a scale as it is read again.
func (m *matrix) stored(scale float32) float32 {
	if m.affine != nil {
		return m.affine.Stored(scale)
	}
	return m.encoding.Stored(scale)
}

func (m *matrix) take(codes []int32) []float64 {
	m.codes = codes
	out := make([]float64, len(m.W))
	for r := range m.Rows() {
		for i := range m.K {
			out[r*m.K+i] = m.Value(codes, r, i)
		}
	}
	return out
}

// squares are of what a row of a matrix gives: its square, and the squared errors with the nearest codes and with those that were got.
type squares [3]float64

// lose writes to dst what rows of a matrix lose: whole and got are known.
func lose(dst []squares, t target, whole, got []float64) {
	for r, nearest := range errorsOf(t, t.plain()) {
		dst[r] = squares{whole[r], nearest, got[r]}
	}
}

// errorsOf are the squared errors of what the rows of a matrix give, with other numbers in place of its weights.
func errorsOf(t target, others []float64) []float64 {
	p := t.problem()
	for i, w := range t.weights() {
		others[i] = float64(w) - others[i]
	}
	return round.Forms(others, p.H, p.K, p.Threads)
}

// lossOf is what a matrix loses, row after row.
func lossOf(p checkpoint.Part, rows []squares) Loss {
	var sum squares
	for _, row := range rows {
		for k, v := range row {
			sum[k] += v
		}
	}
	share := func(part float64) float64 {
		if part > 0 {
			return part / sum[0]
		}
		return 0
	}
	return Loss{Part: p.String(), Plain: share(sum[1]), Fit: share(sum[2])}
}

func (m *matrix) tensor() *checkpoint.Tensor {
	codes := m.codes
	if m.affine != nil {
		l := checkpoint.NewLevels(m.encoding.Scheme, m.of.Rows, m.of.Cols, m.rule.Size, m.encoding.Scale)
		for g, grid := range m.Grids.List {
			if l.Scales[g], l.Zeros[g] = grid.Scale, uint8(grid.ZeroPoint); m.empty[g] {
				l.Scales[g] = 0
			}
		}
		for i, q := range codes {
			l.Codes[i] = uint8(q)
		}
		return checkpoint.NewPacked(m.of.Part, m.of.Name, l)
	}
	q, scales := make([]int8, len(codes)), make([]float32, len(m.Grids.List))
	for g, grid := range m.Grids.List {
		sign := int32(1)
		if scales[g] = grid.Scale; m.negative[g] {
			sign, scales[g] = -1, -grid.Scale
		}
		if m.empty[g] {
			scales[g], sign = 0, 0
		}
		for i := g * m.rule.Size; i < (g+1)*m.rule.Size; i++ {
			q[i] = int8(sign * codes[i])
		}
	}
	if m.encoding.Type == checkpoint.Packed {
		l := checkpoint.NewLevels(m.encoding.Scheme, m.of.Rows, m.of.Cols, m.rule.Size, m.encoding.Scale)
		l.Scales = scales
		l.Signed(q)
		return checkpoint.NewPacked(m.of.Part, m.of.Name, l)
	}
	data := m.encoding.Pack(nil, q, scales)
	var apart []byte
	if m.encoding.Type == checkpoint.Groups {
		for _, s := range scales {
			apart = binary.LittleEndian.AppendUint32(apart, math.Float32bits(s))
		}
	}
	t := m.of
	return checkpoint.NewTensor(t.Part, t.Name, t.Rows, t.Cols, m.encoding.Type, data, apart, m.encoding.Group)
}
