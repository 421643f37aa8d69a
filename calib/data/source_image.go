package data

import (
	"path"

	"qwb/calib/data/imaging"
	"qwb/graph/tensor"
)

// maxImageFile bounds the size of one encoded picture.
const maxImageFile = 1 << 29

// decodedBytes of each pixel are held while a picture is read: planes or coefficients, RGB, and what is resized.
const decodedBytes = 12

// imageSource is a list of picture files.
type imageSource struct {
	fs    files
	dir   string
	names []string // relative to dir
	into  *picture
}

func (o *opener) openImages(dir string, names []string) (source, error) {
	in, err := o.spec.only("images")
	if err != nil {
		return nil, err
	}
	into, err := newPicture(in, o.pre)
	if err != nil {
		return nil, err
	}
	return &imageSource{o.fs, dir, names, into}, nil
}

func (s *imageSource) len() int          { return len(s.names) }
func (s *imageSource) name(i int) string { return s.names[i] }
func (s *imageSource) label(int) int     { return -1 }

func (s *imageSource) load(i int) (map[string]*tensor.Tensor, error) {
	src, err := s.fs.readAll(path.Join(s.dir, s.names[i]), maxImageFile)
	if err != nil {
		return nil, err
	}
	if err := s.fs.room(int64(len(src)) + decodedBytes*imaging.Pixels(src)); err != nil {
		return nil, err
	}
	m, err := imaging.Decode(src)
	if err != nil {
		return nil, err
	}
	return s.into.feed(m)
}
