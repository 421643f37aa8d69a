package decode

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"qwb/graph/language/checkpoint"
	"qwb/internal/file"
)

// Walker goes through a model layer by layer with several texts at once, so that matrices can be changed on the way: what comes behind
// sees what the changed ones give.
type Walker struct {
	// Inputs is shown rows of activations that matrices are about to be multiplied with, cols elements each, text by text. They are the
	// caller's until it returns.
	Inputs func(parts []checkpoint.Part, x []float32, cols int) error
	// Skip, if not nil, reports whether matrices need not be shown what they read: Ready is called at once.
	Skip func(parts []checkpoint.Part) bool
	// Ready is called once all texts have shown what the matrices read, also where an expert was given nothing. It may replace them
	// (Engine.Replace).
	Ready func(parts []checkpoint.Part) error
	// Resume, if not nil, is called after Ready with the texts as they stand in front of the part of the layer that the matrices are in. All
	// texts are then run at once. What it changes it has to restore.
	Resume func(parts []checkpoint.Part, p *Pass) error
	// Shown, if not nil, returns what the i-th call of Inputs of the parts at hand was shown, for as long as what follows is computed: then
	// each layer is computed once.
	Shown func(i int) []float32
}

// Walk runs texts, ids each with the one that begins them, through the layers: the matrices that read the same input are met together, in
// the order of computation, and each layer is computed twice, or once where Shown says what its last matrices read. The classifier comes
// last, also where it is the embedding. The residual streams of all texts are kept, Dim float32 for each token; those of an engine that has
// one layer in memory lie in files of the system. Short texts are run together. It is for models on the processor.
func (e *Engine) Walk(ctx context.Context, texts [][]int, w Walker) (err error) {
	v := visit{Walker: w, engine: e, ctx: ctx}
	defer func() { err = errors.Join(err, v.maps.Release()) }()
	if err := v.begin(texts); err != nil {
		return err
	}
	v.group(texts)
	for l := range e.layers {
		layer := &e.layers[l]
		leave, err := e.enter(ctx, l)
		if err != nil {
			return err
		}
		v.stage(l, layer.attentionNorm, nil, checkpoint.Query, checkpoint.Key, checkpoint.Value)
		look, output := func(n int) { e.look(layer, l, n) }, func(n int) { e.output(layer, n) }
		v.advance(v.stage(l, nil, look, checkpoint.Output), &e.s.attended, look, output)
		if layer.router != nil {
			v.experts(l, layer)
			v.advance(false, nil, func(n int) { e.feed(layer, n) }, func(int) {})
		} else {
			v.stage(l, layer.feedNorm, nil, checkpoint.Gate, checkpoint.Up)
			gate, down := func(n int) { e.gate(layer, n) }, func(n int) { e.down(layer, n) }
			v.advance(v.stage(l, nil, gate, checkpoint.Down), &e.s.hidden, gate, down)
		}
		leave()
	}
	v.stage(-1, e.finalNorm, nil, checkpoint.Classifier)
	return v.err
}

// Products of fewer rows than togetherRows are slower, row by row. With groupsOfTexts and more groups what is shown can be parted well.
const (
	togetherRows  = 512
	groupsOfTexts = 64
)

// together is how many rows texts have that run at once, where one has no more.
func together(texts [][]int) int {
	all := 0
	for _, ids := range texts {
		all += len(ids)
	}
	return min(togetherRows, all/groupsOfTexts)
}

// WalkRows is how many rows Walk runs at once at most, where it does not resume.
func WalkRows(texts [][]int) int {
	most := together(texts)
	for _, ids := range texts {
		most = max(most, len(ids))
	}
	return most
}

// group chooses the texts that run at once: all where they are resumed.
func (v *visit) group(texts [][]int) {
	most, rows := together(texts), 0
	for i, ids := range texts {
		if rows += len(ids); i == 0 || rows > most && v.Resume == nil {
			v.groups, rows = append(v.groups, nil), len(ids)
		}
		v.groups[len(v.groups)-1] = append(v.groups[len(v.groups)-1], i)
	}
}

// visit is the state of Walk.
type visit struct {
	Walker
	engine  *Engine
	ctx     context.Context
	groups  [][]int // texts that run at once
	caches  []*Cache
	streams [][]byte // of each text, float32 in little-endian order
	maps    file.Maps
	half    int // of the layers: attention and feed-forward part of the first, of the second, ...
	err     error
}

// streamBytes is about how much of the streams of texts lies in one file.
const streamBytes = 4 << 20

// begin makes the streams: the embeddings of tokens.
func (v *visit) begin(texts [][]int) error {
	e := v.engine
	row := make([]float32, e.Dim)
	for i, ids := range texts {
		if len(ids) > e.Context {
			return fmt.Errorf("decode: text %d has %d tokens, the model was made for %d", i, len(ids), e.Context)
		}
		for _, id := range ids {
			if id < 0 || id >= e.Vocab {
				return fmt.Errorf("decode: text %d: token %d is outside of the vocabulary of %d", i, id, e.Vocab)
			}
		}
	}
	for len(v.streams) < len(texts) {
		var piece []byte
		end := len(v.streams)
		for ; end < len(texts) && len(piece) < streamBytes; end++ {
			for _, id := range texts[end] {
				e.embed(row, id)
				e.scale(row, e.EmbedScale)
				piece, _ = binary.Append(piece, binary.LittleEndian, row) // no error: float32 has a size
			}
		}
		if e.packer != nil {
			if moved := v.maps.Spill(piece); moved != nil {
				v.maps.Forget(moved)
				piece = moved
			}
		}
		for _, ids := range texts[len(v.streams):end] {
			n := 4 * len(ids) * e.Dim
			v.streams, piece = append(v.streams, piece[:n:n]), piece[n:]
		}
	}
	return nil
}

