package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The three formats of llama2.c (export.py, run.c and runq.c of github.com/karpathy/llama2.c). Version 0 has no magic number: the
// header is seven int32, and its size must agree with the rest exactly. Versions 1 and 2 begin with a magic number and the version
// in a header of 256 bytes.
const (
	llama2cMagic  = 0x616b3432
	llama2cHeader = 256
	legacyHeader  = 28
	llama2cEps    = 1e-5
	llama2cTheta  = 10000
)

// llama2cConfig decodes the seven numbers that all versions share.
func llama2cConfig(b []byte) Config {
	n := func(i int) int { return int(int32(binary.LittleEndian.Uint32(b[4*i:]))) }
	c := Config{
		Family: Llama, Dim: n(0), Hidden: n(1), Layers: n(2), Heads: n(3), KVHeads: n(4), Vocab: n(5), Context: n(6),
		NormEps: llama2cEps, RopeTheta: llama2cTheta, Pairing: Interleaved, BOS: 1, EOS: []int{1}, Tied: true,
	}
	if c.Heads > 0 {
		c.HeadDim = c.Dim / c.Heads
	}
	return c
}

// legacyConfig decodes the header of version 0, where a negative vocabulary says that the classifier is a matrix of its own.
func legacyConfig(b []byte) Config {
	c := llama2cConfig(b)
	if c.Vocab < 0 && c.Vocab > math.MinInt32 {
		c.Vocab, c.Tied = -c.Vocab, false
	}
	return c
}

// llama2cShape checks what the format demands beyond Validate.
func llama2cShape(c *Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Dim%c.Heads != 0 {
		return fmt.Errorf("vectors of %d elements cannot be cut into %d heads", c.Dim, c.Heads)
	}
	return nil
}

// legacySize is how long a file of version 0 is.
func legacySize(c *Config) int64 {
	return legacyHeader + 4*(c.Parameters()+int64(c.Context)*int64(c.HeadDim))
}

func isLegacy(b []byte) bool {
	if len(b) < legacyHeader {
		return false
	}
	c := legacyConfig(b)
	if llama2cShape(&c) != nil {
		return false
	}
	// A file that is cut, or too long, is still one if its numbers are those of a model; what is wrong is said when it is read.
	return legacySize(&c) == int64(len(b)) || c.plausible()
}

// plausible tells numbers of a real model from bytes that mean something else.
func (c *Config) plausible() bool {
	return c.Dim%8 == 0 && c.Dim >= 16 && c.Dim <= 1<<15 && c.Hidden >= c.Dim/2 && c.Hidden <= 16*c.Dim && c.Layers <= 256 && c.Heads <= 512 &&
		c.Vocab >= 16 && c.Vocab <= 1<<20 && c.Context >= 8
}

func readLegacy(m *Model, b []byte) error {
	m.Config = legacyConfig(b)
	if want := legacySize(&m.Config); int64(len(b)) != want {
		return fmt.Errorf("the header (dim %d, hidden %d, %d layers, %d heads, %d of keys and values, vocabulary %d, context %d) asks for %d "+
			"bytes, the file has %d",
			m.Dim, m.Hidden, m.Layers, m.Heads, m.KVHeads, m.Vocab, m.Context, want, len(b))
	}
	r := &llama2cReader{m: m, rest: b[legacyHeader:]}
	r.one(Embedding)
	r.layers(AttentionNorm, Query, Key, Value, Output, FeedNorm, Gate, Down, Up)
	r.one(FinalNorm)
	m.RopeTables = r.take(4 * m.Context * m.HeadDim)
	if !m.Tied {
		r.one(Classifier)
	}
	return r.err
}

func isLlama2c(b []byte) bool { return len(b) >= 4 && binary.LittleEndian.Uint32(b) == llama2cMagic }

func readLlama2c(m *Model, b []byte) error {
	if len(b) < llama2cHeader {
		return fmt.Errorf("the header of %d bytes is cut off after %d", llama2cHeader, len(b))
	}
	version := binary.LittleEndian.Uint32(b[4:])
	m.Format = fmt.Sprintf("llama2.c version %d", version)
	m.Config = llama2cConfig(b[8:])
	if b[36] > 1 {
		return fmt.Errorf("byte 36 says whether the classifier is shared: it is %d", b[36])
	}
	m.Tied = b[36] == 1
	if err := llama2cShape(&m.Config); err != nil {
		return err
	}
	r := &llama2cReader{m: m, rest: b[llama2cHeader:]}
	switch version {
	case 1:
		r.layers(AttentionNorm, FeedNorm)
		r.one(FinalNorm)
		r.one(Embedding)
		r.layers(Query, Key, Value, Output, Gate, Down, Up)
	case 2:
		group := int(int32(binary.LittleEndian.Uint32(b[37:])))
		if group < 1 {
			return fmt.Errorf("groups of %d elements", group)
		}
		r.layers(AttentionNorm, FeedNorm)
		r.one(FinalNorm)
		r.group = group
		r.one(Embedding)
		r.layers(Query, Key, Value, Output, Gate, Down, Up)
	default:
		return fmt.Errorf("version %d of the format is not known", version)
	}
	if !m.Tied {
		r.one(Classifier)
	}
	if r.err == nil && len(r.rest) > 0 {
		return fmt.Errorf("%d bytes follow the last tensor", len(r.rest))
	}
	return r.err
}

// llama2cReader cuts a file into tensors, which follow each other without gaps. The first error stays.
type llama2cReader struct {
	m     *Model
	rest  []byte
	group int // of what follows; 0: float32
	err   error
}

func (r *llama2cReader) take(n int) []byte {
	if n > len(r.rest) {
		r.err = fmt.Errorf("the file ends early: %d bytes are asked for and %d are left", n, len(r.rest))
	}
	if r.err != nil {
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *llama2cReader) one(role Role) { r.tensor(Part{Role: role, Layer: -1}) }

// layers reads roles one after the other, each for all layers.
func (r *llama2cReader) layers(roles ...Role) {
	for _, role := range roles {
		for l := range r.m.Layers {
			r.tensor(Part{Role: role, Layer: l})
		}
	}
}

func (r *llama2cReader) tensor(p Part) {
	if r.err != nil {
		return
	}
	rows, cols := r.m.Shape(p.Role)
	t := &Tensor{Part: p, Name: p.String(), Rows: rows, Cols: cols, Type: F32}
	n := t.Len()
	if r.group > 0 {
		if n%r.group != 0 {
			r.err = fmt.Errorf("%s has %d elements, which groups of %d do not divide", p, n, r.group)
			return
		}
		t.Type, t.Group = Groups, r.group
	}
	t.data = r.take(t.Type.bytes(n))
	if r.group > 0 {
		t.scales = r.take(4 * (n / r.group))
	}
	if r.err == nil {
		r.err = r.m.add(t)
	} else {
		r.err = fmt.Errorf("%s: %w", p, r.err)
	}
}
