package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"qwb/calib/data/imaging"
	"qwb/graph/tensor"
)

// maxIdx bounds an unpacked idx file.
const maxIdx = 1 << 30

// mnistSource is an idx file of grey pictures, as MNIST comes. A compressed one is unpacked into memory.
type mnistSource struct {
	base    string
	n, w, h int
	pixels  func(i int, dst []uint8) error
	into    *picture
}

// idxKind tells idx files of unsigned bytes by their magic: rank 3 are pictures, rank 1 labels.
func idxKind(head []byte) kind {
	switch {
	case bytes.HasPrefix(head, []byte{0, 0, 8, 3}):
		return kindIdxImages
	case bytes.HasPrefix(head, []byte{0, 0, 8, 1}):
		return kindIdxLabels
	}
	return kindOther
}

// idxHeader reads magic and dimensions and checks them against the size of the file (-1: unknown).
func idxHeader(head []byte, rank int) ([]int, error) {
	if len(head) < 4+4*rank {
		return nil, errors.New("idx: the header is cut off")
	}
	dims := make([]int64, rank)
	for i := range dims {
		dims[i] = int64(binary.BigEndian.Uint32(head[4+4*i:]))
	}
	if _, err := tensor.CheckedCount(dims, maxIdx); err != nil {
		return nil, fmt.Errorf("idx: %w", err)
	}
	out := make([]int, rank)
	for i, d := range dims {
		out[i] = int(d)
	}
	return out, nil
}

func (o *opener) openMNIST(dir, name string) (source, error) {
	in, err := o.spec.only("MNIST files")
	if err != nil {
		return nil, err
	}
	file := path.Join(dir, name)
	head, err := o.fs.readHead(file, 16)
	if err != nil {
		return nil, err
	}
	s := &mnistSource{base: name}
	const header = 16
	if idxKind(head) == kindOther { // compressed
		all, err := o.fs.readUnpacked(file)
		if err != nil {
			return nil, err
		}
		dims, err := idxHeader(all, 3)
		if err != nil {
			return nil, err
		}
		s.n, s.h, s.w = dims[0], dims[1], dims[2]
		if len(all) < header+s.n*s.h*s.w {
			return nil, fmt.Errorf("idx: %d bytes are too few for %d pictures of %dx%d", len(all), s.n, s.h, s.w)
		}
		s.pixels = func(i int, dst []uint8) error {
			copy(dst, all[header+i*len(dst):])
			return nil
		}
	} else {
		dims, err := idxHeader(head, 3)
		if err != nil {
			return nil, err
		}
		s.n, s.h, s.w = dims[0], dims[1], dims[2]
		info, err := o.fs.stat(file)
		if err != nil {
			return nil, err
		}
		if info.Size() < int64(header+s.n*s.h*s.w) {
			return nil, fmt.Errorf("idx: %d bytes are too few for %d pictures of %dx%d", info.Size(), s.n, s.h, s.w)
		}
		s.pixels = func(i int, dst []uint8) error { return o.fs.readAt(file, dst, int64(header+i*len(dst))) }
	}
	if s.n*s.h*s.w == 0 {
		return nil, errors.New("idx: no pictures")
	}
	s.into, err = newPicture(in, o.pre)
	return s, err
}

func (s *mnistSource) len() int          { return s.n }
func (s *mnistSource) name(i int) string { return indexedName(s.base, i, s.n) }
func (s *mnistSource) label(int) int     { return -1 }

func (s *mnistSource) load(i int) (map[string]*tensor.Tensor, error) {
	m := imaging.New(s.w, s.h, 1)
	if err := s.pixels(i, m.Pix); err != nil {
		return nil, err
	}
	return s.into.feed(m)
}

// readUnpacked reads a file, unpacking it if it is compressed with gzip.
func (f files) readUnpacked(file string) ([]byte, error) {
	src, err := f.readAll(file, maxIdx)
	if err != nil || !bytes.HasPrefix(src, []byte("\x1f\x8b")) {
		return src, err
	}
	z, err := gzip.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(io.LimitReader(z, maxIdx+1))
	if err == nil && len(all) > maxIdx {
		err = fmt.Errorf("more than %d bytes after unpacking", maxIdx)
	}
	return all, err
}
