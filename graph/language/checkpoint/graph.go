package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Names of the graph's input, int64[batch,sequence], and output, f32[batch,sequence,vocabulary].
const (
	InputIDs = "input_ids"
	Logits   = "logits"
)

// graphOpset is the first that has RMSNormalization, RotaryEmbedding and Attention.
const graphOpset = 23

// Graph makes an ordinary graph of a model: it takes the ids of sequences of equal length, of at most Context tokens, and gives the
// logits of the token after each. Attention is causal. Products with weights are Gemm over the tokens of all sequences, with the
// weights as the checkpoint stores them, rows being outputs; float32 weights are views of its files, others are converted.
// The model must stay open as long as the graph is used. A weight that is NaN or infinite is an error.
func Graph(m *Model) (*graph.Graph, error) {
	b := &grapher{m: m, g: graph.New("checkpoint", graphOpset)}
	b.build()
	if b.err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w", m.Path, b.err)
	}
	return b.g, nil
}

// grapher adds nodes to a graph. The first error stays.
type grapher struct {
	m   *Model
	g   *graph.Graph
	err error

	shape       graph.ValueID         // of a vector per token: batch, sequence, -1
	positions   graph.ValueID         // int64[batch,sequence]
	turns       [2]graph.ValueID      // cosines and sines
	local       [2]graph.ValueID      // those of layers with a window, where they are others
	position    graph.ValueID         // int64[sequence]
	masks       map[int]graph.ValueID // of windows, by their sizes: bool[sequence,sequence]
	tokensFirst graph.ValueID         // shape [-1, n] of vectors one after the other: 0, -1 of what has three dimensions
}

func (b *grapher) build() {
	ids := b.value(graph.Value{Name: InputIDs, DType: tensor.Int64, Shape: graph.Shape{{N: -1, Symbol: "batch"}, {N: -1, Symbol: "sequence"}}})
	if b.err != nil {
		return
	}
	b.g.Inputs = []graph.ValueID{ids}
	b.prepare(ids)
	flat := b.node("tokens", "Reshape", ids, b.ints("tokens.shape", -1))
	x := b.node("embedding", "Gather", b.weight(Part{Role: Embedding, Layer: -1}), flat)
	x = b.scaled(x, "embedding", b.m.EmbedScale)
	for l := range b.m.Layers {
		x = b.layer(x, l)
	}
	x = b.norm(x, Part{Role: FinalNorm, Layer: -1})
	x = b.scaled(b.product(x, Part{Role: Classifier, Layer: -1}, numRoles), "logits", b.m.LogitScale)
	x = b.capped(x, b.m.LogitCap)
	out := b.named(Logits, "logits.reshape", "Reshape", x, b.shape)
	b.g.Outputs = []graph.ValueID{out}
}

// prepare computes what all layers use: the shape of a batch, positions, and the tables of rotary embedding.
func (b *grapher) prepare(ids graph.ValueID) {
	c := &b.m.Config
	size := b.node("batch", "Shape", ids)
	b.shape = b.with(graph.Int("axis", 0)).node("batch.vectors", "Concat", size, b.ints("rest", -1))
	length := b.node("sequence", "Gather", size, b.scalar("sequence.axis", 1))
	positions := b.node("position", "Range", b.scalar("zero", 0), length, b.scalar("one", 1))
	b.positions = b.node("positions", "Expand", positions, size)
	b.position, b.masks = positions, map[int]graph.ValueID{}

	b.turns = b.tables("rotary", c)
	if b.local = b.turns; c.LocalTheta != 0 {
		b.local = b.tables("rotary.local", c.Local())
	}
	b.tokensFirst = b.ints("attention.shape", -1, int64(c.QueryDim()))
}

// tables are cosines and sines of all positions.
func (b *grapher) tables(name string, c *Config) [2]graph.ValueID {
	freqs := c.Frequencies()
	half := len(freqs)
	cos, sin := make([]float32, c.Context*half), make([]float32, c.Context*half)
	for p := range c.Context {
		for i, f := range freqs {
			x, y := c.Angle(p, f)
			cos[p*half+i], sin[p*half+i] = float32(x), float32(y)
		}
	}
	return [2]graph.ValueID{b.g.AddConst(name+".cosine", tensor.FromF32(cos, c.Context, half)),
		b.g.AddConst(name+".sine", tensor.FromF32(sin, c.Context, half))}
}

