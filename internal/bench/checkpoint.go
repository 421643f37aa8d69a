package bench

import (
	"bufio"
	encoding "encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"qwb/graph/language/checkpoint"
)

// CheckpointShapes are language models whose speed is told, by name: those of llama2.c's stories and of TinyLlama.
var CheckpointShapes = []struct {
	Name   string
	Config checkpoint.Config
}{
	{"15M", llama(288, 768, 6, 6, 6, 256, true)},
	{"110M", llama(768, 2048, 12, 12, 12, 1024, true)},
	{"1.1B", llama(2048, 5632, 22, 32, 4, 2048, false)},
}

func llama(dim, hidden, layers, heads, kvHeads, context int, tied bool) checkpoint.Config {
	return checkpoint.Config{Family: checkpoint.Llama, Dim: dim, Hidden: hidden, Layers: layers, Heads: heads, KVHeads: kvHeads,
		HeadDim: dim / heads,
		Vocab:   32000, Context: context, NormEps: 1e-5, RopeTheta: 10000, Tied: tied, BOS: 1, EOS: []int{1}}
}

// CheckpointShape returns the shape of a name.
func CheckpointShape(name string) (checkpoint.Config, error) {
	var names []string
	for _, s := range CheckpointShapes {
		if s.Name == name {
			return s.Config, nil
		}
		names = append(names, s.Name)
	}
	return checkpoint.Config{}, fmt.Errorf("no shape %q: there are %s", name, strings.Join(names, ", "))
}

// WriteCheckpoint writes a checkpoint of llama2.c with random weights: version 2, int8 in groups, or version 0, float32, where
// group is 0. The same seed gives the same bytes. Codes are uniform between
// -127 and 127, and scales keep activations at their size. It needs memory for a few thousand numbers.
func WriteCheckpoint(w io.Writer, c checkpoint.Config, group int, seed uint64) error {
	g := &checkpointWriter{w: bufio.NewWriterSize(w, 1<<20), c: c, group: group, codes: rand.NewPCG(seed, 1), scales: rand.NewPCG(seed, 2)}
	if group < 0 || group > 0 && c.Dim%group+c.Hidden%group+c.QueryDim()%group != 0 {
		return fmt.Errorf("groups of %d do not divide rows of %d, %d and %d elements", group, c.Dim, c.QueryDim(), c.Hidden)
	}
	if group > 0 {
		g.version2()
	} else {
		g.version0()
	}
	if g.err != nil {
		return g.err
	}
	return g.w.Flush()
}

// checkpointWriter writes a checkpoint part by part; the first error stays.
type checkpointWriter struct {
	w     *bufio.Writer
	c     checkpoint.Config
	group int

	codes, scales *rand.PCG
	buffer        []byte
	err           error
}

// randomBlock is how many neighbours share a scale where there are no groups.
const randomBlock = 32

func (g *checkpointWriter) version0() {
	vocab := g.c.Vocab
	if !g.c.Tied {
		vocab = -vocab
	}
	g.numbers(vocab)
	g.matrix(checkpoint.Embedding)
	g.layers(checkpoint.AttentionNorm, checkpoint.Query, checkpoint.Key, checkpoint.Value, checkpoint.Output, checkpoint.FeedNorm,
		checkpoint.Gate, checkpoint.Down, checkpoint.Up)
	g.matrix(checkpoint.FinalNorm)
	frequencies := g.c.Frequencies()
	for _, f := range []func(float64) float64{math.Cos, math.Sin} {
		for p := range g.c.Context {
			for _, w := range frequencies {
				g.float(float32(f(float64(p) * w)))
			}
		}
	}
	if !g.c.Tied {
		g.matrix(checkpoint.Classifier)
	}
}

func (g *checkpointWriter) version2() {
	const magic, header = 0x616b3432, 256
	head := encoding.LittleEndian.AppendUint32(nil, magic)
	head = encoding.LittleEndian.AppendUint32(head, 2)
	g.write(head)
	g.numbers(g.c.Vocab)
	rest := make([]byte, header-8-28)
	if g.c.Tied {
		rest[0] = 1
	}
	encoding.LittleEndian.PutUint32(rest[1:], uint32(g.group))
	g.write(rest)
	g.layers(checkpoint.AttentionNorm, checkpoint.FeedNorm)
	g.matrix(checkpoint.FinalNorm)
	g.matrix(checkpoint.Embedding)
	g.layers(checkpoint.Query, checkpoint.Key, checkpoint.Value, checkpoint.Output, checkpoint.Gate, checkpoint.Down, checkpoint.Up)
	if !g.c.Tied {
		g.matrix(checkpoint.Classifier)
	}
}

func (g *checkpointWriter) numbers(vocab int) {
	for _, n := range []int{g.c.Dim, g.c.Hidden, g.c.Layers, g.c.Heads, g.c.KVHeads, vocab, g.c.Context} {
		g.write(encoding.LittleEndian.AppendUint32(nil, uint32(int32(n))))
	}
}

func (g *checkpointWriter) write(b []byte) {
	if g.err == nil {
		_, g.err = g.w.Write(b)
	}
}

func (g *checkpointWriter) float(x float32) {
	g.write(encoding.LittleEndian.AppendUint32(g.w.AvailableBuffer(), math.Float32bits(x)))
}

func (g *checkpointWriter) layers(roles ...checkpoint.Role) {
	for _, r := range roles {
		for range g.c.Layers {
			g.matrix(r)
		}
	}
}

// matrix writes a matrix, or a vector of ones. Its numbers depend on how many were written before it.
func (g *checkpointWriter) matrix(r checkpoint.Role) {
	rows, cols := g.c.Shape(r)
	switch {
	case r.Vector():
		for range cols {
			g.float(1)
		}
	case g.group == 0:
		for range rows {
			for at := 0; at < cols; at += randomBlock {
				scale := g.scale(cols)
				for _, code := range g.random(min(randomBlock, cols-at)) {
					g.float(float32(int8(code)) * scale)
				}
			}
		}
	default:
		for range rows {
			g.write(g.random(cols))
		}
		for range rows * cols / g.group {
			g.float(g.scale(cols))
		}
	}
}

// random returns n codes.
func (g *checkpointWriter) random(n int) []byte {
	g.buffer = slices.Grow(g.buffer[:0], n+8)
	for len(g.buffer) < n {
		g.buffer = encoding.LittleEndian.AppendUint64(g.buffer, g.codes.Uint64())
	}
	for i, b := range g.buffer[:n] {
		if b == 0x80 {
			g.buffer[i] = 0
		}
	}
	return g.buffer[:n]
}

// scale is near what gives a row of codes, which have a standard deviation of 73, the norm 1.
func (g *checkpointWriter) scale(cols int) float32 {
	const deviation = 73
	return float32((0.75 + float64(g.scales.Uint64()>>11)/(1<<54)) / (deviation * math.Sqrt(float64(cols))))
}
