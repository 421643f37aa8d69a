package decode

import (
	"context"
	"errors"

	"qwb/graph/language/checkpoint"
	"qwb/kernels"
)

// Device is what runs models in place of the processor, with the same result, bit for bit.
type Device interface {
	// OpenModel begins a model: its weights are given to it, then it runs.
	OpenModel(c *checkpoint.Config) (DeviceModel, error)
}

// DeviceModel is a model on a device: its weights, the caches of its sequences, and the memory of a pass. One goroutine at a time uses it.
type DeviceModel interface {
	// Groups brings a matrix of codes there; what Read returns is read once.
	Groups(m kernels.GroupMatrix) (DeviceMatrix, error)
	// Floats brings a matrix there, given row by row.
	Floats(x []float32, rows, cols int) (DeviceMatrix, error)
	// Rows brings a matrix there of which rows are taken, given row by row: an embedding.
	Rows(x []float32, cols int) (DeviceMatrix, error)
	// Start hands over all of the model. The matrices are those that the methods above returned; the embedding is of Rows or of Groups.
	Start(w *DeviceWeights) error
	// NewCache returns an empty cache. Its memory is given back by Close of the model, or when it is garbage.
	NewCache() DeviceCache
	// Forward runs rows tokens of a batch and writes the logits of the want that are asked for, Vocab each. Where it fails, no cache counts
	// as longer.
	Forward(ctx context.Context, batch []DeviceSequence, rows, want int, logits []float32) error
	Close() error
}

// DeviceMatrix is a matrix on a device.
type DeviceMatrix interface {
	Bytes() int // of memory
}

// DeviceCache is the keys and values of a sequence on a device.
type DeviceCache interface {
	// Reserve makes room for n positions more than the length that are kept.
	Reserve(length, n int) error
}

// DeviceSequence is a Sequence of which Length positions lie in the cache.
type DeviceSequence struct {
	Cache  DeviceCache
	Length int
	Tokens []int
	Want   int
}

// DeviceWeights is what a model consists of.
type DeviceWeights struct {
	Layers                []DeviceLayer
	FinalNorm             []float32
	Embedding, Classifier DeviceMatrix
	// AttentionScale is what products of queries and keys are multiplied with.
	AttentionScale float32
	// Angles returns cosine and sine of the angles of all positions below a number of them, by position, HeadDim/2 each.
	Angles func(positions int) (cos, sin []float32)
}

// DeviceLayer is the weights of one layer; biases are nil where there are none.
type DeviceLayer struct {
	AttentionNorm, FeedNorm       []float32
	Query, Key, Value, Output     DeviceMatrix
	QueryBias, KeyBias, ValueBias []float32
	Gate, Up, Down                DeviceMatrix
}

// startDevice hands the model to the device.
func (e *Engine) startDevice(embedding DeviceMatrix) error {
	w := &DeviceWeights{FinalNorm: e.finalNorm, Embedding: embedding, Classifier: e.classifier.remote,
		AttentionScale: attentionScale(e.HeadDim),
		Angles: func(positions int) (cos, sin []float32) {
			e.rotary.reach(positions)
			n := positions * len(e.rotary.freqs)
			return e.rotary.cos[:n], e.rotary.sin[:n]
		}}
	for i := range e.layers {
		l := &e.layers[i]
		w.Layers = append(w.Layers, DeviceLayer{AttentionNorm: l.attentionNorm, FeedNorm: l.feedNorm,
			Query: l.query.remote, Key: l.key.remote, Value: l.value.remote, Output: l.output.remote,
			QueryBias: l.queryBias, KeyBias: l.keyBias, ValueBias: l.valueBias,
			Gate: l.gate.remote, Up: l.up.remote, Down: l.down.remote})
	}
	return e.device.Start(w)
}

// errForeignCache is what an engine says of a cache that it cannot go on with.
var errForeignCache = errors.New("decode: a cache of another engine")

// forwardOnDevice is forward on the device.
func (e *Engine) forwardOnDevice(ctx context.Context, batch []Sequence, n, want int) ([]float32, error) {
	if n == 0 {
		return nil, nil
	}
	list := make([]DeviceSequence, len(batch))
	for i, q := range batch {
		k := q.Cache
		switch {
		case k.remote == nil && k.length > 0, k.remote != nil && k.owner != e.device:
			return nil, errForeignCache
		case k.remote == nil:
			k.remote, k.owner = e.device.NewCache(), e.device
		}
		list[i] = DeviceSequence{Cache: k.remote, Length: k.length, Tokens: q.Tokens, Want: q.Want}
	}
	logits := grow(&e.s.logits, want*e.Vocab)
	if err := e.device.Forward(ctx, list, n, want, logits); err != nil {
		return nil, err
	}
	for _, q := range batch {
		q.Cache.length += len(q.Tokens)
	}
	return logits, nil
}
