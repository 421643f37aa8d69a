package weights

import (
	"bytes"
	"fmt"
	"math"

	"qwb/kernels/qmath"
)

// What is written in blocks that have a form (qmath.BlockForm) has no list of codes and scales: it is made, and compared, block by block.

// blocks appends the blocks of elements that are to be in the file, given the elements.
func (it *Item) blocks(b []byte, x []float32, from int) ([]byte, error) {
	if it.keeps() {
		for t := it.Tensor; len(x) > 0; {
			n, at := len(x), from
			if it.Row != nil {
				n, at = min(t.Cols-from%t.Cols, len(x)), it.Row(from/t.Cols)*t.Cols+from%t.Cols
			}
			b = append(b, t.Raw(at, n)...)
			x, from = x[n:], from+n
		}
		return b, nil
	}
	form := it.Encoding.Type.Form()
	var block qmath.Block
	for n := form.Elements; len(x) >= n; x = x[n:] {
		if !form.Quantize(&block, x[:n]) {
			return b, it.unfit()
		}
		if it.Encoding.Search {
			form.Search(&block, x[:n], nil)
		}
		b = it.Encoding.Type.AppendBlock(b, &block)
	}
	return b, nil
}

// compareBlocks compares blocks as they are read with those that quantizing the source gives, byte by byte, and each weight that they stand
// for with its source: of the numbers of its group it has to be the nearest, but for the rounding of the factors to half precision.
func (p *piece) compareBlocks(read []float32, stored []byte) error {
	want, err := p.item.blocks(nil, p.x, p.from)
	if err != nil {
		return err
	}
	form := p.item.Encoding.Type.Form()
	size := len(want) * form.Elements / len(p.x)
	t := p.item.Encoding.Type
	for i := 0; i < len(p.x); i += form.Elements {
		at := i / form.Elements * size
		if !bytes.Equal(stored[at:at+size], want[at:at+size]) {
			return p.at(i, fmt.Errorf("is in a block with other bytes than %s makes of it", t))
		}
	}
	p.found.Codes = int64(len(p.x))
	if p.item.keeps() {
		return p.compareFloats(read)
	}
	var block qmath.Block
	for i := 0; i < len(p.x); i += form.Elements {
		t.ParseBlock(&block, stored[i/form.Elements*size:])
		for k := range form.Elements {
			scale, least := block.Factors(k / form.Group)
			if err := p.compareNearest(form, i+k, read[i+k], scale, least); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareNearest holds a weight as it is read to the number of its group that is nearest to its source.
func (p *piece) compareNearest(form *qmath.BlockForm, i int, read, scale, least float32) error {
	x := p.x[i]
	nearest := -float64(least)
	if scale != 0 {
		nearest = float64(float32(scale*form.Value(form.Nearest(x, scale, least))) - least)
	}
	span := float64(form.Value(uint8(form.Levels-1))-form.Value(0)) * math.Abs(float64(scale))
	d := math.Abs(float64(read) - float64(x))
	rounding := (span+math.Abs(float64(least)))*0x1p-10 + 512*0x1p-25
	if !(d <= math.Abs(nearest-float64(x))+rounding) {
		return p.at(i, fmt.Errorf("is %g, not %g: its group has %g", read, x, nearest))
	}
	if step := span / float64(form.Levels-1); step > 0 {
		p.found.LargestError = max(p.found.LargestError, d/step)
	}
	return nil
}
