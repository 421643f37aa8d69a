package decode

import (
	"context"
	"errors"
	"fmt"

	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// Options say how a model is run. The zero value runs its weights as they are stored on one thread per core.
type Options struct {
	Threads int // 0: one per core; never changes a result
	Weights Weights
	Cache   CacheType // of Engine.NewCache

	// Reference computes products of matrices in groups by the loops that define them, on codes as they are stored. The result
	// is the same, bit for bit.
	Reference bool
	// Sums, if not nil, is called after each product of a matrix in groups with quantized activations, in the order of computation:
	// for each row of activations and each row of the matrix its int32 sums, those of its groups.
	Sums func(p checkpoint.Part, sums []int32)

	// Layered packs the matrices of a layer whenever it is come to, and gives them up behind it: memory is that of one layer, and of a part
	// of the classifier. The result is the same, bit for bit. Matrices are replaced within a Walk, in the layer that it is at.
	Layered bool

	// Device, if not nil, runs the model there, weights, caches and all, with the same result, bit for bit. Threads mean nothing then,
	// Reference and Sums are refused. The engine must be closed before the device.
	Device Device
}

// Engine is a model ready to run: its weights packed for the kernels. One goroutine at a time may use it.
type Engine struct {
	checkpoint.Config
	table *kernels.Table
	par   kernels.Parallel
	sums  func(p checkpoint.Part, sums []int32)

	embed      func(dst []float32, id int)
	layers     []layer
	finalNorm  []float32
	classifier *linear
	rotary     *rotary
	local      *rotary // of layers with a window
	s          scratch
	cache      CacheType
	device     DeviceModel                   // nil on the processor
	packer     *packer                       // of an engine that is packed layer by layer
	end        *packer                       // of such an engine, that of the classifier
	spare      map[[2]int][]*kernels.GemmF32 // of such an engine, matrices that were given up, by columns and rows
	unpacked   []float32                     // of such an engine, a matrix on its way
}

// layer is the weights of one layer; biases and norms of heads are nil where there are none.
type layer struct {
	attentionNorm, feedNorm       []float32
	afterAttention, afterFeed     []float32 // norms; nil: none
	queryBias, keyBias, valueBias []float32
	outputBias                    []float32
	queryNorm, keyNorm            []float32 // of every head
	sharedRouter                  []float32
	matrices
}

// matrices are those of a layer.
type matrices struct {
	query, key, value, output *linear
	mlp                       // nil where there are experts
	router                    *linear
	experts                   []mlp
	shared                    mlp // for all tokens; nil: none
}

// mlp is a feed-forward part.
type mlp struct{ gate, up, down *linear }

// New packs the weights of a model. The model must stay open as long as the engine is used. Matrices are copied once: those in groups
// as codes of their bits and scales, with up to 15 rows of padding, those of floats as float32. The embedding stays in the
// file, of which a token reads one row; where the classifier is the embedding and in groups, its copy serves both.
func New(ctx context.Context, m *checkpoint.Model, o Options) (*Engine, error) {
	rule, err := o.Weights.rule()
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w", m.Path, err)
	}
	e := &Engine{Config: m.Config, table: kernels.Select(cpu.Detect()), par: exec.Parallel(threads(o.Threads)), sums: o.Sums,
		rotary: newRotary(&m.Config), cache: o.Cache}
	if e.local = e.rotary; m.LocalTheta != 0 {
		e.local = newRotary(m.Local())
	}
	if err := o.Cache.Check(&m.Config); err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w", m.Path, err)
	}
	if o.Device != nil {
		if o.Reference || o.Sums != nil || o.Cache != CacheF32 {
			return nil, errors.New("decode: the reference, the sums of products and rounded caches are the processor's")
		}
		if !m.Plain() {
			return nil, fmt.Errorf("decode: models of the %s family with what theirs have beside Llama's parts run on the processor alone", m.Family)
		}
		if e.device, err = o.Device.OpenModel(&m.Config); err != nil {
			return nil, fmt.Errorf("decode: %w", err)
		}
	}
	p := packer{ctx: ctx, engine: e, model: m, options: &o, rule: rule}
	e.layers = make([]layer, m.Layers)
	for l := range e.layers {
		e.layers[l] = layer{
			attentionNorm: p.norm(checkpoint.AttentionNorm, l), feedNorm: p.norm(checkpoint.FeedNorm, l),
			afterAttention: p.norm(checkpoint.AfterAttention, l), afterFeed: p.norm(checkpoint.AfterFeed, l),
			queryNorm: p.norm(checkpoint.QueryNorm, l), keyNorm: p.norm(checkpoint.KeyNorm, l),
			queryBias: p.vector(checkpoint.QueryBias, l), keyBias: p.vector(checkpoint.KeyBias, l),
			valueBias: p.vector(checkpoint.ValueBias, l), outputBias: p.vector(checkpoint.OutputBias, l),
			sharedRouter: p.vector(checkpoint.SharedRouter, l),
		}
		if !o.Layered {
			e.layers[l].matrices = p.matrices(l)
		}
	}
	if o.Layered {
		e.packer, e.end, e.spare = &p, &p, map[[2]int][]*kernels.GemmF32{}
	}
	e.finalNorm = p.norm(checkpoint.FinalNorm, -1)
	if e.device == nil {
		e.classifier, e.embed = p.ends()
	} else if embedding := p.deviceEnds(); p.err == nil {
		p.err = e.startDevice(embedding)
	}
	if p.err != nil {
		return nil, errors.Join(fmt.Errorf("checkpoint: %s: %w", m.Path, p.err), e.Close())
	}
	return e, nil
}

