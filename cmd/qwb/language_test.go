package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// shape is that of a checkpoint which tests write: the header of llama2.c.
type shape struct{ dim, hidden, layers, heads, kvHeads, vocab, context int }

// tiny has grouped-query attention, and rows that groups of 8 and 16 divide.
var tiny = shape{dim: 16, hidden: 48, layers: 2, heads: 4, kvHeads: 2, vocab: 3 + 256 + 29, context: 40}

// saveLanguage writes a llama2.c checkpoint of version 0 with random weights, a function of the seed.
func saveLanguage(t testing.TB, path string, s shape, seed uint64) {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, []int32{int32(s.dim), int32(s.hidden), int32(s.layers), int32(s.heads), int32(s.kvHeads),
		int32(s.vocab), int32(s.context)})
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(seed, 0))
	add := func(n int, std float64) {
		for range n {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(std*random.NormFloat64())))
		}
	}
	ones := func(n int) {
		for range n {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(1))
		}
	}
	kv := s.dim / s.heads * s.kvHeads
	add(s.vocab*s.dim, 0.5)
	ones(s.layers * s.dim)
	for _, rows := range []int{s.dim, kv, kv, s.dim} {
		add(s.layers*rows*s.dim, 0.3)
	}
	ones(s.layers * s.dim)
	add(s.layers*3*s.hidden*s.dim, 0.3)
	ones(s.dim)
	add(s.context*s.dim/s.heads, 0) // rotary tables, which are not used
	write(t, path, b)
}

// saveTokenizer writes a tokenizer.bin: the bytes, the letters, a space, and one word for a vocabulary of that size.
func saveTokenizer(t testing.TB, path string, vocab int) {
	t.Helper()
	pieces := []string{"<unk>", "\n<s>\n", "\n</s>\n"}
	for i := range 256 {
		pieces = append(pieces, fmt.Sprintf("<0x%02X>", i))
	}
	pieces = append(pieces, " ", "ab")
	for c := 'a'; len(pieces) < vocab; c++ {
		pieces = append(pieces, string(c))
	}
	b := binary.LittleEndian.AppendUint32(nil, 16)
	for _, p := range pieces[:vocab] {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(0))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	write(t, path, b)
}

// languagePlace makes the current folder one with m.bin, a checkpoint, and tokenizer.bin.
func languagePlace(t testing.TB) {
	t.Helper()
	inFolder(t)
	saveLanguage(t, "m.bin", tiny, 1)
	saveTokenizer(t, "tokenizer.bin", tiny.vocab)
}

// llm returns a file of the trained language models, and skips the test without them.
func llm(t testing.TB, name ...string) string {
	t.Helper()
	return shared(t, append([]string{"models", "llm"}, name...)...)
}

// trained are the trained language models and their tokenizers.
func trained(t testing.TB) map[string]string {
	t.Helper()
	return map[string]string{"stories260K": llm(t, "tok512.bin"), "stories15M": llm(t, "tokenizer.bin")}
}
