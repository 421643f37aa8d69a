package data

import (
	"fmt"
	"path"

	"qwb/calib/data/imaging"
	"qwb/graph/tensor"
)

const (
	cifarSide   = 32
	cifarRecord = 1 + 3*cifarSide*cifarSide
)

// cifarSource is a file in CIFAR-10's binary format: records of a label byte (0..9) and 32x32 pixels, red, green and blue
// one plane after the other.
type cifarSource struct {
	fs         files
	path, base string
	labels     []uint8
	into       *picture
}

// openCIFAR returns nil without error if the file is none.
func (o *opener) openCIFAR(dir, name string) (source, error) {
	r, size, err := o.fs.open(path.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size == 0 || size%cifarRecord != 0 {
		return nil, nil
	}
	s := &cifarSource{fs: o.fs, path: path.Join(dir, name), base: name, labels: make([]uint8, size/cifarRecord)}
	for i := range s.labels {
		if n, err := r.ReadAt(s.labels[i:i+1], int64(i)*cifarRecord); n < 1 {
			return nil, cause(err)
		}
		if s.labels[i] > 9 {
			return nil, nil
		}
	}
	in, err := o.spec.only("CIFAR-10 files")
	if err != nil {
		return nil, err
	}
	if s.into, err = newPicture(in, o.pre); err != nil {
		return nil, fmt.Errorf("the file is CIFAR-10: %w", err)
	}
	return s, nil
}

func (s *cifarSource) len() int          { return len(s.labels) }
func (s *cifarSource) name(i int) string { return indexedName(s.base, i, len(s.labels)) }
func (s *cifarSource) label(i int) int   { return int(s.labels[i]) }

func (s *cifarSource) load(i int) (map[string]*tensor.Tensor, error) {
	var record [cifarRecord]byte
	if err := s.fs.readRecord(s.path, record[:], i); err != nil {
		return nil, err
	}
	m := imaging.New(cifarSide, cifarSide, 3)
	const plane = cifarSide * cifarSide
	for p := range plane {
		for c := range 3 {
			m.Pix[3*p+c] = record[1+c*plane+p]
		}
	}
	return s.into.feed(m)
}
