package ncnn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// magic is the first line of a .param file.
const magic = "7767517"

// Tags of weights that say what follows them in the .bin file; a weight without one is always float32.
const (
	tagInt8  = 0x000D4B38
	tagHalf  = 0x01306B47
	tagFloat = 0x0002C056
)

// param is one key=value of a layer. value is int, float32, []int or []float32.
type param struct {
	key   int
	value any
}

// weight is one array of the .bin file: int8 numbers or float32 ones. Tagged: the layer asks what it is.
type weight struct {
	codes  []int8
	floats []float32
	tagged bool
}

func (w *weight) len() int { return len(w.codes) + len(w.floats) }

// layer is one line of a .param file, with its weights in the order in which the layer loads them.
type layer struct {
	typ, name     string
	bottoms, tops []string
	params        []param
	weights       []weight
	// Of layers that compute on integers: 1 over the scale of the input. of is the node that it was made of.
	scale float32
	of    string
}

func (l *layer) get(key int) (any, bool) {
	for _, p := range l.params {
		if p.key == key {
			return p.value, true
		}
	}
	return nil, false
}

// integer is the value of a key, def where it is absent.
func (l *layer) integer(key, def int) int {
	if v, ok := l.get(key); ok {
		if n, ok := v.(int); ok {
			return n
		}
	}
	return def
}

// set writes a parameter, in the place of one with that key.
func (l *layer) set(key int, value any) {
	for i := range l.params {
		if l.params[i].key == key {
			l.params[i].value = value
			return
		}
	}
	l.params = append(l.params, param{key, value})
}

// net is a network.
type net struct{ layers []layer }

// writeParam writes the .param file.
func (n *net) writeParam(w io.Writer) error {
	blobs := 0
	for i := range n.layers {
		blobs += len(n.layers[i].tops)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%d %d\n", magic, len(n.layers), blobs)
	for i := range n.layers {
		l := &n.layers[i]
		fmt.Fprintf(&b, "%-22s %-22s %d %d", l.typ, l.name, len(l.bottoms), len(l.tops))
		for _, names := range [][]string{l.bottoms, l.tops} {
			for _, name := range names {
				b.WriteString(" " + name)
			}
		}
		for _, p := range l.params {
			b.WriteString(" " + p.String())
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}

// String writes a parameter. ncnn reads 15 characters of a number and takes those with a point or an exponent for floats; nine digits give
// every float32 back. Arrays have the form that all its versions know: key -23300 minus the key, the length first.
func (p param) String() string {
	switch v := p.value.(type) {
	case int:
		return fmt.Sprintf("%d=%d", p.key, v)
	case float32:
		return fmt.Sprintf("%d=%s", p.key, number(v))
	case []int:
		text := make([]string, len(v))
		for i, x := range v {
			text[i] = "," + strconv.Itoa(x)
		}
		return fmt.Sprintf("%d=%d%s", -23300-p.key, len(v), strings.Join(text, ""))
	case []float32:
		text := make([]string, len(v))
		for i, x := range v {
			text[i] = "," + number(x)
		}
		return fmt.Sprintf("%d=%d%s", -23300-p.key, len(v), strings.Join(text, ""))
	}
	return fmt.Sprintf("%d=%v", p.key, p.value) // no layer has another
}

// number is a float32 in at most 15 characters. Infinities become the largest numbers.
func number(x float32) string {
	x = min(max(x, -math.MaxFloat32), math.MaxFloat32)
	return strconv.FormatFloat(float64(x), 'e', 8, 32)
}

// writeBin writes the .bin file, every array on a multiple of four bytes.
func (n *net) writeBin(w io.Writer) error {
	var word [4]byte
	put := func(u uint32) error {
		binary.LittleEndian.PutUint32(word[:], u)
		_, err := w.Write(word[:])
		return err
	}
	for i := range n.layers {
		for k := range n.layers[i].weights {
			a := &n.layers[i].weights[k]
			if a.codes != nil {
				raw := make([]byte, (len(a.codes)+3)/4*4)
				for i, q := range a.codes {
					raw[i] = byte(q)
				}
				if err := put(tagInt8); err != nil {
					return err
				}
				if _, err := w.Write(raw); err != nil {
					return err
				}
				continue
			}
			if a.tagged {
				if err := put(0); err != nil {
					return err
				}
			}
			for _, x := range a.floats {
				if err := put(math.Float32bits(x)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// split gives every reader of a blob a copy of its own, as ncnn wants it: a layer Split behind the layer that makes it.
func (n *net) split() {
	readers := map[string]int{}
	for i := range n.layers {
		for _, b := range n.layers[i].bottoms {
			readers[b]++
		}
	}
	var out []layer
	next := map[string]int{}
	for _, l := range n.layers {
		for i, b := range l.bottoms {
			if readers[b] > 1 {
				l.bottoms[i] = copyOf(b, next[b])
				next[b]++
			}
		}
		out = append(out, l)
		for _, t := range l.tops {
			if readers[t] < 2 {
				continue
			}
			s := layer{typ: "Split", name: "split_" + t, bottoms: []string{t}}
			for i := range readers[t] {
				s.tops = append(s.tops, copyOf(t, i))
			}
			out = append(out, s)
		}
	}
	n.layers = out
}

func copyOf(blob string, i int) string { return fmt.Sprintf("%s_splitncnn_%d", blob, i) }
