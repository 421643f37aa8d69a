package language

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"qwb/graph/language/decode"
	"qwb/kernels/elementary"
	"qwb/kernels/qmath"
)

// The file that llama-perplexity of llama.cpp writes with --kl-divergence-base: a header, and for each scored token the logarithms of the
// probabilities of all tokens in 16 bits. A text is cut into chunks of Context tokens; the tokens behind the first half are scored.
const (
	logProbsMagic  = "_logits_"
	logProbsHeader = 8 + 3*4
	logProbsReach  = 16 // what is less likely than the most likely token by a factor of e^16 has code 0
	leastLogProb   = -16
)

// LogProbs is such a file. Its rows are read once, in order.
type LogProbs struct {
	Context, Vocab, Chunks int
	Tokens                 []int // Chunks x Context, as the text was cut, before the first of a chunk was replaced

	rows  []byte
	float []float32
	row   func(dst []float32) error // in place of rows
}

// Recorded are logits that an engine gave for chunks of context tokens of a vocabulary, as LogProbs. row reads those behind the next scored
// token into dst, vocab numbers: of each chunk Scored(context) rows, those behind its tokens from context/2 on but the last.
func Recorded(tokens []int, context, vocab int, row func(dst []float32) error) *LogProbs {
	return &LogProbs{Context: context, Vocab: vocab, Chunks: len(tokens) / context, Tokens: tokens, row: row}
}

// AsRun reports whether Tokens are what an engine was given: none is replaced.
func (p *LogProbs) AsRun() bool { return p.row != nil }

// IsLogProbs reports whether a file begins so.
func IsLogProbs(b []byte) bool {
	return len(b) >= len(logProbsMagic) && string(b[:len(logProbsMagic)]) == logProbsMagic
}

// Scored is how many tokens of a chunk are scored: those that follow the first half.
func Scored(context int) int { return context - 1 - context/2 }

// logProbsRow is how many bytes a row has: two float32, then codes, an even number of them.
func logProbsRow(vocab int) int { return 8 + 2*((vocab+1)/2*2) }

// ParseLogProbs reads the header of a file; the rows stay in b.
func ParseLogProbs(b []byte) (*LogProbs, error) {
	if !IsLogProbs(b) || len(b) < logProbsHeader {
		return nil, errors.New("no file of logarithms of probabilities of llama-perplexity")
	}
	n := func(i int) int { return int(int32(binary.LittleEndian.Uint32(b[8+4*i:]))) }
	p := &LogProbs{Context: n(0), Vocab: n(1), Chunks: n(2)}
	if p.Context < 4 || p.Context > 1<<24 || p.Vocab < 1 || p.Vocab > 1<<24 || p.Chunks < 1 || p.Chunks > 1<<24 {
		return nil, fmt.Errorf("%d chunks of %d tokens of a vocabulary of %d", p.Chunks, p.Context, p.Vocab)
	}
	tokens, rows := int64(p.Chunks)*int64(p.Context), int64(p.Chunks)*int64(Scored(p.Context))
	if want := logProbsHeader + 4*tokens + rows*int64(logProbsRow(p.Vocab)); want != int64(len(b)) {
		return nil, fmt.Errorf("%d chunks of %d tokens of a vocabulary of %d take %d bytes, the file has %d", p.Chunks, p.Context, p.Vocab, want,
			len(b))
	}
	p.Tokens = make([]int, tokens)
	for i := range p.Tokens {
		id := int(int32(binary.LittleEndian.Uint32(b[logProbsHeader+4*i:])))
		if id < 0 || id >= p.Vocab {
			return nil, fmt.Errorf("token %d is %d, outside of the vocabulary of %d", i, id, p.Vocab)
		}
		p.Tokens[i] = id
	}
	p.rows = b[logProbsHeader+4*tokens:]
	return p, nil
}

// next returns the logarithms of the next n rows, Vocab each, valid until the next call.
func (p *LogProbs) next(n int) ([]float32, error) {
	if p.row != nil {
		return p.recorded(n)
	}
	size := logProbsRow(p.Vocab)
	if n*size > len(p.rows) {
		return nil, errors.New("the file of logarithms of probabilities ends early")
	}
	p.float = p.float[:0]
	for range n {
		row := p.rows[:size]
		p.rows = p.rows[size:]
		scale := math.Float32frombits(binary.LittleEndian.Uint32(row))
		least := math.Float32frombits(binary.LittleEndian.Uint32(row[4:]))
		for i := range p.Vocab {
			p.float = append(p.float, float32(scale*float32(binary.LittleEndian.Uint16(row[8+2*i:])))+least)
		}
	}
	return p.float, nil
}

// recorded is next of logits.
func (p *LogProbs) recorded(n int) ([]float32, error) {
	p.float = slices.Grow(p.float[:0], n*p.Vocab)[:n*p.Vocab]
	for i := range n {
		row := p.float[i*p.Vocab:][:p.Vocab]
		if err := p.row(row); err != nil {
			return nil, err
		}
		sum := decode.LogSumExp(row)
		for k, v := range row {
			row[k] = float32(float64(v) - sum)
		}
	}
	return p.float, nil
}

// WriteHeader writes what stands in front of the rows.
func (p *LogProbs) WriteHeader(w io.Writer) error {
	b := []byte(logProbsMagic)
	for _, n := range append([]int{p.Context, p.Vocab, p.Chunks}, p.Tokens...) {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	_, err := w.Write(b)
	return err
}

// WriteRow writes the row of a token from its logits l. With M the largest of them and m the larger of the smallest and M - 16:
//
//	scale = (M - m) / 65535, least = m - M - ln(sum(e^(l - M)))
//	code = half-even((l - m) / scale), 0 where l is not above m; ln p = scale*code + least
func (p *LogProbs) WriteRow(w io.Writer, logits []float32) error {
	most, least := logits[decode.Largest(logits)], logits[0]
	for _, v := range logits {
		least = min(least, v)
	}
	least = max(least, most-logProbsReach)
	scale := (most - least) / math.MaxUint16
	b := make([]byte, 8, logProbsRow(len(logits)))
	binary.LittleEndian.PutUint32(b, math.Float32bits(scale))
	binary.LittleEndian.PutUint32(b[4:], math.Float32bits(float32(float64(least)-decode.LogSumExp(logits))))
	inverse := 1 / scale
	for _, v := range logits {
		code := uint16(0)
		if v > least && scale > 0 {
			code = uint16(qmath.HalfEven.Round(float64(float32(inverse * (v - least)))))
		}
		b = binary.LittleEndian.AppendUint16(b, code)
	}
	_, err := w.Write(b[:cap(b)])
	return err
}

// baseDivergence scores a token by the logits q and logarithms f of probabilities as LogProbs has them: they do not sum to one exactly, and
// tokens below e^-16 do not count.
func baseDivergence(q, f []float32, next int) rowScore {
	lq, sum := decode.LogSumExp(q), 0.0
	for i, v := range f {
		if v > leastLogProb {
			sum += elementary.Exp(float64(v)) * (float64(v) - float64(q[i]) + lq)
		}
	}
	return rowScore{nll: lq - float64(q[next]), floatNLL: -float64(f[next]), kl: sum, flip: decode.Largest(q) != decode.Largest(f)}
}
