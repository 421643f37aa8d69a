package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"qwb/internal/file"
)

// LinesOptions say which lines of a file are read, and how much of them. The zero value reads all.
type LinesOptions struct {
	// Samples, if not zero, is how many lines are taken, chosen by Seed in the way of other data; they stay in their order.
	Samples int
	Seed    uint64
	// Longest is how many bytes of a line are kept, so that memory is bounded whatever is in the file; 0: all.
	Longest int
}

// Line is one line of a text file.
type Line struct {
	Number int    // from 1
	Text   string // without its end
	Cut    bool   // it was longer than Longest; Text ends with a whole character
}

// Lines reads a text file line by line. Lines of nothing but white space are left out.
type Lines struct {
	file    *os.File
	in      *bufio.Reader
	longest int
	number  int          // of the line read last
	index   int          // of the next line with text
	take    map[int]bool // which of those; nil: all
	size    int64
	offset  int64
	buffer  []byte
}

// OpenLines opens a text file. With o.Samples it reads the file once to count its lines.
func OpenLines(path string, o LinesOptions) (*Lines, error) {
	l := &Lines{longest: o.Longest}
	if o.Samples > 0 {
		if err := l.choose(path, o); err != nil {
			return nil, err
		}
	}
	return l, l.open(path)
}

func (l *Lines) open(path string) error {
	f, err := file.OpenRead(path)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil {
		l.size = info.Size()
	}
	l.file, l.in = f, bufio.NewReaderSize(f, 1<<16)
	return nil
}

// choose counts the lines and decides which to take.
func (l *Lines) choose(path string, o LinesOptions) error {
	all := Lines{longest: 1}
	if err := all.open(path); err != nil {
		return err
	}
	defer all.Close()
	for {
		if _, err := all.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	if chosen := choose(all.index, o.Samples, o.Seed); chosen != nil {
		l.take = make(map[int]bool, len(chosen))
		for _, i := range chosen {
			l.take[i] = true
		}
	}
	return nil
}

// Size is the length of the file in bytes, 0 where that is not known.
func (l *Lines) Size() int64 { return l.size }

// Offset is how many bytes of the file have been read.
func (l *Lines) Offset() int64 { return l.offset }

// Close ends reading.
func (l *Lines) Close() error { return l.file.Close() }

// Next returns the next line, or io.EOF where there is none.
func (l *Lines) Next() (Line, error) {
	for {
		text, cut, empty, err := l.read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				err = fmt.Errorf("%s: line %d: %w", l.file.Name(), l.number+1, err)
			}
			return Line{}, err
		}
		if empty {
			continue
		}
		l.index++
		if l.take != nil && !l.take[l.index-1] {
			continue
		}
		return Line{Number: l.number, Text: string(text), Cut: cut}, nil
	}
}

// read reads one line and keeps as much of it as is wanted.
func (l *Lines) read() (text []byte, cut, empty bool, err error) {
	l.buffer, empty = l.buffer[:0], true
	for more := true; more; {
		piece, err := l.in.ReadSlice('\n')
		l.offset += int64(len(piece))
		if errors.Is(err, io.EOF) && (len(piece) > 0 || len(l.buffer) > 0) {
			err = nil // the last line need not end
			more = false
		}
		switch {
		case err == nil:
			more = false
			piece = bytes.TrimSuffix(bytes.TrimSuffix(piece, []byte("\n")), []byte("\r"))
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, false, err
		}
		empty = empty && len(bytes.TrimSpace(piece)) == 0
		if room := l.longest - len(l.buffer); l.longest > 0 && room < len(piece) {
			piece, cut = piece[:room], true
		}
		l.buffer = append(l.buffer, piece...)
	}
	l.number++
	if cut {
		return whole(l.buffer), true, empty, nil
	}
	return l.buffer, false, empty, nil
}

// whole leaves out a character at the end that is cut off.
func whole(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}
