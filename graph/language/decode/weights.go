package decode

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"qwb/graph/language/checkpoint"
	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/kernels/ref"
)

// Weights says in which form matrices are multiplied.
type Weights struct {
	// Group, if not zero, quantizes float matrices, the embedding too, to codes in groups of so many neighbours, from -127 to 127 or of 4 bits
	// from -8 to 7, and multiplies them with activations that are quantized to int8 in groups of the same size at run time. Matrices that are
	// stored as integers are multiplied as they are stored, whatever Group is.
	Group int
	// Whole leaves in float the matrices whose rows Group does not divide.
	Whole bool
	// Bits of the codes that Group makes: 8, or 4. 0: 8.
	Bits int
	// Search looks for the scales with the least squared error instead of taking the largest magnitude of a group.
	Search bool
	// Only, if not empty, is the matrices that Search is for, by their roles.
	Only Roles
	// Float multiplies matrices in groups with float activations: quantized are the weights only.
	Float bool
	// Unpacked multiplies matrices that are stored as integers as the floats that these mean: faster for many rows than Float, in four bytes
	// for each element.
	Unpacked bool
}

// Quantizes reports whether the elements of a matrix become codes in groups.
func (w *Weights) Quantizes(t *checkpoint.Tensor) bool {
	return w.Group > 0 && t.Floats() && !t.Role.Float() && !(w.Whole && t.Cols%w.Group != 0)
}

// Roles is a set of roles: bit r is role r.
type Roles uint64

// Have makes a set.
func Have(list ...checkpoint.Role) (s Roles) {
	for _, r := range list {
		s |= 1 << r
	}
	return s
}

// Has reports whether a role is in the set.
func (s Roles) Has(r checkpoint.Role) bool { return s>>r&1 == 1 }

// rule is how Group quantizes.
func (w Weights) rule() (qmath.GroupRule, error) {
	r := qmath.GroupRule{Size: w.Group, Max: qmath.GroupMax, Rounding: qmath.HalfEven, Search: w.Search}
	switch {
	case w.Group < 0:
		return r, fmt.Errorf("groups of %d elements", w.Group)
	case w.Bits == 4:
		r.Max, r.Min = qmath.Int4Max, qmath.Int4Min
	case w.Bits != 0 && w.Bits != 8:
		return r, fmt.Errorf("codes of %d bits; there are 8 and 4", w.Bits)
	}
	return r, nil
}

// linear is a matrix that multiplies rows of activations: of floats or of groups.
type linear struct {
	part   checkpoint.Part
	rows   int
	floats *kernels.GemmF32
	groups *kernels.Groups
	remote DeviceMatrix // of an engine on a device, instead of both
}

// rows is activations, n of equal length without gaps, and their codes once a matrix has asked for them.
type rows struct {
	x         []float32
	cols      int
	codes     kernels.GroupRows
	quantized bool
}

// reset makes room for n rows and returns where their elements go.
func (r *rows) reset(n, cols int) []float32 {
	r.cols, r.quantized = cols, false
	return grow(&r.x, n*cols)
}

// output is what the product with a matrix is written to: n rows of results without gaps.
type output struct {
	matrix *linear
	dst    []float32
}

// multiply computes the products of n rows with several matrices.
func (e *Engine) multiply(x *rows, n int, outputs ...output) {
	s := &e.s
	s.products, s.parts = s.products[:0], s.parts[:0]
	for _, o := range outputs {
		m := o.matrix
		if m.groups == nil {
			m.floats.AddTo(&s.batch, o.dst, m.rows, x.x, x.cols, n, ref.Epilogue{})
			continue
		}
		if !x.quantized || !m.groups.Takes(&x.codes) {
			e.multiplyGroups(x, n)
			m.groups.Prepare(&x.codes, e.par, x.x, n)
			x.quantized = true
		}
		s.products = append(s.products, kernels.GroupsProduct{Matrix: m.groups, Dst: o.dst})
		s.parts = append(s.parts, m.part)
	}
	e.multiplyGroups(x, n)
	s.batch.Run(e.par)
}

