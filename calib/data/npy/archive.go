package npy

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"qwb/graph/tensor"
)

// Archive is an opened .npz file.
type Archive struct {
	names []string
	files map[string]*zip.File
}

// maxArrays bounds how many arrays an archive may hold.
const maxArrays = 1 << 16

// OpenArchive reads the directory of an .npz file of the given size. Entries that are no .npy files are ignored.
func OpenArchive(r io.ReaderAt, size int64) (*Archive, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("npz: %w", err)
	}
	if len(z.File) > maxArrays {
		return nil, fmt.Errorf("npz: %d entries are too many", len(z.File))
	}
	a := &Archive{files: map[string]*zip.File{}}
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			continue
		}
		if a.files[name] != nil {
			return nil, fmt.Errorf("npz: two arrays named %q", name)
		}
		a.names, a.files[name] = append(a.names, name), f
	}
	sort.Strings(a.names)
	return a, nil
}

// Names returns the names of the arrays, sorted.
func (a *Archive) Names() []string { return a.names }

// Header reads the header of one array.
func (a *Archive) Header(name string) (Header, error) {
	r, err := a.open(name)
	if err != nil {
		return Header{}, err
	}
	defer r.Close()
	h, err := ReadHeader(r)
	if err != nil {
		return Header{}, fmt.Errorf("npz: array %q: %w", name, err)
	}
	return h, nil
}

// Zeros deflate to a thousandth. An array of more than largeArray bytes is refused where the archive has less than one byte for
// maxRatio of them.
const (
	largeArray = 1 << 30
	maxRatio   = 256
)

// checkRatio refuses an array that is far larger than what the archive holds of it.
func checkRatio(h Header, compressed uint64) error {
	bytes := uint64(tensor.Count(h.Shape)) * uint64(h.DType.Bits()/8)
	if bytes > largeArray && bytes/maxRatio > compressed {
		return fmt.Errorf("%d bytes of %s out of %d in the archive are too many", bytes, tensor.TypeString(h.DType, h.Shape), compressed)
	}
	return nil
}

// Read reads one array as Read does.
func (a *Archive) Read(name string) (*tensor.Tensor, error) {
	r, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	h, err := ReadHeader(r)
	if err == nil {
		err = checkRatio(h, a.files[name].CompressedSize64)
	}
	var t *tensor.Tensor
	if err == nil {
		t, err = h.read(r, h.Shape)
	}
	if err != nil {
		return nil, fmt.Errorf("npz: array %q: %w", name, err)
	}
	// Reading on to the end makes the zip reader compare the checksum.
	if _, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20)); err != nil {
		return nil, fmt.Errorf("npz: array %q: %w", name, err)
	}
	return t, nil
}

// Stream returns the header of an array and what its elements can be read from, as Header.Read does: the whole array, or parts of it one
// after the other by headers of their shapes. An array in Fortran order is an error.
func (a *Archive) Stream(name string) (Header, io.ReadCloser, error) {
	r, err := a.open(name)
	if err != nil {
		return Header{}, nil, err
	}
	h, err := ReadHeader(r)
	if err == nil && h.Fortran {
		err = errors.New("it is in Fortran order")
	}
	if err != nil {
		_ = r.Close()
		return h, nil, fmt.Errorf("npz: array %q: %w", name, err)
	}
	return h, r, nil
}

func (a *Archive) open(name string) (io.ReadCloser, error) {
	f := a.files[name]
	if f == nil {
		return nil, fmt.Errorf("npz: no array %q", name)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("npz: array %q: %w", name, err)
	}
	return r, nil
}

// WriteArchive writes named arrays as an uncompressed .npz, sorted by name, without timestamps: equal arrays give equal bytes.
func WriteArchive(w io.Writer, arrays map[string]*tensor.Tensor) error {
	names := make([]string, 0, len(arrays))
	for n := range arrays {
		names = append(names, n)
	}
	sort.Strings(names)
	z := zip.NewWriter(w)
	for _, n := range names {
		f, err := z.CreateHeader(&zip.FileHeader{Name: n + ".npy", Method: zip.Store})
		if err == nil {
			err = Write(f, arrays[n])
		}
		if err != nil {
			return fmt.Errorf("npz: array %q: %w", n, err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("npz: %w", err)
	}
	return nil
}
