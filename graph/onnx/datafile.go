package onnx

import (
	"io"

	"qwb/graph"
	"qwb/graph/tensor"
)

const (
	// dataAlign is the alignment of tensors in an external data file: pages, so that each can be mapped on its own.
	dataAlign = 4096
	// dataMin is the size from which a tensor is worth being outside of the model.
	dataMin = 1024
)

// dataFile collects the elements of large initializers that go to a file beside the model. A nil dataFile takes none.
type dataFile struct {
	location string
	graph    *graph.Graph
	parts    []dataPart
	size     int64
}

type dataPart struct {
	offset int64
	t      *tensor.Tensor
	body   []byte
}

// takes reports whether t goes to the data file.
func (d *dataFile) takes(t *tensor.Tensor) bool {
	return d != nil && t.DType != tensor.String && t.DType.Bytes(t.Len()) >= dataMin
}

// tensor encodes an initializer, and keeps its elements for the data file if they go there.
func (d *dataFile) tensor(name string, t *tensor.Tensor) (*rope, error) {
	if !d.takes(t) {
		return encodeTensor(name, t)
	}
	body, err := tensorBody(t)
	if err != nil {
		return nil, err
	}
	offset := (d.size + dataAlign - 1) / dataAlign * dataAlign
	d.parts = append(d.parts, dataPart{offset, t, body})
	d.size = offset + int64(len(body))
	return encodeExternal(name, t, d.location, offset, int64(len(body))), nil
}

// WriteTo writes the file, the gaps filled with zeros.
func (d *dataFile) WriteTo(w io.Writer) (int64, error) {
	var n int64
	var gap [dataAlign]byte
	for _, p := range d.parts {
		for _, b := range [][]byte{gap[:p.offset-n], p.body} {
			k, err := w.Write(b)
			n += int64(k)
			if err != nil {
				return n, err
			}
		}
		d.graph.Forget(p.t)
	}
	return n, nil
}
