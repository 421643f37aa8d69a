package weights

import (
	"fmt"
	"math"
	"strings"

	"qwb/graph/language/checkpoint"
)

// Limits say what a format holds beside the weights. The zero value holds Llama's shape, and nothing that is not asked for here.
type Limits struct {
	Theta    float64            // the only base of rotary embedding; 0: any
	Pairing  checkpoint.Pairing // of the rows of query and key
	Biases   bool               // of query, key and value
	Switches bool               // norms of heads and a bias of the output of attention
	Scaling  bool               // of rotary frequencies
	HeadDim  bool               // heads of another size than Dim / Heads
	OneHead  bool               // only as many heads of keys and values as of queries
	MaxBytes int64              // of the file; 0: any
}

// Check reports everything of a model that a format with these limits would lose.
func (l Limits) Check(c *checkpoint.Config, format string) error {
	var lost []string
	add := func(is bool, text string, args ...any) {
		if is {
			lost = append(lost, fmt.Sprintf(text, args...))
		}
	}
	add(c.Biased() && !l.Biases, "the biases of query, key and value of the %s family", c.Family)
	add(!c.Plain() && !l.Switches, "what the %s family has beside Llama's parts", c.Family)
	add(l.Theta != 0 && c.RopeTheta != l.Theta, "a base of rotary embedding of %g, only %g", c.RopeTheta, l.Theta)
	add(c.Scaling != nil && !l.Scaling, "scaled rotary frequencies")
	add(!l.HeadDim && c.Heads*c.HeadDim != c.Dim, "heads of %d elements, only dim / heads = %d / %d", c.HeadDim, c.Dim, c.Heads)
	add(l.OneHead && c.KVHeads != c.Heads, "%d heads of keys and values for %d of queries", c.KVHeads, c.Heads)
	for _, d := range []int{c.Dim, c.Hidden, c.Layers, c.Vocab, c.Context} {
		add(d > math.MaxInt32, "a dimension of %d", d)
	}
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("export: %s cannot hold %s", format, strings.Join(lost, "; nor "))
}

// CheckSize reports a file that is too long for the offsets of its format.
func (l Limits) CheckSize(f *File, format string) error {
	if n := f.Size(); l.MaxBytes > 0 && n > l.MaxBytes {
		return fmt.Errorf("export: the file would have %d bytes; the offsets of %s end at %d", n, format, l.MaxBytes)
	}
	return nil
}

// Put appends a part of the source; see Item.
func (f *File) Put(role checkpoint.Role, layer int, e Encoding) {
	f.Items = append(f.Items, f.Item(role, layer, e))
}

// Item makes an item of a part of the source in an encoding, its rows in the order of the file's pairing. Vectors are written as Float.
func (f *File) Item(role checkpoint.Role, layer int, e Encoding) Item {
	t := f.Source.Tensor(role, layer)
	it := Item{Tensor: t, Part: checkpoint.Part{Role: role, Layer: layer}, Encoding: e}
	if role.Float() {
		it.Encoding = Float
	}
	switch role {
	case checkpoint.Query, checkpoint.Key, checkpoint.QueryBias, checkpoint.KeyBias, checkpoint.QueryNorm, checkpoint.KeyNorm:
		it.Row = paired(f.Source.Pairing, f.Config.Pairing, f.Config.HeadDim)
	}
	return it
}

// PutLayers appends roles one after the other, each for all layers.
func (f *File) PutLayers(e Encoding, roles ...checkpoint.Role) {
	for _, role := range roles {
		for l := range f.Config.Layers {
			f.Put(role, l, e)
		}
	}
}

// paired returns which row of heads in one pairing is a row of heads in the other; nil where they are the same. With d elements in a head,
// elements 2j and 2j+1 of interleaved pairs are elements j and j + d/2 of halves.
func paired(from, to checkpoint.Pairing, d int) func(row int) int {
	half := d / 2
	switch {
	case from == to:
		return nil
	case to == checkpoint.Interleaved:
		return func(row int) int { return row/d*d + row%d%2*half + row%d/2 }
	}
	return func(row int) int { return row/d*d + row%d%half*2 + row%d/half }
}