func (b *grapher) layer(x graph.ValueID, l int) graph.ValueID {
	c := &b.m.Config
	at := func(r Role) Part { return Part{Role: r, Layer: l} }
	name := func(s string) string { return fmt.Sprintf("layers.%d.%s", l, s) }
	n := b.norm(x, at(AttentionNorm))
	q := b.rotate(b.heads(b.product(n, at(Query), QueryBias), at(QueryNorm), c.QueryDim()), at(Query), c.Heads)
	k := b.rotate(b.heads(b.product(n, at(Key), KeyBias), at(KeyNorm), c.KVDim()), at(Key), c.KVHeads)
	v := b.node(name("value.batch"), "Reshape", b.product(n, at(Value), ValueBias), b.shape)
	attrs := []graph.Attr{graph.Int("is_causal", 1), graph.Int("q_num_heads", int64(c.Heads)), graph.Int("kv_num_heads", int64(c.KVHeads))}
	if c.AttentionScale != 0 {
		attrs = append(attrs, graph.Float("scale", c.AttentionScale))
	}
	if c.ScoreCap != 0 {
		attrs = append(attrs, graph.Float("softcap", c.ScoreCap))
	}
	a := b.with(attrs...).
		node(name("attention"), "Attention", append([]graph.ValueID{q, k, v}, b.mask(c.Window(l))...)...)
	a = b.node(name("attention.tokens"), "Reshape", a, b.tokensFirst)
	a = b.after(b.product(a, at(Output), OutputBias), at(AfterAttention))
	x = b.node(name("attention.add"), "Add", x, b.scaled(a, name("attention"), c.ResidualScale))

	n = b.norm(x, at(FeedNorm))
	var h graph.ValueID
	if c.Routed(l) {
		h = b.experts(n, l)
	} else {
		h = b.feed(n, at(Gate), at(Up), at(Down))
	}
	h = b.after(h, at(AfterFeed))
	return b.node(name("feed.add"), "Add", x, b.scaled(h, name("feed"), c.ResidualScale))
}

// feed is a feed-forward part of three matrices.
func (b *grapher) feed(x graph.ValueID, gate, up, down Part) graph.ValueID {
	name := func(s string) string {
		if down.Role == Down {
			return fmt.Sprintf("layers.%d.%s", down.Layer, s)
		}
		return partName(down) + "." + s
	}
	g, u := b.product(x, gate, numRoles), b.product(x, up, numRoles)
	return b.product(b.node(name("hidden"), "Mul", b.activate(g, name), u), down, numRoles)
}

// experts computes all experts of a layer for all tokens, and adds them by the weights of the router, 0 for those that it does not choose.
func (b *grapher) experts(x graph.ValueID, l int) graph.ValueID {
	c := &b.m.Config
	name := func(s string) string { return fmt.Sprintf("layers.%d.%s", l, s) }
	p := b.with(graph.Int("axis", -1)).node(name("router.softmax"), "Softmax", b.router(x, Part{Role: Router, Layer: l}))
	chosen, which := b.value(graph.Value{Name: name("router.chosen"), DType: tensor.Undefined}),
		b.value(graph.Value{Name: name("router.which"), DType: tensor.Undefined})
	if b.err == nil {
		_, b.err = b.g.AddNode(graph.Node{Name: name("router.top"), Op: "TopK", Inputs: []graph.ValueID{p, b.ints(name("router.used"),
			int64(c.ExpertsUsed))}, Outputs: []graph.ValueID{chosen, which}})
	}
	if c.NormTopK {
		chosen = b.node(name("router.norm"), "Div", chosen, b.node(name("router.sum"), "ReduceSum", chosen, b.ints(name("router.axis"), 1)))
	}
	weights := b.with(graph.Int("axis", 1)).node(name("router.weights"), "ScatterElements", b.node(name("router.zeros"), "Sub", p, p), which,
		chosen)
	sum := graph.NoValue
	for e := range c.Experts {
		down := Part{ExpertDown, l, e}
		y := b.feed(x, Part{ExpertGate, l, e}, Part{ExpertUp, l, e}, down)
		share := b.with(graph.Int("axis", 1)).node(partName(down)+".weight.of", "Gather", weights, b.ints(partName(down)+".number", int64(e)))
		if y = b.node(partName(down)+".weighted", "Mul", y, share); e > 0 {
			y = b.node(partName(down)+".add", "Add", sum, y)
		}
		sum = y
	}
	if c.SharedHidden == 0 {
		return sum
	}
	y := b.feed(x, Part{Role: SharedGate, Layer: l}, Part{Role: SharedUp, Layer: l}, Part{Role: SharedDown, Layer: l})
	router := Part{Role: SharedRouter, Layer: l}
	share := b.node(partName(router), "Mul", x, b.weight(router))
	share = b.node(partName(router)+".sum", "ReduceSum", share, b.ints(partName(router)+".axis", 1))
	share = b.node(partName(router)+".sigmoid", "Sigmoid", share)
	return b.node(name("shared.add"), "Add", sum, b.node(name("shared.weighted"), "Mul", y, share))
}

