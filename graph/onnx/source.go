package onnx

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	"qwb/internal/file"
)

// source is the file behind a model.
type source struct {
	data      []byte
	ext       ExternalResolver
	locations []string // external files it refers to, sorted
	path      string   // empty if it was not opened by path
	maps      file.Maps

	closing  sync.Once
	closeErr error
	hashing  sync.Mutex
	digest   string // "" before it is computed
}

func (s *source) close() error {
	s.closing.Do(func() {
		s.closeErr = s.maps.Release()
		s.data = nil
	})
	return s.closeErr
}

// Locations are the files with tensor data that the model was read from besides its own, relative to its folder, with slashes.
func (m *Model) Locations() []string {
	if m.src == nil {
		return nil
	}
	return slices.Clone(m.src.locations)
}

// Digest returns the SHA-256 of the model as it was read, in hexadecimal: that of the file, or, where tensors lie in
// other files, that of "sha256(file)\n" followed by "sha256(content)  location\n" for each of those, sorted by location.
// Changes to the graph do not change it. A model that was built in memory has the digest of what Write writes. It is
// computed at the first call.
func (m *Model) Digest() (string, error) { return m.DigestContext(context.Background()) }

// DigestContext is Digest that ends with the error of a context.
func (m *Model) DigestContext(ctx context.Context) (string, error) {
	if m.src == nil {
		h := sha256.New()
		if err := m.Write(h); err != nil {
			return "", err
		}
		return hex.EncodeToString(h.Sum(nil)), nil
	}
	s := m.src
	s.hashing.Lock()
	defer s.hashing.Unlock()
	var err error
	if s.digest == "" {
		s.digest, err = s.hash(ctx)
	}
	return s.digest, err
}

func (s *source) hash(ctx context.Context) (string, error) {
	if s.data == nil {
		return "", errors.New("the model was closed")
	}
	digest, err := s.sum(ctx, s.data)
	if err != nil || len(s.locations) == 0 {
		return digest, err
	}
	list := digest + "\n"
	for _, loc := range s.locations {
		b, err := s.ext.External(loc)
		if err != nil {
			return "", fmt.Errorf("external data at %q: %w", loc, err)
		}
		sum, err := s.sum(ctx, b)
		if err != nil {
			return "", err
		}
		list += sum + "  " + loc + "\n"
	}
	return s.sum(ctx, []byte(list))
}

// sum reads a file piece by piece, so that it need not be in memory as a whole.
func (s *source) sum(ctx context.Context, b []byte) (string, error) {
	const piece = 1 << 24
	h := sha256.New()
	for part := range slices.Chunk(b, piece) {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		h.Write(part) // no error: see package hash
		s.maps.Forget(part)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
