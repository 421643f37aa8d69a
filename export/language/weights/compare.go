package weights

import (
	"context"
	"fmt"
	"math"
	"reflect"

	"qwb/export"
	"qwb/graph/language/checkpoint"
	"qwb/kernels/qmath"
)

// Comparison is what comparing a written file with its source found.
type Comparison = export.Comparison

func add(c *Comparison, d Comparison) {
	c.Tensors, c.Weights, c.Codes = c.Tensors+d.Tensors, c.Weights+d.Weights, c.Codes+d.Codes
	c.LargestError = max(c.LargestError, d.LargestError)
}

// Compare compares a model that was read from the written file with what it was made of: its shape; the kind of every tensor; every code
// and scale with those that quantizing the source gives; and every weight as it is read with that of the source, which it may differ
// from by half a step of its group and the rounding of the scale, and more only where a searched scale, or the one code that Q4_0 has
// less on one side, cuts it off. The first difference is an error that names the tensor.
func (f *File) Compare(ctx context.Context, back *checkpoint.Model, r Run) (Comparison, error) {
	var all Comparison
	if err := SameShape(&f.Config, &back.Config); err != nil {
		return all, fmt.Errorf("export: the written file is read as another model: %w", err)
	}
	var off, squares float64
	err := f.each(ctx, r, func(p *piece) error {
		if p.item.Tensor == nil {
			return nil
		}
		return p.compare(back.Of(p.item.Part))
	}, func(p *piece) error {
		if p.item.Tensor == nil {
			return nil
		}
		add(&all, p.found)
		off, squares = off+p.off, squares+p.all
		r.report(all.Weights)
		if p.last() {
			all.Tensors++
			switch {
			case p.item.again:
				all.Lost = append(all.Lost, export.TensorError{Part: p.item.Part.String(), Error: math.Sqrt(off / max(squares, 1e-300))})
			case p.item.carried || p.item.keeps():
				all.Equal++
			}
			off, squares = 0, 0
			f.Source.Forget(p.item.Tensor)
			back.Forget(back.Of(p.item.Part))
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("export: the written file differs from its source: %w", err)
	}
	return all, err
}

// SameShape compares all but the ids of tokens, which not every format holds.
func SameShape(want, got *checkpoint.Config) error {
	type shape struct {
		Family                                                       checkpoint.Family
		Dim, Hidden, Layers, Heads, KVHeads, HeadDim, Vocab, Context int
		NormEps                                                      float32
		RopeTheta                                                    float64
		Pairing                                                      checkpoint.Pairing
		Tied                                                         bool
	}
	of := func(c *checkpoint.Config) shape {
		return shape{c.Family, c.Dim, c.Hidden, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.Vocab, c.Context, c.NormEps, c.RopeTheta,
			c.Pairing, c.Tied}
	}
	if w, g := want.Switches, got.Switches; !reflect.DeepEqual(w, g) {
		return fmt.Errorf("%+v instead of %+v", g, w)
	}
	if w, g := of(want), of(got); w != g {
		return fmt.Errorf("%+v instead of %+v", g, w)
	}
	return sameTurns(want, got)
}

// sameTurns compares rotary embedding by what it computes: a format may hold factors as float32, or in place of the rule.
func sameTurns(want, got *checkpoint.Config) error {
	const close = 1e-6
	w, g := want.Frequencies(), got.Frequencies()
	amplitudeW, _ := want.Angle(0, 0)
	amplitudeG, _ := got.Angle(0, 0)
	same := math.Abs(amplitudeG-amplitudeW) <= close*amplitudeW
	for i := range w {
		same = same && math.Abs(g[i]-w[i]) <= close*w[i]
	}
	if !same {
		return fmt.Errorf("rotary embedding with scaling %+v instead of %+v", got.Scaling, want.Scaling)
	}
	return nil
}

// compare compares a piece with the tensor of the written file that holds it.
func (p *piece) compare(t *checkpoint.Tensor) error {
	p.found = Comparison{Weights: int64(len(p.x))}
	e := p.item.Encoding
	switch {
	case t == nil:
		return fmt.Errorf("%s is not there", p.item.Part)
	case t.Type != e.Type || t.Quantized() && t.GroupSize() != e.group() || t.Len() != p.item.Tensor.Len():
		return fmt.Errorf("%s is %d elements of %s in groups of %d, not %d of %s", p.item.Part, t.Len(), t.Type, t.GroupSize(),
			p.item.Tensor.Len(), e.Name())
	}
	read := make([]float32, len(p.x))
	t.Read(read, p.from)
	switch {
	case p.item.carried:
		p.found.Codes = int64(len(p.x))
		return p.compareFloats(read)
	case p.item.again:
		p.lost(read)
	}
	if !e.Quantized() {
		return p.compareFloats(read)
	}
	if e.Type == checkpoint.Packed {
		if got := t.InputScale(); e.Scheme.Static && got != p.item.Input {
			return fmt.Errorf("%s has the scale %g of its inputs, not %g", p.item.Part, got, p.item.Input)
		}
		return p.compareLevels(read)
	}
	if e.Type.Form() != nil {
		return p.compareBlocks(read, t.Raw(p.from, len(p.x)))
	}
	codes, scales := make([]int8, len(p.codes)), make([]float32, len(p.scales))
	t.Codes(codes, scales, p.from)
	if err := p.compareCodes(codes, scales); err != nil {
		return err
	}
	p.found.Codes = int64(len(codes))
	return p.compareWeights(read, codes, scales)
}

func (p *piece) compareFloats(read []float32) error {
	for i, v := range read {
		want := p.x[i]
		switch p.item.Encoding.Type {
		case checkpoint.F16:
			want = qmath.FP16.Round(want)
		case checkpoint.BF16:
			want = qmath.FromBrain(qmath.BrainBits(want))
		}
		if math.Float32bits(v) != math.Float32bits(want) {
			return p.at(i, fmt.Errorf("is %g, not %g", v, want))
		}
	}
	return nil
}

// compareCodes compares codes and scales with those of quantizing the source.
func (p *piece) compareCodes(codes []int8, scales []float32) error {
	if err := p.item.quantized(p.codes, p.scales, p.x, p.from); err != nil {
		return err
	}
	size := p.item.Encoding.group()
	for g, s := range scales {
		if s != p.scales[g] {
			return p.at(g*size, fmt.Errorf("is in a group with scale %g, not %g", s, p.scales[g]))
		}
	}
	for i, q := range codes {
		if q != p.codes[i] {
			return p.at(i, fmt.Errorf("has code %d, not %d", q, p.codes[i]))
		}
	}
	return nil
}

// compareWeights holds weights as they are read to their bounds.
func (p *piece) compareWeights(read []float32, codes []int8, scales []float32) error {
	e, size := p.item.Encoding, p.item.Encoding.group()
	for g, scale := range scales {
		lo, hi := g*size, min((g+1)*size, len(read))
		most, least := float32(0), e.bound(0, scale)
		for i := lo; i < hi; i++ {
			d := qmath.Abs32(read[i] - p.x[i])
			if !(float64(d) <= least) && !(float64(d) <= e.bound(codes[i], scale)) {
				return p.at(i, fmt.Errorf("is %g, not %g: %.3g steps of its group apart", read[i], p.x[i], float64(d)/math.Abs(float64(scale))))
			}
			if d > most {
				most = d
			}
		}
		if scale != 0 {
			p.found.LargestError = max(p.found.LargestError, float64(most)/math.Abs(float64(scale)))
		}
	}
	return nil
}

// bound is how far a weight may be from that of the source; for no code less than for code 0.
func (e Encoding) bound(code int8, scale float32) float64 {
	const tiny = 0x1p-140 // scales below the normal numbers have few digits
	step := math.Abs(float64(scale))
	limit, steps := int8(qmath.GroupMax), 0.5001
	if e.Type == checkpoint.GGQ4 || e.Type == checkpoint.WideQ4 {
		limit = qmath.Int4Max
	}
	switch {
	case e.Search && (code >= limit || code <= -limit):
		return math.Inf(1)
	case e.Type == checkpoint.GGQ4 && code == limit:
		steps = 1.0001
	}
	if e.Type == checkpoint.GGQ8 || e.Type == checkpoint.GGQ4 {
		// Codes were chosen for the scale before it was rounded to half precision.
		return step*(steps+(math.Abs(float64(code))+1)*0x1p-10) + 128*0x1p-25
	}
	return step*steps + tiny
}

// at names an element of the piece.
func (p *piece) at(i int, err error) error {
	t := p.item.Tensor
	at := p.from + i
	return fmt.Errorf("%s: element [%d,%d] %w", p.item.Part, at/t.Cols, at%t.Cols, err)
}