// router multiplies with the matrix that chooses experts: no Gemm, which may become a product of codes.
func (b *grapher) router(x graph.ValueID, p Part) graph.ValueID {
	t := b.m.Of(p)
	if b.err == nil {
		b.err = t.Finite()
	}
	if b.err != nil {
		return graph.NoValue
	}
	w := make([]float32, 0, t.Len())
	for rows, c := t.All(), 0; c < t.Cols; c++ {
		for r := range t.Rows {
			w = append(w, rows[r*t.Cols+c])
		}
	}
	return b.node(partName(p), "MatMul", x, b.g.AddConst(partName(p)+".weight", tensor.FromF32(w, t.Cols, t.Rows)))
}

// after normalizes what a part adds to the residual stream, where the model does.
func (b *grapher) after(x graph.ValueID, p Part) graph.ValueID {
	if !b.m.AfterNorm {
		return x
	}
	return b.norm(x, p)
}

// capped limits logits; 0 does not.
func (b *grapher) capped(x graph.ValueID, most float32) graph.ValueID {
	if most == 0 {
		return x
	}
	return b.scaled(b.node("logits.tanh", "Tanh", b.scaled(x, "logits.part", 1/most)), "logits.limit", most)
}

// scaled multiplies with a factor; 0 is none.
func (b *grapher) scaled(x graph.ValueID, name string, by float32) graph.ValueID {
	if by == 0 {
		return x
	}
	return b.node(name+".scaled", "Mul", x, b.g.AddConst(name+".scale", tensor.FromF32([]float32{by})))
}

// activate is the activation of the gate.
func (b *grapher) activate(gate graph.ValueID, name func(string) string) graph.ValueID {
	if b.m.GELU {
		return b.with(graph.Str("approximate", "tanh")).node(name("gelu"), "Gelu", gate)
	}
	return b.node(name("swish"), "Mul", gate, b.node(name("sigmoid"), "Sigmoid", gate))
}

// heads normalizes every head of x, which has width elements for each token, where the model does.
func (b *grapher) heads(x graph.ValueID, p Part, width int) graph.ValueID {
	if !b.m.HeadNorm {
		return x
	}
	x = b.node(partName(p)+".heads", "Reshape", x, b.ints(partName(p)+".shape", -1, int64(b.m.HeadDim)))
	return b.node(partName(p)+".tokens", "Reshape", b.norm(x, p), b.ints(partName(p)+".back", -1, int64(width)))
}

// mask is the further input of attention in a window: which positions each sees, later ones among them.
func (b *grapher) mask(window int) []graph.ValueID {
	if window == 0 {
		return nil
	}
	if _, ok := b.masks[window]; !ok {
		name := fmt.Sprintf("window.%d", window)
		to := b.node(name+".to", "Unsqueeze", b.position, b.ints(name+".last", 1))
		from := b.node(name+".from", "Unsqueeze", b.position, b.ints(name+".first", 0))
		b.masks[window] = b.node(name, "Less", b.node(name+".back", "Sub", to, from), b.scalar(name+".size", int64(window)))
	}
	return []graph.ValueID{b.masks[window]}
}

