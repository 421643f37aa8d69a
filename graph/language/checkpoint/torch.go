package checkpoint

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ParseTorch reads the weights in a file of torch.save, whose bytes are b: an archive of a pickle and of the arrays that it names, none of
// them compressed. Arrays are parts of b; those whose elements do not lie row by row are copied. Nothing in the file is run, see unpickler:
// what is not weights is an error.
func ParseTorch(b []byte) ([]SafeArray, error) {
	a, err := newTorchArchive(b)
	if err != nil {
		return nil, fmt.Errorf("torch: %w", err)
	}
	if order, ok := a.entries["byteorder"]; ok && string(bytes.TrimSpace(order)) != "little" {
		return nil, fmt.Errorf("torch: the byte order is %.20q; little is read", order)
	}
	value, err := unpickle(a.entries["data.pkl"])
	if err != nil {
		return nil, fmt.Errorf("torch: %w", err)
	}
	d, ok := value.(*pickleDict)
	if !ok {
		return nil, errors.New("torch: the file holds something else than tensors by their names")
	}
	var out []SafeArray
	seen := map[string]bool{}
	for i, key := range d.keys {
		name, ok := key.(string)
		t, tensor := d.values[i].(*torchTensor)
		if !ok || !tensor || seen[name] {
			return nil, fmt.Errorf("torch: entry %d, %.80q, is no tensor, or not the only one of its name", i, name)
		}
		seen[name] = true
		data, err := a.elements(t)
		if err != nil {
			return nil, fmt.Errorf("torch: tensor %q: %w", name, err)
		}
		out = append(out, SafeArray{Name: name, DType: t.storage.dtype, Shape: t.shape, Data: data})
	}
	return out, nil
}

// torchArchive is the entries of an archive without the folder that all of them stand in.
type torchArchive struct {
	entries map[string][]byte
	room    int // bytes that may still be copied
}

func newTorchArchive(b []byte) (*torchArchive, error) {
	if bytes.HasPrefix(b, []byte{0x80}) {
		return nil, errors.New("a pickle without archive, as PyTorch wrote before 1.6, is not read; save the model again")
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	a := &torchArchive{map[string][]byte{}, len(b)}
	for _, f := range z.File {
		_, name, _ := strings.Cut(f.Name, "/")
		from, err := f.DataOffset()
		size := f.UncompressedSize64
		switch {
		case err != nil:
			return nil, fmt.Errorf("%.80q: %w", f.Name, err)
		case f.Method != zip.Store || f.Flags&1 != 0 || size != f.CompressedSize64:
			return nil, fmt.Errorf("%.80q is compressed or encrypted; torch.save does neither", f.Name)
		case from < 0 || from > int64(len(b)) || size > uint64(int64(len(b))-from):
			return nil, fmt.Errorf("%.80q: %w", f.Name, io.ErrUnexpectedEOF)
		case a.entries[name] != nil:
			return nil, fmt.Errorf("there are two entries %.80q", name)
		}
		a.entries[name] = b[from : from+int64(size) : from+int64(size)]
	}
	if a.entries["data.pkl"] == nil {
		return nil, errors.New("the archive has no data.pkl")
	}
	return a, nil
}

// elements are the bytes of a tensor, row by row.
func (a *torchArchive) elements(t *torchTensor) ([]byte, error) {
	size := safeBits[t.storage.dtype] / 8
	all, ok := a.entries["data/"+t.storage.key]
	if !ok || len(all)/size < t.storage.count {
		return nil, fmt.Errorf("its storage %.20q has %d bytes, %d elements of %s take more", t.storage.key, len(all), t.storage.count,
			t.storage.dtype)
	}
	n := 1
	for _, d := range t.shape {
		n *= d
	}
	if n == 0 {
		return nil, nil
	}
	if !t.strided {
		return all[t.offset*size:][: n*size : n*size], nil
	}
	if a.room -= n * size; a.room < 0 {
		return nil, errors.New("tensors that do not lie row by row take more than the file together")
	}
	out := make([]byte, 0, n*size)
	index := make([]int, len(t.shape))
	for at := t.offset; len(out) < n*size; {
		out = append(out, all[at*size:][:size]...)
		for i := len(index) - 1; i >= 0; i-- {
			index[i]++
			if at += t.stride[i]; index[i] < t.shape[i] {
				break
			}
			at -= index[i] * t.stride[i]
			index[i] = 0
		}
	}
	return out, nil
}