// multiplyGroups computes the products that wait, and hands out their sums where they are asked for.
func (e *Engine) multiplyGroups(x *rows, n int) {
	s := &e.s
	if len(s.products) == 0 {
		return
	}
	for i := range s.products {
		if p := &s.products[i]; e.sums != nil && !p.Matrix.Float {
			p.Sums = make([]int32, n*p.Matrix.TotalPieces())
		}
	}
	e.table.MulGroups(e.par, &x.codes, s.products)
	for i, p := range s.products {
		if p.Sums != nil {
			e.sums(s.parts[i], p.Sums)
		}
	}
	clear(s.products)
	s.products, s.parts = s.products[:0], s.parts[:0]
}

// packer packs the parts of a model; the first error stays.
type packer struct {
	ctx     context.Context
	engine  *Engine
	model   *checkpoint.Model
	options *Options
	rule    qmath.GroupRule
	err     error
}

// part returns a tensor, nil where there is none or an error.
func (p *packer) part(part checkpoint.Part) *checkpoint.Tensor {
	t := p.model.Of(part)
	if t == nil || p.err != nil {
		return nil
	}
	if p.err = p.ctx.Err(); p.err != nil {
		return nil
	}
	return t
}

// floats returns the elements of a tensor, which are finite.
func (p *packer) floats(t *checkpoint.Tensor) []float32 {
	if p.err = p.model.Finite(t); p.err != nil {
		return nil
	}
	return t.All()
}

func (p *packer) vector(r checkpoint.Role, layer int) []float32 {
	if t := p.part(checkpoint.Part{Role: r, Layer: layer}); t != nil {
		return p.floats(t)
	}
	return nil
}

// norm returns the gains of a norm.
func (p *packer) norm(r checkpoint.Role, layer int) []float32 {
	x := p.vector(r, layer)
	if p.model.UnitNorm {
		for i := range x {
			x[i]++
		}
	}
	return x
}

func (p *packer) matrix(r checkpoint.Role, layer int) *linear {
	return p.of(checkpoint.Part{Role: r, Layer: layer})
}

// of packs a matrix; nil where there is none or an error.
func (p *packer) of(part checkpoint.Part) *linear {
	t := p.part(part)
	if t == nil {
		return nil
	}
	m := &linear{part: t.Part, rows: t.Rows}
	if c := p.codes(t); p.engine.device != nil {
		m.remote = p.upload(t, c)
	} else if c != nil {
		m.groups = p.pack(c)
	} else {
		m.floats = p.packFloats(t)
	}
	p.model.Forget(t) // there is a copy now
	return m
}

// pack packs a matrix in groups.
func (p *packer) pack(c *codes) *kernels.Groups {
	t := c.tensor
	g, err := p.engine.table.PackGroups(p.engine.par, p.groups(c))
	if err != nil {
		p.err = fmt.Errorf("%s: %w", t.Part, err)
	} else {
		p.broken(c)
	}
	return g
}

// groups describes a matrix in groups.
func (p *packer) groups(c *codes) kernels.GroupMatrix {
	return kernels.GroupMatrix{Rows: c.tensor.Rows, Cols: c.tensor.Cols, Size: c.size, Bits: c.bits, Float: p.options.Weights.Float,
		Plain: p.options.Reference, Read: c.read}
}

// upload brings a matrix to the device as it is multiplied: c is its codes, nil for floats.
func (p *packer) upload(t *checkpoint.Tensor, c *codes) (m DeviceMatrix) {
	if p.err != nil {
		return nil
	}
	if c != nil {
		m, p.err = p.engine.device.Groups(p.groups(c))
		p.broken(c)
		return m
	}
	if x := p.floats(t); x != nil {
		m, p.err = p.engine.device.Floats(x, t.Rows, t.Cols)
	}
	return m
}

// broken fails where numbers that were read are not finite.
func (p *packer) broken(c *codes) {
	t := c.tensor
	if p.err != nil || !c.broken.Load() {
		return
	}
	if p.err = t.Finite(); p.err == nil {
		p.err = fmt.Errorf("%s: a scale is so large that its codes leave float32", t.Part)
	}
}

