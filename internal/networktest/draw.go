package networktest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
)

// sizes are dimensions that kernels treat apart.
var sizes = []int{1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33}

// Random returns the network of a seed, of one to nine rows.
func Random(seed uint64) *graph.Graph {
	b := start(rand.New(rand.NewPCG(seed, 90)))
	shape := b.imageOrMatrix()
	b.input(shape)
	if b.chance(4) {
		if other := b.imageOrMatrix(); len(shape) > 1 && len(other) > 1 {
			other[0] = shape[0]
			b.input(other)
		}
	}
	for range 8 { // mostly something to quantize
		if b.try(&sums[b.IntN(len(sums))], b.live[b.IntN(len(b.live))]) {
			break
		}
	}
	kinds := [][]row{sums, sums, moves, moves, pools, structures, rows, rows}
	for made, n := len(b.g.Nodes()), b.IntN(9); made < max(n, 1); {
		x := b.live[max(b.IntN(len(b.live)), b.IntN(len(b.live)))]
		kind := one(b, kinds...)
		row := &kind[b.IntN(len(kind))]
		for range 4 {
			if b.try(row, x) {
				made++
				break
			}
		}
	}
	return b.finish(b.chance(3), b.chance(3))
}

// Listed returns network i of the list of operators alone (first those), two in a row, and one in front of, behind and between operators
// that move elements, all behind a product; each with all of the shapes, with fixed and open batch, with and without its inner tensors as
// outputs. false: the operators do not fit each other in this shape.
func Listed(i int) (*graph.Graph, bool) {
	b := start(rand.New(rand.NewPCG(uint64(i), 91)))
	chains := listed(i)
	b.input(b.listedShape(i))
	first := &sums[0] // numbers become integers where products are summed
	if b.rank(b.live[0]) < 3 {
		first = product
	}
	for _, row := range append([]*row{first}, chains...) {
		done := false
		for range 8 {
			if done = b.try(row, b.live[len(b.live)-1]); done {
				break
			}
		}
		if !done {
			return nil, false
		}
	}
	return b.finish(i/2%2 == 1, i%2 == 1), true
}

// product is the row of MatMul.
var product = &sums[slices.IndexFunc(sums, func(r row) bool { return r.name == "MatMul" })]

// listed are the operators of network i.
func listed(i int) []*row {
	i /= 4 * numListedShapes
	n, m := len(rows), len(movers)
	switch {
	case i < n:
		return []*row{&rows[i]}
	case i < n+n*m*2: // a mover in front or behind
		i -= n
		list := []*row{&rows[i/2%n], movers[i/2/n]}
		if i%2 == 1 {
			slices.Reverse(list)
		}
		return list
	case i < n+n*m*3: // a mover around
		i -= n + n*m*2
		return []*row{movers[i/n], &rows[i%n], movers[(i/n+i%n)%m]}
	}
	i = (i - n - n*m*3) % (n * n)
	return []*row{&rows[i/n], &rows[i%n]}
}

// NumListed is how many networks Listed knows.
func NumListed() int {
	n, m := len(rows), len(movers)
	return 4 * numListedShapes * (n + n*m*3 + n*n)
}

const numListedShapes = 5

func (b *builder) listedShape(i int) []int {
	batch := 1 + b.IntN(2)
	switch i / 4 % numListedShapes {
	case 0:
		return []int{batch, one(b, 3, 4, 8, 16, 17, 32), 1 + b.IntN(9), 1 + b.IntN(9)}
	case 1:
		return []int{batch, one(b, 7, 8, 9, 15, 16, 31, 32, 33)}
	case 2:
		return []int{batch, one(b, 1, 2, 5, 8), one(b, 4, 8, 16, 31)}
	case 3:
		return []int{batch, one(b, 1, 1, 2, 32, 33), 1, one(b, 1, 7, 8)}
	}
	return b.imageOrMatrix()
}

func start(r *rand.Rand) *builder {
	return &builder{Rand: r, g: graph.New("network", one(&builder{Rand: r}, int64(13), 17, 17, 20))}
}

func (b *builder) imageOrMatrix() []int {
	shape := []int{1 + b.IntN(2)}
	size := func() int { return sizes[b.IntN(len(sizes))] }
	switch b.IntN(8) {
	case 0:
		shape = append(shape, size())
	case 1:
		shape = append(shape, size(), size())
	case 2:
		shape = append(shape, 1+b.IntN(4), 1+b.IntN(4), 1+b.IntN(5), 1+b.IntN(5))
	case 3:
		shape = []int{size()}
	default:
		shape = append(shape, min(size(), size()), 1+b.IntN(9), 1+b.IntN(9))
	}
	if b.chance(40) {
		shape[b.IntN(len(shape))] = 0
	}
	return shape
}

// input adds an input; one of another type than float32 is brought there by a Cast, or chooses rows or elements.
func (b *builder) input(shape []int) {
	types := []tensor.DType{tensor.Float32}
	if b.chance(8) {
		types = []tensor.DType{tensor.Float16, tensor.Float64, tensor.Uint8, tensor.Int64, tensor.Int32, tensor.Bool}
	}
	dtype := one(b, types...)
	v, err := b.g.AddValue(graph.Value{Name: b.g.FreshName("x"), DType: dtype, Shape: graph.Static(shape...)})
	b.must(err)
	b.g.Inputs = append(b.g.Inputs, v)
	switch {
	case dtype == tensor.Float32:
	case dtype == tensor.Bool:
		v = b.node("Where", nil, v, b.scalar(1), b.scalar(-2))
	case dtype == tensor.Int64 && len(shape) < 4:
		v = b.node("Gather", nil, b.constant(1, 0, one(b, 4, 5, 16), one(b, 1, 3, 8)), v)
	default:
		v = b.node("Cast", []graph.Attr{graph.Int("to", 1)}, v)
	}
	b.live = append(b.live, v)
}