// matrices packs those of a layer.
func (p *packer) matrices(l int) matrices {
	of := func(r checkpoint.Role) *linear { return p.matrix(r, l) }
	m := matrices{query: of(checkpoint.Query), key: of(checkpoint.Key), value: of(checkpoint.Value), output: of(checkpoint.Output),
		mlp: mlp{of(checkpoint.Gate), of(checkpoint.Up), of(checkpoint.Down)}, router: of(checkpoint.Router),
		shared: mlp{of(checkpoint.SharedGate), of(checkpoint.SharedUp), of(checkpoint.SharedDown)}}
	for x := 0; p.model.Routed(l) && x < p.model.Experts; x++ {
		m.experts = append(m.experts, p.expert(l, x))
	}
	return m
}

// Close gives back what the engine has on a device. An engine on the processor needs none.
func (e *Engine) Close() error {
	if e.device == nil {
		return nil
	}
	return e.device.Close()
}

// TokenBytes is how many bytes of weights a token reads, with one row of the embedding: those of the matrices as they lie in memory,
// and of the vectors.
func (e *Engine) TokenBytes() int64 {
	n := 4 * int64(e.Dim) * int64(2*e.Layers+2)
	matrices := []*linear{e.classifier}
	for _, l := range e.layers {
		matrices = append(matrices, l.all(e.ExpertsUsed)...)
		n += 4 * int64(len(l.queryBias)+len(l.keyBias)+len(l.valueBias)+len(l.afterAttention)+len(l.afterFeed))
	}
	for _, m := range matrices {
		switch {
		case m == nil:
		case m.remote != nil:
			n += int64(m.remote.Bytes())
		case m.groups != nil:
			n += int64(m.groups.Bytes())
		default:
			k, cols := m.floats.Size()
			n += 4 * int64(k) * int64(cols)
		}
	}
	return n
}

// Sequence is what a call of Forward does for one text: Tokens follow those that Cache holds.
type Sequence struct {
	Cache  *Cache
	Tokens []int
	// Logits of the last tokens are asked for: those of the last Want of them. 0: none.
	Want int
}

// Forward runs new tokens of several sequences at once, appends them to their caches, and returns the logits asked for, Vocab
// each, sequence after sequence. They are valid until the next call. The result for a sequence does not depend on the others, on
// how its tokens are cut into calls, or on the number of threads. A token outside of the vocabulary, or a position beyond the
// context of the model, is an error before anything is changed.
func (e *Engine) Forward(ctx context.Context, batch []Sequence) ([]float32, error) {
	rows, want := 0, 0
	for i, q := range batch {
		if q.Cache.length+len(q.Tokens) > e.Context {
			return nil, fmt.Errorf("decode: sequence %d: position %d is beyond the context of %d", i, q.Cache.length+len(q.Tokens)-1, e.Context)
		}
		for _, id := range q.Tokens {
			if id < 0 || id >= e.Vocab {
				return nil, fmt.Errorf("decode: sequence %d: token %d is outside of the vocabulary of %d", i, id, e.Vocab)
			}
		}
		if q.Want < 0 || q.Want > len(q.Tokens) {
			return nil, fmt.Errorf("decode: sequence %d: logits of %d tokens are asked for, it has %d", i, q.Want, len(q.Tokens))
		}
		rows += len(q.Tokens)
		want += q.Want
	}
	if e.device != nil {
		return e.forwardOnDevice(ctx, batch, rows, want)
	}
	return e.forward(ctx, batch, rows, want)
}
