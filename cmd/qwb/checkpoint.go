package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"qwb/graph/checkpoint"
	"qwb/graph/decode"
)

// languageOptions are the arguments that commands on checkpoints share.
type languageOptions struct {
	file      string // checkpoint
	tokenizer string // empty: the checkpoint's own, or the one beside it
	group     int    // 0: the weights as they are stored
	threads   int
}

func (o *languageOptions) addTo(c *cobra.Command) {
	c.Flags().StringVar(&o.tokenizer, "tokenizer", "", "tokenizer.json or tokenizer.bin (default: the checkpoint's own, or the one beside it)")
	c.Flags().IntVar(&o.group, "group-size", 0, "quantize float weights to int8, so many neighbours of a row with one scale, activations likewise (0: weights as they are stored)")
}

func (o *languageOptions) check() error {
	if o.group < 0 {
		return usagef("--group-size %d: not negative", o.group)
	}
	return nil
}

// weights says in which form matrices are multiplied.
func (o *languageOptions) weights() decode.Weights { return decode.Weights{Group: o.group} }

// language is a checkpoint that is ready to be run on text.
type language struct {
	*checkpoint.Model
	decode.Tokenizer
}

// openLanguage opens a checkpoint and its tokenizer.
func openLanguage(file, tokenizer string) (*language, error) {
	m, err := checkpoint.Open(file)
	if err != nil {
		return nil, err
	}
	t, err := decode.OpenTokenizer(tokenizer, m)
	if err != nil {
		_ = m.Close() // the error that matters is err
		return nil, err
	}
	return &language{m, t}, nil
}

// engine packs the weights for the kernels.
func (l *language) engine(ctx context.Context, w decode.Weights, threads int) (*decode.Engine, error) {
	return decode.New(ctx, l.Model, decode.Options{Threads: threads, Weights: w})
}

// begin returns the ids of a text, the one that begins it first.
func (l *language) begin(text string) ([]int, error) {
	ids := append([]int{l.BOS}, l.Encode(text)...)
	for _, id := range ids {
		if id < 0 || id >= l.Vocab {
			return nil, fmt.Errorf("token %d is outside of the vocabulary of %d", id, l.Vocab)
		}
	}
	return ids, nil
}