// finish names the outputs: what nobody reads, and sometimes others; it may open the batch.
func (b *builder) finish(open, inner bool) *graph.Graph {
	for _, v := range b.g.Values() {
		if b.g.Const(v) != nil {
			if len(b.g.Uses(v)) == 0 {
				b.g.RemoveValue(v)
			}
			continue
		}
		if b.g.Producer(v) == graph.NoNode {
			continue
		}
		if len(b.g.Uses(v)) == 0 || inner && b.chance(2) {
			b.g.Outputs = append(b.g.Outputs, v)
		}
	}
	for i, v := range b.g.Outputs {
		if b.chance(30) && b.g.Value(v).DType == tensor.Float32 {
			cast, err := b.g.AddValue(graph.Value{Name: b.g.FreshName("y")})
			b.must(err)
			_, err = b.g.AddNode(graph.Node{Name: b.g.FreshName("n"), Op: "Cast", Inputs: []graph.ValueID{v}, Outputs: []graph.ValueID{cast},
				Attrs: []graph.Attr{graph.Int("to", one(b, int64(10), 11, 6))}})
			b.must(err)
			b.g.Outputs[i] = cast
		}
	}
	graph.InferShapes(b.g)
	if open {
		b.open()
	}
	if b.chance(3) {
		b.rename()
	}
	return b.g
}

// open makes the first axis of all inputs of one batch symbolic, where nothing speaks against it.
func (b *builder) open() {
	g := b.g.Clone()
	for _, v := range g.Inputs {
		if s := g.Value(v).Shape; len(s) > 1 && s[0].N > 0 {
			g.Value(v).Shape = append(graph.Shape{{N: -1, Symbol: fmt.Sprint("N", s[0].N)}}, s[1:]...)
		}
	}
	for _, v := range g.Values() {
		if g.Producer(v) != graph.NoNode {
			g.Value(v).Shape = nil
		}
	}
	if len(graph.InferShapes(g)) > 0 {
		return
	}
	other := g.Clone() // with a batch of another size
	for _, v := range other.Inputs {
		if s := slices.Clone(other.Value(v).Shape); !s[0].Known() {
			s[0] = graph.Dim{N: 5}
			other.Value(v).Shape = s
		}
	}
	if len(graph.InferShapes(other)) == 0 {
		b.g = g
	}
}

// rename gives nodes and values names that somebody's exporter writes.
func (b *builder) rename() {
	styles := []func(i int) string{
		func(i int) string { return fmt.Sprintf("/model/block.%d/act/Op_output_0", i) },
		func(i int) string { return fmt.Sprint(i) },
		func(i int) string { return fmt.Sprintf("StatefulPartitionedCall/dense_%d/BiasAdd:0", i) },
		func(i int) string { return fmt.Sprintf("größe %d \"x\"", i) },
		func(i int) string { return fmt.Sprintf("t%d_QuantizeLinear", i) },
		func(i int) string { return fmt.Sprintf("t%d_scale", i) },
		func(i int) string { return fmt.Sprintf("x=%d,y;[%d]\\", i, i) },
		func(i int) string { return strings.Repeat("long", 40) + fmt.Sprint(i) },
	}
	style := styles[b.IntN(len(styles))]
	for i, v := range b.g.Values() {
		if !b.chance(4) {
			b.must(b.g.Rename(v, style(i)))
		}
	}
	for i, id := range b.g.Nodes() {
		if !b.chance(4) {
			b.must(b.g.RenameNode(id, style(i)))
		}
	}
}

// Feeds returns inputs for a network: numbers of some size around 0 or not, those of later samples the same in kind. Dimensions that are
// open have the size that their name ends in.
func Feeds(g *graph.Graph, seed uint64, samples int) []map[string]*tensor.Tensor {
	r := &builder{Rand: rand.New(rand.NewPCG(seed, 92))}
	list := make([]map[string]*tensor.Tensor, samples)
	for i := range list {
		list[i] = map[string]*tensor.Tensor{}
	}
	for _, v := range g.Inputs {
		val := g.Value(v)
		std, mean := one(r, 1, 1, 1, 0.05, 12), float64(one(r, 0, 0, 0, 2, -2))
		shape := make([]int, len(val.Shape))
		for i, d := range val.Shape {
			if shape[i] = int(d.N); !d.Known() {
				_, _ = fmt.Sscanf(d.Symbol, "N%d", &shape[i])
			}
		}
		for i := range list {
			x := tensor.New(val.DType, shape...)
			fill(r, x, std, mean*std)
			list[i][val.Name] = x
		}
	}
	return list
}

func fill(r *builder, x *tensor.Tensor, std, mean float64) {
	number := func() float64 { return mean + std*r.NormFloat64() }
	switch d := x.Data.(type) {
	case []float32:
		for i := range d {
			d[i] = float32(number())
		}
	case []float64:
		for i := range d {
			d[i] = number()
		}
	case []int64:
		for i := range d {
			d[i] = int64(r.IntN(4))
		}
	case []int32:
		for i := range d {
			d[i] = int32(r.IntN(9) - 4)
		}
	case []uint8:
		for i := range d {
			d[i] = uint8(r.IntN(256))
		}
	case []bool:
		for i := range d {
			d[i] = r.IntN(2) == 0
		}
	case []uint16: // float16 between 1/16 and 4
		for i := range d {
			d[i] = uint16(r.IntN(2)<<15 | (11+r.IntN(6))<<10 | r.IntN(1<<10))
		}
	}
}