// load makes a group of texts the engine's batch, with empty caches, and returns how many rows it has.
func (v *visit) load(group int) int {
	s, n, longest := &v.engine.s, 0, 0
	for _, i := range v.groups[group] {
		n += len(v.streams[i]) / 4
	}
	x := grow(&s.x, n)
	at := grow(&s.at, n/v.engine.Dim)[:0]
	for k, i := range v.groups[group] {
		size := len(v.streams[i]) / 4
		rows := size / v.engine.Dim
		if k == len(v.caches) {
			v.caches = append(v.caches, v.engine.NewOnceCache())
		}
		cache := v.caches[k]
		cache.Round(nil)
		cache.reserve(rows)
		_, _ = binary.Decode(v.streams[i], binary.LittleEndian, x[:size]) // no error: the length is that of the numbers
		v.maps.Forget(v.streams[i])
		x = x[size:]
		for t := range rows {
			at = append(at, place{cache, t})
		}
		longest = max(longest, rows)
	}
	v.engine.rotary.reach(longest)
	v.engine.local.reach(longest)
	return n / v.engine.Dim
}

// stage shows what matrices read: the norm of the streams, or what compute makes for the last product of a part. It reports whether they
// were shown.
func (v *visit) stage(layer int, norm []float32, compute func(n int), roles ...checkpoint.Role) bool {
	e := v.engine
	parts := make([]checkpoint.Part, len(roles))
	for i, r := range roles {
		parts[i] = checkpoint.Part{Role: r, Layer: layer}
	}
	if v.Skip != nil && v.Skip(parts) {
		v.ready(parts...)
		return false
	}
	v.each(func(_, n int) error {
		x := &e.s.norm
		switch {
		case compute == nil:
			e.normalize(x, e.s.x, norm, n)
		case roles[0] == checkpoint.Output:
			x = &e.s.attended
			compute(n)
		default:
			x = &e.s.hidden
			compute(n)
		}
		return v.Inputs(parts, x.x, x.cols)
	})
	v.ready(parts...)
	return true
}

// experts goes through those of a layer, one after the other, each with the rows that the router gives it: perhaps none of any text.
func (v *visit) experts(l int, layer *layer) {
	e := v.engine
	lists := make([][][]int, len(v.groups))
	v.each(func(i, n int) error {
		e.normalize(&e.s.norm, e.s.x, layer.feedNorm, n)
		for _, list := range e.route(layer, n) {
			lists[i] = append(lists[i], slices.Clone(list.rows))
		}
		return nil
	})
	for x := range layer.experts {
		at := func(r checkpoint.Role) checkpoint.Part { return checkpoint.Part{Role: r, Layer: l, Expert: x} }
		given := func(parts []checkpoint.Part, show func(x *rows, n int) error) {
			if v.Skip != nil && v.Skip(parts) {
				return
			}
			v.each(func(i, n int) error {
				if len(lists[i][x]) == 0 {
					return nil
				}
				e.normalize(&e.s.norm, e.s.x, layer.feedNorm, n)
				return show(e.gather(lists[i][x]), len(lists[i][x]))
			})
		}
		first := []checkpoint.Part{at(checkpoint.ExpertGate), at(checkpoint.ExpertUp)}
		given(first, func(x *rows, _ int) error { return v.Inputs(first, x.x, x.cols) })
		v.ready(first...)
		last := []checkpoint.Part{at(checkpoint.ExpertDown)}
		given(last, func(in *rows, n int) error {
			e.between(&layer.experts[x], in, n)
			return v.Inputs(last, e.s.hidden.x, e.s.hidden.cols)
		})
		v.ready(last...)
	}
	if layer.shared.gate != nil {
		v.stage(l, layer.feedNorm, nil, checkpoint.SharedGate, checkpoint.SharedUp)
		v.stage(l, nil, func(n int) {
			e.normalize(&e.s.norm, e.s.x, layer.feedNorm, n)
			e.between(&layer.shared, &e.s.norm, n)
		}, checkpoint.SharedDown)
	}
}

// ready says that the texts have shown what matrices read.
func (v *visit) ready(parts ...checkpoint.Part) {
	if v.err == nil && v.Ready != nil {
		v.err = v.Ready(parts)
	}
	if v.err == nil && v.Resume != nil {
		v.err = v.Resume(parts, &Pass{v})
	}
}

// each loads one group of texts after the other.
func (v *visit) each(do func(i, n int) error) {
	for i := range v.groups {
		if v.err == nil {
			v.err = v.ctx.Err()
		}
		if v.err != nil {
			return
		}
		v.err = do(i, v.load(i))
	}
}

// advance replaces the streams by what finish makes of them and of what its product reads: of what compute makes, or of what was shown.
func (v *visit) advance(shown bool, read *rows, compute, finish func(n int)) {
	v.each(func(i, n int) error {
		if shown && v.Shown != nil {
			copy(read.reset(n, read.cols), v.Shown(i))
		} else {
			compute(n)
		}
		finish(n)
		x := v.engine.s.x
		for _, text := range v.groups[i] {
			size := len(v.streams[text]) / 4
			_, _ = binary.Encode(v.streams[text], binary.LittleEndian, x[:size]) // no error, as above
			v.maps.Forget(v.streams[text])
			x = x[size:]
		}
		return nil
	})
	v.half++
}
