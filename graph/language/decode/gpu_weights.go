package decode

import (
	"qwb/graph/language/checkpoint"
	"qwb/kernels/cuda"
)

// gpuMatrix is a matrix on a device: codes in groups, or floats, column by column.
type gpuMatrix struct {
	groups *cuda.GroupMatrix
	float  bool // groups are multiplied with floats
	floats cuda.Buffer
}

// bytes is how much memory the matrix takes.
func (m *gpuMatrix) bytes() int {
	if m.groups == nil {
		return m.floats.Bytes
	}
	return m.groups.Codes.Bytes + m.groups.Scales.Bytes
}

// gpuEmbedding is the embedding on a device, in one of two forms.
type gpuEmbedding struct {
	groups *cuda.GroupMatrix
	floats cuda.Buffer // row by row
}

// uploadPiece is how many elements of a matrix are read at once on their way to a device, at least.
const uploadPiece = 4 << 20

// uploadMatrix brings a matrix to the device as it is multiplied: c is its codes, nil for floats.
func (p *packer) uploadMatrix(t *checkpoint.Tensor, c *codes) *gpuMatrix {
	g := p.engine.gpu
	if c != nil {
		return &gpuMatrix{groups: p.uploadGroups(c), float: p.options.Weights.Float}
	}
	x := p.floats(t)
	if x == nil {
		return nil
	}
	columns := make([]float32, len(x)) // neighbouring threads multiply neighbouring columns of the transpose
	for r := range t.Rows {
		for k, v := range x[r*t.Cols:][:t.Cols] {
			columns[k*t.Rows+r] = v
		}
	}
	m := &gpuMatrix{}
	m.floats, p.err = upload(g, columns)
	return m
}

// uploadGroups brings codes and scales to the device, piece by piece.
func (p *packer) uploadGroups(c *codes) *cuda.GroupMatrix {
	g, t := p.engine.gpu, c.tensor
	m := &cuda.GroupMatrix{Rows: t.Rows, Cols: t.Cols, Size: c.size, Bits: c.bits}
	unit := c.size
	if unit%8 != 0 {
		unit *= 8 // whole words of codes of 4 bits
	}
	if t.Len()%8 != 0 {
		m.Bits = 8
	}
	if m.Codes, p.err = g.alloc(t.Len() * m.Bits / 8); p.err != nil {
		return nil
	}
	if m.Scales, p.err = g.alloc(t.Len() / c.size * 4); p.err != nil {
		g.free(m.Codes)
		return nil
	}
	piece := max(uploadPiece/unit, 1) * unit
	q, scales := make([]int8, min(piece, t.Len())), make([]float32, min(piece, t.Len())/c.size)
	for from := 0; from < t.Len() && p.err == nil; from += piece {
		n := min(piece, t.Len()-from)
		q, scales := q[:n], scales[:n/c.size]
		c.read(q, scales, from)
		if m.Bits == 4 {
			q = cuda.PackGroups4(q)
		}
		p.send(m.Codes.Slice(from*m.Bits/8, len(q)), asBytes(q))
		p.send(m.Scales.Slice(4*(from/c.size), 4*len(scales)), asBytes(scales))
		if p.err == nil {
			p.err = g.stream.Synchronize() // the memory is read anew
		}
	}
	p.broken(c)
	return m
}

func (p *packer) send(to cuda.Buffer, from []byte) {
	if p.err == nil {
		p.err = p.engine.gpu.stream.Upload(to, from)
	}
}

// uploadVectors brings the vectors of the model to the device.
func (p *packer) uploadVectors() {
	e, g := p.engine, p.engine.gpu
	vector := func(x []float32) cuda.Buffer {
		if p.err != nil {
			return cuda.Buffer{}
		}
		var b cuda.Buffer
		b, p.err = upload(g, x)
		return b
	}
	for i := range e.layers {
		l := &e.layers[i]
		g.layers = append(g.layers, gpuLayer{vector(l.attentionNorm), vector(l.feedNorm), vector(l.queryBias), vector(l.keyBias), vector(l.valueBias)})
	}
	g.finalNorm = vector(e.finalNorm)
}

// uploadEmbedding brings the embedding to the device in the form that ends gives the host: codes where it is quantized, else floats.
func (p *packer) uploadEmbedding(classifier *linear) gpuEmbedding {
	t := p.part(checkpoint.Embedding, -1)
	if t == nil || classifier == nil || p.err != nil {
		return gpuEmbedding{}
	}
	if p.model.Tied && classifier.gpu.groups != nil {
		return gpuEmbedding{groups: classifier.gpu.groups}
	}
	if c := p.codes(t); c != nil {
		return gpuEmbedding{groups: p.uploadGroups(c)}
	}
	x := p.floats(t)
	if x == nil {
		return gpuEmbedding{}
	}
	var b cuda.Buffer
	b, p.err = upload(p.engine.gpu, x)
	return gpuEmbedding{floats: b}
}
