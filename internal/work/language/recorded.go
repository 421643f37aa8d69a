package language

import (
	"bytes"
	"fmt"
	"io"

	"qwb/analysis/language"
	"qwb/calib/data"
	"qwb/calib/data/npy"
	"qwb/graph/tensor"
)

// recorded reads logits of another engine from an .npz file: tokens, chunks x context, as the engine was given them, and logits, chunks x
// context x vocabulary, behind each token. Rows are read as they are asked for. end is to be called at last.
func recorded(b []byte, vocab int) (p *language.LogProbs, end func() error, err error) {
	a, err := npy.OpenArchive(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	ids, err := a.Read("tokens")
	if err != nil {
		return nil, nil, err
	}
	h, err := a.Header("logits")
	if err != nil {
		return nil, nil, err
	}
	if len(ids.Shape) != 2 || ids.Shape[0] < 1 || ids.Shape[1] < 4 || len(h.Shape) != 3 || h.Shape[0] != ids.Shape[0] ||
		h.Shape[1] != ids.Shape[1] || !h.DType.IsFloat() {
		return nil, nil, fmt.Errorf("tokens %s and logits %s: chunks x context, of 4 or more, and floats, chunks x context x vocabulary",
			ids.Type(), tensor.TypeString(h.DType, h.Shape))
	}
	list, err := data.Convert(ids, tensor.Int64)
	if err != nil {
		return nil, nil, fmt.Errorf("tokens: %w", err)
	}
	tokens := make([]int, list.Len())
	for i, v := range tensor.Of[int64](list) {
		if tokens[i] = int(v); v < 0 || v >= int64(vocab) {
			return nil, nil, fmt.Errorf("token %d is %d, of a vocabulary of %d", i, v, vocab)
		}
	}
	_, r, err := a.Stream("logits")
	if err != nil {
		return nil, nil, err
	}
	rows := logitRows{from: r, header: h, context: ids.Shape[1]}
	return language.Recorded(tokens, ids.Shape[1], h.Shape[2], rows.next), r.Close, nil
}

// logitRows goes through the logits of all tokens and hands out those that are scored.
type logitRows struct {
	from    io.Reader
	header  npy.Header
	context int
	at      int // tokens that were read
}

func (l *logitRows) next(dst []float32) error {
	one := l.header
	one.Shape = l.header.Shape[2:]
	first := l.context - language.Scored(l.context) - 1 // what is behind it is the first that is scored
	for {
		t, err := one.Read(l.from)
		if err != nil {
			return fmt.Errorf("logits of token %d: %w", l.at, err)
		}
		place := l.at % l.context
		if l.at++; place < first || place == l.context-1 {
			continue
		}
		numbers, err := data.Convert(t, tensor.Float32)
		if err != nil {
			return fmt.Errorf("logits of token %d: %w", l.at-1, err)
		}
		for i, v := range numbers.F32() {
			if dst[i] = v; v-v != 0 {
				return fmt.Errorf("logits of token %d: element %d is %g", l.at-1, i, v)
			}
		}
		return nil
	}
}
