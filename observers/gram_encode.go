package observers

import (
	"encoding/binary"
	"errors"
	"math"

	"qwb/kernels/qmath"
)

// The encoding of moments is canonical. Counts are unsigned varints, sums zigzag varints, each as short as can be:
//
//	version (1), groups, K; step (float64, little-endian) and limit of x; flag of the float lane, with 1 its step and limit
//	rows by group, skipped, limited
//	sums of x, by group and element; with the flag those of f
//	x xT by group, row by row, of each row the elements from the diagonal on; with the flag f xT, whole rows
const gramVersion = 1

var errGram = errors.New("moments are damaged")

// MarshalBinary returns the canonical encoding. It fails only while rows are being added.
func (g *Gram) MarshalBinary() ([]byte, error) {
	if g.unclosed {
		return nil, errors.New("moments to which rows are still added")
	}
	b := []byte{gramVersion}
	b = binary.AppendUvarint(b, uint64(g.Groups))
	b = binary.AppendUvarint(b, uint64(g.K))
	fixed := func(f qmath.Fixed) {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f.Step))
		b = binary.AppendUvarint(b, uint64(f.Limit))
	}
	fixed(g.X)
	if g.hasFloat() {
		b = append(b, 1)
		fixed(g.F)
	} else {
		b = append(b, 0)
	}
	for _, n := range g.Count {
		b = binary.AppendUvarint(b, n)
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, g.Skipped), g.Limited)
	g.each(func(v *int64, _ uint64) bool {
		b = binary.AppendVarint(b, *v)
		return true
	})
	return b, nil
}

// each calls f for every sum in the order of the encoding, with the largest magnitude that it can have, until f returns false.
func (g *Gram) each(f func(v *int64, most uint64) bool) bool {
	x, float := uint64(g.X.Limit), uint64(g.F.Limit)
	for i := range g.sumX {
		if !f(&g.sumX[i], g.Count[i/g.K]*x) {
			return false
		}
	}
	for i := range g.sumF {
		if !f(&g.sumF[i], g.Count[i/g.K]*float) {
			return false
		}
	}
	for group := range g.Groups {
		for i := range g.K {
			for j := i; j < g.K; j++ {
				if !f(&g.xx[g.at(g.shape.half, group, i, j)], g.Count[group]*x*x) {
					return false
				}
			}
		}
	}
	for group := range g.Groups {
		for i := range g.K {
			for j := 0; j < g.K && g.hasFloat(); j++ {
				if !f(&g.xf[g.at(g.shape.square, group, i, j)], g.Count[group]*x*float) {
					return false
				}
			}
		}
	}
	return true
}

// UnmarshalBinary replaces g by the moments encoded in b. Whatever is no encoding of possible moments is an error and leaves g as it was;
// memory is bounded by a multiple of the length of b.
func (g *Gram) UnmarshalBinary(b []byte) error {
	d := gramDecoder{b: b}
	if v := d.byte(); v != gramVersion {
		return errGram
	}
	groups, k := d.uint(), d.uint()
	x, f := d.fixed(), qmath.Fixed{}
	flag := d.byte()
	if flag == 1 {
		f = d.fixed()
	}
	// A sum takes a byte at least, and there are more than K²/2 in a group.
	if d.bad || flag > 1 || groups == 0 || k == 0 || groups > MaxGram || k > MaxGram || k > 2*uint64(len(d.b))/k ||
		groups > 2*uint64(len(d.b))/(k*k) {
		return errGram
	}
	n, err := NewGram(int(groups), int(k), x, f)
	if err != nil {
		return errGram
	}
	for i := range n.Count {
		if n.Count[i] = d.uint(); n.Count[i] > MaxGramRows {
			return errGram
		}
	}
	n.Skipped, n.Limited = d.uint(), d.uint()
	if !n.each(func(v *int64, most uint64) bool {
		*v = d.int()
		return !d.bad && uint64(max(*v, -*v)) <= most
	}) || d.bad || len(d.b) > 0 {
		return errGram
	}
	for group := range n.Groups {
		n.mirror(group)
		for i := range n.K {
			if n.xxAt(group, i, i) < 0 {
				return errGram
			}
		}
	}
	*g = *n
	return nil
}

// mirror makes the blocks on the diagonal whole again: both halves of them are kept.
func (g *Gram) mirror(group int) {
	for i := range g.K {
		for j := i - i%gramLanes; j < i; j++ {
			g.xx[g.at(g.shape.half, group, i, j)] = g.xx[g.at(g.shape.half, group, j, i)]
		}
	}
}

type gramDecoder struct {
	b   []byte
	bad bool
}

func (d *gramDecoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

// uint reads a varint of as few bytes as can be.
func (d *gramDecoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || n > 1 && d.b[n-1] == 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *gramDecoder) int() int64 {
	u := d.uint()
	return int64(u>>1) ^ -int64(u&1)
}

func (d *gramDecoder) fixed() qmath.Fixed {
	if len(d.b) < 8 {
		d.bad = true
		return qmath.Fixed{}
	}
	f := qmath.Fixed{Step: math.Float64frombits(binary.LittleEndian.Uint64(d.b))}
	d.b = d.b[8:]
	limit := d.uint()
	if limit == 0 || limit > qmath.MaxFixed || !(f.Step > 0) || math.IsInf(f.Step, 0) {
		d.bad = true
		return f
	}
	f.Limit = int32(limit)
	return f
}
