package observers

import (
	"fmt"
	"math"

	"qwb/kernels"
	"qwb/kernels/qmath"
)

// Gram are the second moments of what an operator that sums products reads. Its input falls into rows of K elements for each of Groups
// groups, such that an output is the product of a row and a row of the weight (Conv: the elements under the window at one output position,
// in the order of the weight's axes [Cin/group, kernel...]; MatMul, Gemm: the inner dimension). Of each group there are the sum of x xT,
// the sum of x, and the number of rows. With a float lane f beside x there are the sum of f xT and of f too; f - x is what quantizing in
// front has changed.
//
// Sums are exact, and functions of the multiset of rows: values are integers of a fixed point, and sums are integers. Codes on a quantized
// grid of 8 bits are such integers as they are (X.Step is the scale): nothing is rounded. Floats are rounded to within half a step of
// FixedFor(largest, GramWithin, GramLimit): at most 1/4096 of the largest magnitude, 1/16 of the step of a grid of 8 bits that covers the
// same range. Rounding adds at most Step²/12 to the diagonal of E[x xT], 1/256 of what rounding to 8 bits adds when the operator runs, and
// far less than the 1 % of the mean diagonal by which second-order methods damp it.
//
// States whose fixed points differ do not merge. Rows with an element that is not finite are in no sum and counted.
type Gram struct {
	Groups, K int
	X, F      qmath.Fixed // F: of the float lane, zero where there is none
	Count     []uint64    // rows, by group
	Skipped   uint64      // rows that were not finite
	Limited   uint64      // elements beyond the fixed point's limit, which stand as the limit

	shape    gramShape
	sumX     []int64 // by group and element
	sumF     []int64
	xx, xf   []int64 // blocks of GramLanes x GramLanes sums; see gramShape
	unclosed bool    // an adder has rows that are in no sum yet
}

// Fixed points of floats: the largest magnitude known stands as at most GramWithin; twice that is the limit.
const (
	GramWithin = 2047
	GramLimit  = 4095
)

// MaxGram bounds the sums of one Gram, MaxGramRows the rows of a group: sums of more could leave 64 bits.
const (
	MaxGram     = 1 << 30
	MaxGramRows = 1 << 32
)

const gramLanes = kernels.GramLanes

// gramShape says where sums lie. Columns are those of all groups, one group after the other. Several groups share a panel where whole
// groups fit into one; else a group has panels of its own. xx has of each pair of panels of a group, the second not before the first, a
// block; xf of each pair.
type gramShape struct {
	groups, k int
	shared    int // groups of a panel, 0: a group has panels panels
	panels    int // of a group
	all       int // panels
}

func newGramShape(groups, k int) gramShape {
	s := gramShape{groups: groups, k: k, panels: 1}
	if s.shared = gramLanes / k; s.shared > 0 {
		s.all = (groups + s.shared - 1) / s.shared
	} else {
		s.panels = (k + gramLanes - 1) / gramLanes
		s.all = groups * s.panels
	}
	return s
}

// columns returns the columns of a panel.
func (s gramShape) columns(panel int) (first, n int) {
	if s.shared > 0 {
		first = panel * s.shared * s.k
		return first, min(s.shared*s.k, s.groups*s.k-first)
	}
	at := panel % s.panels * gramLanes
	return panel/s.panels*s.k + at, min(gramLanes, s.k-at)
}

// halves and squares are how many blocks xx and xf have.
func (s gramShape) halves() int  { return s.all / s.panels * (s.panels * (s.panels + 1) / 2) }
func (s gramShape) squares() int { return s.all * s.panels }

// half is the number of the block of panels i <= j of a group, or of a shared panel; square that of any two.
func (s gramShape) half(group, i, j int) int {
	return group*(s.panels*(s.panels+1)/2) + i*s.panels - i*(i-1)/2 + j - i
}
func (s gramShape) square(group, i, j int) int { return (group*s.panels+i)*s.panels + j }

// NewGram returns moments of nothing, with a float lane where f is not zero. It is an error where K,
// groups or a fixed point are out of range.
func NewGram(groups, k int, x, f qmath.Fixed) (*Gram, error) {
	if groups < 1 || k < 1 || k > MaxGram/k || groups > MaxGram/(k*k) {
		return nil, fmt.Errorf("moments of %d groups of %d elements", groups, k)
	}
	for _, p := range []qmath.Fixed{x, f} {
		if p == f && f == (qmath.Fixed{}) {
			continue
		}
		if !(p.Step > 0) || math.IsInf(p.Step, 0) || p.Limit < 1 || p.Limit > qmath.MaxFixed {
			return nil, fmt.Errorf("a fixed point of step %g and limit %d", p.Step, p.Limit)
		}
	}
	s := newGramShape(groups, k)
	const block = gramLanes * gramLanes
	g := &Gram{Groups: groups, K: k, X: x, F: f, Count: make([]uint64, groups), shape: s,
		sumX: make([]int64, groups*k), xx: make([]int64, s.halves()*block)}
	if g.hasFloat() {
		g.sumF, g.xf = make([]int64, groups*k), make([]int64, s.squares()*block)
	}
	return g, nil
}

