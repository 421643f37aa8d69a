package data

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// applyLabels gives every sample its class: the label in the given file, else the one that the data bring, plus the offset.
func (s *Set) applyLabels(o *opener, opts Options) error {
	if opts.Labels != "" {
		if err := s.readLabels(o.fs, opts.Labels); err != nil {
			return fmt.Errorf("labels %s: %w", opts.Labels, err)
		}
	}
	for i := range s.items {
		if s.items[i].label >= 0 {
			s.items[i].label += opts.LabelOffset
			if s.items[i].label < 0 {
				return fmt.Errorf("the class of %s is negative (%d with the label offset)", s.items[i].name, s.items[i].label)
			}
		}
	}
	return nil
}

// RequireLabels is an error that counts the samples without a label and names the first, nil if all have one.
func (s *Set) RequireLabels() error {
	missing, first := 0, ""
	for _, it := range s.items {
		if it.label < 0 {
			if missing == 0 {
				first = it.name
			}
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("data: %d of %d samples have no label (first: %s)", missing, len(s.items), first)
	}
	return nil
}

func (s *Set) readLabels(f files, file string) error {
	src, err := f.readUnpacked(file)
	if err != nil {
		return err
	}
	switch idxKind(src) {
	case kindIdxLabels:
		return s.idxLabels(src)
	case kindIdxImages:
		return errors.New("these are MNIST images, not labels")
	}
	table, err := parseLabels(src)
	if err != nil {
		return err
	}
	if len(table) == 0 {
		return errors.New("it holds no labels")
	}
	for i := range s.items {
		it := &s.items[i]
		l, ok := table[it.name]
		if !ok {
			l, ok = table[path.Base(it.name)]
		}
		if ok {
			it.label = l
		}
	}
	return nil
}

// idxLabels gives the labels of an MNIST file to the samples of the MNIST file opened with it.
func (s *Set) idxLabels(src []byte) error {
	dims, err := idxHeader(src, 1)
	if err != nil {
		return err
	}
	labels := src[8:]
	if len(labels) < dims[0] {
		return fmt.Errorf("idx: %d bytes are too few for %d labels", len(src), dims[0])
	}
	var from *mnistSource
	for i := range s.items {
		m, ok := s.items[i].src.(*mnistSource)
		if !ok || from != nil && m != from {
			return errors.New("MNIST labels go with exactly one file of MNIST images")
		}
		from = m
		if m.n != dims[0] {
			return fmt.Errorf("%d labels for %d pictures", dims[0], m.n)
		}
		s.items[i].label = int(labels[s.items[i].index])
	}
	return nil
}

// parseLabels reads lines of file, tab, index. The first line may be a header.
func parseLabels(src []byte) (map[string]int, error) {
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	table := map[string]int{}
	for n, line := range strings.Split(string(src), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		file, rest, ok := strings.Cut(line, "\t")
		index, _, _ := strings.Cut(rest, "\t")
		if !ok {
			return nil, fmt.Errorf("line %d: needs a file, a tab and an index", n+1)
		}
		l, err := strconv.Atoi(strings.TrimSpace(index))
		if err != nil || l < 0 {
			if n == 0 && err != nil {
				continue
			}
			return nil, fmt.Errorf("line %d: %q is no index of a class", n+1, index)
		}
		file = path.Clean(strings.ReplaceAll(file, "\\", "/"))
		if old, dup := table[file]; dup && old != l {
			return nil, fmt.Errorf("line %d: %s has index %d above and %d here", n+1, file, old, l)
		}
		table[file] = l
	}
	return table, nil
}

// Labelled is how many samples have a label.
func (s *Set) Labelled() (n int) {
	for _, it := range s.items {
		if it.label >= 0 {
			n++
		}
	}
	return n
}

// Choose returns which samples to try something on: at most n that have a label, chosen by seed as Options.Samples does; 0: all.
func (s *Set) Choose(n int, seed uint64) []int {
	var list []int
	for i := range s.items {
		if s.items[i].label >= 0 {
			list = append(list, i)
		}
	}
	chosen := choose(len(list), n, seed)
	if chosen == nil {
		return list
	}
	for i, at := range chosen {
		chosen[i] = list[at]
	}
	return chosen
}
