// Package llama2c writes checkpoints in the three formats of llama2.c (export.py, run.c and runq.c of github.com/karpathy/llama2.c):
// version 0 and 1 in float32, and version 2, int8 in groups, which is known as q80.
//
// Unstable: it may change without notice.
package llama2c

import (
	"encoding/binary"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
)

// What all versions take for granted: run.c has these numbers in its code.
const (
	normEps    = 1e-5
	theta      = 10000
	headerSize = 256
	magic      = 0x616b3432
)

var limits = weights.Limits{Theta: theta, Pairing: checkpoint.Interleaved}

// begin starts the layout of a file.
func begin(m *checkpoint.Model, format string) (*weights.File, error) {
	if err := limits.Check(&m.Config, format); err != nil {
		return nil, err
	}
	f := &weights.File{Source: m, Config: m.Config}
	f.Config.Pairing = limits.Pairing
	if m.BOS != 1 {
		f.Warn("llama2.c begins texts with token 1, the model with another one", float64(m.BOS))
	}
	return f, nil
}

// numbers are the seven int32 that all headers hold; a negative vocabulary is that of a version 0 file with a classifier of its own.
func numbers(c *checkpoint.Config, vocab int) []byte {
	var b []byte
	for _, n := range []int{c.Dim, c.Hidden, c.Layers, c.Heads, c.KVHeads, vocab, c.Context} {
		b = binary.LittleEndian.AppendUint32(b, uint32(int32(n)))
	}
	return b
}

// header is that of versions 1 and 2; a group of 0 is none.
func header(c *checkpoint.Config, version uint32, group int) []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, headerSize), magic)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = append(b, numbers(c, c.Vocab)...)
	shared := byte(0)
	if c.Tied {
		shared = 1
	}
	b = append(b, shared)
	if group > 0 {
		b = binary.LittleEndian.AppendUint32(b, uint32(group))
	}
	return b[:headerSize]
}

// open reads a file of any version.
func open(path string, _ *checkpoint.Config) (*checkpoint.Model, error) { return checkpoint.Open(path) }
