package rewrite

import "qwb/graph"

// Reader is a node with constant weights that reads channels: Conv, ConvTranspose, Gemm, MatMul.
type Reader struct {
	Node     graph.NodeID
	Data, At int           // inputs that the channels and the weight come in at
	Value    graph.ValueID // that it reads
	Axis     int           // of the channels in it
	In, Out  int           // channels that it reads and has

	matrix *matrix
}

// ReaderOf reads a node; nil where it has no constant weights.
func ReaderOf(g *graph.Graph, id graph.NodeID) *Reader {
	m, err := matrixOf(g, id)
	if err != nil {
		return nil
	}
	return &Reader{Node: id, Data: m.data, At: m.at, Value: m.n.Input(m.data), Axis: m.inAxis, In: m.In, Out: m.Out, matrix: m}
}

// Each calls f for every pair of an output channel o and an input channel i that meet, with the weights between them, in the order in which
// they lie in memory.
func (r *Reader) Each(f func(o, i int, weights []float32)) {
	data := r.matrix.weight.F32()
	r.matrix.Each(func(lo, hi, o, i int) { f(o, i, data[lo:hi]) })
}
