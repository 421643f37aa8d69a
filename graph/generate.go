package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"qwb/graph/tensor"
)

// generator makes constants out of a few numbers, so that tests need not write out weights.
type generator struct {
	name   string
	params []string
	def    []float64 // by params
	// elements returns a function that gives the elements one by one. Integer types take the floor.
	elements func(a []float64) func() float64
}

var generators = [...]generator{
	{"fill", []string{"value"}, []float64{0}, func(a []float64) func() float64 {
		return func() float64 { return a[0] }
	}},
	{"normal", []string{"seed", "std", "mean"}, []float64{0, 1, 0}, func(a []float64) func() float64 {
		r := rand.New(rand.NewPCG(math.Float64bits(a[0]), 0))
		return func() float64 { return float64(r.NormFloat64()*a[1]) + a[2] }
	}},
	{"uniform", []string{"seed", "low", "high"}, []float64{0, -1, 1}, func(a []float64) func() float64 {
		r := rand.New(rand.NewPCG(math.Float64bits(a[0]), 0))
		return func() float64 { return a[1] + float64(r.Float64()*(a[2]-a[1])) }
	}},
	{"iota", []string{"start", "step"}, []float64{0, 1}, func(a []float64) func() float64 {
		i := -1.0
		return func() float64 { i++; return a[0] + float64(i*a[1]) }
	}},
}

func generatorOf(t token) *generator {
	for i := range generators {
		if t.kind == tokName && t.text == generators[i].name {
			return &generators[i]
		}
	}
	return nil
}

// generated parses name(param=number, ...); a number without a name is the first parameter.
func (p *parser) generated(at token, gen *generator, d tensor.DType, shape Shape) (*tensor.Tensor, error) {
	dims, n, err := staticShape(at, d, shape, int64(p.budget))
	if err != nil {
		return nil, err
	}
	p.budget -= n
	at = p.tok
	if err := p.advance(); err != nil {
		return nil, err
	}
	args := append([]float64(nil), gen.def...)
	err = p.sequence("(", ")", func() error {
		k := 0
		if t := p.tok; t.kind == tokName {
			for k < len(gen.params) && gen.params[k] != t.text {
				k++
			}
			if k == len(gen.params) {
				return t.errorf("%s has no parameter %q", gen.name, t.text)
			}
			if err := p.advance(); err != nil {
				return err
			}
			if err := p.expect("="); err != nil {
				return err
			}
		}
		v, err := strconv.ParseFloat(p.tok.text, 64)
		if p.tok.kind != tokNumber || err != nil {
			return p.tok.errorf("expected a number, found %s", p.tok)
		}
		args[k] = v
		return p.advance()
	})
	if err != nil {
		return nil, err
	}
	data, err := generate(d, n, gen.elements(args))
	if err != nil {
		return nil, at.errorf("%w", err)
	}
	return &tensor.Tensor{DType: d, Shape: dims, Data: data}, nil
}

func generate(d tensor.DType, n int, next func() float64) (any, error) {
	switch d {
	case tensor.Float32:
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(next())
		}
		return out, nil
	case tensor.Float64:
		out := make([]float64, n)
		for i := range out {
			out[i] = next()
		}
		return out, nil
	case tensor.Int8:
		return integers[int8](d, n, next, -1<<7, 1<<7)
	case tensor.Int16:
		return integers[int16](d, n, next, -1<<15, 1<<15)
	case tensor.Int32:
		return integers[int32](d, n, next, -1<<31, 1<<31)
	case tensor.Int64:
		return integers[int64](d, n, next, -1<<63, 1<<63)
	case tensor.Uint8:
		return integers[uint8](d, n, next, 0, 1<<8)
	case tensor.Uint16:
		return integers[uint16](d, n, next, 0, 1<<16)
	case tensor.Uint32:
		return integers[uint32](d, n, next, 0, 1<<32)
	case tensor.Uint64:
		return integers[uint64](d, n, next, 0, 1<<64)
	}
	return nil, fmt.Errorf("elements of type %s cannot be generated", d)
}

func integers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](d tensor.DType, n int, next func() float64, low,
	high float64) (any, error) {
	out := make([]T, n)
	for i := range out {
		v := math.Floor(next())
		if !(v >= low && v < high) {
			return nil, fmt.Errorf("generated value %g does not fit %s", v, d)
		}
		out[i] = T(v)
	}
	return out, nil
}
