package onnx

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"qwb/graph/tensor"
)

// ExternalResolver gives access to the files beside a model that hold tensor data. It is asked for each file at least
// once and must return the same bytes every time; they must stay valid until the model is closed.
type ExternalResolver interface {
	// External returns the content of the file at location: a relative path with slashes and without "..", as it stands
	// in the model.
	External(location string) ([]byte, error)
}

// FSResolver finds external data in a file system. Files are read into memory.
func FSResolver(fsys fs.FS) ExternalResolver { return fsResolver{fsys, map[string][]byte{}} }

type fsResolver struct {
	fsys  fs.FS
	files map[string][]byte
}

func (r fsResolver) External(location string) ([]byte, error) {
	if b, ok := r.files[location]; ok {
		return b, nil
	}
	b, err := fs.ReadFile(r.fsys, location)
	if err == nil {
		r.files[location] = b
	}
	return b, err
}

// checkLocation refuses locations that lead, or could on some system lead, out of the model's folder.
func checkLocation(loc string) error {
	parts := strings.Split(loc, "/")
	if loc == "" || strings.ContainsAny(loc, "\\\x00") || slices.Contains(parts, "..") || parts[0] == "" ||
		strings.Contains(parts[0], ":") || !filepath.IsLocal(filepath.FromSlash(loc)) {
		return fmt.Errorf("external data at %q: the location must be a relative path inside the model's folder", loc)
	}
	return nil
}

// externalRange is where in which file a tensor lies. length is -1 where the file does not say.
type externalRange struct {
	location       string
	offset, length int64
}

func parseExternal(list []KeyValue) (externalRange, error) {
	r := externalRange{length: -1}
	for _, kv := range list {
		var err error
		switch kv.Key {
		case "location":
			r.location = kv.Value
		case "offset":
			r.offset, err = strconv.ParseInt(kv.Value, 10, 64)
		case "length":
			r.length, err = strconv.ParseInt(kv.Value, 10, 64)
			if err == nil && r.length < 0 {
				err = fmt.Errorf("negative")
			}
		}
		if err != nil || r.offset < 0 {
			return r, fmt.Errorf("external data: %s %q is not a size", kv.Key, kv.Value)
		}
	}
	return r, checkLocation(r.location)
}

// externalData finds the elements of a tensor in the file that it refers to.
func (d *decoder) externalData(p *tensorScan) (any, error) {
	r, err := parseExternal(p.external)
	if err != nil {
		return nil, err
	}
	if bits := p.dtype.Bits(); bits == 0 {
		return nil, fmt.Errorf("external data at %q: %s elements cannot be external", r.location, p.dtype)
	}
	if d.external == nil {
		return nil, fmt.Errorf("its data is in the file %q, which is not at hand", r.location)
	}
	d.locations[r.location] = true
	b, err := d.external(r.location)
	if err != nil {
		return nil, fmt.Errorf("external data at %q: %w", r.location, err)
	}
	size := int64(len(b))
	if r.offset > size || r.length > size-r.offset {
		return nil, fmt.Errorf("external data at %q: offset %d and length %d lie beyond the %d bytes of the file",
			r.location, r.offset, max(r.length, 0), size)
	}
	if r.length < 0 { // the shape decides; the file may go on with other tensors
		n, err := tensorBytes(p, size-r.offset)
		if err != nil {
			return nil, err
		}
		r.length = n
	}
	return rawData(p, b[r.offset:r.offset+r.length:r.offset+r.length])
}

// tensorBytes is the size of p's elements in bytes, which must not exceed limit.
func tensorBytes(p *tensorScan, limit int64) (int64, error) {
	n, err := tensor.CheckedCount(p.dims, limit*8/int64(p.dtype.Bits()))
	if err != nil || int64(p.dtype.Bytes(n)) > limit {
		return 0, fmt.Errorf("%s with shape %v needs more than the %d bytes present", p.dtype, p.dims, limit)
	}
	return int64(p.dtype.Bytes(n)), nil
}
