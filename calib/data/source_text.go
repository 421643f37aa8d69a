package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"

	"qwb/graph"
	"qwb/graph/tensor"
)

// longestLine is how many bytes of a line are read: more than any model has positions for.
const longestLine = 1 << 20

// textSource is a text file for a model that reads tokens: a sample per line, those of nothing but white space left out. A sample is
// int64[1,tokens].
type textSource struct {
	fs         files
	path, base string
	in         Input
	tokens     func(line string) ([]int64, error)
	lines      []textLine
}

// textLine is where a line lies in its file.
type textLine struct{ from, size int64 }

func (o *opener) openText(dir, name string) (source, error) {
	in, err := o.spec.only("text files")
	if err != nil {
		return nil, err
	}
	if in.DType != tensor.Int64 || !in.matches([]int{1, 1}) {
		return nil, fmt.Errorf("text feeds models that take int64 [batch,sequence], this one takes %s", in)
	}
	s := &textSource{fs: o.fs, path: path.Join(dir, name), base: name, in: in, tokens: o.text}
	if s.lines, err = o.fs.lines(s.path); err != nil {
		return nil, err
	}
	if len(s.lines) == 0 {
		return nil, errors.New("there is no line with text")
	}
	return s, nil
}

func (o *opener) openTexts(dir string, names []string) ([]source, error) {
	var list []source
	for _, n := range names {
		s, err := o.openText(dir, n)
		if err != nil {
			return nil, &graph.FileError{File: n, Err: err}
		}
		list = append(list, s)
	}
	return list, nil
}

// lines finds the lines of a file that are not empty.
func (f files) lines(name string) ([]textLine, error) {
	r, size, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []textLine
	in := bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<16)
	at, from, empty := int64(0), int64(0), true
	for {
		piece, err := in.ReadSlice('\n')
		at += int64(len(piece))
		empty = empty && len(bytes.TrimSpace(piece)) == 0
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, cause(err)
		}
		if !empty {
			out = append(out, textLine{from, at - from})
		}
		if err != nil {
			return out, nil
		}
		from, empty = at, true
	}
}

func (s *textSource) len() int          { return len(s.lines) }
func (s *textSource) name(i int) string { return indexedName(s.base, i, len(s.lines)) }
func (s *textSource) label(int) int     { return -1 }

func (s *textSource) load(i int) (map[string]*tensor.Tensor, error) {
	b := make([]byte, min(s.lines[i].size, longestLine))
	if err := s.fs.readAt(s.path, b, s.lines[i].from); err != nil {
		return nil, err
	}
	if int64(len(b)) < s.lines[i].size {
		b = whole(b)
	}
	ids, err := s.tokens(string(bytes.TrimRight(b, "\r\n")))
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, errors.New("the line has no tokens")
	}
	return map[string]*tensor.Tensor{s.in.Name: tensor.FromI64(ids, 1, len(ids))}, nil
}
