package checkpoint

import (
	"encoding/binary"
	"fmt"
)

// Files of KuiperLLama (github.com/zjhellofss/KuiperLLama), version 3 of its exporter: the numbers of llama2.c and the size of groups, the
// matrices as int8 in groups, the classifier among them, then floats. How rotary embedding pairs elements, its base and the epsilon of
// norms are not in the file: the engine is compiled for them.
const kuiperHeader = 32

// KuiperBuild is one way in which KuiperLLama is compiled.
type KuiperBuild struct {
	Flag    string // for its compiler
	NormEps float32
	Theta   float64
	Pairing Pairing
}

// KuiperBuilds are those that read quantized files, the default first. The one for Qwen2 reads no biases from them.
var KuiperBuilds = []KuiperBuild{
	{"", 1e-5, 10000, Interleaved},
	{"LLAMA3_SUPPORT", 1e-5, 500000, Halves},
}

// IsKuiper reports whether a file of so many bytes that begins with head is one of KuiperLLama version 3, which has no magic number: its
// size is the one that the numbers in front ask for.
func IsKuiper(head []byte, size int64) bool {
	if len(head) < kuiperHeader {
		return false
	}
	c := legacyConfig(head)
	group := int64(int32(binary.LittleEndian.Uint32(head[legacyHeader:])))
	if c.Tied || group < 1 || llama2cShape(&c) != nil {
		return false
	}
	quantized := c.Parameters() - int64(c.Vocab)*int64(c.Dim) - int64(2*c.Layers+1)*int64(c.Dim)
	return size == kuiperHeader+quantized+4*(quantized/group)+4*(c.Parameters()-quantized)
}

func isKuiper(b []byte) bool { return IsKuiper(b, int64(len(b))) }

func readKuiper(m *Model, b []byte) error {
	known, err := m.shape()
	if err != nil {
		return err
	}
	m.Config = legacyConfig(b)
	m.EOS = []int{2}
	build := KuiperBuilds[0]
	if known != nil {
		m.BOS, m.EOS, build.Theta, build.NormEps = known.BOS, known.EOS, known.RopeTheta, known.NormEps
		for _, k := range KuiperBuilds {
			if k.Theta == known.RopeTheta {
				build.Pairing = k.Pairing
			}
		}
	} else {
		m.warn("the file does not say how it was made: rotary embedding of base %g, interleaved, and an epsilon of %g are taken, as of a "+
			"Llama 2; a config.json beside it tells", build.Theta, build.NormEps)
	}
	m.RopeTheta, m.NormEps, m.Pairing = build.Theta, build.NormEps, build.Pairing
	r := &llama2cReader{m: m, rest: b[kuiperHeader:], group: int(binary.LittleEndian.Uint32(b[legacyHeader:]))}
	r.layers(Query, Key, Value, Output, Gate, Down, Up)
	r.one(Classifier)
	r.group = 0
	r.one(Embedding)
	r.layers(AttentionNorm, FeedNorm)
	r.one(FinalNorm)
	if r.err == nil && len(r.rest) > 0 {
		return fmt.Errorf("%d bytes follow the last tensor", len(r.rest))
	}
	return r.err
}