// ends returns the matrix at the end of the model, and what gives the vector of a token at its beginning.
func (p *packer) ends() (*linear, func(dst []float32, id int)) {
	t := p.part(checkpoint.Part{Role: checkpoint.Embedding, Layer: -1})
	if t == nil {
		return nil, nil
	}
	var classifier *linear
	if !p.options.Layered {
		if classifier = p.matrix(checkpoint.Classifier, -1); classifier == nil {
			return nil, nil
		}
	}
	c := p.codes(t)
	switch {
	case p.model.Tied && classifier != nil && classifier.groups != nil:
		return classifier, classifier.groups.Row
	case c == nil || c.exact:
		if !p.model.Tied {
			p.err = errors.Join(p.err, p.model.Finite(t))
		}
		return classifier, t.Row
	}
	return classifier, func(dst []float32, id int) { c.dequantize(dst[:t.Cols], id*t.Cols) }
}

// deviceEnds is ends on a device: it sets the classifier and returns the embedding, codes where it is quantized, else floats.
func (p *packer) deviceEnds() (m DeviceMatrix) {
	t := p.part(checkpoint.Part{Role: checkpoint.Embedding, Layer: -1})
	classifier := p.matrix(checkpoint.Classifier, -1)
	if t == nil || classifier == nil || p.err != nil {
		return nil
	}
	p.engine.classifier = classifier
	c := p.codes(t)
	switch {
	case p.model.Tied && c != nil:
		return classifier.remote
	case c != nil:
		return p.upload(t, c)
	}
	if x := p.floats(t); x != nil {
		m, p.err = p.engine.device.Rows(x, t.Cols)
	}
	return m
}

// codes reads a matrix as codes in groups: those that are stored, or those that floats become.
type codes struct {
	tensor *checkpoint.Tensor
	size   int
	bits   int
	exact  bool // stored, not made
	rule   qmath.GroupRule
	broken atomic.Bool // something was not finite
}

// codes returns a matrix as codes, nil where it is multiplied as floats.
func (p *packer) codes(t *checkpoint.Tensor) *codes {
	switch {
	case t.Quantized() && p.options.Weights.Unpacked:
		return nil
	case t.Quantized():
		c := &codes{tensor: t, size: t.GroupSize(), bits: 8, exact: true}
		if t.Type == checkpoint.GGQ4 || t.Type == checkpoint.WideQ4 {
			c.bits = 4
		}
		return c
	case p.options.Weights.Quantizes(t):
		bits := p.options.Weights.Bits
		if bits == 0 {
			bits = 8
		}
		if t.Len()%p.rule.Size != 0 {
			p.err = fmt.Errorf("%s has %d elements, which groups of %d do not divide", t.Part, t.Len(), p.rule.Size)
		}
		return &codes{tensor: t, size: p.rule.Size, bits: bits, rule: p.ruleOf(t)}
	}
	return nil
}

// ruleOf is how a float matrix is quantized.
func (p *packer) ruleOf(t *checkpoint.Tensor) qmath.GroupRule {
	r, only := p.rule, p.options.Weights.Only
	r.Search = r.Search && (only == 0 || only.Has(t.Role))
	return r
}

// read is kernels.GroupMatrix.Read.
func (c *codes) read(q []int8, scales []float32, from int) {
	if !c.exact {
		x := make([]float32, len(q))
		c.tensor.Read(x, from)
		if !c.rule.Quantize(q, scales, x) {
			c.broken.Store(true)
		}
		return
	}
	c.tensor.Codes(q, scales, from)
	for _, s := range scales {
		if m := s * qmath.GroupMax; m-m != 0 {
			c.broken.Store(true)
		}
	}
}

// dequantize writes the elements from the given one on as their codes have them.
func (c *codes) dequantize(dst []float32, from int) {
	first := from / c.size * c.size
	n := (from + len(dst) - first + c.size - 1) / c.size * c.size
	q, scales := make([]int8, n), make([]float32, n/c.size)
	c.read(q, scales, first)
	for i := range dst {
		at := from - first + i
		dst[i] = float32(q[at]) * scales[at/c.size]
	}
}

func threads(n int) int {
	if n == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}
