package open

import (
	"context"
	"fmt"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// Language is a checkpoint that is ready to be run on text.
type Language struct {
	*checkpoint.Model
	decode.Tokenizer
}

// Begin returns the ids of a text, the one that begins it first.
func (l *Language) Begin(text string) ([]int, error) {
	ids := append([]int{l.BOS}, l.Encode(text)...)
	for _, id := range ids {
		if id < 0 || id >= l.Vocab {
			return nil, fmt.Errorf("token %d is outside of the vocabulary of %d", id, l.Vocab)
		}
	}
	return ids, nil
}

// Engine packs the weights for the kernels of the processor, or of a device that is not nil.
func (l *Language) Engine(ctx context.Context, o decode.Options, d Device) (*decode.Engine, error) {
	if d != nil {
		o.Device = d
	}
	return decode.New(ctx, l.Model, o)
}