// rotate gives queries or keys the dimensions of a batch and turns their pairs.
func (b *grapher) rotate(x graph.ValueID, p Part, heads int) graph.ValueID {
	interleaved, turns, name := int64(0), b.turns, partName(p)
	if b.m.Window(p.Layer) > 0 {
		turns = b.local
	}
	if b.m.Pairing == Interleaved {
		interleaved = 1
	}
	x = b.node(name+".batch", "Reshape", x, b.shape)
	if !b.m.Turns(p.Layer) {
		return x
	}
	attrs := []graph.Attr{graph.Int("interleaved", interleaved), graph.Int("num_heads", int64(heads))}
	if b.m.RotaryDim != 0 {
		attrs = append(attrs, graph.Int("rotary_embedding_dim", int64(b.m.RotaryDim)))
	}
	return b.with(attrs...).node(name+".rotary", "RotaryEmbedding", x, turns[0], turns[1], b.positions)
}

func (b *grapher) norm(x graph.ValueID, p Part) graph.ValueID {
	return b.with(graph.Float("epsilon", b.m.NormEps)).node(partName(p), "RMSNormalization", x, b.weight(p))
}

// product multiplies with a matrix and adds the bias of a role where the model has it.
func (b *grapher) product(x graph.ValueID, p Part, bias Role) graph.ValueID {
	inputs := []graph.ValueID{x, b.weight(p)}
	if b.m.Tensor(bias, p.Layer) != nil {
		inputs = append(inputs, b.weight(Part{Role: bias, Layer: p.Layer}))
	}
	return b.with(graph.Int("transB", 1)).node(partName(p), "Gemm", inputs...)
}

// partName is the name of a part's node: layers.3.query.
func partName(p Part) string {
	name := strings.NewReplacer(" ", "_", "-", "_").Replace(p.Role.String())
	if p.Layer < 0 {
		return name
	}
	if p.Role.OfExpert() {
		return fmt.Sprintf("layers.%d.%s.%d", p.Layer, name, p.Expert)
	}
	return fmt.Sprintf("layers.%d.%s", p.Layer, name)
}

// weight returns the constant of a part. The classifier of a tied model is the embedding.
func (b *grapher) weight(p Part) graph.ValueID {
	t := b.m.Of(p)
	if b.err != nil {
		return graph.NoValue
	}
	name := partName(t.Part) + ".weight"
	if id, ok := b.g.Lookup(name); ok {
		return id
	}
	if b.err = t.Finite(); b.err != nil {
		return graph.NoValue
	}
	shape := []int{t.Rows, t.Cols}
	if t.Role.Vector() {
		shape = shape[1:]
	}
	x := t.Float32()
	switch t.Role {
	case AttentionNorm, FeedNorm, FinalNorm, QueryNorm, KeyNorm, AfterAttention, AfterFeed:
		if b.m.UnitNorm {
			x = slices.Clone(x)
			for i := range x {
				x[i]++
			}
		}
	}
	return b.g.AddConst(name, tensor.FromF32(x, shape...))
}

func (b *grapher) ints(name string, v ...int64) graph.ValueID {
	return b.g.AddConst(name, tensor.FromI64(v, len(v)))
}

func (b *grapher) scalar(name string, v int64) graph.ValueID {
	return b.g.AddConst(name, tensor.FromI64([]int64{v}))
}

func (b *grapher) value(v graph.Value) graph.ValueID {
	if b.err != nil {
		return graph.NoValue
	}
	var id graph.ValueID
	id, b.err = b.g.AddValue(v)
	return id
}

// attributed adds a node with attributes.
type attributed struct {
	b     *grapher
	attrs []graph.Attr
}

func (b *grapher) with(attrs ...graph.Attr) attributed { return attributed{b, attrs} }

func (b *grapher) node(name, op string, inputs ...graph.ValueID) graph.ValueID {
	return b.with().node(name, op, inputs...)
}

func (b *grapher) named(output, name, op string, inputs ...graph.ValueID) graph.ValueID {
	return b.with().add(output, name, op, inputs)
}

func (a attributed) node(name, op string, inputs ...graph.ValueID) graph.ValueID {
	return a.add(name+".out", name, op, inputs)
}

func (a attributed) add(output, name, op string, inputs []graph.ValueID) graph.ValueID {
	out := a.b.value(graph.Value{Name: output, DType: tensor.Undefined})
	if a.b.err == nil {
		_, a.b.err = a.b.g.AddNode(graph.Node{Name: name, Op: op, Attrs: a.attrs, Inputs: inputs, Outputs: []graph.ValueID{out}})
	}
	return out
}