// GramBytes is about what a Gram and its adder occupy.
func GramBytes(groups, k int, float bool) int64 {
	s := newGramShape(groups, k)
	const block = 8 * gramLanes * gramLanes
	n, buffers := s.halves()*block, int64(1)
	if float {
		n, buffers = n+s.squares()*block, 2
	}
	return int64(n) + buffers*int64(s.all*s.pairs()*2*gramLanes*2)
}

func (g *Gram) hasFloat() bool { return g.F != (qmath.Fixed{}) }

// Merge adds what o has seen; both are of one operator, in the same fixed points.
func (g *Gram) Merge(o *Gram) error {
	switch {
	case g.Groups != o.Groups || g.K != o.K:
		return fmt.Errorf("moments of %d groups of %d elements, and of %d of %d", g.Groups, g.K, o.Groups, o.K)
	case g.X != o.X || g.F != o.F:
		return fmt.Errorf("moments in steps of %s, and of %s: they were taken by other ranges and do not add up", g.steps(), o.steps())
	case g.unclosed || o.unclosed:
		return fmt.Errorf("moments to which rows are still added")
	}
	for i, n := range o.Count {
		if g.Count[i]+n > MaxGramRows {
			return fmt.Errorf("more than %d rows", uint64(MaxGramRows))
		}
	}
	for i, n := range o.Count {
		g.Count[i] += n
	}
	g.Skipped, g.Limited = g.Skipped+o.Skipped, g.Limited+o.Limited
	for _, p := range []struct{ to, from []int64 }{{g.sumX, o.sumX}, {g.sumF, o.sumF}, {g.xx, o.xx}, {g.xf, o.xf}} {
		for i, v := range p.from {
			p.to[i] += v
		}
	}
	return nil
}

func (g *Gram) steps() string {
	if g.hasFloat() {
		return fmt.Sprintf("%g and %g", g.X.Step, g.F.Step)
	}
	return fmt.Sprint(g.X.Step)
}

// xxAt is the sum of x_i x_j of a group, xfAt that of f_i x_j, in steps.
func (g *Gram) xxAt(group, i, j int) int64 {
	if i > j {
		i, j = j, i
	}
	return g.xx[g.at(g.shape.half, group, i, j)]
}

func (g *Gram) xfAt(group, i, j int) int64 { return g.xf[g.at(g.shape.square, group, i, j)] }

func (g *Gram) at(block func(group, i, j int) int, group, i, j int) int {
	const lanes = gramLanes
	if s := g.shape.shared; s > 0 {
		off := group % s * g.K
		return (block(group/s, 0, 0)*lanes+off+i)*lanes + off + j
	}
	return (block(group, i/lanes, j/lanes)*lanes+i%lanes)*lanes + j%lanes
}

// H returns the sum of x xT of a group, K x K.
func (g *Gram) H(group int) []float64 {
	h, unit := make([]float64, g.K*g.K), g.X.Step*g.X.Step
	for i := range g.K {
		for j := i; j < g.K; {
			sums := g.xx[g.at(g.shape.half, group, i, j):] // side by side as far as the block goes
			for n := min(gramLanes-j%gramLanes, g.K-j); n > 0; n-- {
				v := float64(sums[0]) * unit
				h[i*g.K+j], h[j*g.K+i] = v, v
				sums, j = sums[1:], j+1
			}
		}
	}
	return h
}

// Mean returns the mean of x of a group, K elements; zeros where there were no rows.
func (g *Gram) Mean(group int) []float64 { return g.mean(group, g.sumX, g.X.Step) }

// FloatMean is Mean of the float lane; nil where there is none.
func (g *Gram) FloatMean(group int) []float64 {
	if !g.hasFloat() {
		return nil
	}
	return g.mean(group, g.sumF, g.F.Step)
}

func (g *Gram) mean(group int, sums []int64, step float64) []float64 {
	m, n := make([]float64, g.K), g.Count[group]
	for i := range m {
		if n > 0 {
			m[i] = float64(sums[group*g.K+i]) * step / float64(n)
		}
	}
	return m
}

// Take returns H and Cross of moments of one group, which are given up on the way: memory is that of three of them.
func (g *Gram) Take() (h, cross []float64) {
	cross = g.Cross(0)
	g.xf = nil
	h = g.H(0)
	g.xx = nil
	return h, cross
}

// Cross returns the sum of (f - x) xT of a group, K x K: row i is of element i of f - x. It is nil where there is no float lane.
func (g *Gram) Cross(group int) []float64 {
	if !g.hasFloat() {
		return nil
	}
	c, unit, cross := make([]float64, g.K*g.K), g.X.Step*g.X.Step, g.X.Step*g.F.Step
	for i := range g.K {
		for j := range g.K {
			c[i*g.K+j] = float64(float64(g.xfAt(group, i, j))*cross) - float64(float64(g.xxAt(group, i, j))*unit)
		}
	}
	return c
}
