package decode

import (
	"context"
	"runtime"

	"qwb/graph/checkpoint"
	"qwb/kernels"
	"qwb/kernels/ref"
)

// Weights says in which form matrices are multiplied.
type Weights struct {
	// Group, if not zero, quantizes float matrices to int8 in groups of so many neighbours and multiplies them with activations
	// that are quantized in groups at run time. Matrices that are stored as integers are multiplied as they are stored.
	Group int
	// Float multiplies dequantized matrices with float activations, whatever they are stored as.
	Float bool
}

// matrix multiplies rows of activations.
type matrix interface {
	// mul writes n rows of results to dst without gaps.
	mul(dst []float32, x *rows, n int)
}

// rows is activations, n of equal length without gaps.
type rows struct {
	x    []float32
	cols int
}

// reset makes room for n rows and returns where their elements go.
func (r *rows) reset(n, cols int) []float32 {
	r.cols = cols
	return grow(&r.x, n*cols)
}

// floats is a matrix of float32.
type floats struct {
	engine *Engine
	packed *kernels.GemmF32
	rows   int
}

func (m *floats) mul(dst []float32, x *rows, n int) {
	m.packed.Run(m.engine.par, dst, m.rows, x.x, x.cols, n, ref.Epilogue{})
}

// packer packs the parts of a model; the first error stays.
type packer struct {
	ctx     context.Context
	engine  *Engine
	model   *checkpoint.Model
	weights Weights
	err     error
}

// part returns a tensor whose elements are finite, nil where there is none or an error.
func (p *packer) part(r checkpoint.Role, layer int) *checkpoint.Tensor {
	t := p.model.Tensor(r, layer)
	if t == nil || p.err != nil {
		return nil
	}
	if p.err = p.ctx.Err(); p.err != nil {
		return nil
	}
	if p.err = t.Finite(); p.err != nil {
		return nil
	}
	return t
}

func (p *packer) vector(r checkpoint.Role, layer int) []float32 {
	if t := p.part(r, layer); t != nil {
		return t.All()
	}
	return nil
}

func (p *packer) matrix(r checkpoint.Role, layer int) matrix {
	t := p.part(r, layer)
	if t == nil {
		return nil
	}
	return &floats{p.engine, p.engine.table.PackGemmF32(t.All(), t.Cols, t.Rows, t.Cols, true), t.Rows}
}

// ends returns the matrix at the end of the model, and what gives the vector of a token at its beginning.
func (p *packer) ends() (matrix, func(dst []float32, id int)) {
	t := p.part(checkpoint.Embedding, -1)
	if t == nil {
		return nil, nil
	}
	return p.matrix(checkpoint.Classifier, -1), t.Row
}

func threads(n int) int {
	if n == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}
